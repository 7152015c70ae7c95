//! Where a request stands: which directory is the project, which directories around it count, and which ways there are refused.

use crate::plan::Refusal;
use crate::text::{typed, visible};
use crate::view::{PINNED, PROJECT_FILE};
use std::path::{Path, PathBuf};

/// The names that mark a directory as the root of a project.
pub const MARKS: [&str; 4] = [PINNED[0], PROJECT_FILE, PINNED[1], PINNED[2]];

/// What was found where the caller stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The current directory with all links followed, then those above it up to the root.
    pub directories: Vec<Directory>,
    /// The caller's HOMEs, with all links followed.
    pub homes: Vec<PathBuf>,
    /// The project that the way to the current directory, as the caller has spelled it, leaves through a link.
    pub leaves_project: Option<PathBuf>,
}

/// A directory at or above the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub path: PathBuf,
    /// Whether one of [`MARKS`] is in it.
    pub is_marked: bool,
    /// The file system that it is on, where that can be told.
    pub device: Option<u64>,
}

/// What counts there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub project: PathBuf,
    /// The directories above the project whose project files count, outermost first.
    pub above: Vec<PathBuf>,
    /// The outermost of those that is marked.
    pub around: Option<PathBuf>,
}

/// Decides which directory is the project.
pub fn place(standing: &Standing) -> Result<Place, Refusal> {
    let Standing { directories, homes, .. } = standing;
    let Some(cwd) = directories.first() else {
        return Err(Refusal::usage("there is no current directory".into(), "name one with `--cwd`"));
    };
    if let Some(project) = &standing.leaves_project {
        return Err(leads_out(&cwd.path, project));
    }
    // The nearest marked directory, never HOME or what lies above it.
    let below_home = directories.iter().take_while(|directory| !holds_home(homes, &directory.path));
    let nearest = below_home.enumerate().find(|(_, directory)| directory.is_marked);
    let (number, project) = nearest.unwrap_or((0, cwd));
    let above = above(project, &directories[number + 1..], homes);
    let around = above.iter().find(|directory| directory.is_marked).map(|directory| directory.path.clone());
    let above = above.into_iter().map(|directory| directory.path.clone()).collect();
    Ok(Place { project: project.path.clone(), above, around })
}

/// The directories above the project, outermost first: up to a HOME, which does not count, or to the boundary of the file system.
///
/// A command can put a mark into any directory of its project and so make that the project of the next run. What the files above say
/// holds there all the same.
fn above<'d>(project: &Directory, directories: &'d [Directory], homes: &[PathBuf]) -> Vec<&'d Directory> {
    let counts = |directory: &&Directory| {
        !holds_home(homes, &directory.path)
            && directory.device.is_some()
            && directory.device == project.device
    };
    let mut above: Vec<&Directory> = directories.iter().take_while(counts).collect();
    above.reverse();
    above
}

/// Whether a directory is a HOME or holds one: no project, and nothing above it counts.
pub fn holds_home(homes: &[PathBuf], directory: &Path) -> bool {
    homes.iter().any(|home| home.starts_with(directory))
}

fn leads_out(cwd: &Path, project: &Path) -> Refusal {
    Refusal::policy(
        "cwd",
        format!("the path {} leads out of the project {} through a link", cwd.display(), project.display()),
        &format!(
            "a command that ran there may have made the link; if its target is what you mean, use `--cwd {}`",
            typed(&visible(cwd.as_os_str()))
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directories from `cwd` up to the root, all on one file system; `marked` are marked.
    fn standing(cwd: &str, marked: &[&str]) -> Standing {
        let directories = Path::new(cwd).ancestors().map(|path| Directory {
            path: path.into(),
            is_marked: marked.iter().any(|marked| Path::new(marked) == path),
            device: Some(1),
        });
        let homes = vec!["/home/ada".into()];
        Standing { directories: directories.collect(), homes, leaves_project: None }
    }

    fn found(cwd: &str, marked: &[&str]) -> Place {
        place(&standing(cwd, marked)).unwrap()
    }

    fn paths(all: &[&str]) -> Vec<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn the_project_is_the_nearest_marked_directory() {
        let place = found("/home/ada/work/app/src", &["/home/ada/work/app", "/home/ada/work"]);
        assert_eq!(place.project, Path::new("/home/ada/work/app"));
        assert_eq!(place.above, paths(&["/home/ada/work"]));
        assert_eq!(place.around.as_deref(), Some(Path::new("/home/ada/work")));
    }

    #[test]
    fn without_a_mark_the_current_directory_is_the_project_and_those_above_still_count() {
        let place = found("/home/ada/work/src", &[]);
        assert_eq!(place.project, Path::new("/home/ada/work/src"));
        assert_eq!((place.above, place.around), (paths(&["/home/ada/work"]), None));
    }

    #[test]
    fn a_home_and_what_lies_above_it_are_never_a_project() {
        let place = found("/home/ada/notes", &["/home/ada", "/home", "/"]);
        assert_eq!(place.project, Path::new("/home/ada/notes"));
        assert_eq!((place.above, place.around), (Vec::new(), None));
        // The current directory itself is used even there; nothing around it is.
        let place = found("/home/ada", &["/home/ada", "/"]);
        assert_eq!((place.project, place.above), ("/home/ada".into(), Vec::new()));
    }

    #[test]
    fn of_several_marked_directories_around_the_outermost_counts() {
        let place = found("/srv/a/b/c", &["/srv/a/b/c", "/srv/a/b", "/srv/a"]);
        assert_eq!(place.above, paths(&["/srv", "/srv/a", "/srv/a/b"]));
        assert_eq!(place.around.as_deref(), Some(Path::new("/srv/a")));
    }

    #[test]
    fn what_counts_above_ends_at_the_boundary_of_the_file_system() {
        let mut standing = standing("/srv/a/b/c", &["/srv/a/b/c", "/srv"]);
        standing.directories[2].device = Some(2);
        let place = place(&standing).unwrap();
        assert_eq!((place.above, place.around), (paths(&["/srv/a/b"]), None));
    }

    #[test]
    fn where_the_file_system_cannot_be_told_nothing_above_counts() {
        let mut standing = standing("/srv/a/b", &[]);
        standing.directories.iter_mut().for_each(|directory| directory.device = None);
        assert_eq!(place(&standing).unwrap().above, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_way_through_a_link_out_of_a_project_is_refused_and_names_the_target() {
        let leaves_project = Some("/home/ada/work".into());
        let refusal = place(&Standing { leaves_project, ..standing("/srv/data", &[]) }).unwrap_err();
        assert_eq!((refusal.kind, refusal.rule.as_str()), (crate::plan::RefusalKind::Policy, "cwd"));
        assert_eq!(refusal.fact, "the path /srv/data leads out of the project /home/ada/work through a link");
        assert!(refusal.remedy.ends_with("use `--cwd /srv/data`"), "{}", refusal.remedy);
    }
}
