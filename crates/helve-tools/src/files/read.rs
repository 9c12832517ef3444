//! `file-read`: a file or a piece of it, as text where it is text.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use helve::{Context, ErrorCode, Facet, Risk, Tool, ToolBuilder, ToolError};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::asked::RequestedEncoding;
use super::at_hand;
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
    /// How bytes become text. `auto`, the default, finds out; `utf-8` and `ascii` refuse anything else;
    /// `base64` is for binary data. Where `auto` guesses wrong, name it: `utf-16le`, `windows-1252`,
    /// `shift_jis`, `euc-jp`, `iso-2022-jp`, `gbk`, `gb18030`, `big5`, `euc-kr`, `koi8-r` and others.
    #[serde(default)]
    encoding: RequestedEncoding,
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

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The file that was read.
    path: String,
    /// What it holds, or the piece that was asked for.
    content: String,
    /// How its bytes became text: the encoding that was named, or that was found out.
    encoding: String,
    /// Whether nobody named the encoding and it was guessed by how the bytes look. If the text reads wrong, name another.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guessed: bool,
    /// Whether bytes that stand for nothing in this encoding were replaced by `\u{FFFD}`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replaced: bool,
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
            if !files.roots.is_at_hand(&input.path) {
                let work = move |files: &Files| answer(files, open(files, &input)?, &input, &context);
                return blocking(&files, work).await;
            }
            let opened = open(&files, &input)?;
            if at_hand::is_in_memory(&opened.file, opened.size) {
                return answer(&files, opened, &input, &context);
            }
            blocking(&files, move |files| answer(files, opened, &input, &context)).await
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
    .facets([Facet::ReadsPrivate])
    // All it does at first is to read what is at hand, or to hand the work to a thread.
    .instant()
    .timeout(Duration::from_secs(5))
}

fn into_json(output: Output) -> Value {
    let mut output = output;
    let content = std::mem::take(&mut output.content);
    let mut json = serde_json::to_value(output).unwrap_or_default();
    json["content"] = Value::String(content);
    json
}

/// A piece of a file, as bytes.
struct Piece {
    /// Where the file begins, which says what it is. Empty where the piece begins there too.
    head: Vec<u8>,
    bytes: Vec<u8>,
    offset: u64,
    start_line: Option<u64>,
    /// Bytes of the whole file.
    size: u64,
}

impl Piece {
    fn is_at_end(&self) -> bool {
        self.offset + self.bytes.len() as u64 >= self.size
    }

    fn head(&self) -> &[u8] {
        if self.head.is_empty() { &self.bytes } else { &self.head }
    }
}

/// Text, and which bytes of the file it stands for.
struct Text {
    content: String,
    encoding: String,
    guessed: bool,
    replaced: bool,
    has_lines: bool,
    offset: u64,
    length: u64,
}

/// A file that may be read.
struct Opened {
    file: File,
    size: u64,
    /// Its path, as models see it.
    shown: String,
}

fn open(files: &Files, input: &Input) -> Result<Opened, ToolError> {
    if input.start_line.is_some() && input.offset.is_some() {
        return Err(wrong_argument(
            "offset",
            "`start_line` or `offset`",
            "both",
            "give one of them, not both",
        ));
    }
    let place = files.roots.find_file(&input.path, Access::Read)?;
    let spot = files.roots.spot(&place, Access::Read)?;
    let (file, stat) = open_regular(&spot.folder, &spot.name, &spot.shown)?;
    Ok(Opened { file, size: u64::try_from(stat.st_size).unwrap_or(0), shown: spot.shown })
}

fn answer(files: &Files, opened: Opened, input: &Input, context: &Context) -> Result<Value, ToolError> {
    let Opened { mut file, size, shown } = opened;
    let piece = take(&mut file, size, files.config.read_bytes, input, &shown, context)?;
    let (size, start_line, lines) = (piece.size, piece.start_line, lines_in(&piece.bytes));
    let is_whole = piece.offset == 0 && piece.is_at_end();
    let text = decode(piece, input.encoding, &shown)?;
    let total_lines = match text.has_lines {
        true if is_whole => Some(lines),
        true if size <= COUNTED_BYTES_MAX => Some(count_lines(&mut file, context, &shown)?),
        true | false => None,
    };
    let start_line = start_line.filter(|_| text.has_lines);
    let end = text.offset + text.length;
    // By lines, unless the piece ends within one.
    let next = (end < size).then(|| match start_line {
        Some(line) if text.content.ends_with('\n') => Next { start_line: Some(line + lines), offset: None },
        Some(_) | None => Next { start_line: None, offset: Some(end) },
    });
    Ok(into_json(Output {
        path: shown,
        content: text.content,
        encoding: text.encoding,
        guessed: text.guessed,
        replaced: text.replaced,
        size,
        offset: text.offset,
        length: text.length,
        start_line,
        total_lines,
        truncated: next.is_some(),
        next,
    }))
}

/// Reads the piece that is asked for, within the limits.
fn take(
    file: &mut File,
    size: u64,
    bytes_max: u64,
    input: &Input,
    shown: &str,
    context: &Context,
) -> Result<Piece, ToolError> {
    let refuse = |error: std::io::Error| failed("read", shown, error);
    let mut piece = Piece {
        head: Vec::new(),
        bytes: Vec::new(),
        offset: input.offset.unwrap_or(0),
        start_line: None,
        size,
    };
    let is_range = input.offset.is_some() || input.start_line.is_some() || input.max_lines.is_some();
    if is_range {
        (&*file).take(SNIFF_BYTES as u64).read_to_end(&mut piece.head).map_err(refuse)?;
        let is_wide = match input.encoding {
            RequestedEncoding::Auto => text::is_utf_16(&piece.head),
            RequestedEncoding::Named(encoding) => encoding == UTF_16LE || encoding == UTF_16BE,
            RequestedEncoding::Utf8 | RequestedEncoding::Ascii | RequestedEncoding::Base64 => false,
        };
        if is_wide && (input.start_line.is_some() || input.max_lines.is_some()) {
            return Err(ToolError::failed(format!("`{shown}` is UTF-16, whose lines are not counted"))
                .suggest("read it by `offset` and `length` instead"));
        }
    }
    match input.start_line {
        Some(line) => {
            piece.offset = offset_of_line(file, size, line, shown, context)?;
            piece.start_line = Some(line);
        }
        None if piece.offset == 0 => piece.start_line = Some(1),
        None => {}
    }
    if piece.offset > size {
        let problem = format!("the file has only {size} bytes");
        return Err(wrong_argument("offset", "a place in the file", &piece.offset.to_string(), &problem));
    }
    if is_range {
        file.seek(SeekFrom::Start(piece.offset)).map_err(refuse)?;
    }
    let bytes_max = input.length.unwrap_or(u64::MAX).min(bytes_max);
    piece.bytes = match size {
        // Files that the kernel makes up say that they are empty.
        0 => read_to_end(file, bytes_max).map_err(refuse)?,
        _ => read_exact(file, (size - piece.offset).min(bytes_max)).map_err(refuse)?,
    };
    piece.size = size.max(piece.offset + piece.bytes.len() as u64);
    if input.encoding != RequestedEncoding::Base64 {
        cut_lines(&mut piece, input);
    }
    Ok(piece)
}

fn read_to_end(file: &File, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads so many bytes, or up to the end, in as few steps as the kernel allows and into memory that
/// is not cleared before.
fn read_exact(file: &File, bytes: u64) -> std::io::Result<Vec<u8>> {
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut read = Vec::new();
    read.reserve_exact(wanted);
    while read.len() < wanted {
        match rustix::io::read(file, spare_capacity(&mut read)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // There may have been room for a little more.
    read.truncate(wanted);
    Ok(read)
}

/// Cuts a piece after the lines that are wanted, or after its last whole line.
fn cut_lines(piece: &mut Piece, input: &Input) {
    let wanted = input.max_lines.and_then(|lines| {
        let last = usize::try_from(lines.saturating_sub(1)).unwrap_or(usize::MAX);
        memchr::memchr_iter(b'\n', &piece.bytes).nth(last)
    });
    let end = match wanted {
        Some(end) => Some(end),
        None if piece.is_at_end() || input.length.is_some() => None,
        None => memchr::memrchr(b'\n', &piece.bytes),
    };
    if let Some(end) = end {
        piece.bytes.truncate(end + 1);
    }
}

fn decode(piece: Piece, asked: RequestedEncoding, shown: &str) -> Result<Text, ToolError> {
    let (offset, length) = (piece.offset, piece.bytes.len() as u64);
    let detected = "leave `encoding` out, so that it is found out, or set encoding: base64";
    match asked {
        RequestedEncoding::Base64 => Ok(Text {
            content: STANDARD.encode(&piece.bytes),
            encoding: "base64".to_owned(),
            guessed: false,
            replaced: false,
            has_lines: false,
            offset,
            length,
        }),
        RequestedEncoding::Ascii => match piece.bytes.iter().position(|byte| !byte.is_ascii()) {
            Some(at) => Err(not_in("ASCII", offset + at as u64, shown).suggest(detected)),
            None => utf_8(piece).map_err(|(_, at)| not_in("ASCII", at, shown)),
        },
        RequestedEncoding::Utf8 => {
            utf_8(piece).map_err(|(_, at)| not_in("UTF-8", at, shown).suggest(detected))
        }
        // Nearly everything is UTF-8, and finding that out is reading it.
        RequestedEncoding::Auto => match text::may_be_utf_8(piece.head()) {
            true => utf_8(piece).or_else(|(piece, _)| other(piece, shown)),
            false => other(piece, shown),
        },
        RequestedEncoding::Named(encoding) => {
            let (encoding, bom) = text::with_mark(encoding, piece.head());
            let is_whole = piece.offset == 0 && piece.is_at_end();
            let text = decode_in(piece, encoding, bom);
            if is_whole && text.replaced {
                let message =
                    format!("`{shown}` is not {}: some bytes stand for nothing in it", text.encoding);
                return Err(ToolError::failed(message).suggest(detected));
            }
            Ok(text)
        }
    }
}

fn not_in(encoding: &str, at: u64, shown: &str) -> ToolError {
    ToolError::failed(format!("`{shown}` is not {encoding}: byte {at} is something else"))
}

/// The piece as UTF-8, without a copy; else the piece again, and the byte that is wrong. Characters
/// that are cut off at an end are left to the piece before or after.
fn utf_8(mut piece: Piece) -> Result<Text, (Piece, u64)> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    let has_mark = piece.head().starts_with(MARK);
    let encoding = if has_mark { "utf-8-bom" } else { "utf-8" }.to_owned();
    // The mark is no text, but it is of the file.
    let (cut, mark) = match piece.offset {
        0 => (0, if has_mark { MARK.len() } else { 0 }),
        _ => (cut_at_start(&piece.bytes), 0),
    };
    let is_at_end = piece.is_at_end();
    if cut + mark == 0 {
        let (offset, length) = (piece.offset, piece.bytes.len() as u64);
        match text::utf_8(std::mem::take(&mut piece.bytes)) {
            Ok(content) => {
                return Ok(Text {
                    content,
                    encoding,
                    guessed: false,
                    replaced: false,
                    has_lines: true,
                    offset,
                    length,
                });
            }
            Err(bytes) => piece.bytes = bytes,
        }
    }
    let valid = match std::str::from_utf8(&piece.bytes[cut..]) {
        Ok(_) => piece.bytes.len(),
        Err(error) if error.error_len().is_none() && !is_at_end && error.valid_up_to() > 0 => {
            cut + error.valid_up_to()
        }
        Err(error) => {
            let at = piece.offset + (cut + error.valid_up_to()) as u64;
            return Err((piece, at));
        }
    };
    piece.bytes.truncate(valid);
    if cut + mark > 0 {
        piece.bytes.drain(..cut + mark);
    }
    let (offset, length) = (piece.offset + cut as u64, (valid - cut) as u64);
    // Checked above.
    let content = String::from_utf8(piece.bytes).unwrap_or_default();
    Ok(Text { content, encoding, guessed: false, replaced: false, has_lines: true, offset, length })
}

/// The piece as text in another encoding.
fn other(piece: Piece, shown: &str) -> Result<Text, ToolError> {
    let (encoding, bom) = match text::detect(piece.head(), &piece.bytes) {
        Kind::Text { encoding, bom } => (encoding, bom),
        Kind::Binary(text::UTF_32) => {
            let message = format!("`{shown}` is text in UTF-32, which cannot be read as text here");
            return Err(
                ToolError::failed(message).suggest("convert it to UTF-8 first, or set encoding: base64")
            );
        }
        Kind::Binary(what) => {
            return Err(ToolError::failed(format!("`{shown}` is {what}, not text")).suggest(
                "if you need its bytes, set encoding: base64, and length for the first of them only",
            ));
        }
    };
    Ok(Text { guessed: text::is_guess(encoding, bom), ..decode_in(piece, encoding, bom) })
}

/// The piece as text in this encoding, after so many bytes of byte order mark.
fn decode_in(mut piece: Piece, encoding: &'static Encoding, bom: usize) -> Text {
    let is_wide = encoding == UTF_16LE || encoding == UTF_16BE;
    if is_wide && !piece.is_at_end() {
        piece.bytes.truncate(piece.bytes.len() & !1);
    }
    let mark = if piece.offset == 0 { bom.min(piece.bytes.len()) } else { 0 };
    let (content, replaced) = encoding.decode_without_bom_handling(&piece.bytes[mark..]);
    Text {
        content: content.into_owned(),
        encoding: text::name_of(encoding, bom),
        guessed: false,
        replaced,
        has_lines: !is_wide,
        offset: piece.offset,
        length: piece.bytes.len() as u64,
    }
}

/// Lines, as editors count them: one without an end is one too.
fn lines_in(bytes: &[u8]) -> u64 {
    ends_in(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

fn ends_in(bytes: &[u8]) -> u64 {
    bytecount::count(bytes, b'\n') as u64
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
        ends += ends_in(chunk);
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
            let ends = ends_in(chunk);
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
