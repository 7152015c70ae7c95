//! A case for tests of plans: a host, a caller and a policy, made by hand.
#![allow(dead_code)]

use keyward_policy::facts::{HostFacts, Kind, PathFact, Paths, Project};
use keyward_policy::linux::kernel::{Fact, KernelFacts};
use keyward_policy::plan::{Plan, Refusal, plan};
use keyward_policy::request::{Caller, Purpose, Request};
use keyward_policy::settings::Policy;
use keyward_policy::tools::Platform;
use keyward_policy::view::{Question, further_questions, questions};
use keyward_policy::words::{Origin, Ruled};
use std::collections::HashSet;
use std::path::PathBuf;

/// A host, a caller and a policy, each to be changed by a test.
pub struct Case {
    pub policy: Policy,
    pub kernel: KernelFacts,
    pub paths: Vec<(PathBuf, PathFact)>,
    pub programs: Vec<PathBuf>,
    pub uid: u32,
    pub project: PathBuf,
    pub environment: Vec<&'static [u8]>,
    pub account_home: Option<PathBuf>,
    pub argv: Vec<std::ffi::OsString>,
    pub found: Project,
    pub placed: HashSet<PathBuf>,
    pub platform: Platform,
    pub purpose: Purpose,
    /// Which of descriptors 0 to 2 are terminals.
    pub terminals: [bool; 3],
}

pub fn fact(path: &str, kind: Kind) -> PathFact {
    let inode = path.bytes().map(u64::from).sum();
    PathFact {
        kind,
        link: None,
        real: path.into(),
        leaves_project: None,
        strays: Vec::new(),
        device: 1,
        inode,
        names: 1,
        changed: 1,
    }
}

pub fn flag<T>(value: T, flag: &'static str) -> Ruled<T> {
    Ruled { value, origin: Origin::Flag { flag } }
}

pub fn refused(why: &str) -> Fact {
    Fact::Refused { why: why.into() }
}

impl Case {
    pub fn new() -> Self {
        let mut case = Case {
            policy: Policy::default(),
            kernel: KernelFacts {
                mapped_owners: refused("only root can map owners"),
                ..KernelFacts::hopeful(7)
            },
            paths: Vec::new(),
            programs: vec!["/usr/bin/keyward".into()],
            uid: 1000,
            project: "/home/ada/work".into(),
            account_home: None,
            argv: vec!["make".into(), "test".into()],
            found: Project { git: Some("/usr/bin/git".into()), ..Project::default() },
            placed: HashSet::new(),
            platform: Platform::Linux,
            purpose: Purpose::Command,
            terminals: [false; 3],
            environment: vec![
                b"PATH=/usr/local/bin:/usr/bin:/bin",
                b"HOME=/home/ada",
                b"TERM=xterm",
                b"LANG=de_DE.UTF-8",
                b"OPENAI_API_KEY=sk-not-a-real-one",
                b"EDITOR=vi",
            ],
        };
        for folder in ["/usr", "/etc", "/opt", "/home/ada", "/home/ada/work", "/sys/devices/system/cpu"] {
            case.folder(folder);
        }
        for (link, to) in [("/bin", "usr/bin"), ("/lib", "usr/lib")] {
            let real = format!("/{to}");
            case.paths.push((
                link.into(),
                PathFact { link: Some(to.into()), real: real.into(), ..fact(link, Kind::Directory) },
            ));
        }
        for device in ["/dev/null", "/dev/zero", "/dev/tty"] {
            case.paths.push((device.into(), fact(device, Kind::Special)));
        }
        case
    }

    pub fn root() -> Self {
        let mut case = Case::new();
        case.uid = 0;
        case.kernel.mapped_owners = Fact::Holds;
        case.file("/etc/shadow");
        case
    }

    pub fn folder(&mut self, path: &str) -> &mut Self {
        self.paths.push((path.into(), fact(path, Kind::Directory)));
        self
    }

    pub fn file(&mut self, path: &str) -> &mut Self {
        self.paths.push((path.into(), fact(path, Kind::File)));
        self
    }

    pub fn standing_in(mut self, project: &str) -> Self {
        self.folder(project);
        self.project = project.into();
        self
    }

    pub fn decide(&self) -> Result<Plan, Refusal> {
        let request = Request {
            argv: self.argv.clone(),
            cwd: self.project.clone(),
            project: self.project.clone(),
            environment: &self.environment,
            caller: Caller {
                uid: self.uid,
                gid: self.uid,
                home: "/home/ada".into(),
                account_home: self.account_home.clone(),
                cache: "/home/ada/.cache/keyward".into(),
                homes: "/home/ada/.local/state/keyward/homes".into(),
                repositories: "/home/ada/.local/state/keyward/repositories".into(),
                programs: self.programs.clone(),
                own: vec!["/home/ada/.config/keyward".into(), "/home/ada/.local/state/keyward".into()],
                scratch: "/run/user/1000/keyward/cage-1".into(),
                terminals: self.terminals,
            },
            platform: self.platform,
            purpose: self.purpose,
        };
        let mut paths = Paths::default();
        // Only what was asked for is looked at, as in a real run.
        let look = |paths: &mut Paths, questions: Vec<Question>| {
            for question in questions {
                if let Some((path, fact)) = self.paths.iter().find(|(path, _)| *path == question.path) {
                    paths.insert(path.clone(), fact.clone());
                }
            }
        };
        look(&mut paths, questions(&self.policy, &request));
        let further = further_questions(&request, &paths);
        look(&mut paths, further);
        plan(
            &self.policy,
            &request,
            &HostFacts {
                kernel: self.kernel.clone(),
                paths,
                project: self.found.clone(),
                placed: self.placed.clone(),
            },
        )
    }

    #[track_caller]
    pub fn plan(&self) -> Plan {
        self.decide().unwrap_or_else(|refusal| panic!("{}\n{}", refusal.fact, refusal.remedy))
    }

    #[track_caller]
    pub fn refusal(&self) -> Refusal {
        self.decide().err().unwrap_or_else(|| panic!("there is a plan"))
    }
}
