//! How much calls may cost.
//!
//! What was spent is counted here, in this process, and begins with what the journal has: a limit survives a restart. A
//! call with a price holds that much while it runs, so that many at once cannot spend the same money; what a tool only
//! reports afterwards is counted then, and can exceed a limit by one call for each that runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::cost::{Amount, Cost, CostLimit, Price, Spending};
use helve_core::limit::LimitRule;
use helve_core::ports::{JournalError, Ledger, LimitKey};
use helve_core::{Caller, ErrorCode, ToolError, ToolName};
use jiff::Timestamp;
use tokio::sync::OnceCell;

use super::rules::{each, id, key_of};
use super::{shown, whole_ms};

/// A window is counted in so many pieces, or in seconds where they are longer.
const PIECES: i64 = 256;
/// Most keys, as with other limits: callers can invent sessions.
const KEYS_MAX: usize = 32_768;

/// The rules on cost, and what was spent.
pub(crate) struct Costs {
    rules: Vec<Rule>,
    spent: Arc<Mutex<HashMap<LimitKey, Account>>>,
    /// Whether what the journal has is counted.
    known: OnceCell<()>,
}

struct Rule {
    rule: LimitRule,
    limit: CostLimit,
    id: String,
}

/// What was spent under one key.
#[derive(Default)]
struct Account {
    /// By the piece of time it belongs to, in milliseconds since 1970.
    pieces: BTreeMap<i64, Amount>,
    /// What calls that run now will cost.
    held: Amount,
}

/// What a call that runs holds of its limits. Dropped, it gives that back.
#[derive(Default)]
pub(crate) struct Held {
    spent: Option<Arc<Mutex<HashMap<LimitKey, Account>>>>,
    keys: Vec<LimitKey>,
    price: Amount,
}

impl Costs {
    pub(crate) fn new(rules: &[LimitRule]) -> Self {
        let mut known: Vec<Rule> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.problem().is_none()) {
            let Some(limit) = rule.cost.clone() else { continue };
            if !known.iter().any(|other| other.rule == *rule) {
                known.push(Rule { id: id(rule), limit, rule: rule.clone() });
            }
        }
        Self { rules: known, spent: Arc::default(), known: OnceCell::new() }
    }

    /// Whether anything is limited.
    pub(crate) fn is_limited(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Holds the price of a call that is about to start, or refuses it.
    pub(crate) async fn hold(
        &self,
        ledger: &dyn Ledger,
        now: Timestamp,
        price: &Price,
        tool: &ToolName,
        caller: &Caller,
    ) -> Result<Held, ToolError> {
        self.learn(ledger, now).await.map_err(unreadable)?;
        let mut spent = lock(&self.spent);
        let rules: Vec<_> = self.matching(tool, &price.unit).collect();
        let mut keys = Vec::with_capacity(rules.len());
        for rule in rules {
            let key = key_of(&rule.id, &rule.rule, tool, caller);
            if !spent.contains_key(&key) && !make_room(&mut spent, &self.rules, now) {
                return Err(too_many_keys(rule));
            }
            let account = spent.entry(key).or_default();
            rule.check(account, price, now)?;
            keys.push(key);
        }
        for key in &keys {
            if let Some(account) = spent.get_mut(key) {
                account.held = account.held.plus(price.per_call);
            }
        }
        drop(spent);
        Ok(Held { spent: Some(Arc::clone(&self.spent)), keys, price: price.per_call })
    }

    /// Counts what a call cost.
    pub(crate) fn count(&self, now: Timestamp, cost: &Cost, tool: &ToolName, caller: &Caller) {
        let mut spent = lock(&self.spent);
        for rule in self.matching(tool, &cost.unit) {
            let key = key_of(&rule.id, &rule.rule, tool, caller);
            rule.add(spent.entry(key).or_default(), now, Amount::from_micros(cost.micros));
        }
    }

    fn matching<'c>(
        &'c self,
        tool: &'c ToolName,
        unit: &'c helve_core::cost::Unit,
    ) -> impl Iterator<Item = &'c Rule> {
        self.rules.iter().filter(move |rule| rule.rule.matches(tool) && rule.limit.unit == *unit)
    }

    /// Counts what the journal has, once.
    async fn learn(&self, ledger: &dyn Ledger, now: Timestamp) -> Result<(), JournalError> {
        let learn = || async {
            let all: Vec<Spending> = ledger.spending(self.since(now)).await?;
            for Spending { at, tool, principal, session, cost } in all {
                let Ok(tool) = ToolName::new(&tool) else { continue };
                let mut caller = Caller::anonymous();
                (caller.principal, caller.session) = (principal, session);
                self.count(at, &cost, &tool, &caller);
            }
            Ok(())
        };
        self.known.get_or_try_init(learn).await.copied()
    }

    /// How far back a rule looks.
    fn since(&self, now: Timestamp) -> Timestamp {
        let longest = self.rules.iter().map(|rule| rule.limit.period).collect::<Option<Vec<_>>>();
        let longest = longest.and_then(|periods| periods.into_iter().max());
        longest.and_then(|period| now.checked_sub(period).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl Rule {
    /// The piece of time that a moment belongs to.
    fn piece(&self, at: Timestamp) -> i64 {
        let Some(period) = self.limit.period else { return 0 };
        let piece_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX) / PIECES;
        let piece_ms = piece_ms.max(1_000);
        at.as_millisecond().div_euclid(piece_ms) * piece_ms
    }

    fn add(&self, account: &mut Account, at: Timestamp, amount: Amount) {
        let sum = account.pieces.entry(self.piece(at)).or_default();
        *sum = sum.plus(amount);
    }

    /// Forgets what is over. What the last piece of a window holds counts to its end.
    fn forget(&self, account: &mut Account, now: Timestamp) {
        let Some(begin) = self.limit.period.and_then(|period| now.checked_sub(period).ok()) else { return };
        let first = self.piece(begin);
        account.pieces.retain(|piece, _| *piece >= first);
    }

    fn check(&self, account: &mut Account, price: &Price, now: Timestamp) -> Result<(), ToolError> {
        self.forget(account, now);
        let spent = account.pieces.values().fold(Amount::ZERO, |sum, piece| sum.plus(*piece));
        let with_held = spent.plus(account.held);
        // What is only reported later needs something left.
        let needed = price.per_call.max(Amount::from_micros(1));
        if with_held.plus(needed) <= self.limit.amount {
            return Ok(());
        }
        let message = format!(
            "calls to `{}` may cost {}{}, and {} of it {} spent",
            self.rule.tool,
            self.limit,
            each(&self.rule),
            with_held,
            if account.held == Amount::ZERO { "is" } else { "is held or" },
        );
        let error = ToolError::new(ErrorCode::RateLimit, message);
        Err(match self.wait(account, now) {
            Some(wait) => error.retry_after(whole_ms(wait)).suggest(format!(
                "something may be spent again in {}; tell the user, who can raise `cost` in `[[limits.calls]]`",
                shown(wait)
            )),
            None => error
                .retryable(false)
                .suggest("tell the user, who can raise `cost` in `[[limits.calls]]`"),
        })
    }

    /// How long until the oldest piece is out of the window.
    fn wait(&self, account: &Account, now: Timestamp) -> Option<Duration> {
        let period = self.limit.period?;
        let oldest = Timestamp::from_millisecond(*account.pieces.keys().next()?).ok()?;
        let piece = (period / u32::try_from(PIECES).ok()?).max(Duration::from_secs(1));
        let over = oldest.checked_add(period).ok()?.checked_add(piece).ok()?;
        Duration::try_from(over.duration_since(now)).ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(spent) = &self.spent else { return };
        let mut spent = lock(spent);
        for key in &self.keys {
            if let Some(account) = spent.get_mut(key) {
                account.held = Amount::from_micros(account.held.micros().saturating_sub(self.price.micros()));
            }
        }
    }
}

/// Forgets accounts that are as good as new, where there are too many. Whether there is room then.
fn make_room(spent: &mut HashMap<LimitKey, Account>, rules: &[Rule], now: Timestamp) -> bool {
    if spent.len() < KEYS_MAX {
        return true;
    }
    // Which rule an account is of is not kept; by the longest window nothing is forgotten too early.
    let longest = rules.iter().max_by_key(|rule| rule.limit.period.unwrap_or(Duration::MAX));
    spent.retain(|_, account| {
        longest.iter().for_each(|rule| rule.forget(account, now));
        account.held != Amount::ZERO || !account.pieces.is_empty()
    });
    spent.len() < KEYS_MAX
}

fn lock(spent: &Mutex<HashMap<LimitKey, Account>>) -> MutexGuard<'_, HashMap<LimitKey, Account>> {
    spent.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_many_keys(rule: &Rule) -> ToolError {
    let message = format!(
        "the cost of calls to `{}` is limited{}, and no more can be counted",
        rule.rule.tool,
        each(&rule.rule)
    );
    ToolError::new(ErrorCode::RateLimit, message).retry_after(Duration::from_secs(5))
}

/// A limit that nobody can check is not passed.
fn unreadable(error: JournalError) -> ToolError {
    ToolError::new(
        ErrorCode::JournalUnavailable,
        "what was spent so far cannot be read, so the call does not run",
    )
    .with_source(error)
}
