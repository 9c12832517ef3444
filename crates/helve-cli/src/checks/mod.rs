//! Real probes of this machine and this configuration. `helve doctor` shows them all, `helve up`
//! the ones that matter for a start.

mod host;
mod policy;
mod runs;
pub(crate) mod sandbox;
mod store;
mod tools;

use helve_host::Remark;
use helve_host::config::origin::short;
use helve_host::config::{Loaded, load};
use helve_host::running;
use serde::Serialize;

use crate::app::App;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    Good,
    /// Works, but the user should know.
    Warning,
    /// Does not work.
    Broken,
}

impl State {
    /// The sign for it.
    pub(crate) fn cell(self) -> Cell {
        match self {
            Self::Good => Cell::new("✓", Tone::Good),
            Self::Warning => Cell::new("!", Tone::Warn),
            Self::Broken => Cell::new("✗", Tone::Bad),
        }
    }
}

/// What `helve doctor` found out about one thing.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    /// Whether `helve up` serves all the same: what is read, and says why nothing else works.
    #[serde(skip)]
    pub(crate) lets_serve: bool,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), fix: None, lets_serve: true }
    }

    fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: State::Warning, found: found.into(), fix: Some(fix.into()), lets_serve: true }
    }

    fn broken(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: State::Broken, found: found.into(), fix: Some(fix.into()), lets_serve: false }
    }

    /// Something broken that takes nothing else down with it.
    fn set_aside(name: &'static str, remark: &Remark) -> Self {
        Self { lets_serve: true, ..Self::broken(name, &remark.found, &remark.fix) }
    }

    fn from_remark(name: &'static str, remark: &Remark) -> Self {
        Self::warning(name, &remark.found, &remark.fix)
    }

    fn from_failure(name: &'static str, failure: impl Into<Failure>) -> Self {
        let failure = failure.into();
        let found = std::iter::once(&failure.message).chain(&failure.details).map(String::as_str);
        Self {
            name,
            state: State::Broken,
            found: found.collect::<Vec<_>>().join("; "),
            fix: failure.hints.first().cloned(),
            lets_serve: false,
        }
    }
}

/// What the probes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A look that changes nothing: not even the journal is made.
    Look,
    /// To find out whether calls would work, by doing what they do.
    Try,
    /// To serve next. Runs that were cut short are resumed then.
    Serve,
}

/// Every probe, in the order in which a failing one explains the ones after it.
pub(crate) fn all(app: &App<'_>, purpose: Purpose) -> Vec<Check> {
    let mut checks = vec![host::system()];
    let loaded = match load(&app.inputs) {
        Ok(loaded) => loaded,
        Err(error) => {
            checks.push(Check::from_failure("configuration", error));
            return checks;
        }
    };
    checks.push(configuration(&loaded));
    checks.extend(loaded.set_aside.iter().map(|remark| Check::set_aside("configuration", remark)));
    checks.extend(loaded.remarks.iter().map(|remark| Check::from_remark("configuration", remark)));
    match purpose {
        Purpose::Look => {
            let (of_store, glance) = store::look(&loaded);
            checks.extend(of_store);
            checks.extend(glance.iter().flat_map(runs::look));
        }
        Purpose::Try | Purpose::Serve => {
            checks.extend(store::checks(&loaded));
            checks.extend(runs::checks(&loaded, purpose));
        }
    }
    checks.push(host::clock(&loaded));
    checks.extend(tools::checks(&loaded));
    checks.extend(policy::checks(&loaded));
    checks.extend(running(&loaded));
    checks
}

/// How far a `helve up` that runs follows the configuration.
fn running(loaded: &Loaded) -> Vec<Check> {
    let Some(note) = running::note_near(loaded) else { return Vec::new() };
    let remarks = note.following.remarks();
    match remarks.is_empty() {
        true => vec![Check::good("server", format!("`helve up` runs at http://{}", note.address))],
        false => remarks.iter().map(|remark| Check::from_remark("server", remark)).collect(),
    }
}

fn configuration(loaded: &Loaded) -> Check {
    let files: Vec<_> =
        [&loaded.user_file, &loaded.project_file].into_iter().flatten().map(|file| short(file)).collect();
    let found =
        if files.is_empty() { "built-in defaults; no helve.toml".to_owned() } else { files.join(", ") };
    Check::good("configuration", found)
}
