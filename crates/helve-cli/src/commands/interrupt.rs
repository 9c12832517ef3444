//! Ctrl-C: the first asks to stop, the second stops.

use std::time::Duration;

use crate::ui::Ui;

/// What a shell says of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// How long stopping may take before it is spoken of.
const SILENT: Duration = Duration::from_millis(300);

/// Runs to the end. The first interrupt asks it to stop and then waits for what it has to take back;
/// Ctrl-C once more ends the process at once, as a crash would.
pub(crate) async fn until_interrupt<T>(
    running: impl Future<Output = T>,
    ui: &mut Ui,
    stop: impl AsyncFnOnce(),
) -> T {
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return ended,
        () = interrupted() => {}
    }
    let ending = async {
        stop().await;
        running.await
    };
    let again = interrupted_again();
    tokio::pin!(ending, again);
    tokio::select! {
        ended = &mut ending => return ended,
        () = &mut again => std::process::exit(INTERRUPTED),
        // What ends at once has nothing to undo, and nothing to say.
        () = tokio::time::sleep(SILENT) => {}
    }
    if ui.errors_on_terminal() {
        // Standard error may be closed; there is nobody left to tell.
        let _ = ui.note("\nstopping, and undoing what is to be undone; Ctrl-C again leaves it as it is");
    }
    tokio::select! {
        ended = ending => ended,
        () = again => std::process::exit(INTERRUPTED),
    }
}

/// Waits for Ctrl-C, a polite request to end, or the terminal's closing.
#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::SignalKind;
    let hangup = async || match ignores_hangup() {
        true => std::future::pending().await,
        false => signalled(SignalKind::hangup()).await,
    };
    tokio::select! {
        () = signalled(SignalKind::interrupt()) => {}
        () = signalled(SignalKind::terminate()) => {}
        () = hangup() => {}
    }
}

/// Waits for Ctrl-C alone: a closing terminal sends more than one signal, and nobody is impatient.
#[cfg(unix)]
async fn interrupted_again() {
    signalled(tokio::signal::unix::SignalKind::interrupt()).await;
}

#[cfg(unix)]
async fn signalled(kind: tokio::signal::unix::SignalKind) {
    match tokio::signal::unix::signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
async fn interrupted_again() {
    interrupted().await;
}

/// Whether we were started to outlive the terminal, as `nohup` does. Listening would undo that.
#[cfg(unix)]
pub(super) fn ignores_hangup() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & HANGUP != 0)
}
