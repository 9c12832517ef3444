//! How far a call has come, on one line of the terminal that is written over and over.

use std::io::Write;

use helve::event::EventKind;
use helve::run::Progress;
use helve::{ApprovalId, Delivery, Runtime};

use crate::ui::{Detail, Ui, escape};

/// Goes to the beginning of the line and empties it.
const ERASE: &str = "\r\u{1b}[2K";

/// Longest text of a line, so that it stays one.
const CHARS_MAX: usize = 60;

/// The line. It is there only on a terminal, and leaves nothing behind.
pub(crate) struct Line {
    enabled: bool,
    shown: bool,
    /// Whether to say that a person is asked, while the call waits for them.
    tells_questions: bool,
}

impl Line {
    pub(crate) fn new(ui: &Ui) -> Self {
        let enabled = ui.errors_on_terminal() && ui.detail() != Detail::Quiet && !ui.is_json();
        Self { enabled, shown: false, tells_questions: false }
    }

    /// Says that a person is asked, where the call waits for them.
    pub(crate) fn telling_questions(mut self, ui: &Ui) -> Self {
        self.tells_questions = ui.detail() != Detail::Quiet && !ui.is_json();
        self
    }

    fn ask(&mut self, id: ApprovalId) {
        let erase = if std::mem::take(&mut self.shown) { ERASE } else { "" };
        let _ = writeln!(
            std::io::stderr(),
            "{erase}waiting for a person: `helve approvals show {id}` shows what exactly would run\n\
             `helve approvals approve {id}` lets it run, `helve approvals deny {id}` does not"
        );
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
    if !line.enabled && !line.tells_questions {
        return running.await;
    }
    let mut events = runtime.subscribe();
    tokio::pin!(running);
    loop {
        let event = tokio::select! {
            ended = &mut running => return ended,
            Some(delivery) = events.next() => delivery,
        };
        let Delivery::Event(event) = event else { continue };
        match &event.kind {
            EventKind::Progress { progress, .. } => line.show(&said(progress)),
            EventKind::Pending { approval_id, .. } if line.tells_questions => line.ask(*approval_id),
            _ => {}
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
