//! Runs that were left, taken up in the background of a process that stays: those of processes that have died, and
//! those that this one had to leave because the journal failed.

use std::io::Write as _;
use std::time::Duration;

use helve::Runtime;
use helve::runs::{Recovered, TakenUp};

use crate::ui::escape;

/// How often it is looked for such runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// In how many of these looks the journal is asked whether it can be written: a process that keeps it locked is
/// noticed although nobody calls.
const ASK_EVERY: u32 = 5;

/// Looks for runs that were left, and lets them go on. Runs until dropped.
pub(crate) async fn keep_taking_over(runtime: &Runtime) {
    let mut looks = 0_u32;
    loop {
        // Each of them goes on in a task of its own: a service that hangs keeps nobody else waiting.
        if let Err(error) = runtime.take_over(say).await {
            tracing::debug!(%error, "runs that were left cannot be taken over yet");
        }
        let own = runtime.clone();
        tokio::spawn(async move {
            match own.recover_left().await {
                Ok(runs) => runs.iter().for_each(say),
                Err(error) => tracing::debug!(%error, "runs that were left cannot go on yet"),
            }
        });
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(ASK_EVERY)
            && let Err(error) = runtime.flush().await
        {
            tracing::debug!(%error, "the journal cannot be written");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Says what became of a run that was left.
fn say(recovered: &Recovered) {
    let run = recovered.run;
    let became = match &recovered.taken_up {
        TakenUp::Ended(outcome) if outcome.is_success() => "it has finished now".to_owned(),
        TakenUp::Ended(_) => format!("it ended without success: `helve runs show {run}`"),
        TakenUp::Waits(_) => format!("it waits for you: `helve runs show {run}`"),
        TakenUp::Failed(error) => format!("it cannot be taken up: {error}"),
    };
    let line = format!("{run} had been left in its middle; {became}");
    // Standard error may be closed; there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{}", escape::one_line(&line, 1_000));
}
