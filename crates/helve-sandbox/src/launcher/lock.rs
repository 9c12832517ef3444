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

/// Locks this process and all it starts. Whether all of it holds: an old kernel says yes and does
/// only a part.
pub(super) fn landlock(grants: &[Grant]) -> io::Result<bool> {
    let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let status = restrict(|mut rules| {
        rules = allow(rules, Path::new("/"), read)?;
        for device in DEVICES {
            rules = allow(rules, Path::new(device), AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
        let granted = grants.iter().filter(|grant| grant.writable).map(|grant| grant.path.as_path());
        for path in WRITABLE.iter().map(Path::new).chain(granted) {
            rules = allow(rules, path, writing(path))?;
        }
        Ok(rules)
    })?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
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
