//! Probes of the journal and of the disk under it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use helve_host::config::Loaded;
use helve_host::config::origin::short;
use helve_host::wire;
use helve_store::{Glance, Quarantine};

use super::Check;
use crate::failure::Failure;

const LOCAL_DISK: &str = "put the journal on a local disk: `journal.path`";

pub(super) fn checks(loaded: &Loaded) -> Vec<Check> {
    let path = &loaded.journal_path;
    if loaded.has_database() {
        return vec![open(loaded).unwrap_or_else(|failure| Check::from_failure("journal", failure))];
    }
    let opened = open(loaded);
    let writable = opened.is_ok();
    let mut checks = vec![opened.unwrap_or_else(|failure| Check::from_failure("journal", failure))];
    // Without a folder there is nothing to measure, and the check above says so.
    if let Some(folder) = path.parent().filter(|_| writable) {
        checks.push(durability(folder));
        checks.push(space(folder));
        checks.extend(privacy(path));
    }
    checks
}

/// The same by looking alone: nothing is opened for writing, and nothing is made.
pub(super) fn look(loaded: &Loaded) -> (Vec<Check>, Option<Glance>) {
    let path = &loaded.journal_path;
    if loaded.has_database() {
        let looked = look_at_database(loaded);
        return (vec![looked.unwrap_or_else(|failure| Check::from_failure("journal", failure))], None);
    }
    let glance = wire::refuse_brought(loaded).map_err(Failure::from).and_then(|()| {
        Glance::at(path).map_err(|error| {
            Failure::failed("the journal cannot be used, and without a record no tool runs").because(&error)
        })
    });
    let (check, glance) = match glance {
        Ok(None) => (Check::good("journal", place(loaded, " is made at the first use")), None),
        Ok(Some(glance)) => (of_glance(loaded, &glance), Some(glance)),
        Err(failure) => (Check::from_failure("journal", failure), None),
    };
    let mut checks = vec![check];
    // The nearest folder that is there tells what the disk is like.
    if let Some(folder) = path.ancestors().skip(1).find(|folder| folder.is_dir()) {
        if let Some(why) = volatile(folder) {
            checks.push(Check::warning("durability", why, LOCAL_DISK));
        }
        checks.push(space(folder));
    }
    checks.extend(privacy(path));
    (checks, glance)
}

fn look_at_database(loaded: &Loaded) -> Result<Check, Failure> {
    let place = loaded.ledger();
    match wire::open_trail(loaded)? {
        Ok(_) => Ok(Check::good("journal", place)),
        Err(error) if error.is_missing() => {
            Ok(Check::good("journal", format!("the tables in {place} are made at the first use")))
        }
        Err(error) => {
            Err(Failure::failed("the journal cannot be used, and without a record no tool runs")
                .because(&error))
        }
    }
}

fn of_glance(loaded: &Loaded, glance: &Glance) -> Check {
    match &glance.quarantine {
        Some(why) => quarantined(why),
        None => Check::good("journal", place(loaded, "")),
    }
}

fn quarantined(why: &Quarantine) -> Check {
    let fix = "`helve audit accept` shows what is missing, and asks";
    Check { lets_serve: true, ..Check::broken("journal", why.to_string(), fix) }
}

/// Opens the journal as a call would, which makes it where there is none.
fn open(loaded: &Loaded) -> Result<Check, Failure> {
    let ledger = wire::open_ledger(loaded)?;
    let quarantine = ledger.quarantine();
    ledger.close().map_err(|error| Failure::failed("the journal cannot be closed").because(&error))?;
    if let Some(why) = quarantine {
        return Ok(quarantined(&why));
    }
    Ok(Check::good("journal", place(loaded, "")))
}

/// The journal's file, and that there is another one: who looks for a call, or wonders why a server does not know a
/// key, may be looking at the wrong one.
fn place(loaded: &Loaded, what: &str) -> String {
    let here = loaded.ledger();
    match wire::journal::outside(loaded) {
        Some(other) => format!("{here}{what}; calls without a project are in {}", short(&other)),
        None => format!("{here}{what}"),
    }
}

/// Writes and syncs a file where the journal is: what every recorded change waits for.
fn durability(folder: &Path) -> Check {
    const TOO_SLOW_MS: f64 = 200.0;
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    let began = Instant::now();
    let written = File::create_new(&probe).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_all()
    });
    let ms = began.elapsed().as_secs_f64() * 1e3;
    // Left behind, it would only be a stray file of 4 KiB.
    let _ = std::fs::remove_file(&probe);
    if let Err(error) = written {
        return Check::broken("durability", format!("a file cannot be synced: {error}"), "use another disk");
    }
    if let Some(why) = volatile(folder) {
        return Check::warning("durability", why, LOCAL_DISK);
    }
    let found = format!("sync takes {ms:.1} ms");
    if ms > TOO_SLOW_MS {
        return Check::warning("durability", found, "each change waits for it; a faster disk helps");
    }
    Check::good("durability", found)
}

/// File systems on which a synced file is not safe, or SQLite's locks do not work.
#[cfg(target_os = "linux")]
fn volatile(folder: &Path) -> Option<&'static str> {
    const TMPFS: u64 = 0x0102_1994;
    const NFS: u64 = 0x6969;
    const SMB2: u64 = 0xfe53_4d42;
    const CIFS: u64 = 0xff53_4d42;
    let kind = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    match kind {
        TMPFS => Some("the journal is in memory (tmpfs): a restart of the machine loses it"),
        NFS | SMB2 | CIFS => Some("the journal is on a network file system, where locks may fail"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn volatile(_folder: &Path) -> Option<&'static str> {
    None
}

fn space(folder: &Path) -> Check {
    const LITTLE: u64 = 1 << 30;
    const TOO_LITTLE: u64 = 64 << 20;
    let free = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => return Check::warning("disk space", format!("unknown: {error}"), "look with `df`"),
    };
    let found = format!("{:.1} GB free", free as f64 / 1e9);
    match free {
        0..TOO_LITTLE => Check::broken("disk space", found, "free some; without a record no tool runs"),
        TOO_LITTLE..LITTLE => Check::warning("disk space", found, "free some before it runs out"),
        _ => Check::good("disk space", found),
    }
}

/// The journal holds what was said to tools: nobody else should read it.
#[cfg(unix)]
fn privacy(path: &Path) -> Option<Check> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let found = format!("others on this machine may open the journal (mode {mode:o})");
        Check::warning("privacy", found, format!("`chmod 600 {}`", path.display()))
    })
}

#[cfg(not(unix))]
fn privacy(_path: &Path) -> Option<Check> {
    None
}
