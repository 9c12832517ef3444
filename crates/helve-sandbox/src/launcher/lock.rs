//! Landlock: a second lock on files, which holds even where the tree of the box has a hole.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::policy::WORK_DIR;
use crate::wire::Grant;

/// The newest that we have tried. Kernels that know less enforce less, and that is reported.
const NEWEST: ABI = ABI::V6;

/// What can be written in every box.
const WRITABLE: [&str; 3] = [WORK_DIR, "/tmp", "/dev/shm"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What can be read where nothing else hides the host's files.
const READABLE: [&str; 21] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr",
    "/nix/store",
    "/proc",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// Locks this process and all it starts into its box. Whether all of it holds: an old kernel says yes
/// and does only a part.
pub(super) fn in_box(grants: &[Grant]) -> io::Result<bool> {
    lock(&[Path::new("/")], &WRITABLE.map(Path::new), grants)
}

/// The same where there is no box: this is what hides the host's files.
pub(super) fn bare(grants: &[Grant], program: &Path, folder: &Path) -> io::Result<bool> {
    let mut readable = READABLE.map(Path::new).to_vec();
    readable.push(program);
    lock(&readable, &[folder], grants)
}

fn lock(readable: &[&Path], writable: &[&Path], grants: &[Grant]) -> io::Result<bool> {
    let status = restrict(|mut rules| {
        let granted = |writable| grants.iter().filter(move |grant| grant.writable == writable);
        for path in readable.iter().copied().chain(granted(false).map(|grant| grant.path.as_path())) {
            rules = allow(rules, path, reading(path))?;
        }
        for device in DEVICES {
            rules = allow(rules, Path::new(device), AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
        for path in writable.iter().copied().chain(granted(true).map(|grant| grant.path.as_path())) {
            rules = allow(rules, path, writing(path))?;
        }
        Ok(rules)
    })?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
}

fn reading(path: &Path) -> BitFlags<AccessFs> {
    let file = AccessFs::Execute | AccessFs::ReadFile;
    if path.is_dir() { file | AccessFs::ReadDir } else { file }
}

/// Everything but to make devices and to talk to them.
fn writing(path: &Path) -> BitFlags<AccessFs> {
    let all = if path.is_dir() { AccessFs::from_all(NEWEST) } else { AccessFs::from_file(NEWEST) };
    all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn restrict(
    add: impl FnOnce(RulesetCreated) -> Result<RulesetCreated, landlock::RulesetError>,
) -> io::Result<RestrictionStatus> {
    let make = || {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        add(rules)?.restrict_self()
    };
    make().map_err(|error| io::Error::other(format!("Landlock: {error}")))
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(file) => rules.add_rule(PathBeneath::new(file, access)),
        // What is not there needs no permission.
        Err(_) => Ok(rules),
    }
}
