//! `file-read`: a file or a piece of it, as text where it is text.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};
use helve::{Context, ErrorCode, Risk, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::blocking;
use super::fault::failed;
use super::root::{Access, open_regular};
use super::setup::{Files, reads};
use super::text::{self, Kind, SNIFF_BYTES, cut_at_start};
use crate::builtin::wrong_argument;

/// Files up to this size have their lines counted whatever piece is read.
const COUNTED_BYTES_MAX: u64 = 32 << 20;
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// File path to read: relative to a root, or absolute within one.
    path: String,
    /// How bytes become text. `auto` finds out; `utf-8` and `ascii` refuse anything else; `base64` is
    /// for binary data.
    #[serde(default)]
    encoding: Encoding,
    /// First line to read, from 1.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Most lines to read.
    #[schemars(range(min = 1))]
    max_lines: Option<u64>,
    /// First byte to read, from 0. Not together with `start_line`.
    offset: Option<u64>,
    /// Most bytes to read.
    #[schemars(range(min = 1))]
    length: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum Encoding {
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "ascii")]
    Ascii,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The file.
    path: String,
    /// What it holds, or the piece that was asked for.
    content: String,
    /// How its bytes became text.
    encoding: String,
    /// Bytes of the whole file.
    size: u64,
    /// First byte of this piece.
    offset: u64,
    /// Bytes of the file in this piece.
    length: u64,
    /// First line of this piece, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
    /// Lines of the whole file, where they could be counted quickly.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    /// Whether there is more of the file after this piece.
    truncated: bool,
    /// How to go on: what to add to the same call for the next piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Next {
    /// The line after this piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<u64>,
    /// The byte after this piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

pub(super) fn tool(files: &Arc<Files>) -> ToolBuilder {
    let shared = Arc::clone(files);
    let typed = |_: Input, _: Context| async { Err::<Output, _>(ToolError::failed("replaced below")) };
    Tool::function(
        "file-read",
        "Reads a file, or a range of its lines or bytes. Finds out the encoding by itself. Returns the content \
         with the file's size, and how to go on where there is more. Binary files are refused unless asked for as \
         base64.",
        typed,
    )
    // Both schemas come from the types. The answer is put together by hand, because turning a type
    // into JSON would copy the content.
    .handler(move |arguments: Value, context: Context| {
        let files = Arc::clone(&shared);
        async move {
            let input: Input = serde_json::from_value(arguments)
                .map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error.to_string()))?;
            blocking(&files, move |files| answer(files, &input, &context).map(into_json)).await
        }
    })
    .alias("file:read")
    .when_to_use(
        "To see what is in a file whose path is known. Read big files in pieces, with `start_line` and \
         `max_lines`. To find a file use `file-list`, to find text in files `file-search`.",
    )
    .example_call("What does the README say?", json!({ "path": "README.md" }))
    .example_call(
        "Show lines 100 to 150 of the log",
        json!({ "path": "app.log", "start_line": 100, "max_lines": 51 }),
    )
    .risk(Risk::Low)
    .annotations(reads())
    .timeout(Duration::from_secs(5))
}

fn into_json(output: Output) -> Value {
    let mut output = output;
    let content = std::mem::take(&mut output.content);
    let mut json = serde_json::to_value(output).unwrap_or_default();
    json["content"] = Value::String(content);
    json
}

/// A piece of a file.
struct Piece {
    bytes: Vec<u8>,
    offset: u64,
    start_line: Option<u64>,
}

fn answer(files: &Files, input: &Input, context: &Context) -> Result<Output, ToolError> {
    if input.start_line.is_some() && input.offset.is_some() {
        return Err(wrong_argument(
            "offset",
            "`start_line` or `offset`",
            "both",
            "give one of them, not both",
        ));
    }
    let place = files.roots.find(&input.path, Access::Read)?;
    let spot = files.roots.spot(&place, Access::Read)?;
    let (mut file, stat) = open_regular(&spot.folder, &spot.name, &spot.shown)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let refuse = |error: std::io::Error| failed("read", &spot.shown, error);
    let bytes_max = input.length.unwrap_or(u64::MAX).min(files.config.read_bytes);

    let head = head(&mut file, size, input.offset.is_some() || input.start_line.is_some()).map_err(refuse)?;
    if let Some(encoding) = wide(&head, input.encoding)
        && (input.start_line.is_some() || input.max_lines.is_some())
    {
        let message = format!("`{}` is {}, whose lines are not counted", spot.shown, encoding);
        return Err(ToolError::failed(message).suggest("read it by `offset` and `length` instead"));
    }
    let mut piece = Piece { bytes: Vec::new(), offset: input.offset.unwrap_or(0), start_line: None };
    if let Some(line) = input.start_line {
        piece.offset = offset_of_line(&mut file, size, line, &spot.shown, context)?;
        piece.start_line = Some(line);
    } else if piece.offset == 0 {
        piece.start_line = Some(1);
    }
    if piece.offset > size {
        let problem = format!("the file has only {size} bytes");
        return Err(wrong_argument("offset", "a place in the file", &piece.offset.to_string(), &problem));
    }
    file.seek(SeekFrom::Start(piece.offset)).map_err(refuse)?;
    let expected = size.saturating_sub(piece.offset).min(bytes_max);
    piece.bytes.reserve_exact(usize::try_from(expected).unwrap_or(0) + 1);
    (&file).take(bytes_max).read_to_end(&mut piece.bytes).map_err(refuse)?;
    // It may have grown meanwhile.
    let size = size.max(piece.offset + piece.bytes.len() as u64);

    let is_base64 = input.encoding == Encoding::Base64;
    let is_whole = piece.offset + piece.bytes.len() as u64 == size;
    cut_lines(&mut piece.bytes, input, is_base64 || is_whole);
    let mut total_lines = None;
    if !is_base64 {
        total_lines = match is_whole && piece.offset == 0 && input.max_lines.is_none() {
            true => Some(lines_in(&piece.bytes)),
            false if size <= COUNTED_BYTES_MAX => Some(count_lines(&mut file, context, &spot.shown)?),
            false => None,
        };
    }
    let head = if head.is_empty() { &piece.bytes } else { &head };
    let (encoding, bom) = kind(head, &piece, input, &spot.shown)?;
    let lines = lines_in(&piece.bytes);
    let (content, offset, length) = decode(piece.bytes, piece.offset, encoding, bom, is_whole, &spot.shown)?;
    let end = offset + length;
    let truncated = end < size;
    let by_line =
        piece.start_line.is_some() && !is_base64 && input.length.is_none() && content.ends_with('\n');
    let next = truncated.then(|| match (by_line, piece.start_line) {
        (true, Some(line)) => Next { start_line: Some(line + lines), offset: None },
        (true | false, _) => Next { start_line: None, offset: Some(end) },
    });
    Ok(Output {
        path: spot.shown,
        content,
        encoding: encoding.map_or_else(|| "base64".to_owned(), |encoding| text::name_of(encoding, bom)),
        size,
        offset,
        length,
        start_line: piece.start_line.filter(|_| !is_base64),
        total_lines: total_lines.filter(|_| encoding.is_some_and(|one| one != UTF_16LE && one != UTF_16BE)),
        truncated,
        next,
    })
}

/// Where the file begins, where the piece that is wanted may not.
fn head(file: &mut File, size: u64, is_piece: bool) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if is_piece && size > 0 {
        file.take(SNIFF_BYTES as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// Whether a file is in an encoding of more than one byte a character.
fn wide(head: &[u8], asked: Encoding) -> Option<String> {
    match text::detect(head, head) {
        Kind::Text { encoding, bom }
            if asked == Encoding::Auto && (encoding == UTF_16LE || encoding == UTF_16BE) =>
        {
            Some(text::name_of(encoding, bom))
        }
        Kind::Text { .. } | Kind::Binary(_) => None,
    }
}

/// Cuts a piece after the lines that are wanted, or after its last whole line.
fn cut_lines(bytes: &mut Vec<u8>, input: &Input, is_complete: bool) {
    let ends = memchr::memchr_iter(b'\n', bytes);
    let cut = match input.max_lines {
        Some(lines) => {
            let last = usize::try_from(lines - 1).unwrap_or(usize::MAX);
            ends.skip(last).next().map(|end| end + 1)
        }
        None => None,
    };
    match cut {
        Some(end) => bytes.truncate(end),
        None if is_complete || input.length.is_some() => {}
        None => {
            if let Some(end) = memchr::memrchr(b'\n', bytes) {
                bytes.truncate(end + 1);
            }
        }
    }
}

/// The encoding to read with, and the length of the byte order mark. None: base64.
fn kind(
    head: &[u8],
    piece: &Piece,
    input: &Input,
    shown: &str,
) -> Result<(Option<&'static encoding_rs::Encoding>, usize), ToolError> {
    match input.encoding {
        Encoding::Base64 => Ok((None, 0)),
        Encoding::Utf8 => Ok((Some(UTF_8), if head.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 })),
        Encoding::Ascii => match piece.bytes.iter().position(|byte| !byte.is_ascii()) {
            None => Ok((Some(UTF_8), 0)),
            Some(at) => Err(ToolError::failed(format!(
                "`{shown}` is not ASCII: byte {} is something else",
                piece.offset + at as u64
            ))
            .suggest("leave `encoding` out, so that it is found out")),
        },
        Encoding::Auto => match text::detect(head, &piece.bytes) {
            Kind::Text { encoding, bom } => Ok((Some(encoding), bom)),
            Kind::Binary(what) => Err(ToolError::failed(format!("`{shown}` is {what}, not text")).suggest(
                "if you need its bytes, set encoding: base64, and length for the first of them only",
            )),
        },
    }
}

/// Text of bytes, and which of them it stands for: characters that are cut off are left out.
fn decode(
    mut bytes: Vec<u8>,
    offset: u64,
    encoding: Option<&'static encoding_rs::Encoding>,
    bom: usize,
    is_at_end: bool,
    shown: &str,
) -> Result<(String, u64, u64), ToolError> {
    let Some(encoding) = encoding else {
        let length = bytes.len() as u64;
        return Ok((STANDARD.encode(bytes), offset, length));
    };
    // The mark is no text, but it is of the file.
    let mark = if offset == 0 { bom.min(bytes.len()) } else { 0 };
    if encoding != UTF_8 {
        if !is_at_end && (encoding == UTF_16LE || encoding == UTF_16BE) {
            bytes.truncate(bytes.len() & !1);
        }
        let length = bytes.len() as u64;
        let (text, _) = encoding.decode_without_bom_handling(&bytes[mark..]);
        return Ok((text.into_owned(), offset, length));
    }
    let skipped = if offset > 0 { cut_at_start(&bytes) } else { mark };
    if skipped > 0 {
        bytes.drain(..skipped);
    }
    let text = String::from_utf8(bytes).or_else(|error| {
        let (valid, wrong) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len());
        let mut bytes = error.into_bytes();
        if wrong.is_none() && !is_at_end && valid > 0 {
            bytes.truncate(valid);
            return Ok(String::from_utf8(bytes).unwrap_or_default());
        }
        let at = offset + (skipped + valid) as u64;
        Err(ToolError::failed(format!("`{shown}` is not UTF-8: byte {at} is something else"))
            .suggest("leave `encoding` out, so that it is found out, or set encoding: base64"))
    })?;
    let (start, length) = if offset > 0 { (offset + skipped as u64, 0) } else { (0, skipped as u64) };
    let length = length + text.len() as u64;
    Ok((text, start, length))
}

/// Lines, as editors count them: one without an end is one too.
fn lines_in(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// Goes through a file in chunks, until `each` has seen enough.
fn scan(
    file: &mut File,
    context: &Context,
    shown: &str,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<(), ToolError> {
    let refuse = |error: std::io::Error| failed("read", shown, error);
    file.seek(SeekFrom::Start(0)).map_err(refuse)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if context.is_cancelled() {
            return Err(ToolError::new(ErrorCode::Cancelled, "the call was taken back"));
        }
        match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(bytes) if each(&chunk[..bytes]) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refuse(error)),
        }
    }
}

fn count_lines(file: &mut File, context: &Context, shown: &str) -> Result<u64, ToolError> {
    let (mut ends, mut last) = (0, b'\n');
    scan(file, context, shown, |chunk| {
        ends += memchr::memchr_iter(b'\n', chunk).count() as u64;
        last = chunk.last().copied().unwrap_or(last);
        false
    })?;
    Ok(ends + u64::from(last != b'\n'))
}

fn offset_of_line(
    file: &mut File,
    size: u64,
    line: u64,
    shown: &str,
    context: &Context,
) -> Result<u64, ToolError> {
    let (mut wanted, mut seen, mut found) = (line - 1, 0_u64, (line == 1).then_some(0));
    let (mut lines, mut last) = (0_u64, b'\n');
    if found.is_none() {
        scan(file, context, shown, |chunk| {
            last = chunk.last().copied().unwrap_or(last);
            let ends = memchr::memchr_iter(b'\n', chunk).count() as u64;
            lines += ends;
            if ends < wanted {
                wanted -= ends;
                seen += chunk.len() as u64;
                return false;
            }
            let nth = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
            found = memchr::memchr_iter(b'\n', chunk).nth(nth).map(|end| seen + end as u64 + 1);
            true
        })?;
    }
    let lines = lines + u64::from(last != b'\n');
    found.filter(|offset| line == 1 || *offset < size).ok_or_else(|| {
        let problem = format!("the file has only {lines} lines");
        wrong_argument("start_line", "a line of the file", &line.to_string(), &problem)
    })
}
