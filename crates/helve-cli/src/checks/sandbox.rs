//! What programs can be kept from on this machine, found out by trying.

use helve_host::config::Loaded;
use helve_host::wire;
use helve_sandbox::{Guard, Level, Probed};

use super::Check;
use crate::blocking::block_on;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

/// Tries everything that a box is to enforce.
pub(crate) fn probe(loaded: &Loaded) -> (Check, Option<Probed>) {
    let sandbox = wire::sandbox(loaded);
    match block_on(async { Ok(sandbox.probe().await) }) {
        Ok(Ok(probed)) => (judge(&probed), Some(probed)),
        Ok(Err(error)) => (Check::broken("sandbox", error.reason, FIX), None),
        Err(error) => (Check::broken("sandbox", error.to_string(), FIX), None),
    }
}

const FIX: &str =
    "allow user namespaces on this machine, or lower `sandbox.min_level` and know what you give up";

fn judge(probed: &Probed) -> Check {
    let level = probed.confinement.level;
    let broken = probed.broken();
    if !broken.is_empty() {
        let names: Vec<_> = broken.iter().map(|guard| guard.as_str()).collect();
        let found =
            format!("level {level}, but these did not hold when they were tried: {}", names.join(", "));
        return Check::broken("sandbox", found, "do not run code that you do not trust; report this");
    }
    match (level, probed.confinement.why.first()) {
        (Level::L3, _) | (_, None) => {
            Check::good("sandbox", format!("level {level}: all of it held when tried"))
        }
        (_, Some(why)) => {
            Check::warning("sandbox", format!("level {level}: what it promises held when tried"), why)
        }
    }
}

/// What held, one row a guard.
pub(crate) fn table(probed: &Probed) -> Table {
    let mut table = Table::new(["in a box, a program", "", "guard"]);
    for guard in Guard::ALL {
        let promised = probed.confinement.enforced.contains(&guard);
        let verdict = match (promised, probed.held.contains(&guard)) {
            (true, true) => Cell::new("held", Tone::Good),
            (true, false) => Cell::new("BROKEN", Tone::Bad),
            (false, _) => Cell::new("not here", Tone::Warn),
        };
        table.row([Cell::from(guard.meaning()), verdict, Cell::new(guard.as_str(), Tone::Dim)]);
    }
    table
}
