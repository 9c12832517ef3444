//! What the tool did: attempts, cost, effects, and what it takes to undo it.

use helve_core::cost::{Amount, Cost};
use helve_core::record::Attempt;
use helve_core::run::EffectReport;
use helve_core::{CallId, Reads};

use crate::limits::Held;
use crate::runs::{UndoRecord, in_doubt};

/// What the tool did.
#[derive(Default)]
pub(in crate::pipeline) struct WorkRecord {
    pub(super) attempts: Vec<Attempt>,
    /// Whether the tool was stopped in the middle of its work.
    pub(super) is_cut_off: bool,
    /// What the tool says that it cost so far.
    pub(super) charged: Amount,
    /// What the call cost in all.
    pub(super) cost: Option<Box<Cost>>,
    /// What the call owes while its tool runs.
    pub(super) bill: Option<Bill>,
    /// The earlier call whose outcome this one has.
    pub(super) replay_of: Option<CallId>,
    pub(super) effects: Vec<EffectReport>,
    /// Whether its effects are half applied, or half taken back, and go on when the run does.
    pub(super) is_suspended: bool,
    /// What it takes to undo the call.
    pub(super) undo_record: Option<UndoRecord>,
    /// What the call counts as reading, and how that is known.
    reads: (Reads, HowKnown),
}

/// How it is known what a call reads.
#[derive(Clone, Copy, Default, PartialEq)]
pub(in crate::pipeline) enum HowKnown {
    /// Its tool or its arguments say so.
    #[default]
    Said,
    /// It was found out for this call, and may differ for the next.
    FoundOut,
}

/// The price of a tool that runs: held until what it came to is counted.
pub(super) struct Bill {
    _held: Option<Held>,
}

impl WorkRecord {
    /// Notes what the call counts as reading.
    pub(in crate::pipeline) fn set_reads(&mut self, reads: Reads, known: HowKnown) {
        self.reads = (reads, known);
    }

    /// What the call counts as reading.
    pub(in crate::pipeline) fn reads(&self) -> Reads {
        self.reads.0
    }

    /// Whether that had to be found out.
    pub(in crate::pipeline) fn found_out_reads(&self) -> bool {
        self.reads.1 == HowKnown::FoundOut
    }

    /// Whether nobody knows if the tool had its effect.
    pub(in crate::pipeline) fn is_in_doubt(&self) -> bool {
        self.is_cut_off
    }

    /// The tool that was asked knows that the attempts had no effect.
    pub(in crate::pipeline) fn settle_as_undone(&mut self) {
        self.attempts.iter_mut().for_each(|attempt| attempt.nothing_done = attempt.code.is_some());
        self.is_cut_off = false;
    }

    /// The tool that was asked knows of its effect.
    pub(in crate::pipeline) fn settle_as_done(&mut self) {
        self.is_cut_off = false;
    }

    pub(super) fn add_attempt(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.is_cut_off = in_doubt(&self.attempts);
    }

    /// The attempts so far.
    pub(in crate::pipeline) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The outcome is that of an earlier call.
    pub(in crate::pipeline) fn set_replay(&mut self, earlier: CallId) {
        self.replay_of = Some(earlier);
    }

    /// Whether the outcome is that of an earlier call.
    pub(in crate::pipeline) fn is_replay(&self) -> bool {
        self.replay_of.is_some()
    }

    /// The tool is about to run: from now on its price is due, whether its answer is waited for or not.
    pub(in crate::pipeline) fn owe(&mut self, held: Option<Held>) {
        self.bill = Some(Bill { _held: held });
    }

    /// The tool has charged so much in one attempt.
    pub(in crate::pipeline) fn charge(&mut self, amount: Amount) {
        self.charged = self.charged.plus(amount);
    }

    /// Its effects go on when the run does.
    pub(in crate::pipeline) fn suspend(&mut self) {
        self.is_suspended = true;
    }

    /// Keeps what it will take to undo the call.
    pub(in crate::pipeline) fn keep_undo_record(&mut self, undo_record: UndoRecord) {
        self.undo_record = Some(undo_record);
    }

    /// Keeps what became of the effects.
    pub(in crate::pipeline) fn set_effects(&mut self, effects: Vec<EffectReport>) {
        self.effects = effects;
    }
}
