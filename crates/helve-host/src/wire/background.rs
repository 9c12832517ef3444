//! What goes on in the background of a process that stays.
//!
//! Runs that were left are resumed: those of processes that have died, and those that this one had to leave because
//! the journal failed. Runs that waited for a person go on once they have decided.

use std::time::Duration;

use helve::Runtime;
use helve::runs::RecoveredRun;

/// How often it is looked for such runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// In how many of these looks the journal is asked whether it can be written: a process that keeps it locked is
/// noticed although nobody calls.
const ASK_EVERY: u32 = 5;

/// How long the hooks of a session's end have before the process ends.
pub const SESSION_END_WAIT: Duration = Duration::from_secs(2);

/// Looks for runs that were left, lets them go on, and tells what became of each. Runs until dropped.
pub async fn keep_taking_over(runtime: &Runtime, tell: fn(&RecoveredRun)) {
    let mut looks = 0_u32;
    loop {
        // Each of them goes on in its own task: a service that hangs keeps nobody else waiting.
        if let Err(error) = runtime.take_over(tell).await {
            tracing::debug!(%error, "runs that were left cannot be taken over yet");
        }
        let own = runtime.clone();
        tokio::spawn(async move {
            match own.recover_left().await {
                Ok(runs) => runs.iter().for_each(tell),
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

/// Goes on with runs as soon as what they wait for is decided, by whatever process. Runs until
/// dropped.
pub async fn follow_decisions(runtime: Runtime) {
    let Err(error) = runtime.approvals().follow().await;
    tracing::warn!(%error, "decisions are not followed; `helve runs resume --all` goes on with them");
    std::future::pending().await
}
