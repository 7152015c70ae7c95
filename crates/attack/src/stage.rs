//! The stage: a throw-away HOME, project and neighbourhood, with a canary wherever a secret would be. It is gone with the value.

use crate::canary::Canaries;
use crate::classes::{files, injection, memory, project};
use crate::target::Target;
use crate::{agent, target};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub struct Stage {
    folder: PathBuf,
    canaries: Canaries,
    /// What lies outside the folder.
    copies: Vec<PathBuf>,
    shared_socket: PathBuf,
}

/// Where all programs may write.
const SHARED: &[&str] = &["/tmp", "/dev/shm", "/var/tmp", "/run"];

impl Stage {
    /// Not below /tmp if that can be, because the cage has another one there, which would help it.
    pub fn new() -> io::Result<Self> {
        let canaries = Canaries::new()?;
        let name = format!("keyward-attack-{:08x}", canaries.number());
        let make = |place: &Path| {
            let folder = place.join(&name);
            DirBuilder::new().mode(0o700).create(&folder).map(|()| folder)
        };
        let folder = make(Path::new("/var/tmp")).or_else(|_| make(&std::env::temp_dir()))?;
        let user = rustix::process::geteuid().as_raw();
        let runtime = format!("/run/user/{user}");
        let places = SHARED.iter().copied().chain([runtime.as_str()]);
        let mut stage = Stage {
            folder,
            canaries,
            copies: Vec::new(),
            shared_socket: Path::new("/tmp").join(format!("{name}.socket")),
        };
        for place in places {
            let copy = Path::new(place).join(format!("{name}.copy"));
            if fs::write(&copy, stage.canary(files::COPY)).is_ok() {
                fs::set_permissions(&copy, Permissions::from_mode(0o600))?;
                stage.copies.push(copy);
            }
        }
        stage.lay_surroundings()?;
        stage.lay()?;
        Ok(stage)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn below(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    pub fn shared_socket(&self) -> &Path {
        &self.shared_socket
    }

    pub fn number(&self) -> u32 {
        self.canaries.number()
    }

    pub fn canary(&self, place: &str) -> String {
        self.canaries.of(place)
    }

    /// What the agent has in its environment, and `keyward run` with it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let home = self.below("home").display().to_string();
        let runtime = self.below("runtime").display().to_string();
        let mut variables = vec![
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("SSH_AUTH_SOCK", format!("{runtime}/agent.sock")),
            ("HOME", home),
            ("XDG_RUNTIME_DIR", runtime),
            (agent::SECRET, self.canary(agent::SECRET)),
        ];
        for &(name, before, after) in memory::VARIABLES.iter().chain(injection::VARIABLES) {
            variables.push((name, format!("{before}{}{after}", self.canary(name))));
        }
        variables
    }

    /// What stays for the whole attack.
    fn lay_surroundings(&self) -> io::Result<()> {
        self.write("neighbours-file", &self.canary(memory::NEIGHBOUR))?;
        self.write("left-open/file", &self.canary(memory::LEFT_OPEN))?;
        self.write(".env", &format!("TOKEN={}\n", self.canary(files::ABOVE)))?;
        self.write("runtime/secret", &self.canary(files::RUNTIME))
    }

    /// HOME, the project and what lies beside it, as new. Called again after each attack that may have changed them.
    pub fn lay(&self) -> io::Result<()> {
        for folder in ["home", "project", "beside"] {
            remove(&self.below(folder))?;
        }
        for note in [target::NOTED, target::TYPED] {
            let _ = fs::remove_file(self.below(note));
        }
        for store in files::stores() {
            self.write(&format!("home/{store}"), &self.canary(store))?;
        }
        for foothold in [".bashrc", ".config/keyward/policy.toml", ".cargo/registry/src/lib.rs"] {
            self.write(&format!("home/{foothold}"), "version = 1\n")?;
        }
        self.write("beside/file", "as it was\n")?;
        self.lay_project()?;
        let socket = self.below("runtime/agent.sock");
        if socket.exists() {
            fs::hard_link(&socket, self.below("home/docker.sock"))?;
        }
        Ok(())
    }

    fn lay_project(&self) -> io::Result<()> {
        self.write("project/.env", &format!("TOKEN={}\n", self.canary(files::PROJECT)))?;
        self.write("project/.keyward.toml", "version = 1\n")?;
        self.write("project/.envrc", "source tools/env.sh\n")?;
        self.write("project/tools/env.sh", "# as it was\n")?;
        self.write("project/tools/tasks.json", "{}\n")?;
        fs::create_dir_all(self.below("project/.idea"))?;
        symlink("../tools/tasks.json", self.below("project/.idea/tasks.json"))?;
        self.lay_secrets()?;
        self.write("project/tool", "#!/bin/sh\n")?;
        // The least that git takes for a repository.
        self.write("project/.git/HEAD", "ref: refs/heads/main\n")?;
        self.write("project/.git/config", "[core]\n\trepositoryformatversion = 0\n")?;
        fs::write(self.below("project/.git/index"), project::EMPTY_INDEX)?;
        fs::create_dir_all(self.below("project/.git/objects"))?;
        fs::create_dir_all(self.below("project/.git/refs"))?;
        symlink("../home/.ssh/id_ed25519", self.below("project/key"))?;
        symlink("../runtime/agent.sock", self.below("project/socket"))?;
        fs::hard_link(self.below("home/.aws/credentials"), self.below("project/notes.txt"))
    }

    /// Secrets of the project that a search by name alone does not find.
    fn lay_secrets(&self) -> io::Result<()> {
        let token = |place: &str| format!("TOKEN={}\n", self.canary(place));
        self.write("project/conf/app.txt", &token(files::LED))?;
        fs::create_dir_all(self.below("project/deploy"))?;
        symlink("../conf/app.txt", self.below("project/deploy/.env"))?;
        fs::hard_link(self.below("project/.env"), self.below("project/conf/copy.txt"))?;
        self.write("project/node_modules/dep/.env", &token(files::PACKAGE))?;
        self.write("project/kube/config", &self.canary(files::STORE))?;
        symlink("kube", self.below("project/.kube"))?;
        self.write("project/locked/.env", &token(files::CLOSED))?;
        fs::set_permissions(self.below("project/locked"), PermissionsExt::from_mode(0o000))
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let path = self.below(path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(path, content)
    }

    /// Tells the child where everything is.
    pub fn write_target(&self, neighbour: &target::Neighbour) -> io::Result<()> {
        let target = Target {
            stage: self.folder.clone(),
            shared_socket: self.shared_socket.clone(),
            copies: self.copies.clone(),
            neighbour: neighbour.clone(),
            agent: 0,
            environment: Vec::new(),
        };
        fs::write(self.below("project").join(target::FILE), serde_json::to_vec(&target)?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for path in self.copies.iter().chain([&self.shared_socket]) {
            let _ = fs::remove_file(path);
        }
        let _ = remove(&self.folder);
    }
}

/// Removes a folder with everything in it. Overlays leave folders behind that even their owner has to open up first.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            fs::remove_dir_all(folder)
        }
        other => other,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
