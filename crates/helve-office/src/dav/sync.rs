//! What changed in a collection (RFC 6578), or, where the server cannot say, what differs from what was seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_net::Response;

use super::account::DavAccount;
use super::client::{Depth, violated};
use super::href::Href;
use super::listing::{Facts, Kind};
use super::objects::fetch;
use super::state::{State, digest};
use super::xml::{Space, escaped};
use crate::account::{Fault, ObjectChanges};
use crate::web::Intent;

/// A page is about so long.
const PAGE_OBJECTS_MAX: usize = 200;
const PAGE_BYTES_MAX: usize = 8 << 20;

/// What a server says has changed since a token.
#[derive(Debug)]
pub(super) struct List {
    from: String,
    to: String,
    truncated: bool,
    /// In the order of their keys.
    changed: Vec<Href>,
    gone: Vec<String>,
}

/// What became of asking for a list.
enum ListOutcome {
    List(Arc<List>),
    /// The server no longer knows the token.
    Void,
    /// The server does not know the report.
    Unsupported,
}

/// One page of what changed.
pub(super) async fn changes(
    account: &DavAccount,
    collection: &Href,
    since: Option<&str>,
) -> Result<ObjectChanges, Fault> {
    let facts = account.facts(collection).await?;
    let look = Look { account, collection, kind: facts.kind };
    let state = since.and_then(State::read);
    match (facts.syncs, state) {
        (true, Some(State::Token(token))) => look.since(&token).await,
        (true, Some(State::Pages { from, to, after, truncated })) => {
            look.go_on(&from, &to, &after, truncated).await
        }
        // A state of the other kind is of a server that learned or unlearned something.
        (true, Some(State::Seen { .. }) | None) => look.all(since.is_some()).await,
        (false, Some(State::Seen { ctag, objects })) => look.compare(ctag, objects, false).await,
        (false, Some(_) | None) => look.compare(None, BTreeMap::new(), since.is_some()).await,
    }
}

/// A look at one collection.
#[derive(Clone, Copy)]
struct Look<'a> {
    account: &'a DavAccount,
    collection: &'a Href,
    kind: Kind,
}

impl Look<'_> {
    /// What changed since a token; everything where the server does not know it any more.
    async fn since(self, token: &str) -> Result<ObjectChanges, Fault> {
        match self.ask(token).await? {
            ListOutcome::List(list) => self.hand_out(list, None, false).await,
            ListOutcome::Void | ListOutcome::Unsupported => self.all(true).await,
        }
    }

    /// The first page of everything.
    async fn all(self, reset: bool) -> Result<ObjectChanges, Fault> {
        match self.ask("").await? {
            ListOutcome::List(list) => self.hand_out(list, None, reset).await,
            ListOutcome::Void | ListOutcome::Unsupported => {
                self.account.mark_unsyncable(self.collection);
                self.compare(None, BTreeMap::new(), reset).await
            }
        }
    }

    /// The next page of a list, which is asked for again where it is not at hand. What changed since is in the list
    /// from `to` on, whenever that is asked for.
    async fn go_on(self, from: &str, to: &str, after: &str, truncated: bool) -> Result<ObjectChanges, Fault> {
        let kept = self.account.kept_list(self.collection).filter(|list| list.from == from && list.to == to);
        let list = match kept {
            Some(list) => list,
            None => match self.ask(from).await? {
                ListOutcome::List(list) => {
                    let changed = list.changed.clone();
                    Arc::new(List {
                        from: from.to_owned(),
                        to: to.to_owned(),
                        truncated,
                        changed,
                        gone: Vec::new(),
                    })
                }
                ListOutcome::Void | ListOutcome::Unsupported => return self.all(true).await,
            },
        };
        self.hand_out(list, Some(after), false).await
    }

    /// One page of a list, behind `after`.
    async fn hand_out(
        self,
        list: Arc<List>,
        after: Option<&str>,
        reset: bool,
    ) -> Result<ObjectChanges, Fault> {
        let first = after.map_or(0, |after| list.changed.partition_point(|href| href.key() <= after));
        let rest = &list.changed[first..];
        let page = &rest[..rest.len().min(PAGE_OBJECTS_MAX)];
        let fetched = fetch(&self.account.dav, self.collection, self.kind, page, PAGE_BYTES_MAX).await?;
        let last = page.get(fetched.taken.wrapping_sub(1)).filter(|_| fetched.taken < rest.len());
        let state = match last {
            Some(last) => State::Pages {
                from: list.from.clone(),
                to: list.to.clone(),
                after: last.key().to_owned(),
                truncated: list.truncated,
            },
            None => State::Token(list.to.clone()),
        };
        self.account.keep_list(self.collection, last.map(|_| Arc::clone(&list)));
        Ok(ObjectChanges {
            reset,
            changed: fetched.objects,
            unread: fetched.unread,
            gone: if after.is_none() { list.gone.clone() } else { Vec::new() },
            more: last.is_some() || list.truncated,
            state: state.text(),
        })
    }

    /// Asks what changed since a token.
    async fn ask(self, token: &str) -> Result<ListOutcome, Fault> {
        let limit = format!("<limit><nresults>{PAGE_OBJECTS_MAX}</nresults></limit>");
        let mut response = self.report(token, &limit).await?;
        // A server that knows no limits refuses the whole (RFC 6578 3.7).
        if response.status.as_u16() == 507 {
            response = self.report(token, "").await?;
        }
        match response.status.as_u16() {
            207 => self.read(token, &response).map(|list| ListOutcome::List(Arc::new(list))),
            401 | 404 | 429 => Err(self.account.dav.fault(Intent::Read, &response)),
            403 if violated(&response).as_deref() == Some("need-privileges") => {
                Err(self.account.dav.fault(Intent::Read, &response))
            }
            // Servers name a void token in many ways; a whole list is right after each of them.
            400..=499 if !token.is_empty() => Ok(ListOutcome::Void),
            400..=499 | 501 => Ok(ListOutcome::Unsupported),
            _ => Err(self.account.dav.fault(Intent::Read, &response)),
        }
    }

    async fn report(self, token: &str, limit: &str) -> Result<Response, Fault> {
        let token = escaped(token);
        let content = format!(
            "<sync-token>{token}</sync-token><sync-level>1</sync-level>{limit}<prop><getetag/></prop>"
        );
        self.account.dav.report(self.collection, "sync-collection", &content).await
    }

    fn read(self, from: &str, response: &Response) -> Result<List, Fault> {
        let dav = &self.account.dav;
        let answer = dav.multistatus(self.collection, response)?;
        let to = answer.sync_token.filter(|token| token.len() <= 4096);
        let to = to.ok_or_else(|| dav.nonsense("says what changed, and not until when"))?;
        if answer.truncated && to == from {
            return Err(dav.nonsense("says that there is more, and always the same"));
        }
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for item in answer.items {
            // Collections inside a calendar are none of ours.
            if item.href.is_same_collection(self.collection) || item.href.as_str().ends_with('/') {
                continue;
            }
            // What was kept in the server's own spelling before is kept by its key from now on.
            let other = Some(item.href.as_str()).filter(|path| *path != item.href.key());
            gone.extend(other.map(str::to_owned));
            match item.is_gone() {
                true => gone.push(item.href.key().to_owned()),
                false => changed.push(item.href),
            }
        }
        changed.sort_unstable();
        changed.dedup();
        Ok(List { from: from.to_owned(), to, truncated: answer.truncated, changed, gone })
    }

    /// What differs from what was seen.
    async fn compare(
        self,
        ctag: Option<String>,
        mut seen: BTreeMap<String, String>,
        reset: bool,
    ) -> Result<ObjectChanges, Fault> {
        let dav = &self.account.dav;
        // Before the list: what changes in between is found next time.
        let now = Facts::ask(dav, self.collection).await?.ctag;
        if ctag.is_some() && ctag == now {
            let state = State::Seen { ctag, objects: seen }.text();
            return Ok(ObjectChanges { reset, state, ..ObjectChanges::default() });
        }
        let (listed, truncated) = self.etags().await?;
        let differs = |href: &Href, etag: &String| seen.get(href.key()) != Some(&digest(etag));
        let changed: Vec<(Href, String)> = listed
            .iter()
            .filter(|(href, etag)| differs(href, etag))
            .map(|(h, e)| (h.clone(), e.clone()))
            .collect();
        // All that it lists is read, but what it does not list may be there all the same.
        if truncated && changed.is_empty() {
            return Err(
                dav.nonsense("lists only a part of a collection, and does not say how to get the rest")
            );
        }
        let page: Vec<Href> = changed.iter().take(PAGE_OBJECTS_MAX).map(|(href, _)| href.clone()).collect();
        let fetched = fetch(dav, self.collection, self.kind, &page, PAGE_BYTES_MAX).await?;
        let is_there: std::collections::HashSet<&str> = listed.keys().map(Href::key).collect();
        let is_gone = |href: &String| !truncated && !is_there.contains(href.as_str());
        let gone: Vec<String> = seen.keys().filter(|href| is_gone(href)).cloned().collect();
        seen.retain(|href, _| !is_gone(href));
        seen.extend(changed.iter().take(fetched.taken).map(|(h, etag)| (h.key().to_owned(), digest(etag))));
        let more = truncated || fetched.taken < changed.len();
        let state = State::Seen { ctag: now.filter(|_| !more), objects: seen }.text();
        Ok(ObjectChanges { reset, changed: fetched.objects, gone, unread: fetched.unread, state, more })
    }

    /// Every object of the collection with its ETag, and whether the server left some out.
    async fn etags(self) -> Result<(BTreeMap<Href, String>, bool), Fault> {
        let dav = &self.account.dav;
        let answer = dav.propfind(self.collection, Depth::Members, "<getetag/><resourcetype/>").await?;
        let truncated = answer.truncated;
        let objects = answer.items.into_iter().filter_map(|item| {
            let kind = item.prop(Space::Dav, "resourcetype");
            let is_collection = kind.is_some_and(|kind| kind.child(Space::Dav, "collection").is_some());
            let is_object = !is_collection && !item.href.is_same_collection(self.collection);
            let etag = item.text(Space::Dav, "getetag").filter(|_| is_object)?.to_owned();
            Some((item.href, etag))
        });
        Ok((objects.collect(), truncated))
    }
}
