//! What became of runs that were left, said by a process that serves.

use std::io::Write as _;

use helve::runs::{RecoveredRun, Resumption};

use crate::ui::escape;

/// Says what became of a run that was left.
pub(crate) fn say(recovered: &RecoveredRun) {
    let run = recovered.run;
    let became = match &recovered.resumption {
        Resumption::Ended(outcome) if outcome.is_success() => "it has finished now".to_owned(),
        Resumption::Ended(_) => format!("it ended without success: `helve runs show {run}`"),
        Resumption::Waits(_) => format!("it waits for you: `helve runs show {run}`"),
        Resumption::Failed(error) => format!("it cannot be resumed: {error}"),
    };
    let line = format!("{run} had been left in its middle; {became}");
    // Standard error may be closed; there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{}", escape::one_line(&line, 1_000));
}
