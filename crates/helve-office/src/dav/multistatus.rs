//! What `PROPFIND` and `REPORT` answer: many places with their properties.

use super::href::Href;
use super::xml::{Element, Space};
use crate::account::Fault;
use crate::web::Server;

/// Most places in one answer.
const ITEMS_MAX: usize = 50_000;

/// An answer about several places.
#[derive(Debug)]
pub(crate) struct MultiStatus {
    pub(crate) items: Vec<Item>,
    /// What to ask from next time, where the answer is one of `sync-collection`.
    pub(crate) sync_token: Option<String>,
    /// The server cut its answer short: there is more from the token on.
    pub(crate) truncated: bool,
}

/// What the answer says about one address.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) href: Href,
    /// A status for the place as a whole; absent where there are properties.
    pub(crate) status: Option<u16>,
    /// Those properties that the server has.
    pub(crate) props: Vec<Element>,
}

impl Item {
    pub(crate) fn prop(&self, space: Space, name: &str) -> Option<&Element> {
        self.props.iter().find(|prop| prop.is(space, name))
    }

    /// The text of a property, without the space around it; `None` where it is empty.
    pub(crate) fn text(&self, space: Space, name: &str) -> Option<&str> {
        Some(self.prop(space, name)?.text.trim()).filter(|text| !text.is_empty())
    }

    /// The hrefs that a property holds, as they are written.
    pub(crate) fn hrefs(&self, space: Space, name: &str) -> impl Iterator<Item = &str> {
        let hrefs = self.prop(space, name).into_iter().flat_map(|prop| prop.all(Space::Dav, "href"));
        hrefs.map(|href| href.text.trim()).filter(|href| !href.is_empty())
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.status, Some(404 | 410))
    }
}

impl MultiStatus {
    /// Reads an answer to a request about `asked`. Places elsewhere than at or below it are left out: nothing that
    /// a server says makes us go there.
    pub(crate) fn read(server: &Server, asked: &Href, root: Element) -> Result<Self, Fault> {
        let nonsense = |why: &str| Fault::Nonsense(format!("`{}` {why}", server.host()));
        if !root.is(Space::Dav, "multistatus") {
            return Err(nonsense("answers with other XML than asked for"));
        }
        let mut answer = Self { items: Vec::new(), sync_token: None, truncated: false };
        for child in root.children {
            if child.is(Space::Dav, "sync-token") {
                answer.sync_token = Some(child.text.trim().to_owned()).filter(|token| !token.is_empty());
            } else if child.is(Space::Dav, "response") {
                let Some(item) = item(server, asked, child) else { continue };
                if item.status == Some(507) {
                    answer.truncated = true;
                    continue;
                }
                answer.items.push(item);
            }
            if answer.items.len() > ITEMS_MAX {
                return Err(nonsense("lists more objects than can be read at once"));
            }
        }
        Ok(answer)
    }
}

fn item(server: &Server, asked: &Href, response: Element) -> Option<Item> {
    let href = Href::read(server, asked, response.text_of(Space::Dav, "href")?).ok()?;
    if !href.is_below(asked) && !href.is_same_collection(asked) {
        tracing::debug!(host = server.host(), "a place beyond the collection was left out");
        return None;
    }
    let status = response.text_of(Space::Dav, "status").and_then(status);
    let mut props = Vec::new();
    for child in response.children {
        let is_good = || child.text_of(Space::Dav, "status").and_then(status_ok).unwrap_or(true);
        if child.is(Space::Dav, "propstat") && is_good() {
            let found = child.children.into_iter().filter(|part| part.is(Space::Dav, "prop"));
            props.extend(found.flat_map(|prop| prop.children));
        }
    }
    Some(Item { href, status, props })
}

/// The number in `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn status_ok(line: &str) -> Option<bool> {
    status(line).map(|status| (200..300).contains(&status))
}

/// For the fuzz targets: the URLs that an answer about `asked` names, and how many properties it has.
#[cfg(fuzzing)]
pub fn read_multistatus(
    settings: &crate::web::WebSettings,
    asked: &str,
    answer: &[u8],
) -> Option<(Vec<helve_net::Url>, usize)> {
    // Made once: its client reads the certificates of this machine.
    static SERVER: std::sync::OnceLock<Option<Server>> = std::sync::OnceLock::new();
    let server = SERVER.get_or_init(|| Server::new(settings).ok()).as_ref()?;
    let asked = Href::kept(server, asked).ok()?;
    let root = super::xml::parse(answer, super::xml::Limits::default()).ok()?;
    let read = MultiStatus::read(server, &asked, root).ok()?;
    let props = read.items.iter().map(|item| item.props.len()).sum();
    Some((read.items.iter().map(|item| item.href.url(server)).collect(), props))
}
