//! Writes of objects: noted before they are done, undone by what was noted, and looked up after a crash.

use std::sync::Arc;

use bytes::Bytes;
use helve::run::Recalled;
use helve::{Caller, Context, ErrorCode, ToolError};
use helve_store::office::{Before, CollectionRow, ObjectWrite};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fault::broken;
use super::reach::Place;
use crate::account::{Expected, Fault, Object, ObjectStore, PutFault};
use crate::ical::Document;
use crate::objects::version_of;
use crate::sync::store_object;
use crate::{Account, Office};

/// One object to be written.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) place: Place,
    pub(super) href: String,
    /// What is there, as the writer saw it.
    pub(super) before: Option<Object>,
    /// What is to be there. Nothing: it is to be removed.
    pub(super) after: Option<Bytes>,
}

/// Why nothing was written.
pub(super) enum Failure {
    /// Another writer was faster with this one.
    Conflict(usize),
    Error(ToolError),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Error(error)
    }
}

/// Writes all of it in order, or nothing, unless an answer is lost and nobody can say what was done. The version of each afterwards; empty where it was removed.
///
/// `result` is what the call answers, as far as it is known before; the version of the first write is put into it
/// where a crash makes that necessary.
pub(super) async fn commit(
    office: &Office,
    context: &Context,
    writes: &[Write],
    result: &Value,
) -> Result<Vec<String>, Failure> {
    let call = context.call_id().to_string();
    let noted = writes.iter().map(|write| to_object_write(write, result)).collect();
    office.db().note_object_writes(&call, Timestamp::now(), noted).await.map_err(broken)?;
    let mut versions = Vec::new();
    for (step, write) in writes.iter().enumerate() {
        let written = match write_one(write).await {
            Err(PutFault::Fault(fault @ (Fault::Unknown(_) | Fault::Nonsense(_)))) => {
                found_done(write, result).await.ok_or(PutFault::Fault(fault))
            }
            written => written,
        };
        match written {
            Ok(version) => {
                versions.push(version);
                // What is written is written: that the index lags behind until the next sync is no failure of the call.
                let _ = office.db().note_version(&call, step, &versions[step]).await;
                let _ = index(office, &write.place.collection, write, &versions[step]).await;
            }
            Err(PutFault::Fault(fault @ (Fault::Unknown(_) | Fault::Nonsense(_)))) => {
                return Err(in_doubt(step, &fault));
            }
            Err(fault) => {
                let undone = take_back(office, &writes[..step], &versions).await;
                return Err(failure(step, fault, undone));
            }
        }
    }
    Ok(versions)
}

/// Notes that what is there already is what this call made, under its key, when it was made before.
pub(super) async fn adopt(
    office: &Office,
    context: &Context,
    write: &Write,
    object: &Object,
    result: &Value,
) -> Result<(), ToolError> {
    let made = Write { after: Some(object.bytes.clone()), ..write.clone() };
    let noted = ObjectWrite { after_version: Some(object.version.clone()), ..to_object_write(&made, result) };
    let call = context.call_id().to_string();
    office.db().note_object_writes(&call, Timestamp::now(), vec![noted]).await.map_err(broken)
}

/// The version of a write whose answer was lost, where a look at the server shows that it was done.
async fn found_done(write: &Write, result: &Value) -> Option<String> {
    match look(write.place.store.as_ref(), &to_object_write(write, result)).await {
        Ok(Now::Done(object)) => Some(object.map(|object| object.version).unwrap_or_default()),
        Ok(Now::Other(Some(object))) => {
            let is_ours = write.after.as_ref().is_some_and(|after| is_same_writing(&object.bytes, after));
            is_ours.then_some(object.version)
        }
        Ok(Now::NotDone | Now::Other(None)) | Err(_) => None,
    }
}

/// Whether an object is the one that was written, although the server put its lines in another way: every component
/// still has the stamps that the writer gave it.
fn is_same_writing(found: &[u8], written: &[u8]) -> bool {
    let stamps = |bytes: &[u8]| {
        let document = Document::parse(bytes).ok()?;
        let mut all = Vec::new();
        for component in document.events("VEVENT").chain(document.events("VTODO")) {
            component.property("DTSTAMP")?;
            let names = ["UID", "RECURRENCE-ID", "DTSTAMP", "LAST-MODIFIED", "SEQUENCE"];
            all.push(names.map(|name| component.property(name).map(|found| found.value().to_owned())));
        }
        all.sort_unstable();
        Some(all).filter(|all| !all.is_empty())
    };
    found == written || stamps(written).is_some_and(|written| stamps(found) == Some(written))
}

/// Nobody knows whether a write was done. What was written before it stays: to take it back could lose what the
/// server has only there by now, and an event that is shown twice is better than one that is lost.
fn in_doubt(step: usize, fault: &Fault) -> Failure {
    if step == 0 {
        return Failure::Error(fault.for_model().in_doubt());
    }
    let message = format!(
        "the second of two writes may have been done or not ({fault}), so the first was left: the later occurrences \
         may be shown twice"
    );
    let error = ToolError::new(ErrorCode::OutcomeUnknown, message).in_doubt();
    Failure::Error(error.suggest("list the events, and ask the user which ones to keep"))
}

fn failure(step: usize, fault: PutFault, undone: Result<(), ToolError>) -> Failure {
    if let Err(error) = undone {
        return Failure::Error(error);
    }
    match fault {
        PutFault::Conflict => Failure::Conflict(step),
        PutFault::Fault(fault) => Failure::Error(fault.for_model()),
    }
}

fn to_object_write(write: &Write, result: &Value) -> ObjectWrite {
    ObjectWrite {
        account: write.place.account.id.clone(),
        collection: write.place.collection.told.href.clone(),
        href: write.href.clone(),
        before: write.before.as_ref().map(|before| before.bytes.to_vec()),
        before_version: write.before.as_ref().map(|before| before.version.clone()),
        after: write.after.as_ref().map(|after| after.to_vec()),
        after_version: None,
        result: result.to_string(),
    }
}

async fn write_one(write: &Write) -> Result<String, PutFault> {
    let store = &write.place.store;
    let expected =
        write.before.as_ref().map_or(Expected::Nothing, |before| Expected::Version(&before.version));
    match (&write.after, &write.before) {
        (Some(after), _) => put(store.as_ref(), &write.href, after.clone(), expected).await,
        (None, Some(before)) => store.delete(&write.href, &before.version).await.map(|()| String::new()),
        (None, None) => Ok(String::new()),
    }
}

/// Puts an object, and gets its version where the server does not say.
async fn put(
    store: &dyn ObjectStore,
    href: &str,
    bytes: Bytes,
    expected: Expected<'_>,
) -> Result<String, PutFault> {
    let version = store.put(href, bytes.clone(), expected).await?;
    match version {
        Some(version) => Ok(version),
        // It is written; a version that nobody has makes the next update look again. So does one of a writer
        // in between: taken for ours, it would be overwritten by the next update unseen.
        None => Ok(match store.get(href).await {
            Ok(object) if is_same_writing(&object.bytes, &bytes) => object.version,
            Ok(_) | Err(_) => version_of(&bytes),
        }),
    }
}

/// Takes back the first writes of several, because a later one failed.
async fn take_back(office: &Office, done: &[Write], versions: &[String]) -> Result<(), ToolError> {
    for (write, version) in done.iter().zip(versions).rev() {
        let taken = match &write.before {
            None => write.place.store.delete(&write.href, version).await.map(|()| String::new()),
            Some(before) => {
                let store = write.place.store.as_ref();
                put(store, &write.href, before.bytes.clone(), Expected::Version(version)).await
            }
        };
        let back = Write { after: write.before.as_ref().map(|before| before.bytes.clone()), ..write.clone() };
        match taken {
            Ok(version) => {
                let _ = index(office, &write.place.collection, &back, &version).await;
            }
            Err(_) => {
                let message = "the second of two writes failed, and the first could not be taken back: the \
                               event may be shown twice";
                return Err(ToolError::unrecoverable("HALF_DONE", message)
                    .something_done()
                    .suggest("list the events, and ask the user which one to keep"));
            }
        }
    }
    Ok(())
}

/// Takes over what a server has now, so that the next question sees it before the next sync.
async fn index(
    office: &Office,
    collection: &CollectionRow,
    write: &Write,
    version: &str,
) -> Result<(), ToolError> {
    // The embedded account is the index: written again here, it would undo what another wrote meanwhile.
    if write.place.account.kind == "embedded" {
        return Ok(());
    }
    let done = match &write.after {
        Some(after) => store_object(office.db(), collection, &write.href, version, after).await,
        None => office.db().remove_object(collection.id, &write.href, Before::Anything).await.map(|_| ()),
    };
    done.map_err(broken)
}

/// What an object is now, besides what a call made of it.
enum Now {
    /// As the call left it.
    Done(Option<Object>),
    /// As it was before.
    NotDone,
    /// Something else, or nothing where something was.
    Other(Option<Object>),
}

async fn look(store: &dyn ObjectStore, noted: &ObjectWrite) -> Result<Now, ToolError> {
    let object = match store.get(&noted.href).await {
        Ok(object) => Some(object),
        Err(Fault::Gone(_)) => None,
        Err(fault) => return Err(fault.for_model()),
    };
    let is = |object: &Object, bytes: &Option<Vec<u8>>, version: &Option<String>| {
        bytes.as_deref() == Some(&object.bytes[..]) || version.as_ref() == Some(&object.version)
    };
    Ok(match &object {
        None if noted.after.is_none() => Now::Done(None),
        None if noted.before.is_none() => Now::NotDone,
        None => Now::Other(None),
        Some(found) if is(found, &noted.after, &noted.after_version) => Now::Done(object),
        Some(found) if is(found, &noted.before, &noted.before_version) => Now::NotDone,
        Some(_) => Now::Other(object),
    })
}

fn account(
    office: &Office,
    caller: &Caller,
    id: &str,
) -> Result<(Arc<Account>, Arc<dyn ObjectStore>), ToolError> {
    let found = office.accounts_of(caller).into_iter().find(|account| account.id == id);
    let found = found.and_then(|account| account.objects.clone().map(|store| (account, store)));
    found.ok_or_else(|| ToolError::failed("the account of this call is not connected any more"))
}

/// Undoes a call by its result: everything is put back to what it was, unless it has changed since.
pub(super) async fn undo(office: &Office, result: &Value, context: &Context) -> Result<(), ToolError> {
    let call = result["change"].as_str().unwrap_or_default();
    let noted = office.db().object_writes(call).await.map_err(broken)?;
    if noted.is_empty() {
        return Err(ToolError::failed("what was there before is not kept any more")
            .suggest("undo it by hand, by another update"));
    }
    let mut back = Vec::new();
    for noted in &noted {
        let (account, store) = account(office, context.caller(), &noted.account)?;
        match look(store.as_ref(), noted).await? {
            Now::Done(now) => back.push((account, store, noted, now)),
            Now::NotDone => {}
            Now::Other(_) => {
                return Err(ToolError::failed("it was changed since, so it is left as it is")
                    .nothing_done()
                    .suggest("look at it, and undo by hand what should be undone"));
            }
        }
    }
    for (account, store, noted, now) in back.into_iter().rev() {
        put_back(office, &account, store, noted, now).await?;
    }
    Ok(())
}

async fn put_back(
    office: &Office,
    account: &Arc<Account>,
    store: Arc<dyn ObjectStore>,
    noted: &ObjectWrite,
    now: Option<Object>,
) -> Result<(), ToolError> {
    let rows = office.db().collections(Some(&account.id)).await.map_err(broken)?;
    let collection = rows.into_iter().find(|row| row.told.href == noted.collection);
    let collection = collection.ok_or_else(|| ToolError::failed("the collection is not there any more"))?;
    let write = Write {
        place: Place { account: Arc::clone(account), store, collection },
        href: noted.href.clone(),
        before: now,
        after: noted.before.clone().map(Bytes::from),
    };
    let version = write_one(&write).await.map_err(|fault| match fault {
        PutFault::Conflict => ToolError::failed("it was changed since, so it is left as it is"),
        PutFault::Fault(fault) => fault.for_model(),
    })?;
    let _ = index(office, &write.place.collection, &write, &version).await;
    Ok(())
}

/// What became of a call that was cut short.
pub(super) async fn recall(office: &Office, context: &Context) -> Result<Recalled, ToolError> {
    let noted = office.db().object_writes(&context.call_id().to_string()).await.map_err(broken)?;
    // It is noted before anything is done.
    let Some(first) = noted.first() else { return Ok(Recalled::WillNotHappen) };
    let Ok(mut result) = serde_json::from_str::<Value>(&first.result) else { return Ok(Recalled::Unknown) };
    let (mut done, mut is_local) = (0, true);
    for (step, noted) in noted.iter().enumerate() {
        let (account, store) = account(office, context.caller(), &noted.account)?;
        is_local &= account.kind == "embedded";
        match look(store.as_ref(), noted).await? {
            Now::Done(object) => {
                done += 1;
                if let (0, Some(object)) = (step, object) {
                    result["version"] = json!(object.version);
                }
            }
            Now::NotDone => {}
            Now::Other(_) => return Ok(Recalled::Unknown),
        }
    }
    Ok(match done {
        0 if is_local => Recalled::WillNotHappen,
        // A server may still be at work on what it was sent.
        0 => Recalled::DidNotHappen,
        done if done == noted.len() => Recalled::Happened(result),
        _ => Recalled::Unknown,
    })
}

/// What all tools have in common that write objects.
pub(super) fn undoable(builder: helve::ToolBuilder, office: &Arc<Office>) -> helve::ToolBuilder {
    let (for_undo, for_recall) = (Arc::clone(office), Arc::clone(office));
    builder
        .undo_handled(move |_: Value, result: Value, context: Context| {
            let office = Arc::clone(&for_undo);
            async move { undo(&office, &result, &context).await }
        })
        .recall_handled(move |_: Value, context: Context| {
            let office = Arc::clone(&for_recall);
            async move { recall(&office, &context).await }
        })
}
