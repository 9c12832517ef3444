//! How a process that serves ends: a signal, the grace, and the answers that are still due.
//!
//! The first signal begins it: new calls are refused, those that run have their grace. A second one, or Ctrl-C again,
//! ends the grace: every call ends in a recorded state, and its client hears of it. More SIGTERMs change nothing, so
//! that a storm of them loses no answer; Ctrl-C for the third time ends the process at once, as a crash would.

use std::time::Duration;

use helve::Runtime;

use crate::ui::Ui;

/// What a shell says of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// A person or a service that wants the process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Interrupt,
    Terminate,
    /// The terminal has gone.
    Hangup,
}

impl Signal {
    /// As records and callers are told.
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "Ctrl-C",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        }
    }
}

/// What a person is told who stops it.
fn stopping(signal: &str, unfinished: usize, grace: Duration) -> String {
    let calls = match unfinished {
        0 => return format!("{signal}: stopping"),
        1 => "1 call that runs has".to_owned(),
        count => format!("{count} calls that run have"),
    };
    format!("{signal}: stopping; {calls} {} s, a second signal ends the wait", grace.as_secs_f64())
}

/// What happens when a process that serves is told to end.
pub(crate) struct Stopping<'a, B, E> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) grace: Duration,
    /// Others should no longer come here.
    pub(crate) begins: B,
    /// Every call has ended: the server should end, too.
    pub(crate) ends: E,
}

impl<B: FnOnce(), E: FnOnce()> Stopping<'_, B, E> {
    /// Serves until it ends by itself, or until a signal comes and everything has ended that it stops.
    pub(crate) async fn serve<T>(self, serving: impl Future<Output = T>, ui: &mut Ui) -> T {
        let mut signals = Signals::listen();
        tokio::pin!(serving);
        let first = tokio::select! {
            ended = &mut serving => return ended,
            signal = signals.next() => signal,
        };
        (self.begins)();
        // Standard error may be closed; there is nobody left to tell.
        let _ = ui.note(stopping(first.name(), self.runtime.unfinished(), self.grace));
        let hurry = || {
            if !self.grace.is_zero() {
                tracing::info!("the grace is over: a second signal");
            }
            self.runtime.hurry();
        };
        let stopped = {
            let stopped = self.runtime.stop(first.name(), self.grace);
            tokio::pin!(stopped);
            loop {
                tokio::select! {
                    ended = &mut serving => return ended,
                    stopped = &mut stopped => break stopped,
                    () = signals.until_hurried() => hurry(),
                }
            }
        };
        if stopped.unfinished > 0 {
            let _ = ui.note(format!(
                "{} did not end in time; the journal has what changed something as open, and the next Helve takes it up",
                crate::ui::count(stopped.unfinished as u64, "call")
            ));
        }
        (self.ends)();
        loop {
            tokio::select! {
                ended = &mut serving => return ended,
                () = signals.until_hurried() => {}
            }
        }
    }
}

/// Signals as they come, and how often a person was impatient.
struct Signals {
    asked: u32,
    #[cfg(unix)]
    streams: unix::Streams,
}

impl Signals {
    fn listen() -> Self {
        Self {
            asked: 0,
            #[cfg(unix)]
            streams: unix::Streams::listen(),
        }
    }

    /// The next signal.
    async fn next(&mut self) -> Signal {
        let signal = self.any().await;
        // The first one counts, whatever it is. A closing terminal may send more than one, and nobody is impatient.
        self.asked += u32::from(signal != Signal::Hangup || self.asked == 0);
        if signal == Signal::Interrupt && self.asked > 2 {
            std::process::exit(INTERRUPTED);
        }
        signal
    }

    /// Waits until the person asks for the second time, or once more.
    async fn until_hurried(&mut self) {
        loop {
            let signal = self.next().await;
            if signal != Signal::Hangup && self.asked > 1 {
                return;
            }
        }
    }

    #[cfg(unix)]
    async fn any(&mut self) -> Signal {
        self.streams.next().await
    }

    #[cfg(not(unix))]
    async fn any(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(unix)]
mod unix {
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    use super::Signal;
    use crate::commands::interrupt::ignores_hangup;

    /// One stream a signal. One that cannot be listened to never comes.
    pub(super) struct Streams {
        interrupt: Option<Stream>,
        terminate: Option<Stream>,
        hangup: Option<Stream>,
    }

    impl Streams {
        pub(super) fn listen() -> Self {
            let hangup = if ignores_hangup() { None } else { signal(SignalKind::hangup()).ok() };
            Self {
                interrupt: signal(SignalKind::interrupt()).ok(),
                terminate: signal(SignalKind::terminate()).ok(),
                hangup,
            }
        }

        pub(super) async fn next(&mut self) -> Signal {
            tokio::select! {
                () = received(&mut self.interrupt) => Signal::Interrupt,
                () = received(&mut self.terminate) => Signal::Terminate,
                () = received(&mut self.hangup) => Signal::Hangup,
            }
        }
    }

    async fn received(stream: &mut Option<Stream>) {
        let received = match stream {
            Some(stream) => stream.recv().await,
            None => None,
        };
        if received.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stops_an_idle_server_is_told_of_no_calls() {
        let told = |count| stopping("Ctrl-C", count, Duration::from_secs(15));
        assert_eq!(told(0), "Ctrl-C: stopping");
        assert_eq!(told(1), "Ctrl-C: stopping; 1 call that runs has 15 s, a second signal ends the wait");
        assert_eq!(told(2), "Ctrl-C: stopping; 2 calls that run have 15 s, a second signal ends the wait");
    }
}
