//! Objects, read and written.

use std::collections::HashMap;

use bytes::Bytes;
use helve_net::{HeaderName, HeaderValue, Method, NetError, Response, StatusCode, header};

use super::client::{Dav, LIST_BYTES_MAX};
use super::href::Href;
use super::listing::Kind;
use super::xml::{Space, escaped};
use crate::account::{Expected, Fault, Object, PutFault, UnreadObject};
use crate::objects::OBJECT_BYTES_MAX;
use crate::web::{Ask, Intent, explain, header_text, unanswered};

/// How many are asked for at once.
const TOGETHER_MAX: usize = 50;

/// Objects of one collection that were asked for together.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub(super) objects: Vec<Object>,
    /// Those that the server does not hand out.
    pub(super) unread: Vec<UnreadObject>,
    /// How many of the places were looked at, from the front.
    pub(super) taken: usize,
}

/// One object as it is now.
pub(super) async fn get(dav: &Dav, href: &Href) -> Result<Object, Fault> {
    let object = get_beginning(dav, href).await?;
    match object.bytes.len() > OBJECT_BYTES_MAX {
        false => Ok(object),
        true => Err(Fault::Refused(format!("the object is larger than {OBJECT_BYTES_MAX} bytes"))),
    }
}

/// One object as it is now, or, where it is too long to be kept, a little more of it than may be.
async fn get_beginning(dav: &Dav, href: &Href) -> Result<Object, Fault> {
    ask(dav, href).await.map_err(|(_, fault)| fault)
}

/// What a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// The server: others would have the same.
    Server,
    /// This object: others may be got.
    Object,
}

async fn ask(dav: &Dav, href: &Href) -> Result<Object, (About, Fault)> {
    let ask = Ask::reads(Method::GET, href.url(&dav.server))
        // Some servers write another ETag for what they pack, and do not know it again.
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let answer = dav.server.beginning(ask, OBJECT_BYTES_MAX + 1).await;
    let answer = answer.map_err(|fault| (About::Server, fault))?;
    if answer.status != StatusCode::OK {
        let about = match answer.status.as_u16() {
            401 | 429 | 503 => About::Server,
            _ => About::Object,
        };
        return Err((about, explain(Intent::Read, dav.server.host(), answer.status, None)));
    }
    let nonsense = |why: &str| (About::Object, dav.nonsense(why));
    // A page that asks for a login is no object, whatever its status.
    if !begins(&answer.content) {
        return Err(nonsense("answers with something that is no calendar entry or contact"));
    }
    let version = header_text(&answer.headers, header::ETAG).filter(|etag| !etag.is_empty());
    let version = version.ok_or_else(|| nonsense("gives no version of an object"))?.to_owned();
    Ok(Object { href: href.as_str().to_owned(), version, bytes: answer.content })
}

fn begins(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    bytes.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"BEGIN:"))
}

/// Objects from the front of a list, until there are about `bytes_max`. Those that are gone are passed over. Of one
/// that is too long to be kept comes enough to see that: its reader must not think that there is nothing. Nor of
/// one that the server does not hand out.
pub(super) async fn fetch(
    dav: &Dav,
    collection: &Href,
    kind: Kind,
    hrefs: &[Href],
    bytes_max: usize,
) -> Result<Fetched, Fault> {
    let (mut fetched, mut bytes) = (Fetched::default(), 0);
    for together in hrefs.chunks(TOGETHER_MAX) {
        let mut found = multiget(dav, collection, kind, together).await?;
        for href in together {
            let object = match found.remove(href.key()) {
                Some(Lookup::Object(object)) => Some(object),
                Some(Lookup::Gone) => None,
                None => match get_one(dav, href).await? {
                    Ok(object) => object,
                    Err(fault) => {
                        fetched.unread.push(UnreadObject { href: href.key().to_owned(), fault });
                        None
                    }
                },
            };
            // One spelling for each, whichever the server used here: two would be two objects.
            let object = object.map(|object| Object { href: href.key().to_owned(), ..object });
            bytes += object.as_ref().map_or(0, |object| object.bytes.len());
            fetched.objects.extend(object);
            fetched.taken += 1;
            if bytes >= bytes_max {
                return Ok(fetched);
            }
        }
    }
    Ok(fetched)
}

/// One object of many, or nothing where it is gone meanwhile. A fault inside is about this one alone.
async fn get_one(dav: &Dav, href: &Href) -> Result<Result<Option<Object>, Fault>, Fault> {
    match ask(dav, href).await {
        Ok(object) => Ok(Ok(Some(object))),
        Err((_, Fault::Gone(_))) => Ok(Ok(None)),
        Err((About::Object, fault)) => Ok(Err(fault)),
        Err((About::Server, fault)) => Err(fault),
    }
}

/// What became of one that was asked for with others.
enum Lookup {
    Object(Object),
    Gone,
}

/// Several objects at once, by key. What is not in the answer has to be got by itself.
async fn multiget(
    dav: &Dav,
    collection: &Href,
    kind: Kind,
    hrefs: &[Href],
) -> Result<HashMap<String, Lookup>, Fault> {
    let (report, data) = match kind {
        Kind::Calendar => ("c:calendar-multiget", "<c:calendar-data/>"),
        Kind::AddressBook => ("k:addressbook-multiget", "<k:address-data/>"),
    };
    let mut content = format!("<prop><getetag/>{data}</prop>");
    for href in hrefs {
        content.push_str(&format!("<href>{}</href>", escaped(href.as_str())));
    }
    let response = match dav.try_report(collection, report, &content, LIST_BYTES_MAX).await? {
        Ok(response) => response,
        // Together they are too long, so each has to come by itself.
        Err(NetError::TooLarge { .. }) => return Ok(HashMap::new()),
        Err(error) => return Err(unanswered(Intent::Read, &error)),
    };
    // A server may not know the report.
    if matches!(response.status.as_u16(), 400 | 403 | 405 | 415 | 501) {
        return Ok(HashMap::new());
    }
    let answer = dav.multistatus(collection, &response)?;
    let found = answer.items.into_iter().filter_map(|item| {
        if item.is_gone() {
            return Some((item.href.key().to_owned(), Lookup::Gone));
        }
        let data = match kind {
            Kind::Calendar => item.prop(Space::CalDav, "calendar-data"),
            Kind::AddressBook => item.prop(Space::CardDav, "address-data"),
        };
        let (version, data) = (item.text(Space::Dav, "getetag")?.to_owned(), &data?.text);
        let bytes = with_line_ends(data).filter(|bytes| begins(bytes))?;
        let object = Object { href: item.href.as_str().to_owned(), version, bytes };
        Some((item.href.key().to_owned(), Lookup::Object(object)))
    });
    Ok(found.collect())
}

/// An object as it was before it was written into XML, which knows only line feeds.
fn with_line_ends(data: &str) -> Option<Bytes> {
    let data = data.strip_prefix('\n').unwrap_or(data);
    if data.len() > OBJECT_BYTES_MAX {
        return None;
    }
    match data.contains('\r') {
        true => Some(Bytes::copy_from_slice(data.as_bytes())),
        false => Some(Bytes::from(data.replace('\n', "\r\n"))),
    }
}

/// Writes one object.
pub(super) async fn put(
    dav: &Dav,
    href: &Href,
    bytes: Bytes,
    expected: Expected<'_>,
) -> Result<Option<String>, PutFault> {
    if bytes.len() > OBJECT_BYTES_MAX {
        return Err(Fault::Refused(format!("an object may have {OBJECT_BYTES_MAX} bytes at most")).into());
    }
    let is_contact = bytes.get(..11).is_some_and(|start| start.eq_ignore_ascii_case(b"BEGIN:VCARD"));
    let kind = if is_contact { "text/vcard; charset=utf-8" } else { "text/calendar; charset=utf-8" };
    let mut ask = Ask::changes(Method::PUT, href.url(&dav.server))
        .header(header::CONTENT_TYPE, HeaderValue::from_static(kind))
        .body(bytes);
    ask.headers.extend(match expected {
        Expected::Nothing => Some((header::IF_NONE_MATCH, HeaderValue::from_static("*"))),
        Expected::Version(version) => condition(dav, href, version).await?,
    });
    let response = dav.server.send(ask).await?;
    match response.status.as_u16() {
        200 | 201 | 204 => {
            let etag = header_text(&response.headers, header::ETAG);
            // A weak one says that what is there is not quite what was sent.
            Ok(etag.filter(|etag| !etag.is_empty() && !is_weak(etag)).map(str::to_owned))
        }
        _ => Err(refused(dav, &response)),
    }
}

/// Removes one object.
pub(super) async fn delete(dav: &Dav, href: &Href, version: &str) -> Result<(), PutFault> {
    let mut ask = Ask::changes(Method::DELETE, href.url(&dav.server));
    ask.headers.extend(condition(dav, href, version).await?);
    let response = dav.server.send(ask).await?;
    match response.status.is_success() && response.status != StatusCode::MULTI_STATUS {
        true => Ok(()),
        false => Err(refused(dav, &response)),
    }
}

fn refused(dav: &Dav, response: &Response) -> PutFault {
    match response.status {
        StatusCode::PRECONDITION_FAILED => PutFault::Conflict,
        _ => PutFault::Fault(dav.fault(Intent::Change, response)),
    }
}

/// The header by which a server checks that a version is still there.
///
/// `If-Match` never fits a weak ETag (RFC 9110 13.1.1). Then the object is looked at first; between that look and
/// the write another writer could be faster, and for such a server nothing better can be done.
async fn condition(
    dav: &Dav,
    href: &Href,
    version: &str,
) -> Result<Option<(HeaderName, HeaderValue)>, PutFault> {
    let value = |etag: &str| {
        let wrong = || Fault::Refused("that is no version of an object; read it again".to_owned());
        let is_one = etag != "*" && !etag.contains(',') || etag.starts_with('"');
        HeaderValue::from_str(etag).ok().filter(|_| is_one).ok_or_else(wrong)
    };
    if !is_weak(version) {
        return Ok(Some((header::IF_MATCH, value(version)?)));
    }
    let now = match get(dav, href).await {
        Err(Fault::Gone(_)) => return Err(PutFault::Conflict),
        now => now?.version,
    };
    let opaque = |etag: &str| etag.strip_prefix("W/").unwrap_or(etag).to_owned();
    if opaque(&now) != opaque(version) {
        return Err(PutFault::Conflict);
    }
    Ok(if is_weak(&now) { None } else { Some((header::IF_MATCH, value(&now)?)) })
}

fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/")
}
