//! What a call costs, also where its caller hangs up.

use helve_core::cost::Cost;
use serde_json::Value;

use super::CallRecorder;

impl CallRecorder<'_> {
    /// Records what the call cost, and counts it. Only then what was held for it is given back: nobody else can spend
    /// the same money in between.
    pub(in crate::pipeline) fn pay(&mut self, result: Option<&Value>, did_nothing: bool) {
        let bill = self.work.bill.take();
        if let Some(cost) = self.price(result, did_nothing) {
            let engine = self.engine;
            if let Some(tool) = self.subject.tool().filter(|_| engine.limits.costs.is_limited()) {
                engine.limits.costs.count(engine.clock.now(), &cost, tool.name(), self.subject.caller());
            }
            self.work.cost = Some(Box::new(cost));
        }
        drop(bill);
    }

    /// The caller hung up while the tool ran: that costs what the tool says.
    pub(super) fn settle_bill(&mut self) {
        if self.work.bill.is_some() {
            self.pay(None, false);
        }
    }

    fn price(&self, result: Option<&Value>, did_nothing: bool) -> Option<Cost> {
        let price = self.subject.tool()?.definition().cost.as_ref()?;
        price.of(self.work.charged, result, did_nothing)
    }
}
