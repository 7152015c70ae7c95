//! What is known of the cage that a command will find: values of variables, and files that are hidden or shown on purpose.

use crate::paths::Standing;
use keyward_policy::plan::Plan;
use keyward_policy::settings::Policy;
use keyward_policy::view::{self, Shown};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What the plan of a command says about what it will find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Where the command starts.
    pub cwd: PathBuf,
    /// The directory that is the work, if there is one.
    pub project: Option<PathBuf>,
    pub home: PathBuf,
    /// What reads as nothing, or as something made up.
    pub hidden: Vec<PathBuf>,
    /// Secret files that the user has shown by name.
    pub shown: Vec<PathBuf>,
    /// What the user has granted to be written.
    pub writable: Vec<PathBuf>,
    /// Variables with the values that the user has set for the command. A phantom is no credential: its value does not matter.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Sight {
    pub fn of(policy: &Policy, plan: &Plan) -> Sight {
        let view = &plan.view;
        let hidden = view.entries.iter().filter(|entry| matches!(entry.shown, Shown::Hidden { .. }));
        let root = view.project.as_deref().unwrap_or(&view.cwd);
        let shown = policy.files.show.iter().filter(|path| !view::is_pattern(&path.value));
        let writable = policy.files.write.iter();
        let phantoms = plan.phantoms.iter().flat_map(|bound| &bound.variables);
        Sight {
            cwd: view.cwd.clone(),
            project: view.project.clone(),
            home: view.home.at.clone(),
            hidden: hidden.map(|entry| entry.target.clone()).collect(),
            shown: shown.map(|path| root.join(view::expand(&path.value, &view.home.at))).collect(),
            writable: writable.map(|path| root.join(view::expand(&path.value, &view.home.at))).collect(),
            variables: policy
                .env
                .set
                .iter()
                .map(|set| (set.value.0.clone().into_bytes(), set.value.1.clone().into_bytes()))
                .chain(phantoms.map(|name| (name.clone().into_bytes(), b"phantom".to_vec())))
                .collect(),
        }
    }

    /// A path of the project as it would be written at its top, whatever way it is named; one that holds the project is its top.
    pub(crate) fn in_project(&self, path: &[u8], standing: &Standing) -> Option<Vec<u8>> {
        let project = self.project.as_deref()?;
        let path = self.absolute(path, standing);
        let relative = match path.strip_prefix(project) {
            Ok(relative) => relative,
            Err(_) => {
                let is_all = |name: &OsStr| crate::paths::is_all(name.as_bytes());
                let above = path.file_name().filter(|name| is_all(name)).and_then(|_| path.parent());
                project.strip_prefix(above.unwrap_or(&path)).ok()?;
                Path::new("")
            }
        };
        let text = relative.as_os_str().as_bytes();
        Some(if text.is_empty() { b".".to_vec() } else { text.to_vec() })
    }

    /// Whether the cage shows nothing of what is in this file.
    pub(crate) fn hides(&self, path: &[u8], standing: &Standing) -> bool {
        let path = self.absolute(path, standing);
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Whether the user has shown this file by name.
    pub(crate) fn shows(&self, path: &[u8], standing: &Standing) -> bool {
        let path = self.absolute(path, standing);
        self.shown.iter().any(|shown| path.starts_with(shown))
    }

    /// The grant to write that this file lies in.
    pub(crate) fn granted(&self, path: &[u8], standing: &Standing) -> Option<&Path> {
        let path = self.absolute(path, standing);
        self.writable.iter().map(PathBuf::as_path).find(|grant| path.starts_with(grant))
    }

    fn absolute(&self, path: &[u8], standing: &Standing) -> PathBuf {
        let written = standing.seen_from_start(path.strip_prefix(b"file://").unwrap_or(path));
        let written = Path::new(OsStr::from_bytes(&written));
        let whole = match written.strip_prefix("~") {
            Ok(below) => self.home.join(below),
            Err(_) => self.cwd.join(written),
        };
        let mut path = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
        }
        path
    }
}
