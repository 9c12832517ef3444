//! How far a call has come, on one line of the terminal that is written over and over.

use std::io::Write;

use helve::event::EventKind;
use helve::run::Progress;
use helve::{Delivery, Runtime};

use crate::ui::{Detail, Ui, escape};

/// Goes to the beginning of the line and empties it.
const ERASE: &str = "\r\u{1b}[2K";

/// Longest text of a line, so that it stays one.
const CHARS_MAX: usize = 60;

/// The line. It is there only while somebody looks, and leaves nothing behind.
pub(crate) struct Line {
    enabled: bool,
    shown: bool,
}

impl Line {
    pub(crate) fn new(ui: &Ui) -> Self {
        let enabled = ui.errors_on_terminal() && ui.detail() != Detail::Quiet && !ui.is_json();
        Self { enabled, shown: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.enabled {
            self.shown = true;
            // Nobody misses a line that cannot be written.
            let _ = write!(std::io::stderr(), "{ERASE}{}", escape::one_line(text, CHARS_MAX));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "{ERASE}");
        }
    }
}

/// Runs to the end, and shows how far it has come meanwhile.
pub(crate) async fn watched<T>(runtime: &Runtime, mut line: Line, running: impl Future<Output = T>) -> T {
    if !line.enabled {
        return running.await;
    }
    let mut events = runtime.subscribe();
    tokio::pin!(running);
    loop {
        let event = tokio::select! {
            ended = &mut running => return ended,
            Some(delivery) = events.next() => delivery,
        };
        if let Delivery::Event(event) = event
            && let EventKind::Progress { progress, .. } = &event.kind
        {
            line.show(&said(progress));
        }
    }
}

fn said(progress: &Progress) -> String {
    let far = match progress.total {
        Some(total) => format!("{:.0}/{total:.0}", progress.done),
        None => format!("{:.0}", progress.done),
    };
    match &progress.message {
        Some(message) => format!("{far} {message}"),
        None => far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_said_in_few_words() {
        let progress = |total, message: Option<&str>| {
            said(&Progress { done: 2.0, total, message: message.map(str::to_owned) })
        };
        assert_eq!(progress(Some(3.0), Some("fetch")), "2/3 fetch");
        assert_eq!(progress(None, None), "2");
    }
}
