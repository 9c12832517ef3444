//! What the tool changes beyond its result: applied in order, taken back in reverse if one fails.
//!
//! Each step is in the journal before the next one begins, so that a crash in the middle is
//! finished after the restart.

use std::sync::Arc;
use std::time::Duration;

use helve_core::effect::{Change, Effect, MemoryOperation, StateOperation};
use helve_core::event::EventKind;
use helve_core::expression::{ExpressionError, Scope};
use helve_core::memory::{MemoryChange, MemoryError, MemoryPlace, MemoryScope, Operation, negated};
use helve_core::ports::{Clock, EffectId, Ledger, Memory};
use helve_core::record::Entry;
use helve_core::run::{EffectReport, EffectState, StepKind};
use helve_core::template::Template;
use helve_core::{Call, Context, ContextParts, ErrorCode, Status, Tool, ToolError};
use jiff::SignedDuration;
use serde_json::{Number, Value};

use super::record::{
    AfterWork, Subject, WorkRecord, error_of_run, is_redacted, note_of_run, set_payload, unavailable,
};
use crate::bus::Bus;
use crate::runs::{ActiveRun, Event, UndoRecord, UndoState, cascade, cascade_path, not_kept, undo_below};
use crate::runtime::Engine;

/// What a call that may have effects did.
pub(super) struct Doing {
    pub(super) tool: Tool,
    pub(super) arguments: Value,
}

/// Whether a call has answered so that effects follow, which the journal has to know first.
pub(super) fn are_due(doing: &Doing, status: &Status, subject: &Subject<'_>) -> bool {
    let is_success = matches!(status, Status::Done(output) if !output.is_failure);
    is_success && subject.run().is_some() && !doing.tool.definition().effects.is_empty()
}

/// Applies the effects of a call that has succeeded. `announced`: whether the journal knows that it has.
pub(super) async fn apply(
    engine: &Arc<Engine>,
    doing: Doing,
    status: Status,
    announced: Result<(), ToolError>,
    record: &mut AfterWork<'_, '_>,
) -> Result<Status, ToolError> {
    let Status::Done(output) = &status else { return Ok(status) };
    if output.is_failure {
        let error = output.value.get("error").unwrap_or(&Value::Null);
        tell_failure(engine.registry.bus(), &doing, error, record);
        return Ok(status);
    }
    let Some(run) = record.subject.run().cloned() else { return Ok(status) };
    let mut undo_record = done(doing, output.value.clone(), record);
    let applied = if undo_record.effects.is_empty() {
        Ok(())
    } else {
        restore(&mut undo_record, record.subject);
        match announced {
            Ok(()) => apply_all(engine, &run, &mut undo_record, record.work).await,
            Err(error) => Err(error),
        }
    };
    record.work.set_effects(reports(&undo_record));
    // Also where an effect failed: what the tool itself did stands, and can be undone.
    record.work.keep_undo_record(undo_record);
    applied.map(|()| status)
}

/// Whether a tool sends notifications of calls that fail.
pub(super) fn tells_failure(tool: &Tool) -> bool {
    tool.definition().effects.iter().any(Effect::after_failure)
}

/// Sends the notifications of a failed call. Nothing else is changed then, and what cannot be told does not hide
/// the failure.
pub(super) fn tell_failure(bus: &Bus, doing: &Doing, error: &Value, record: &mut AfterWork<'_, '_>) {
    let tool = &doing.tool;
    if !tells_failure(tool) {
        return;
    }
    let scope =
        Scope::new().with("arguments", &doing.arguments).with("error", error).with("result", &Value::Null);
    let tell = |effect: &Effect| {
        let Change::Notification { event, payload, .. } = &effect.change else {
            return Ok(EffectState::NotReached);
        };
        if !effect.after_failure() {
            return Ok(EffectState::NotReached);
        }
        if let Some(condition) = &effect.when
            && !condition.holds(&scope)?
        {
            return Ok(EffectState::Skipped);
        }
        let payload = payload.as_ref().map_or_else(|| Ok(error.clone()), |payload| payload.render(&scope))?;
        let (call_id, tool, event) = (record.subject.call_id(), tool.name().clone(), event.clone());
        let told = || EventKind::Notification { call_id, tool, event, payload };
        bus.publish_of(record.subject.caller(), told);
        Ok(EffectState::Applied)
    };
    let report = |effect: &Effect| {
        let state = tell(effect).unwrap_or_else(|error: ExpressionError| {
            tracing::warn!(tool = %tool.name(), %error, "a failure could not be reported");
            EffectState::Failed
        });
        EffectReport { description: effect.description.clone(), state }
    };
    let reports = tool.definition().effects.iter().map(report).collect();
    record.work.set_effects(reports);
}

/// Keeps what a tool did whose answer is not what it promises: the call has failed, and what it did stands.
pub(super) fn keep_undescribed(bus: &Bus, doing: Doing, error: &ToolError, record: &mut AfterWork<'_, '_>) {
    let told = Doing { tool: doing.tool.clone(), arguments: doing.arguments.clone() };
    let mut undo_record = done(doing, Value::Null, record);
    undo_record.withheld = true;
    record.work.set_effects(reports(&undo_record));
    record.work.keep_undo_record(undo_record);
    tell_failure(bus, &told, &shown(error, record), record);
}

/// The tool ran and failed: the notifications for that are sent.
pub(super) fn failed(
    bus: &Bus,
    doing: &Doing,
    checked: &Result<Status, ToolError>,
    record: &mut AfterWork<'_, '_>,
) {
    let error = match checked {
        Err(error) => shown(error, record),
        Ok(Status::Done(output)) => output.value.get("error").cloned().unwrap_or_default(),
        Ok(Status::Failed(_) | Status::Pending(_)) => return,
    };
    tell_failure(bus, doing, &error, record);
}

/// An error for the listeners: without the call's secrets.
fn shown(error: &ToolError, record: &AfterWork<'_, '_>) -> Value {
    serde_json::to_value(record.scrubber.error(error).get()).unwrap_or_default()
}

fn done(doing: Doing, result: Value, record: &AfterWork<'_, '_>) -> UndoRecord {
    UndoRecord {
        call_id: record.subject.call_id(),
        run: record.subject.part().map_or(record.subject.call_id(), |part| part.run),
        path: record.subject.part().map(|part| Arc::clone(&part.path)).unwrap_or_default(),
        caller: Arc::clone(record.subject.caller()),
        effects: vec![EffectState::NotReached; doing.tool.definition().effects.len()],
        notes: Default::default(),
        tool: doing.tool,
        arguments: doing.arguments,
        result,
        withheld: false,
        undone: UndoState::NotTried,
    }
}

async fn apply_all(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    undo_record: &mut UndoRecord,
    work: &mut WorkRecord,
) -> Result<(), ToolError> {
    let tool = undo_record.tool.clone();
    for (index, effect) in tool.definition().effects.iter().enumerate() {
        if !effect.after_success() {
            undo_record.effects[index] = EffectState::Skipped;
            continue;
        }
        let failed = match undo_record.effects[index] {
            EffectState::Applied | EffectState::Skipped => continue,
            // Taking back had begun before the crash; it is finished now.
            EffectState::Failed | EffectState::RolledBack | EffectState::RollbackFailed => {
                ToolError::new(ErrorCode::EffectFailed, "it failed before the run was cut short")
            }
            EffectState::NotReached => match apply_one(engine, run, undo_record, index, effect).await {
                Ok(state) => {
                    undo_record.effects[index] = state;
                    continue;
                }
                Err(error) if run.is_interrupted() => {
                    work.suspend();
                    return Err(error);
                }
                Err(error) => {
                    undo_record.effects[index] = EffectState::Failed;
                    let kind = StepKind::EffectFailed { index: number(index), code: error.code() };
                    note(&*engine.ledger, &*engine.clock, run, undo_record, kind, Some(&error)).await?;
                    error
                }
            },
        };
        roll_back(engine, run, undo_record).await;
        if run.is_interrupted() {
            work.suspend();
        }
        return Err(effect_failed(undo_record, effect, &failed));
    }
    Ok(())
}

/// What had become of the effects before the run was cut short.
fn restore(undo_record: &mut UndoRecord, subject: &Subject<'_>) {
    let Some((_, earlier)) = subject.cut_short() else { return };
    for (index, (kind, value)) in &earlier.effects {
        let state = usize::try_from(*index).ok().and_then(|index| undo_record.effects.get_mut(index));
        let (Some(state), Some(known)) = (state, EffectState::after(kind)) else { continue };
        *state = known;
        undo_record.notes.insert(*index, value.clone());
    }
}

async fn apply_one(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    undo_record: &mut UndoRecord,
    index: usize,
    effect: &Effect,
) -> Result<EffectState, ToolError> {
    let scope = Scope::new().with("arguments", &undo_record.arguments).with("result", &undo_record.result);
    // A condition may ask for it where success and failure are both reported.
    let scope = scope.with("error", &Value::Null);
    if let Some(condition) = &effect.when
        && !condition.holds(&scope).map_err(wrong)?
    {
        note(
            &*engine.ledger,
            &*engine.clock,
            run,
            undo_record,
            StepKind::EffectSkipped { index: number(index) },
            None,
        )
        .await?;
        return Ok(EffectState::Skipped);
    }
    let applied = StepKind::EffectApplied { index: number(index) };
    if let Some(handler) = undo_record.tool.effect_handler(index) {
        let applying = handler.apply(
            undo_record.arguments.clone(),
            undo_record.result.clone(),
            undo_record.context(engine),
        );
        let value = guarded(engine.settings.timeout_default, applying).await?;
        let mut step = undo_record.step(&*engine.clock, applied);
        set_payload(&mut step, note_of_run(&value, &engine.settings.redactor, run));
        undo_record.notes.insert(number(index), value);
        run.commit(&*engine.ledger, Entry::Step(step)).await.map_err(unavailable)?;
        return Ok(EffectState::Applied);
    }
    match &effect.change {
        Change::StateChange { state, change, value, scope: memory } => {
            let place = place(undo_record, *memory, state, &scope)?;
            let make = |scope: &Scope<'_>| state_change(*change, value.as_ref(), scope);
            remember(engine, run, undo_record, index, place, looks_back(value.as_ref()), make).await?;
        }
        Change::Memory { scope: memory, operation, key, value, ttl_ms } => {
            let place = place(undo_record, *memory, key, &scope)?;
            let make = |scope: &Scope<'_>| memory_change(*operation, value.as_ref(), *ttl_ms, scope);
            remember(engine, run, undo_record, index, place, looks_back(value.as_ref()), make).await?;
        }
        Change::Notification { event, payload, on: _ } => {
            let payload = or_result(payload.as_ref(), &scope)?;
            note(&*engine.ledger, &*engine.clock, run, undo_record, applied, None).await?;
            let (call_id, tool) = (undo_record.call_id, undo_record.tool.name().clone());
            let event = event.clone();
            let told = || EventKind::Notification { call_id, tool, event, payload };
            engine.registry.bus().publish_of(&undo_record.caller, told);
        }
        Change::Cascade { tool, arguments } => {
            let call = Call::new(tool.clone(), arguments.render(&scope).map_err(wrong)?);
            let path = cascade_path(&undo_record.path, index);
            cascade(engine, run, undo_record, path, call).await?;
            note(&*engine.ledger, &*engine.clock, run, undo_record, applied, None).await?;
        }
    }
    Ok(EffectState::Applied)
}

fn place(
    undo_record: &UndoRecord,
    memory: MemoryScope,
    key: &Template,
    scope: &Scope<'_>,
) -> Result<MemoryPlace, ToolError> {
    match key.render(scope).map_err(wrong)? {
        Value::String(key) => Ok(MemoryPlace::of(&undo_record.caller, memory, key)),
        _ => Err(ToolError::new(ErrorCode::EffectFailed, "a key in memory must be text")),
    }
}

/// Whether a change looks at the value that was there before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LooksBack {
    Yes,
    No,
}

fn looks_back(value: Option<&Template>) -> LooksBack {
    let mut references = value.into_iter().flat_map(Template::references);
    if references.any(|reference| reference.name == "former") { LooksBack::Yes } else { LooksBack::No }
}

/// How often a change is made anew because another call changed the value meanwhile.
const CONFLICTS_MAX: usize = 256;

/// Makes the change that `make` says, over `arguments`, `result` and, where it looks back, `former`.
async fn remember(
    engine: &Arc<Engine>,
    run: &ActiveRun,
    undo_record: &UndoRecord,
    index: usize,
    place: MemoryPlace,
    looks_back: LooksBack,
    make: impl Fn(&Scope<'_>) -> Result<MemoryChange, ToolError>,
) -> Result<(), ToolError> {
    run.settle(&*engine.ledger).await.map_err(unavailable)?;
    let mut conflicts = 0;
    loop {
        let scope =
            Scope::new().with("arguments", &undo_record.arguments).with("result", &undo_record.result);
        let change = match looks_back {
            LooksBack::No => make(&scope)?,
            LooksBack::Yes => {
                let before = engine.memory.read(place.clone()).await;
                let before = before.map_err(|error| not_remembered(run, error))?;
                let (former, version) = before.map_or((Value::Null, 0), |one| (one.value, one.version));
                // What was made from a value holds only while it is the value.
                make(&scope.with("former", &former))?.if_version(version)
            }
        };
        let effect = EffectId { call_id: undo_record.call_id, index: number(index) };
        let step = undo_record.step(&*engine.clock, StepKind::EffectApplied { index: number(index) });
        match engine.memory.apply(effect, place.clone(), change, step).await {
            Err(MemoryError::Conflict { .. }) if conflicts < CONFLICTS_MAX => conflicts += 1,
            applied => return applied.map_err(|error| not_remembered(run, error)),
        }
    }
}

fn state_change(
    operation: StateOperation,
    value: Option<&Template>,
    scope: &Scope<'_>,
) -> Result<MemoryChange, ToolError> {
    let by = |sign: i64| match value {
        None => Ok(Number::from(sign)),
        Some(value) => match value.render(scope).map_err(wrong)? {
            Value::Number(number) if sign < 0 => {
                negated(&number).map_err(|error| ToolError::new(ErrorCode::EffectFailed, error.to_string()))
            }
            Value::Number(number) => Ok(number),
            _ => Err(ToolError::new(ErrorCode::EffectFailed, "only a number can be counted up or down by")),
        },
    };
    Ok(MemoryChange::new(match operation {
        StateOperation::Set => Operation::Write(or_result(value, scope)?),
        StateOperation::Clear => Operation::Delete,
        StateOperation::Increment => Operation::Add(by(1)?),
        StateOperation::Decrement => Operation::Add(by(-1)?),
    }))
}

fn memory_change(
    operation: MemoryOperation,
    value: Option<&Template>,
    ttl_ms: Option<u64>,
    scope: &Scope<'_>,
) -> Result<MemoryChange, ToolError> {
    let mut change = MemoryChange::new(match operation {
        MemoryOperation::Write => Operation::Write(or_result(value, scope)?),
        MemoryOperation::Update => Operation::Update(or_result(value, scope)?),
        MemoryOperation::Delete => Operation::Delete,
    });
    let time = ttl_ms.map(|ms| SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)));
    change.time_to_live = time;
    Ok(change)
}

fn or_result(value: Option<&Template>, scope: &Scope<'_>) -> Result<Value, ToolError> {
    match value {
        Some(value) => value.render(scope).map_err(wrong),
        None => Ok(scope.get("result").cloned().unwrap_or_default()),
    }
}

/// Takes back the effects of a call that were applied and can be, newest first. One that cannot be
/// taken back does not keep the others from it.
pub(crate) async fn roll_back(engine: &Arc<Engine>, run: &Arc<ActiveRun>, undo_record: &mut UndoRecord) {
    let tool = undo_record.tool.clone();
    for (index, effect) in tool.definition().effects.iter().enumerate().rev() {
        if undo_record.effects[index] != EffectState::Applied || !effect.reversible {
            continue;
        }
        undo_record.effects[index] = match roll_back_one(engine, run, undo_record, index, effect).await {
            Ok(()) => EffectState::RolledBack,
            // Not given up: it is taken back when the run goes on.
            Err(_) if run.is_interrupted() => return,
            Err(error) => {
                tracing::warn!(call_id = %undo_record.call_id, index, %error, "an effect could not be taken back");
                let kind = StepKind::RollbackFailed { index: number(index) };
                if let Err(error) =
                    note(&*engine.ledger, &*engine.clock, run, undo_record, kind, Some(&error)).await
                {
                    tracing::error!(call_id = %undo_record.call_id, %error, "that could not be recorded either");
                }
                EffectState::RollbackFailed
            }
        };
    }
}

async fn roll_back_one(
    engine: &Arc<Engine>,
    run: &Arc<ActiveRun>,
    undo_record: &UndoRecord,
    index: usize,
    effect: &Effect,
) -> Result<(), ToolError> {
    let taken_back = StepKind::EffectRolledBack { index: number(index) };
    if let Some(handler) = undo_record.tool.effect_handler(index) {
        let applied = undo_record.notes.get(&number(index)).cloned().unwrap_or_default();
        // Code that is handed something else than it said might take back something else.
        if is_redacted(&applied) {
            return Err(not_kept());
        }
        guarded(engine.settings.timeout_default, handler.roll_back(applied, undo_record.context(engine)))
            .await?;
        return note(&*engine.ledger, &*engine.clock, run, undo_record, taken_back, None).await;
    }
    match &effect.change {
        Change::StateChange { .. } | Change::Memory { .. } => {
            run.settle(&*engine.ledger).await.map_err(unavailable)?;
            let effect = EffectId { call_id: undo_record.call_id, index: number(index) };
            let undone = engine.memory.undo(effect, undo_record.step(&*engine.clock, taken_back)).await;
            undone.map_err(|error| not_remembered(run, error))
        }
        Change::Notification { .. } => {
            Err(ToolError::new(ErrorCode::EffectFailed, "what was told cannot be taken back"))
        }
        Change::Cascade { tool, .. } => {
            if !undo_below(engine, run, &cascade_path(&undo_record.path, index)).await {
                let message = format!("`{tool}`, which it had called, could not be undone");
                return Err(ToolError::new(ErrorCode::EffectFailed, message));
            }
            note(&*engine.ledger, &*engine.clock, run, undo_record, taken_back, None).await
        }
    }
}

/// Records a step, and waits for it.
async fn note(
    ledger: &dyn Ledger,
    clock: &dyn Clock,
    run: &ActiveRun,
    undo_record: &UndoRecord,
    kind: StepKind,
    error: Option<&ToolError>,
) -> Result<(), ToolError> {
    let mut step = undo_record.step(clock, kind);
    set_payload(&mut step, error.and_then(|error| error_of_run(error, run).to_json()));
    run.commit(ledger, Entry::Step(step)).await.map_err(unavailable)
}

/// Runs code of a tool's own: a panic fails it alone, and it has its time.
pub(crate) async fn guarded<T: Send + 'static>(
    time: Duration,
    code: helve_core::BoxFuture<'static, Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let mut task = AbortOnDrop(tokio::spawn(code));
    match tokio::time::timeout(time, &mut task.0).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(ToolError::failed("the tool's own code crashed").with_source(panic)),
        Err(_) => {
            let message = format!("the tool's own code did not finish within {} ms", time.as_millis());
            Err(ToolError::new(ErrorCode::Timeout, message))
        }
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn reports(undo_record: &UndoRecord) -> Vec<EffectReport> {
    let effects = undo_record.tool.definition().effects.iter().zip(&undo_record.effects);
    effects
        .map(|(effect, state)| EffectReport { description: effect.description.clone(), state: *state })
        .collect()
}

/// The tool did run: the model must know what stands before it does anything else.
fn effect_failed(undo_record: &UndoRecord, effect: &Effect, error: &ToolError) -> ToolError {
    let in_state = |states: &[EffectState]| {
        let effects = undo_record.tool.definition().effects.iter().zip(&undo_record.effects);
        let named = effects.filter(|(_, state)| states.contains(state));
        let named: Vec<_> = named.map(|(effect, _)| format!("“{}”", effect.description)).collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    };
    let message = format!(
        "`{}` ran and stands, but its effect “{}” failed: {error}; effects that stand: {}; taken back: {}",
        undo_record.tool.name(),
        effect.description,
        in_state(&[EffectState::Applied, EffectState::RollbackFailed]),
        in_state(&[EffectState::RolledBack]),
    );
    ToolError::new(ErrorCode::EffectFailed, message)
        .suggest("do not call it again for the same purpose: what the tool itself did stands")
        .with_source(error.clone())
}

fn wrong(error: ExpressionError) -> ToolError {
    ToolError::new(ErrorCode::EffectFailed, error.to_string())
}

fn not_remembered(run: &ActiveRun, error: MemoryError) -> ToolError {
    match error {
        MemoryError::Unavailable(error) => {
            run.feed(Event::Refused(error.clone()));
            unavailable(error)
        }
        error => ToolError::new(ErrorCode::EffectFailed, error.to_string()),
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl UndoRecord {
    /// What the tool's own code gets to know.
    pub(crate) fn context(&self, engine: &Arc<Engine>) -> Context {
        let deadline = std::time::Instant::now() + engine.settings.timeout_default;
        let (tool, caller) = (self.tool.name().clone(), Arc::clone(&self.caller));
        let known = ContextParts::new(self.call_id, tool, caller, deadline);
        Context::from(ContextParts { host: Some(Arc::clone(engine) as _), ..known })
    }

    /// A step of the call, now.
    pub(crate) fn step(&self, clock: &dyn Clock, kind: StepKind) -> Box<helve_core::run::Step> {
        crate::runs::step(clock.now(), self.call_id, self.run, kind)
    }
}
