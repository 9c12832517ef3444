//! A run as a list of lines, in the order in which things happened.

use std::collections::HashMap;

use helve::record::{EndStatus, Entry, Finished};
use helve::run::{Step, StepKind};
use helve::runs::Story;
use helve::{CallId, ErrorCode, ToolError};
use jiff::Timestamp;

use super::state::State;
use super::words;
use crate::commands::when;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

/// Something that happened.
struct TimelineRow {
    at: Timestamp,
    /// How far within the run: 0 for the run itself.
    depth: usize,
    sign: &'static str,
    what: String,
    tool: String,
    how: String,
    tone: Tone,
}

pub(super) fn table(story: &Story) -> Table {
    let begin = story.facts.received_at;
    let mut table = Table::bare().indented();
    for line in lines(story) {
        table.row([
            Cell::new(when::after(begin, line.at), Tone::Dim),
            Cell::new(format!("{}{} {}", "  ".repeat(line.depth), line.sign, line.what), line.tone),
            Cell::new(line.tool, Tone::Strong),
            Cell::from(line.how),
        ]);
    }
    table
}

fn lines(story: &Story) -> Vec<TimelineRow> {
    let mut told = Telling { story, lines: Vec::new(), begun: HashMap::new() };
    let caller = super::super::audit::caller(&story.facts.caller);
    told.root(story.facts.received_at, "·", "received", format!("from {caller}"), Tone::Plain);
    story.entries.iter().for_each(|entry| told.tell(entry));
    told.end();
    told.lines
}

struct Telling<'s> {
    story: &'s Story,
    lines: Vec<TimelineRow>,
    /// Parts that have begun and not ended, and their lines.
    begun: HashMap<CallId, usize>,
}

impl Telling<'_> {
    fn tell(&mut self, entry: &Entry) {
        match entry {
            Entry::Started(started) if started.facts.call_id == self.story.run => {
                self.root(started.at, "▶", "started", String::new(), Tone::Strong);
            }
            Entry::Started(started) => {
                self.begun.insert(started.facts.call_id, self.lines.len());
                let how = "has not ended".to_owned();
                self.part(started.at, started.facts.call_id, "…", how, Tone::Warn);
            }
            Entry::Finished(finished) if finished.facts.call_id == self.story.run => {
                let (sign, how, tone) = ending(finished);
                self.root(finished.at, sign, "ended", how, tone);
            }
            Entry::Finished(finished) => self.note_part_end(finished),
            Entry::Step(step) => self.step(step),
        }
    }

    /// One line a part, where it began, unless the run was cut short in between.
    fn note_part_end(&mut self, finished: &Finished) {
        let call_id = finished.facts.call_id;
        let (sign, how, tone) = ending(finished);
        match self.begun.remove(&call_id).and_then(|index| self.lines.get_mut(index)) {
            Some(line) => (line.sign, line.how, line.tone) = (sign, how, tone),
            None => self.part(finished.facts.received_at, call_id, sign, how, tone),
        }
    }

    fn step(&mut self, step: &Step) {
        let (at, call_id) = (step.at, step.call_id);
        let is_root = call_id == self.story.run;
        match &step.kind {
            // Every call that is resumed says so; once is enough.
            StepKind::Resumed if !is_root => return,
            StepKind::Resumed => self.cut_short(),
            // What undoes it, and whether it was undone, come next.
            StepKind::UndoStarted => return,
            _ => {}
        }
        let (sign, mut how, tone) = words::step(&step.kind, |index| self.effect(call_id, index));
        let reason = reason(step);
        if is_root {
            return self.root(at, sign, &how, reason.unwrap_or_default(), tone);
        }
        if let Some(reason) = reason {
            how.push_str(&format!(": {reason}"));
        }
        self.part(at, call_id, sign, how, tone);
    }

    /// Parts that had not ended when the run was resumed were cut short with it.
    fn cut_short(&mut self) {
        for (_, index) in self.begun.drain() {
            if let Some(line) = self.lines.get_mut(index) {
                line.how = "cut short".to_owned();
            }
        }
    }

    /// What there is to say of a run that has not ended.
    fn end(&mut self) {
        let at = self.story.entries.last().map_or(self.story.facts.received_at, Entry::at);
        match self.story.state {
            State::CutShort => {
                self.cut_short();
                self.root(at, "✗", "cut short", "its process has gone".to_owned(), Tone::Warn);
            }
            State::Running => self.root(at, "…", "running", String::new(), Tone::Plain),
            State::BeingUndone => self.root(at, "…", "being undone", String::new(), Tone::Warn),
            State::Stopping => self.root(at, "…", "stopping", String::new(), Tone::Warn),
            State::WaitingForApproval
            | State::WaitingForUnknownOutcome
            | State::WaitingForDecision
            | State::WaitingForCancel
            | State::Done
            | State::Failed
            | State::InDoubt
            | State::Cancelled
            | State::Undone
            | State::PartlyUndone => {}
        }
    }

    fn root(&mut self, at: Timestamp, sign: &'static str, what: &str, how: String, tone: Tone) {
        self.lines.push(TimelineRow {
            at,
            depth: 0,
            sign,
            what: what.to_owned(),
            tool: String::new(),
            how,
            tone,
        });
    }

    fn part(&mut self, at: Timestamp, call_id: CallId, sign: &'static str, how: String, tone: Tone) {
        let path = self.story.path(call_id).unwrap_or_default();
        let depth = path.matches('/').count() + 1;
        let tool = self.story.tool(call_id).to_owned();
        self.lines.push(TimelineRow { at, depth, sign, what: path.to_string(), tool, how, tone });
    }

    /// What an effect is called, where its call has ended and so has said.
    fn effect(&self, call_id: CallId, index: u32) -> String {
        let described = self.story.entries.iter().find_map(|entry| match entry {
            Entry::Finished(finished) if finished.facts.call_id == call_id => {
                finished.ending.effects.get(usize::try_from(index).ok()?)
            }
            Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
        });
        match described {
            Some(effect) => format!("effect `{}`", effect.description),
            None => format!("effect {}", index + 1),
        }
    }
}

/// Why something could not be undone, why a person is asked, or why they said so.
fn reason(step: &Step) -> Option<String> {
    if let Some(said) = words::said(&step.kind, step.payload.as_ref()) {
        return Some(said);
    }
    let StepKind::UndoFailed { .. } = step.kind else { return None };
    let error: ToolError = serde_json::from_str(step.payload.as_ref()?.get()).ok()?;
    Some(error.message().to_owned())
}

/// How a call ended.
fn ending(finished: &Finished) -> (&'static str, String, Tone) {
    let ending = &finished.ending;
    let took = when::duration(ending.timings.total_nanos());
    let attempts = match ending.attempts.len() {
        0 | 1 => String::new(),
        count => format!(", {count} attempts"),
    };
    let code = ending.error_name().unwrap_or_default();
    let message = finished.payload.error.as_ref().map(|error| format!(": {}", error.message()));
    let why = format!("{code}{}", message.unwrap_or_default());
    match (ending.status, ending.code) {
        (EndStatus::Done, _) if ending.replay_of.is_some() => {
            ("✓", format!("done before; took {took}"), Tone::Good)
        }
        (EndStatus::Done, _) => ("✓", format!("done in {took}{attempts}"), Tone::Good),
        (EndStatus::Pending, _) => ("?", "waits for approval".to_owned(), Tone::Warn),
        (EndStatus::Denied, _) => ("✗", format!("denied: {why}"), Tone::Bad),
        (EndStatus::Returned, None) if finished.payload.error.is_none() => {
            ("✗", format!("ended after {took}{attempts}: {}", ending.degraded.join("; ")), Tone::Bad)
        }
        (EndStatus::Returned, _) => {
            ("✗", format!("failed after {took}{attempts}, and returned that: {why}"), Tone::Bad)
        }
        (EndStatus::Failed, Some(ErrorCode::Cancelled)) => {
            ("■", format!("cancelled after {took}"), Tone::Bad)
        }
        (EndStatus::Failed, _) => ("✗", format!("failed after {took}{attempts}: {why}"), Tone::Bad),
    }
}
