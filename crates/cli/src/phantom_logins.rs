//! Looks at the login files that are shown with phantoms. A vault reads them; here arrives what of them is not secret.

use crate::decide;
use crate::here::Here;
use keyward_policy::login::{File, Found, Skeleton};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::{self, LoginFile};
use keyward_project::logins;
use keyward_sys::Errno;
use keyward_sys::fork::{self, Forked};
use keyward_vault::logins::{hear, is_file, tell};
use std::io::Read;
use std::path::PathBuf;

/// Adds what was found to a policy, and allows what it needs. `environment` is the caller's: variables say where files of a tool are.
pub fn look(policy: &mut Policy, here: &Here, environment: &[&[u8]]) -> Result<(), Trouble> {
    let request = decide::request(Vec::new(), here, environment);
    let wanted = view::login_files(policy, &request);
    if wanted.is_empty() {
        return Ok(());
    }
    let placed = view::kept_home(policy, &request).map(|kept| logins::placed(&here.state, &kept));
    let placed = placed.unwrap_or_default();
    let is_own = |path: &PathBuf| is_file(path) && !placed.contains(path);
    let there = wanted.into_iter().filter(|wanted| !wanted.own.as_ref().is_some_and(is_own));
    let there: Vec<(LoginFile, PathBuf)> = there
        .filter_map(|wanted| {
            let real = std::fs::canonicalize(&wanted.outside).ok().filter(|real| is_file(real))?;
            Some((wanted, real))
        })
        .collect();
    let files: Vec<(PathBuf, &'static File)> =
        there.iter().map(|(wanted, real)| (real.clone(), wanted.file)).collect();
    if files.is_empty() {
        return Ok(());
    }
    let looked = ask(&files).map_err(|errno| {
        let fact = format!("cannot look at logins: {}", keyward_sys::file::reason(errno));
        Trouble::new(Code::NoSecret, fact, "`keyward doctor` shows what this host can do")
    })?;
    policy.logins = there
        .into_iter()
        .zip(looked)
        .map(|((LoginFile { file, outside, origin, is_granted, .. }, path), skeleton)| Found {
            file: file.name,
            path,
            outside,
            skeleton: if is_granted { skeleton.map(Skeleton::without_renewal) } else { skeleton },
            origin,
        })
        .collect();
    keyward_policy::secret::reach(policy);
    Ok(())
}

fn ask(files: &[(PathBuf, &'static File)]) -> Result<keyward_vault::logins::Looked, Errno> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork::fork()? {
        Forked::Child => {
            drop(from);
            fork::exit_now(tell(files, &to))
        }
        Forked::Parent(process) => {
            drop(to);
            let mut text = Vec::new();
            let _ = std::fs::File::from(from).read_to_end(&mut text);
            let _ = process.wait();
            Ok(hear(&text, files.len()))
        }
    }
}
