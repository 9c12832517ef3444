//! Hooks: which of them see an event, which match, and what their answers come to together.
//!
//! [`HookSet`] is the hooks as registered, in order. A runtime holds it in [`Hooks`], where it can be
//! replaced while calls run. [`Runtime::fire`](crate::Runtime::fire) tells of an event; the pipeline
//! tells of calls by itself. All hooks that match are told at once, and [`Fired`] is what they say
//! together: it depends on the order in which they were registered, never on who was faster.

mod call;
mod combine;
mod elicitation;
mod matcher;
mod names;
mod raised;
mod run;
mod slots;
mod tool;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::hook::{Hook, HookEvent, HookInput, OnFailure};
use helve_core::permission::Lasting;
use helve_core::{BoxFuture, Caller, PrincipalKind, Tool};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::live::Live;
pub(crate) use call::OfCall;
pub(crate) use combine::combine;
pub use combine::{Answered, Attributed, Fired};
pub(crate) use elicitation::hooked;
pub use matcher::{Matcher, MatcherError};
pub(crate) use names::{Names, Spoken};
pub(crate) use raised::{Behalf, limits as raise_limits};
pub use raised::{RAISE, raise_definition};
pub(crate) use run::{HookRunner, Matched, run_all};
pub use tool::ToolHook;

/// Hooks that run in the background at a time; further ones are not started.
const BACKGROUND_MAX: u32 = 64;
/// The same for events from outside.
const RAISED_BACKGROUND_MAX: u32 = 16;
/// Most that the end of a session waits for its hooks, whatever they ask for.
const SESSION_END_MAX: Duration = Duration::from_secs(60);
/// Longest part of a hook's label that is shown.
const LABEL_CHARS_MAX: usize = 80;

/// One hook, and the events and tools that it sees.
#[derive(Clone)]
#[non_exhaustive]
pub struct HookEntry {
    /// The event that calls the hook.
    pub event: HookEvent,
    /// Only where this matches.
    pub matcher: Matcher,
    /// The code that runs then.
    pub hook: Arc<dyn Hook>,
    /// How long it may take; absent: as long as hooks of this event may.
    pub timeout: Option<Duration>,
    /// What its failure means; absent: what it means for this event.
    pub on_failure: Option<OnFailure>,
    /// Whether nobody waits for it: then it has no say.
    pub in_background: bool,
    /// How far the changes of permissions reach that it answers with.
    pub lasting: Lasting,
    /// Where it is configured, as in `helve.toml:12`. Named where the hook is.
    pub place: Option<Arc<str>>,
}

impl HookEntry {
    /// A hook with the limits of its event.
    pub fn new(event: HookEvent, matcher: Matcher, hook: impl Hook) -> Self {
        Self::shared(event, matcher, Arc::new(hook))
    }

    /// The same for one that others have as well.
    pub fn shared(event: HookEvent, matcher: Matcher, hook: Arc<dyn Hook>) -> Self {
        let lasting = Lasting::AsSaid;
        Self {
            event,
            matcher,
            hook,
            timeout: None,
            on_failure: None,
            in_background: false,
            lasting,
            place: None,
        }
    }

    /// Says where it is configured.
    pub fn at(mut self, place: impl Into<Arc<str>>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets how long it may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets what its failure means.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Lets it run while everything goes on: it can neither block nor say anything.
    pub fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// Lets the changes of permissions that it answers with reach no further than the session: for a hook
    /// that is not the operator's own.
    pub fn for_session(mut self) -> Self {
        self.lasting = Lasting::Session;
        self
    }

    fn time(&self) -> Duration {
        let time = self.timeout.unwrap_or_else(|| self.event.timeout());
        // Nobody waits long for the end of a session.
        if self.event == HookEvent::SessionEnd { time.min(SESSION_END_MAX) } else { time }
    }
}

impl fmt::Debug for HookEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, matcher, hook, .. } = self;
        write!(f, "{event} {matcher} → {}", hook.label())
    }
}

/// Hooks in the order in which they were registered.
///
/// ```
/// use helve::hook::{HookContext, HookEvent, HookInput, HookOutput};
/// use helve::hooks::{HookSet, Matcher};
/// use std::sync::Arc;
/// let set = HookSet::default().on(
///     HookEvent::PreToolUse,
///     Matcher::new("mail/.*")?,
///     |input: Arc<HookInput>, _: HookContext| async move {
///         Ok(match input.tool_input()["to"].as_str() {
///             Some(to) if to.ends_with("@example.com") => HookOutput::none(),
///             _ => HookOutput::deny("mail goes to example.com only"),
///         })
///     },
/// );
/// # Ok::<(), helve::hooks::MatcherError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct HookSet {
    entries: Vec<HookEntry>,
    folder: Arc<str>,
}

impl HookSet {
    /// Adds a hook.
    pub fn on(self, event: HookEvent, matcher: Matcher, hook: impl Hook) -> Self {
        self.with(HookEntry::new(event, matcher, hook))
    }

    /// Adds a hook with all that there is to say about it.
    pub fn with(mut self, entry: HookEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Sets the folder that hooks are told is worked in, where an event does not say.
    pub fn in_folder(mut self, folder: impl Into<Arc<str>>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The hooks, in order.
    pub fn entries(&self) -> &[HookEntry] {
        &self.entries
    }
}

/// The hooks of a runtime. Cheap to clone; clones are the same hooks.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

struct Inner {
    snapshot: Live<Snapshot>,
    background: Arc<Semaphore>,
    raised_background: Arc<Semaphore>,
    raise_tool: OnceLock<Tool>,
    slots: slots::HookSlots,
    /// Ends what still runs in the background.
    ending: CancellationToken,
    caller: Arc<Caller>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}

/// What is registered, ready to be looked up.
struct Snapshot {
    set: HookSet,
    /// A handful at most, so that looking through them is faster than hashing.
    by_event: Vec<(HookEvent, Arc<[Listed]>)>,
}

/// A hook with its name in records.
pub(crate) struct Listed {
    pub(crate) entry: HookEntry,
    pub(crate) by: Arc<str>,
}

impl Hooks {
    pub(crate) fn new(set: HookSet) -> Self {
        Self(Arc::new(Inner {
            snapshot: Live::new(Snapshot::new(set), |snapshot| snapshot.by_event.is_empty()),
            background: Arc::new(Semaphore::new(BACKGROUND_MAX as usize)),
            raised_background: Arc::new(Semaphore::new(RAISED_BACKGROUND_MAX as usize)),
            raise_tool: OnceLock::new(),
            slots: slots::HookSlots::default(),
            ending: CancellationToken::new(),
            caller: Arc::new(Caller::principal("hook").kind(PrincipalKind::Service)),
        }))
    }

    /// Replaces all hooks. Events in progress go on with the hooks that were there.
    pub fn replace(&self, set: HookSet) {
        self.0.snapshot.store(Snapshot::new(set));
    }

    /// What is registered now.
    pub fn set(&self) -> HookSet {
        self.0.snapshot.load().set.clone()
    }

    /// Waits until hooks that run in the background have ended, at most this long.
    pub async fn settle(&self, at_most: Duration) {
        // All room is free once nothing runs; whether it came to that in time makes no difference.
        let own = self.0.background.acquire_many(BACKGROUND_MAX);
        let raised = self.0.raised_background.acquire_many(RAISED_BACKGROUND_MAX);
        let _ = tokio::time::timeout(at_most, async { tokio::join!(own, raised) }).await;
    }

    /// The same before the runtime ends: those that have not ended by then are stopped, and none starts
    /// any more.
    pub async fn stop(&self, at_most: Duration) {
        self.settle(at_most).await;
        self.0.ending.cancel();
    }

    /// Runs the rest of a hook that has answered. False where there is no room.
    pub(crate) fn go_on(&self, room: &Arc<Semaphore>, rest: BoxFuture<'static, ()>) -> bool {
        let Ok(room) = Arc::clone(room).try_acquire_owned() else { return false };
        let ending = self.0.ending.clone();
        tokio::spawn(async move {
            ending.run_until_cancelled_owned(rest).await;
            drop(room);
        });
        true
    }

    /// The hooks of an event, where there are some.
    pub(crate) fn of(&self, event: &HookEvent) -> Option<Arc<[Listed]>> {
        let snapshot = self.0.snapshot.load_if_used()?;
        snapshot.by_event.iter().find(|(known, _)| known == event).map(|(_, listed)| Arc::clone(listed))
    }

    /// The caller as which hooks call tools. What they call fires no hooks.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.0.caller
    }

    /// Whether a call is a hook's own, or a part of one. Known by identity: anybody could take its name.
    pub(crate) fn is_own(&self, caller: &Arc<Caller>) -> bool {
        Arc::ptr_eq(caller, &self.0.caller)
    }

    pub(crate) fn background(&self) -> &Arc<Semaphore> {
        &self.0.background
    }

    pub(crate) fn raised_background(&self) -> &Arc<Semaphore> {
        &self.0.raised_background
    }

    fn slots(&self) -> &slots::HookSlots {
        &self.0.slots
    }

    /// Where the tool is kept that tells of events from outside.
    fn raise_tool(&self) -> &OnceLock<Tool> {
        &self.0.raise_tool
    }

    /// Cancelled when nothing runs in the background any more.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.0.ending.child_token()
    }

    pub(crate) fn folder(&self) -> Arc<str> {
        Arc::clone(&self.0.snapshot.load().set.folder)
    }

    /// The hooks that an input is for.
    pub(crate) fn matching<'l>(listed: &'l [Listed], input: &Arc<HookInput>) -> Vec<Matched<'l>> {
        let subject = input.subject();
        let matches = |one: &&Listed| subject.is_none_or(|subject| one.entry.matcher.matches(subject));
        let matched = |listed| Matched { listed, input: Arc::clone(input), spoken: Spoken::Own };
        listed.iter().filter(matches).map(matched).collect()
    }
}

impl Snapshot {
    fn new(set: HookSet) -> Self {
        let mut by_event: Vec<(HookEvent, Vec<Listed>)> = Vec::new();
        for entry in &set.entries {
            let at = by_event.iter().position(|(event, _)| *event == entry.event);
            let at = at.unwrap_or_else(|| {
                by_event.push((entry.event.clone(), Vec::new()));
                by_event.len() - 1
            });
            let listed = &mut by_event[at].1;
            let label: String = entry.hook.label().chars().take(LABEL_CHARS_MAX).collect();
            let place = entry.place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
            let by = format!("hook {} ({label}{place})", listed.len() + 1).into();
            listed.push(Listed { entry: entry.clone(), by });
        }
        let by_event = by_event.into_iter().map(|(event, listed)| (event, listed.into())).collect();
        Self { set, by_event }
    }
}
