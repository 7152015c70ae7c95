//! Arms the acts of a plan: makes the directories that are Keyward's own, takes locks, makes private repositories, and turns paths into what
//! the kernel takes. Decides nothing: which acts there are, and in which order, is the plan's.

use crate::fault::Fault;
use crate::prepare::{MASKS, at_path, below_root, c_string};
use keyward_policy::facts::GitFolder;
use keyward_policy::linux::acts::{self, Act, Allows, Bind, Domain, Repository, To};
use keyward_policy::linux::cage::{Identity, Step};
use keyward_policy::plan::Plan;
use keyward_policy::view::Source;
use keyward_project::git::layer::{self, Layer, Run};
use keyward_sys::Errno;
use keyward_sys::file::make_private_folder;
use keyward_sys::landlock::{Below, Scopes};
use keyward_sys::mount::Attributes;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a tree of the host comes from.
pub enum Tree {
    /// Init finds it by path.
    Path(CString),
    /// The launcher opens it and passes it on: the place in the list of trees.
    Passed(usize),
}

/// One act of init, with everything that it needs. Targets are relative to the new root, in which init stands while the view is built.
pub enum Armed {
    Cgroup,
    Identity,
    InotifyLimits,
    Session,
    OwnNetwork,
    Root,
    Directory {
        at: CString,
        mode: u32,
    },
    /// A directory in a tree that is kept, where a command of an earlier run may have put a link.
    KeptDirectory {
        above: CString,
        name: CString,
    },
    File {
        at: CString,
    },
    /// A file in a tree that is kept.
    KeptFile {
        above: CString,
        name: CString,
    },
    Text {
        at: CString,
        text: Vec<u8>,
    },
    /// A login file with phantoms.
    Login {
        at: CString,
        /// Where it is made before it is put over a file that is kept.
        beside: Option<CString>,
        text: Vec<u8>,
    },
    /// A script as it was judged, where the command looks for it: found to be the same, or put there for good.
    Judged {
        way: CString,
        at: CString,
        text: Vec<u8>,
        pinned: bool,
    },
    Link {
        at: CString,
        to: CString,
    },
    /// A link in a tree that is kept, where it stays.
    KeptLink {
        above: CString,
        name: CString,
        to: CString,
    },
    Bind {
        tree: Tree,
        at: CString,
        attributes: Option<Attributes>,
        expect: Option<(u64, u64)>,
        /// Whether it is put into a tree of the host, where others may write meanwhile: then no link is followed on the way.
        foreign: bool,
    },
    /// Makes a folder of the root a mount of its own, which stays writable when the root no longer is.
    Own {
        from: CString,
        at: CString,
    },
    /// Makes a folder of a host's tree a mount of its own, so that it cannot be moved.
    Pin {
        at: CString,
    },
    FreshProc {
        at: CString,
    },
    Terminals {
        at: CString,
    },
    Queues {
        at: CString,
    },
    /// Layers are attached first where they come as trees, and let go once the overlay holds them.
    Overlay {
        at: CString,
        /// Where it is made before it is put in its place.
        beside: CString,
        options: CString,
        layers: Option<[(usize, CString); 2]>,
    },
    /// Puts something else over a file or directory, read-only.
    Mask {
        /// The directory that it stands in. Several masks in a row often have the same.
        above: CString,
        at: CString,
        /// The substitute: a name in the directory of masks.
        by: CString,
    },
    /// Makes what masks show, before the first of them.
    Masks {
        substitutes: Vec<Substitute>,
    },
    Pivot,
    Outlet {
        /// Its place among the outlets of the plan.
        number: u16,
        to: To,
        at: &'static str,
    },
    Landlock,
    Terminal,
    Keyring,
    EnterNetwork,
    Routes,
    Capabilities,
}

/// One act in the command's own process, before it is executed.
#[derive(Clone, Copy)]
pub enum Last {
    Limits,
    WorkIn,
    EnterDomain,
    CloseDescriptors,
    Seccomp,
}

/// The file or directory that appears in the place of something hidden.
pub struct Substitute {
    pub at: CString,
    pub directory: bool,
    /// `None` where nothing can be read or listed.
    pub text: Option<Vec<u8>>,
}

/// A tree that the launcher opens itself, because init may not find the way to it.
pub struct Passed {
    pub path: CString,
    pub expect: Option<(u64, u64)>,
}

/// All acts of a plan, and what they hold.
#[derive(Default)]
pub struct Acts {
    /// For init, in this order.
    pub init: Vec<Armed>,
    /// For the command's own process, in this order.
    pub last: Vec<Last>,
    pub passed: Vec<Passed>,
    pub root_options: CString,
    pub landlock_rules: Vec<(PathBuf, Below)>,
    pub landlock_abi: i32,
    pub scopes: Scopes,
    /// What a warden goes by, where one checks names.
    pub warden: Option<Wards>,
    pub cwd: CString,
    pub programs: Vec<CString>,
    /// Locks on caches, held as long as this value lives.
    pub locks: Vec<OwnedFd>,
    /// The private repositories of the cage, and the host's git that takes over what is done in them.
    pub run: Option<Run>,
    pub git: Option<PathBuf>,
}

/// What the warden of strict protection goes by.
pub struct Wards {
    /// Places of the cage's own in which every name can be made: its root, what is gone with it, and Keyward's own caches.
    pub own_places: Vec<CString>,
    /// Directories in which the user's shell looks for programs, as they are called and as they are.
    pub programs: Vec<PathBuf>,
}

/// Arms the acts of a plan.
pub fn arm(plan: &Plan) -> Result<Acts, Fault> {
    let mut arming = Arming { plan, acts: Acts::default(), outlets: 0 };
    for act in acts::acts(plan) {
        arming.arm(act)?;
    }
    Ok(arming.acts)
}

struct Arming<'a> {
    plan: &'a Plan,
    acts: Acts,
    outlets: u16,
}

/// The directory above, and the name in it.
fn above_and_name(path: &Path) -> Result<(CString, CString), Fault> {
    let (above, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    Ok((below_root(above)?, c_string(Step::View, name)?))
}

impl Arming<'_> {
    fn push(&mut self, armed: Armed) {
        self.acts.init.push(armed);
    }

    fn arm(&mut self, act: Act) -> Result<(), Fault> {
        match act {
            // The launcher does these itself, before init lives.
            Act::Namespaces | Act::Guardian { .. } => {}
            Act::Cgroup { .. } => self.push(Armed::Cgroup),
            Act::Identity { .. } => self.push(Armed::Identity),
            Act::InotifyLimits => self.push(Armed::InotifyLimits),
            Act::Session => self.push(Armed::Session),
            Act::OwnNetwork => self.push(Armed::OwnNetwork),
            Act::Root { bytes } => {
                let text =
                    bytes.map_or_else(|| "mode=0755".into(), |bytes| format!("mode=0755,size={bytes}"));
                self.acts.root_options = c_string(Step::Root, OsStr::new(&text))?;
                self.push(Armed::Root);
            }
            Act::Pivot => self.push(Armed::Pivot),
            Act::Outlet(outlet) => {
                self.push(Armed::Outlet { number: self.outlets, to: outlet.to, at: outlet.at });
                self.outlets += 1;
            }
            Act::Landlock(domain) => self.domain(domain),
            Act::Terminal { .. } => self.push(Armed::Terminal),
            Act::Keyring => self.push(Armed::Keyring),
            Act::EnterNetwork => self.push(Armed::EnterNetwork),
            Act::Routes => self.push(Armed::Routes),
            Act::Capabilities => self.push(Armed::Capabilities),
            // The vault hands them over when init says that the cage is there.
            Act::Secrets { .. } => {}
            Act::Warden { own_places, programs } => self.warden(&own_places, programs)?,
            Act::Limits { .. } => self.acts.last.push(Last::Limits),
            Act::WorkIn { directory } => {
                self.acts.cwd = c_string(Step::Exec, directory.as_os_str())?;
                self.acts.last.push(Last::WorkIn);
            }
            Act::EnterDomain => self.acts.last.push(Last::EnterDomain),
            Act::CloseDescriptors => self.acts.last.push(Last::CloseDescriptors),
            Act::Seccomp { .. } => self.acts.last.push(Last::Seccomp),
            Act::Execute { candidates } => {
                let programs = candidates.iter().map(|path| c_string(Step::Exec, path.as_os_str()));
                self.acts.programs = programs.collect::<Result<_, _>>()?;
            }
            act => self.view(act)?,
        }
        Ok(())
    }

    /// An act that builds the view.
    fn view(&mut self, act: Act) -> Result<(), Fault> {
        let armed = match act {
            Act::Directory { at, mode } => Armed::Directory { at: below_root(&at)?, mode },
            Act::KeptDirectory { at } => {
                let (above, name) = above_and_name(&at)?;
                Armed::KeptDirectory { above, name }
            }
            Act::File { at } => Armed::File { at: below_root(&at)? },
            Act::KeptFile { at } => {
                let (above, name) = above_and_name(&at)?;
                Armed::KeptFile { above, name }
            }
            Act::Login { at, text, over } => {
                let beside = c_string(Step::View, OsStr::new(&format!(".login-{}", self.acts.init.len())))?;
                Armed::Login { at: below_root(&at)?, beside: over.then_some(beside), text }
            }
            Act::Text { at, text } => Armed::Text { at: below_root(&at)?, text },
            Act::Judged { way, at, text, pinned } => {
                Armed::Judged { way: below_root(&way)?, at: below_root(&at)?, text, pinned }
            }
            Act::Link { at, to } => {
                Armed::Link { at: below_root(&at)?, to: c_string(Step::View, to.as_os_str())? }
            }
            Act::KeptLink { at, to } => {
                let (above, name) = above_and_name(&at)?;
                Armed::KeptLink { above, name, to: c_string(Step::View, to.as_os_str())? }
            }
            Act::Bind(bind) => return self.bind(&bind),
            Act::Own { from, at } => Armed::Own { from: below_root(&from)?, at: below_root(&at)? },
            Act::Pin { at } => Armed::Pin { at: below_root(&at)? },
            Act::FreshProc { at } => Armed::FreshProc { at: below_root(&at)? },
            Act::Terminals { at } => Armed::Terminals { at: below_root(&at)? },
            Act::Queues { at } => Armed::Queues { at: below_root(&at)? },
            Act::Layer { at, store, below } => return self.layer(&at, store.as_ref(), &below),
            Act::Repository { at, source, from } => return self.repository(&at, &source, from),
            Act::Masks { substitutes } => {
                let numbered = substitutes.into_iter().enumerate();
                let all = numbered.map(|(number, acts::Substitute { directory, text })| {
                    Ok(Substitute { at: mask(number)?, directory, text })
                });
                Armed::Masks { substitutes: all.collect::<Result<_, Fault>>()? }
            }
            Act::Mask { at, by } => {
                let (above, at) = above_and_name(&at)?;
                Armed::Mask { above, at, by: mask(by)? }
            }
            _ => return Ok(()),
        };
        self.push(armed);
        Ok(())
    }

    fn warden(&mut self, own_places: &[PathBuf], programs: Vec<PathBuf>) -> Result<(), Fault> {
        let places = own_places.iter().map(|place| c_string(Step::Warden, place.as_os_str()));
        let own_places = places.collect::<Result<_, _>>()?;
        let mut programs: Vec<PathBuf> =
            programs.into_iter().flat_map(|path| [resolved(&path), path]).collect();
        // A directory that is writable as a whole cannot be one in which nothing is made.
        let roots: Vec<&Path> = self.plan.writable().collect();
        programs.retain(|path| {
            !roots.contains(&path.as_path()) && roots.iter().any(|root| path.starts_with(root))
        });
        programs.sort();
        programs.dedup();
        self.acts.warden = Some(Wards { own_places, programs });
        Ok(())
    }

    fn tree(&mut self, source: &Source) -> Result<Tree, Fault> {
        let path = c_string(Step::View, source.path.as_os_str())?;
        Ok(match self.plan.identity {
            Identity::MappedRoot { .. } if source.callers_own => {
                self.acts.passed.push(Passed { path, expect: source.expect });
                Tree::Passed(self.acts.passed.len() - 1)
            }
            _ => Tree::Path(path),
        })
    }

    fn bind(&mut self, bind: &Bind) -> Result<(), Fault> {
        let Bind { at, source, read_only, no_dev, no_exec, foreign, lock } = bind;
        if source.make {
            make_folder(&source.path)?;
        }
        if *lock {
            self.acts.locks.extend(lock_folder(&source.path, FlockOperation::NonBlockingLockShared));
        }
        let attributes = Attributes { read_only: *read_only, no_dev: *no_dev, no_exec: *no_exec };
        let (tree, at) = (self.tree(source)?, below_root(at)?);
        let (expect, foreign) = (source.expect, *foreign);
        self.push(Armed::Bind { tree, at, attributes: Some(attributes), expect, foreign });
        Ok(())
    }

    /// The command has a private repository in the place of the host's, which borrows the host's objects.
    fn repository(&mut self, target: &Path, source: &Source, from: Repository) -> Result<(), Fault> {
        let Repository { parts, store, git, exclude, hidden, has_network, is_nameless } = from;
        self.acts.git = Some(git);
        let (device, inode) = source.expect.unwrap_or_default();
        let folder = GitFolder { path: source.path.clone(), device, inode, is_beyond_us: None, parts };
        let project = self.plan.view.project.as_deref().unwrap_or(&self.plan.view.cwd);
        let failed = |(path, errno): (PathBuf, Errno)| at_path(&path, errno);
        let mut run = match self.acts.run.take() {
            Some(run) => run,
            None => Run::begin(&store).map_err(failed)?,
        };
        let cage = layer::Cage { project, exclude: &exclude, hidden: &hidden, has_network, is_nameless };
        let private = run.add(&folder, &cage).map(Layer::git).map_err(failed)?;
        self.acts.run = Some(run);
        self.lend(target, private, Attributes { read_only: false, no_dev: true, no_exec: false })?;
        let read_only = Attributes { read_only: true, no_dev: true, no_exec: true };
        for part in &folder.parts {
            let borrowed = target.join(&part.at).join(layer::BORROWED);
            for (number, objects) in part.objects.iter().enumerate() {
                self.lend(&borrowed.join(layer::borrowed_name(number)), objects.clone(), read_only)?;
            }
            let large = folder.path.join(&part.at).join("lfs");
            if !part.is_worktree && large.is_dir() {
                self.lend(&borrowed.join("lfs"), large, read_only)?;
            }
        }
        Ok(())
    }

    /// Puts a directory of ours or of the host's over one in a tree of the host.
    fn lend(&mut self, at: &Path, path: PathBuf, attributes: Attributes) -> Result<(), Fault> {
        let source = Source { path, expect: None, callers_own: true, directory: true, make: false };
        let (tree, at) = (self.tree(&source)?, below_root(at)?);
        self.push(Armed::Bind { tree, at, attributes: Some(attributes), expect: None, foreign: true });
        Ok(())
    }

    /// A cache is an overlay: ours above, the user's below. Only one cage at a time may use a kept layer; any other, and what has no
    /// store, gets one that is gone with the cage.
    fn layer(&mut self, target: &Path, store: Option<&Source>, below: &Source) -> Result<(), Fault> {
        if let Some(store) = store {
            make_folder(&store.path)?;
        }
        let at = below_root(target)?;
        let number = self.acts.init.len();
        let private = format!(".layer-{number}");
        let alone = FlockOperation::NonBlockingLockExclusive;
        let kept = store.and_then(|store| Some((store, lock_folder(&store.path, alone)?)));
        let passes_trees = matches!(self.plan.identity, Identity::MappedRoot { .. });
        let mut layers = None;
        let lower: PathBuf =
            if passes_trees { format!(".below-{number}").into() } else { below.path.clone() };
        let upper: PathBuf = match &kept {
            Some((store, _)) => {
                make_folder(&store.path.join("upper"))?;
                make_folder(&store.path.join("work"))?;
                if passes_trees { format!(".store-{number}").into() } else { store.path.clone() }
            }
            None => {
                for name in [&private, &format!("{private}/upper"), &format!("{private}/work")] {
                    self.push(Armed::Directory { at: c_string(Step::View, OsStr::new(name))?, mode: 0o700 });
                }
                private.into()
            }
        };
        if passes_trees {
            let mut layer = |source: &Source, at: &Path| -> Result<(usize, CString), Fault> {
                let at = c_string(Step::View, at.as_os_str())?;
                self.push(Armed::Directory { at: at.clone(), mode: 0o700 });
                let path = c_string(Step::View, source.path.as_os_str())?;
                self.acts.passed.push(Passed { path, expect: source.expect });
                Ok((self.acts.passed.len() - 1, at))
            };
            let below = layer(below, &lower)?;
            // A layer that is gone with the cage lies on the root already and needs no tree.
            let above = match &kept {
                Some((store, _)) => layer(store, &upper)?,
                None => (usize::MAX, CString::default()),
            };
            layers = Some([below, above]);
        }
        let options = [
            b"userxattr,lowerdir=".as_slice(),
            &escaped(lower.as_os_str().as_bytes()),
            b",upperdir=",
            &escaped(upper.join("upper").as_os_str().as_bytes()),
            b",workdir=",
            &escaped(upper.join("work").as_os_str().as_bytes()),
        ]
        .concat();
        self.acts.locks.extend(kept.map(|(_, lock)| lock));
        let beside = c_string(Step::View, OsStr::new(&format!(".over-{number}")))?;
        self.push(Armed::Directory { at: beside.clone(), mode: 0o755 });
        self.push(Armed::Overlay {
            at,
            beside,
            options: c_string(Step::View, OsStr::from_bytes(&options))?,
            layers,
        });
        Ok(())
    }
}

/// A path as an option of an overlay: the signs that would end it are marked.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        if b":,\\".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// Where init finds a substitute.
fn mask(number: usize) -> Result<CString, Fault> {
    let directory = MASKS.to_string_lossy();
    c_string(Step::View, OsStr::new(&format!("{directory}/{number}")))
}

impl Arming<'_> {
    fn domain(&mut self, domain: Domain) {
        let Domain { abi, rules, scope_signals, scope_abstract_sockets } = domain;
        self.acts.landlock_abi = abi;
        self.acts.scopes = Scopes { signals: scope_signals, abstract_sockets: scope_abstract_sockets };
        for rule in rules {
            let below = match rule.allows {
                Allows::Read => Below::Read,
                Allows::Use => Below::Use,
                Allows::Write => Below::Write,
            };
            allow(&mut self.acts.landlock_rules, &rule.path, below, &rule.except);
        }
        self.push(Armed::Landlock);
    }
}

/// A domain can only allow. Where something below is closed, its neighbours are allowed one by one.
fn allow(rules: &mut Vec<(PathBuf, Below)>, path: &Path, below: Below, except: &[PathBuf]) {
    if except.iter().any(|closed| closed == path) {
        return;
    }
    if !except.iter().any(|closed| closed.starts_with(path)) {
        rules.push((path.into(), below));
        return;
    }
    // Names may be seen, or the directory could not even be listed.
    rules.push((path.into(), Below::List));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        // A rule follows a link to its target, which may be anything; a link itself needs none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            allow(rules, &entry.path(), below, except);
        }
    }
}

fn make_folder(path: &Path) -> Result<(), Fault> {
    make_private_folder(path).map_err(|errno| at_path(path, errno))
}

/// A lock on a cache in use, so that no process empties it meanwhile.
fn lock_folder(path: &Path, how: FlockOperation) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let folder =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::fs::flock(&folder, how).ok()?;
    Some(folder)
}

/// The path with its links followed, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match known {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.into(),
        },
        None => path.into(),
    }
}
