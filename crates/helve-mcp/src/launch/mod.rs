//! What a server's program needs in order to start: where it is on this machine, and what its box must show it.
//!
//! People write `mcp-server-time` or `npx -y …`, and have those programs in many places: a virtual environment,
//! `uv tool`, `pipx`, nvm. [`plan`] finds the program and works out which folders of code its box has to show
//! (`needs.rs`); of a shim it takes the program behind it (`shims.rs`); `missing.rs` reads out of a failed start what was not granted.

mod missing;
mod needs;
mod shims;

use std::path::{Path, PathBuf};

use crate::config::{Place, ServerConfig};
pub use missing::{Grant, missing};

/// Programs that fetch what they then run: they need the network, and a cache in the user's home.
const RUNNERS: [&str; 13] =
    ["npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman"];

/// Where programs are on a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    folders: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl Machine {
    /// This machine, as its user has it: the folders of `PATH`, and those below the home folder where installers
    /// put programs. A service, or a client that starts Helve without a shell, has a shorter `PATH` than its user.
    pub fn here() -> Self {
        Self::new(std::env::var_os("PATH").unwrap_or_default(), std::env::home_dir())
    }

    /// A machine with this `PATH` and this home folder.
    pub fn new(path: impl AsRef<std::ffi::OsStr>, home: Option<PathBuf>) -> Self {
        let mut folders: Vec<_> =
            std::env::split_paths(path.as_ref()).filter(|one| one.is_absolute()).collect();
        let usual = [".local/bin", ".cargo/bin", ".volta/bin", ".bun/bin", ".deno/bin", ".local/share/pnpm"];
        let shims = [".asdf/shims", ".pyenv/shims", ".local/share/mise/shims"];
        if let Some(home) = &home {
            let of_home = usual.iter().chain(&shims).map(|folder| home.join(folder));
            folders.extend(of_home.chain(newest_node(&home.join(".nvm/versions/node"), "bin")));
            let fnm = home.join(".local/share/fnm/node-versions");
            folders.extend(newest_node(&fnm, "installation/bin"));
        }
        folders.extend(["/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin"].map(PathBuf::from));
        let mut seen = std::collections::BTreeSet::new();
        folders.retain(|folder| folder.is_dir() && seen.insert(folder.clone()));
        Self { folders, home }
    }

    /// The program of this name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|file| is_program(file))
    }

    /// The program of this name that lies elsewhere than in `folder`.
    fn find_beyond(&self, name: &std::ffi::OsStr, folder: &Path) -> Option<PathBuf> {
        let others = self.folders.iter().filter(|other| *other != folder);
        others.map(|other| other.join(name)).find(|file| is_program(file))
    }

    /// The folders as a `PATH`.
    pub fn path(&self) -> String {
        let joined = std::env::join_paths(&self.folders).unwrap_or_default();
        joined.into_string().unwrap_or_else(|_| helve_sandbox::policy::PATH.to_owned())
    }

    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

/// The programs of the newest Node below a folder of versions.
fn newest_node(versions: &Path, bin: &str) -> Option<PathBuf> {
    let number = |path: &PathBuf| -> Vec<u64> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.trim_start_matches('v').split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let found = std::fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    found.filter(|version| version.join(bin).is_dir()).max_by_key(number).map(|version| version.join(bin))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// A server as it can be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its configuration, with the program's path where its bare name would not find it, and with what its box
    /// must show it.
    pub config: ServerConfig,
    /// The package runner that starts it, which no box can hold.
    pub runner: Option<String>,
    /// What was worked out that its box must show it.
    pub worked_out: Vec<PathBuf>,
    /// The program, if nothing of that name is on this machine.
    pub not_found: Option<String>,
}

/// Works out how a server is started. What the person granted stays as it is.
pub fn plan(config: ServerConfig, machine: &Machine) -> Plan {
    let mut plan = Plan { config, runner: None, worked_out: Vec::new(), not_found: None };
    let Some(Place::Command(command)) = plan.config.place() else { return plan };
    let command = command.to_owned();
    let name = command.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let is_bare = command.components().count() == 1;
    if RUNNERS.contains(&name.as_str()) {
        plan.runner = Some(name.clone());
        plan.config.confined = false;
    }
    let found = if is_bare { machine.find(&name) } else { Some(command.clone()) };
    let Some(program) = found else {
        plan.not_found = Some(name);
        return plan;
    };
    let behind =
        shims::behind(&program, plan.config.cwd.as_deref(), machine).filter(|_| plan.config.confined);
    let is_shim = behind.is_some();
    let program = behind.unwrap_or(program);
    if is_shim || (is_bare && !is_of_the_system(&program)) {
        plan.config.command = Some(program.clone());
    }
    if plan.config.confined {
        needs::add(&mut plan, &program, machine);
    }
    plan
}

/// Whether a program is where every box has it.
fn is_of_the_system(program: &Path) -> bool {
    let folders = std::env::split_paths(helve_sandbox::policy::PATH);
    let mut folders = folders.chain(["/sbin", "/usr/sbin"].map(PathBuf::from));
    program.parent().is_some_and(|folder| folders.any(|one| one == folder))
}

#[cfg(test)]
mod tests;
