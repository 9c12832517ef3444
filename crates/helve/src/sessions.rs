//! Sessions while they are in use: what they have touched, and what was allowed for them.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use helve_core::ports::{Clock, JournalError, Ledger};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_core::{Caller, Channel, Definition, Facet, Label, LabelSet};
use jiff::Timestamp;

use crate::volatile::lock;

/// Most sessions that are kept at hand.
const KNOWN_MAX: usize = 10_000;

/// What to do when a stranger's words have met what is not theirs to know, and a call would send
/// something out or change something.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum WhenMet {
    /// Labels are not kept.
    #[default]
    Off,
    /// Ask a person.
    Ask,
    /// Deny the call.
    Deny,
}

/// What a tool counts as whose facets nobody has written.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Unlabelled {
    /// As one that reads strangers' words and private data, sends out and changes things.
    #[default]
    All,
    /// As what is assumed of it: a tool that reaches the open world brings strangers' words and sends.
    Assumed,
    /// As none of that: only tools with facets are watched.
    Ignored,
}

/// How sessions are labelled.
#[derive(Debug, Clone)]
pub struct LabelSettings {
    /// What to do when untrusted meets private.
    pub when_met: WhenMet,
    /// What a tool counts as whose facets nobody has written.
    pub unlabelled: Unlabelled,
    /// How long labels of a principal that names no session hold after the last call that brought any.
    pub principal_ttl: Duration,
}

impl Default for LabelSettings {
    fn default() -> Self {
        Self {
            when_met: WhenMet::Off,
            unlabelled: Unlabelled::All,
            principal_ttl: Duration::from_secs(3_600),
        }
    }
}

impl LabelSettings {
    /// Whether labels are kept for a caller. A person who types each call at a terminal is not a
    /// model that reads one call's result before it makes the next.
    pub(crate) fn holds_for(&self, caller: &Caller) -> bool {
        self.when_met != WhenMet::Off && (caller.session.is_some() || caller.channel != Channel::Cli)
    }

    /// Whether a tool counts as having a facet.
    pub(crate) fn has_facet(&self, definition: &Definition, facet: Facet) -> bool {
        match (&definition.facets, self.unlabelled) {
            (None, Unlabelled::Ignored) => false,
            (None, Unlabelled::Assumed) => definition.assumed.facets.contains(&facet),
            (Some(_), _) | (None, Unlabelled::All) => definition.has_facet(facet),
        }
    }

    /// What a call of a tool brings into its session.
    pub(crate) fn brought_by(&self, definition: &Definition) -> LabelSet {
        let facets = [(Facet::ReadsUntrusted, Label::Untrusted), (Facet::ReadsPrivate, Label::Private)];
        facets
            .into_iter()
            .filter(|(facet, _)| self.has_facet(definition, *facet))
            .map(|(_, label)| label)
            .collect()
    }

    /// Before when what a session was is forgotten. One with an id stays what it is.
    fn forget_before(&self, session: Option<&str>, now: impl Fn() -> Timestamp) -> Timestamp {
        match session {
            Some(_) => Timestamp::MIN,
            None => now().saturating_sub(self.principal_ttl).unwrap_or(Timestamp::MIN),
        }
    }
}

/// How long what is known of a session is not looked up again. Another process may have ended it.
const KNOWN_FOR: Duration = Duration::from_millis(500);

/// What callers' sessions have touched, and what was allowed for them.
pub(crate) struct Sessions {
    known: KnownSessions,
    labels: LabelSettings,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

/// Sessions that were looked up. Every call asks, so they are found without making a key.
#[derive(Default)]
struct KnownSessions {
    known: Mutex<HashTable<CachedSession>>,
    hasher: DefaultHashBuilder,
}

struct CachedSession {
    key: SessionKey,
    at: Instant,
    state: Arc<SessionState>,
}

/// A principal and a session.
type Whose<'a> = (Option<&'a str>, Option<&'a str>);

fn whose(key: &SessionKey) -> Whose<'_> {
    (key.principal.as_deref(), key.session.as_deref())
}

impl KnownSessions {
    fn keep(&self, key: SessionKey, state: Arc<SessionState>) {
        let hash = |known: &CachedSession| self.hasher.hash_one(whose(&known.key));
        let new = CachedSession { key, at: Instant::now(), state };
        let mut known = lock(&self.known);
        let is_full = known.len() >= KNOWN_MAX;
        match known.entry(hash(&new), |one| one.key == new.key, hash) {
            Entry::Occupied(mut former) => *former.get_mut() = new,
            // All at once: whichever is needed again is looked up again.
            Entry::Vacant(_) if is_full => {
                known.clear();
                known.insert_unique(hash(&new), new, hash);
            }
            Entry::Vacant(place) => drop(place.insert(new)),
        }
    }

    fn find(&self, caller: &Caller, now: Instant) -> Option<Arc<SessionState>> {
        let asked: Whose<'_> = (caller.principal.as_deref(), caller.session.as_deref());
        let known = lock(&self.known);
        let found = known.find(self.hasher.hash_one(asked), |one| whose(&one.key) == asked)?;
        (now.saturating_duration_since(found.at) < KNOWN_FOR).then(|| Arc::clone(&found.state))
    }
}

/// How up to date an answer must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// As this process knew it a moment before this one.
    Known(Instant),
    /// As the ledger has it: another process may have changed it.
    Ledger,
}

impl Fresh {
    /// As this process knew it a moment ago.
    pub(crate) fn known() -> Self {
        Self::Known(Instant::now())
    }
}

impl Sessions {
    pub(crate) fn new(labels: LabelSettings, ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self { known: KnownSessions::default(), labels, ledger, clock }
    }

    /// The same, where labels are kept for a caller.
    pub(crate) fn where_labelled(&self, caller: &Caller) -> Option<&Self> {
        self.labels.holds_for(caller).then_some(self)
    }

    /// How sessions are labelled.
    pub(crate) fn labels(&self) -> &LabelSettings {
        &self.labels
    }

    /// What time it is, for a label.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What is remembered of a caller's session.
    pub(crate) async fn of(
        &self,
        caller: &Caller,
        fresh: Fresh,
    ) -> Result<Option<Arc<SessionState>>, JournalError> {
        if caller.session.is_none() && !self.labels.holds_for(caller) {
            return Ok(None);
        }
        let known = match fresh {
            Fresh::Known(now) => self.known.find(caller, now),
            Fresh::Ledger => None,
        };
        let state = match known {
            Some(state) => state,
            None => {
                let key = SessionKey::of(caller);
                let found = self.ledger.session(key.clone()).await?;
                let state = Arc::new(found.unwrap_or_else(|| SessionState::new(self.clock.now())));
                self.known.keep(key, Arc::clone(&state));
                state
            }
        };
        let oldest = self.labels.forget_before(caller.session.as_deref(), || self.clock.now());
        Ok((state.changed_at >= oldest).then_some(state))
    }

    /// Whether what a caller has touched is to be told again, since it holds only for a time: counted from
    /// when it was last touched, to a sixtieth of that time.
    pub(crate) fn fades(&self, caller: &Caller, state: &SessionState) -> bool {
        let often = self.labels.principal_ttl / 60;
        let is_recent = |now: Timestamp| now.saturating_sub(often).is_ok_and(|then| state.changed_at >= then);
        caller.session.is_none() && !is_recent(self.clock.now())
    }

    /// Changes a caller's session, and waits until that is on disk.
    pub(crate) async fn change(
        &self,
        caller: &Caller,
        change: SessionChange,
    ) -> Result<Arc<SessionState>, JournalError> {
        let key = SessionKey::of(caller);
        let now = self.clock.now();
        let oldest = self.labels.forget_before(key.session.as_deref(), || now);
        let state = Arc::new(self.ledger.change_session(key.clone(), Box::new(change), now, oldest).await?);
        self.known.keep(key, Arc::clone(&state));
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_is_new_makes_room() {
        let (known, state) = (KnownSessions::default(), Arc::new(SessionState::new(Timestamp::UNIX_EPOCH)));
        let caller = |number: usize| Caller::agent("bot").session(format!("s-{number}"));
        let keep = |number| known.keep(SessionKey::of(&caller(number)), Arc::clone(&state));
        let find = |number| known.find(&caller(number), Instant::now());
        (0..KNOWN_MAX).for_each(keep);
        keep(7);
        assert!(find(KNOWN_MAX - 1).is_some(), "what is known is kept anew");
        keep(KNOWN_MAX);
        assert!(find(KNOWN_MAX).is_some() && find(7).is_none());
    }
}
