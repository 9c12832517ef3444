//! A change of one file, and how it is undone.
//!
//! Before the file changes, its former content and what is about to be done are on disk in the
//! backups. So the call can be undone later by its result alone, and a call that was cut short can
//! be asked what became of it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use helve::json::sha256_hex;
use helve::run::Recalled;
use helve::{Context, ErrorCode, ToolError};
use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::atomic::{Existing, Locked, is_temporary};
use super::fault::{failed, forbidden};
use super::root::{Access, Spot, open_regular, regular};
use super::setup::Files;

// A part of the results of `file-write` and `file-edit`.
/// What became of the file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct Change {
    /// The file that was written.
    pub(super) path: String,
    // The name is the seed's.
    /// How many bytes it has now.
    #[serde(rename = "bytesWritten")]
    pub(super) bytes_written: u64,
    /// SHA-256 of what it holds now.
    pub(super) sha256: String,
    /// What it was before. Absent: it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Previous>,
}

/// What a file was before a change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct Previous {
    /// How many bytes it had.
    pub(super) bytes: u64,
    /// SHA-256 of what it held, where that is kept, so that the change can be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
}

/// A file as it is before a change, while nobody else of ours changes it.
pub(super) struct Former {
    pub(super) stat: Stat,
    /// Its content, unless it is too large to be kept.
    pub(super) content: Option<Vec<u8>>,
}

/// Reads at most `bytes_max` of a file; nothing where there is more.
pub(super) fn read_whole(spot: &Spot, bytes_max: u64) -> Result<(Stat, Option<Vec<u8>>), ToolError> {
    let (file, stat) = open_regular(&spot.folder, &spot.name, &spot.shown)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > bytes_max {
        return Ok((stat, None));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(bytes_max + 1).read_to_end(&mut content).map_err(|error| failed("read", &spot.shown, error))?;
    let fits = content.len() as u64 <= bytes_max;
    Ok((stat, fits.then_some(content)))
}

impl Former {
    /// What is there now; nothing where there is no file.
    pub(super) fn read(locked: &Locked<'_>, files: &Files) -> Result<Option<Self>, ToolError> {
        let Some(stat) = locked.stat()? else { return Ok(None) };
        regular(&stat, &locked.spot.shown)?;
        let (stat, content) = read_whole(locked.spot, files.kept_bytes_max())?;
        Ok(Some(Self { stat, content }))
    }
}

/// Changes the content of a file, from what was read of it to something new.
pub(super) fn change<O: Serialize>(
    files: &Files,
    locked: &Locked<'_>,
    former: Option<&Former>,
    content: &[u8],
    context: &Context,
    result: impl FnOnce(Change) -> O,
) -> Result<O, ToolError> {
    let shown = &locked.spot.shown;
    check_size(files, content.len() as u64, shown)?;
    let not_kept = |error: std::io::Error| {
        ToolError::failed(format!("`{shown}` is left as it is: what it was cannot be kept for an undo"))
            .with_source(error)
    };
    let previous = former.map(|former| keep(files, former)).transpose().map_err(not_kept)?;
    let change = Change {
        path: shown.clone(),
        bytes_written: content.len() as u64,
        sha256: sha256_hex(content),
        previous,
    };
    let result = result(change);
    if let Some(backups) = &files.backups {
        let text = serde_json::to_string(&result).unwrap_or_default();
        backups.note(context.call_id(), &text).map_err(not_kept)?;
    }
    let still_wanted = || {
        if context.is_cancelled() || context.time_left() == Duration::ZERO {
            let message = format!("`{shown}` was not changed: the call was taken back before");
            return Err(ToolError::new(ErrorCode::Cancelled, message));
        }
        // Others may write without asking for our lock.
        let same = match (locked.stat()?, former) {
            (Some(now), Some(former)) => is_same(&now, &former.stat),
            (None, None) => true,
            (Some(_), None) => return Ok(()),
            (None, Some(_)) => false,
        };
        let message = || format!("`{shown}` was not changed: another program changed it just now");
        if same { Ok(()) } else { Err(ToolError::new(ErrorCode::Lock, message())) }
    };
    let existing = if former.is_some() { Existing::Replace } else { Existing::Refuse };
    locked.put(content, former.map(|former| &former.stat), existing, still_wanted)?;
    Ok(result)
}

/// Refuses to write more than is allowed.
pub(super) fn check_size(files: &Files, bytes: u64, shown: &str) -> Result<(), ToolError> {
    let bytes_max = files.config.write_bytes;
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(ToolError::failed(format!("`{shown}` would have {bytes} bytes; at most {bytes_max} are written"))
        .suggest("split the content over several files"))
}

/// The spot that a path means, for writing.
pub(super) fn spot_to_write(files: &Files, path: &str) -> Result<Spot, ToolError> {
    let place = files.roots.find_file(path, Access::Write)?;
    let spot = files.roots.spot(&place, Access::Write)?;
    match is_temporary(&spot.name) {
        true => Err(forbidden(&spot.shown, "has a name that Helve uses for files in the making")),
        false => Ok(spot),
    }
}

fn keep(files: &Files, former: &Former) -> std::io::Result<Previous> {
    let bytes = u64::try_from(former.stat.st_size).unwrap_or(0);
    let (Some(content), Some(backups)) = (&former.content, &files.backups) else {
        return Ok(Previous { bytes, sha256: None });
    };
    if !backups.takes(content.len() as u64) {
        return Ok(Previous { bytes, sha256: None });
    }
    let hash = sha256_hex(content);
    backups.keep(&hash, content)?;
    Ok(Previous { bytes: content.len() as u64, sha256: Some(hash) })
}

fn is_same(a: &Stat, b: &Stat) -> bool {
    let facts = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    facts(a) == facts(b)
}

/// What a file holds now, as far as an undo must know.
enum Now {
    Absent,
    Is(String),
    /// Larger than anything that we wrote.
    Other,
}

fn look(files: &Files, locked: &Locked<'_>) -> Result<Now, ToolError> {
    if locked.stat()?.is_none() {
        return Ok(Now::Absent);
    }
    let bytes_max = files.config.write_bytes.max(files.kept_bytes_max());
    Ok(match read_whole(locked.spot, bytes_max)?.1 {
        Some(content) => Now::Is(sha256_hex(&content)),
        None => Now::Other,
    })
}

/// Puts a file back to what it was before a call, unless it has changed since.
pub(super) fn undo(files: &Files, result: Value, context: &Context) -> Result<(), ToolError> {
    let change: Change = serde_json::from_value(result).map_err(|error| {
        ToolError::failed("the call's result does not say what it changed").with_source(error)
    })?;
    let spot = spot_to_write(files, &change.path)?;
    let locked = Locked::new(&spot, context.deadline())?;
    let shown = &change.path;
    let now = look(files, &locked)?;
    match (&now, &change.previous) {
        (Now::Is(hash), _) if *hash == change.sha256 => {}
        // It was undone before, by us or by hand.
        (Now::Absent, None) => return Ok(()),
        (Now::Is(hash), Some(Previous { sha256: Some(former), .. })) if hash == former => return Ok(()),
        (Now::Absent | Now::Is(_) | Now::Other, _) => {
            let how = if matches!(now, Now::Absent) { "removed" } else { "changed" };
            return Err(ToolError::failed(format!("`{shown}` was {how} since, so it is left as it is"))
                .suggest("look at the file, and undo by hand what should be undone"));
        }
    }
    let Some(previous) = &change.previous else { return locked.remove() };
    let gone = || {
        ToolError::failed(format!("what `{shown}` held before is not kept, or not any more"))
            .suggest("undo it by hand; `files.backup_bytes` says how much is kept")
    };
    let (Some(hash), Some(backups)) = (&previous.sha256, &files.backups) else { return Err(gone()) };
    let content = backups.read(hash).map_err(|error| gone().with_source(error))?.ok_or_else(gone)?;
    let stat = locked.stat()?;
    locked.put(&content, stat.as_ref(), Existing::Replace, || Ok(()))
}

/// What became of a call that was cut short.
pub(super) fn recall(files: &Files, context: &Context) -> Result<Recalled, ToolError> {
    let Some(backups) = &files.backups else { return Ok(Recalled::Unknown) };
    let noted = backups.noted(context.call_id());
    let noted = noted.map_err(|error| {
        ToolError::failed("what the call was about to do cannot be read").with_source(error)
    })?;
    // It is written down before anything is done.
    let Some(text) = noted else { return Ok(Recalled::WillNotHappen) };
    let (Ok(result), Ok(change)) =
        (serde_json::from_str::<Value>(&text), serde_json::from_str::<Change>(&text))
    else {
        return Ok(Recalled::Unknown);
    };
    let spot = spot_to_write(files, &change.path)?;
    let locked = Locked::new(&spot, context.deadline())?;
    Ok(match (look(files, &locked)?, change.previous) {
        (Now::Is(hash), _) if hash == change.sha256 => Recalled::Happened(result),
        (Now::Absent, None) => Recalled::WillNotHappen,
        (Now::Is(hash), Some(Previous { sha256: Some(former), .. })) if hash == former => {
            Recalled::WillNotHappen
        }
        (Now::Absent | Now::Is(_) | Now::Other, _) => Recalled::Unknown,
    })
}

/// Runs work that waits for the disk where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    files: &Arc<Files>,
    work: impl FnOnce(&Files) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let files = Arc::clone(files);
    let done = tokio::task::spawn_blocking(move || work(&files)).await;
    done.unwrap_or_else(|error| {
        Err(ToolError::new(ErrorCode::Internal, "the file tool broke").with_source(error))
    })
}
