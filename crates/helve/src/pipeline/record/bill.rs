//! What a call costs, also where its caller hangs up.

use helve_core::cost::{Amount, Cost};
use serde_json::Value;

use super::OpenRecord;
use crate::limits::Held;

/// The price of a tool that runs: held until what it came to is counted.
pub(super) struct Bill {
    _held: Option<Held>,
}

impl OpenRecord<'_> {
    /// The tool is about to run: from now on its price is due, whether somebody waits for its answer or not.
    pub(in crate::pipeline) fn owes(&mut self, held: Option<Held>) {
        self.bill = Some(Bill { _held: held });
    }

    /// The tool has charged so much in one attempt.
    pub(in crate::pipeline) fn charge(&mut self, amount: Amount) {
        self.charged = self.charged.plus(amount);
    }

    /// Records what the call cost, and counts it. Only then what was held for it is given back: nobody else can spend
    /// the same money in between.
    pub(in crate::pipeline) fn pay(&mut self, result: Option<&Value>, did_nothing: bool) {
        let bill = self.bill.take();
        if let Some(cost) = self.price(result, did_nothing) {
            let (parts, tool) = (self.parts, self.tool.as_ref());
            if let Some(tool) = tool.filter(|_| parts.costs.is_limited()) {
                parts.costs.count(parts.clock.now(), &cost, tool.name(), &self.facts.caller);
            }
            self.cost = Some(Box::new(cost));
        }
        drop(bill);
    }

    /// The caller hung up while the tool ran: that costs what the tool says.
    pub(super) fn settle_bill(&mut self) {
        if self.bill.is_some() {
            self.pay(None, false);
        }
    }

    fn price(&self, result: Option<&Value>, did_nothing: bool) -> Option<Cost> {
        self.tool.as_ref()?.definition().cost.as_ref()?.of(self.charged, result, did_nothing)
    }
}
