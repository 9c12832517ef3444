//! Signing in to the page: from a code or a deciding key to a cookie and its place.
//!
//! A cookie stands for a person who decides, never for a caller, and dies with its key. INVARIANT: it
//! counts only under the [`Place`] that was made with it; alone it is worth nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, Method, header};
use helve::KeyId;
use helve::json::hex;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::guard::{Refusal, sole};
use crate::place::Place;
use crate::visitor::Deciding;

/// The name of the cookie that a sign-in sets.
pub(crate) const COOKIE: &str = "helve_session";
/// What every change must carry that comes with the cookie.
pub(crate) const CSRF: &str = "x-helve-csrf";
/// How long one that nobody uses is good.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most at a time. Beyond that, the person who was away longest must sign in again.
const LOGINS_MAX: usize = 1_000;
/// A cookie's value, and a place's: 256 random bits.
pub(crate) const SECRET_BYTES: usize = 32;

/// Everybody who is signed in, by a digest of their place.
pub(crate) struct Logins {
    open: Mutex<HashMap<[u8; 32], Arc<Login>>>,
    began: Instant,
}

/// A person who is signed in.
pub(crate) struct Login {
    pub(crate) deciding: Arc<Deciding>,
    /// A digest of the cookie.
    cookie: [u8; 32],
    /// The key that they signed in with; none where it was a code.
    pub(crate) key: Option<KeyId>,
    /// Until when it is good, whatever happens.
    until: Option<Timestamp>,
    /// Seconds since the beginning.
    used_at: AtomicU64,
    is_over: AtomicBool,
}

impl Default for Logins {
    fn default() -> Self {
        Self { open: Mutex::default(), began: Instant::now() }
    }
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Login>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs a person in. Returns them with their place and their token against forged requests, and the
    /// header that sets their cookie.
    pub(crate) fn add(
        &self,
        mut deciding: Deciding,
        key: Option<KeyId>,
        until: Option<Timestamp>,
    ) -> (Arc<Deciding>, HeaderValue) {
        let secret = random();
        deciding.csrf = Some(random());
        deciding.place = Place::new(&random());
        let deciding = Arc::new(deciding);
        let used_at = AtomicU64::new(self.began.elapsed().as_secs());
        let is_over = AtomicBool::new(false);
        let (shared, cookie) = (Arc::clone(&deciding), digest(&secret));
        let login = Arc::new(Login { deciding: shared, cookie, key, until, used_at, is_over });
        let mut open = self.lock();
        self.sweep(&mut open);
        while open.len() >= LOGINS_MAX {
            let oldest = open.iter().min_by_key(|(_, login)| login.used_at.load(Ordering::Relaxed));
            let Some(digest) = oldest.map(|(digest, _)| *digest) else { break };
            end(open.remove(&digest));
        }
        open.insert(digest(deciding.place.as_str()), login);
        drop(open);
        let set = set_cookie(&deciding.place, &secret, "");
        (deciding, set)
    }

    /// Who is signed in at this place, where a request carries their cookie too.
    pub(crate) fn find(&self, place: &Place, headers: &HeaderMap) -> Option<Arc<Login>> {
        let at = digest(place.as_str());
        let mut open = self.lock();
        let login = open.get(&at).cloned()?;
        if !self.is_good(&login) {
            end(open.remove(&at));
            return None;
        }
        if !cookies(headers).any(|cookie| bool::from(digest(cookie).ct_eq(&login.cookie))) {
            return None;
        }
        login.used_at.store(self.began.elapsed().as_secs(), Ordering::Relaxed);
        Some(login)
    }

    /// Signs a person out.
    pub(crate) fn remove(&self, login: &Login) {
        end(self.lock().remove(&digest(login.deciding.place.as_str())));
    }

    fn sweep(&self, open: &mut HashMap<[u8; 32], Arc<Login>>) {
        open.retain(|_, login| self.is_good(login));
    }

    /// Whether a person is still signed in.
    pub(crate) fn is_good(&self, login: &Login) -> bool {
        let used_at = login.used_at.load(Ordering::Relaxed);
        let is_idle = self.began.elapsed().as_secs().saturating_sub(used_at) > IDLE.as_secs();
        let in_time = login.until.is_none_or(|until| Timestamp::now() < until);
        in_time && !is_idle && !login.is_over.load(Ordering::Acquire)
    }
}

/// Whatever is still open by this sign-in ends with it.
fn end(login: Option<Arc<Login>>) {
    login.into_iter().for_each(|login| login.is_over.store(true, Ordering::Release));
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn random() -> String {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).expect("the operating system has randomness");
    hex(&secret)
}

/// The header that takes a cookie away.
pub(crate) fn no_cookie(place: &Place) -> HeaderValue {
    set_cookie(place, "", "; Max-Age=0")
}

fn set_cookie(place: &Place, secret: &str, more: &str) -> HeaderValue {
    let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path={place}/{more}");
    HeaderValue::try_from(cookie).expect("digits and plain words")
}

/// The cookies of a request that could be ours. Any server of the same host can set some of the same
/// name, which must sign nobody out: each is tried, and only the right one counts.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, value)| *name == COOKIE && value.len() == SECRET_BYTES * 2).map(|(_, value)| value)
}

/// Whether a request with a cookie comes from our own page, and not from another that a person has
/// open, be it on another port of the same machine. `said` is the token that it carries.
pub(crate) fn check_page(
    method: &Method,
    headers: &HeaderMap,
    said: Option<&str>,
    csrf: &str,
) -> Result<(), Refusal> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_same_origin = matches!(site, None | Some(b"same-origin" | b"none"));
    if matches!(*method, Method::GET | Method::HEAD) {
        let follows_link = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
        return match (is_same_origin, follows_link) {
            (true, _) => Ok(()),
            // A person may follow a link to the page from anywhere: by way of the sign-in, which goes on
            // to here by itself.
            (false, true) => Err(Refusal::Token),
            (false, false) => Err(Refusal::Forged),
        };
    }
    let is_said = bool::from(said.unwrap_or_default().as_bytes().ct_eq(csrf.as_bytes()));
    if is_same_origin && is_own_origin(headers) && is_said { Ok(()) } else { Err(Refusal::Forged) }
}

/// Whether the page that sends it, where a browser says which, is of the host that it is sent to.
pub(crate) fn is_own_origin(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        return false;
    }
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let origin = sole(headers, header::ORIGIN).and_then(|origin| origin.split_once("://"));
    let authority = origin.filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
    let host = sole(headers, header::HOST);
    authority.zip(host).is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use helve::approvals::Vouch;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    /// A person who signed in, with their cookie as `name=value`.
    fn signed_in(logins: &Logins) -> (Arc<Deciding>, String) {
        let (deciding, set) = logins.add(Deciding::new("ada", Vouch::Key, &[]), None, None);
        let set = set.to_str().unwrap();
        assert!(set.contains("; HttpOnly; SameSite=Strict; "), "{set}");
        assert!(set.ends_with(&format!("; Path={}/", deciding.place)), "{set}");
        (deciding, set.split(';').next().unwrap().to_owned())
    }

    #[test]
    fn a_cookie_counts_at_its_place_until_it_is_taken_away() {
        let logins = Logins::default();
        let ((ada, own), (eve, other)) = (signed_in(&logins), signed_in(&logins));
        let find = |place: &Place, cookie: &str| logins.find(place, &headers(&[("cookie", cookie)]));
        let found = find(&ada.place, &format!("a=b; {own}")).unwrap();
        assert_eq!(found.deciding.csrf, ada.csrf);
        for (place, cookie) in [
            (&Place::default(), own.as_str()),
            (&Place::new(&"0".repeat(64)), &own),
            (&eve.place, &own),
            (&ada.place, &other),
            (&ada.place, &own[..own.len() - 1]),
            (&ada.place, &format!("{own}0")),
            (&ada.place, "helve_session="),
            (&ada.place, ""),
        ] {
            assert!(find(place, cookie).is_none(), "{cookie}");
        }
        // Another server of this host has set some of the same name.
        assert!(find(&ada.place, &format!("{other}; {own}; helve_session=x")).is_some());
        logins.remove(&found);
        assert!(find(&ada.place, &own).is_none());
        assert!(find(&eve.place, &other).is_some());
    }

    #[test]
    fn whoever_was_away_longest_makes_room() {
        let logins = Logins::default();
        for _ in 0..LOGINS_MAX + 5 {
            logins.add(Deciding::new("ada", Vouch::Key, &[]), None, None);
        }
        assert_eq!(logins.lock().len(), LOGINS_MAX);
    }

    #[test]
    fn a_page_of_another_changes_nothing() {
        let own = [("host", "127.0.0.1:7777"), ("origin", "http://127.0.0.1:7777"), ("x-helve-csrf", "t0")];
        let is = |method: Method, pairs: &[(&'static str, &str)]| {
            let headers = headers(pairs);
            check_page(&method, &headers, sole(&headers, CSRF), "t0").is_ok()
        };
        assert!(is(Method::POST, &own));
        assert!(is(Method::POST, &[own[0], own[2]]));
        assert!(!is(Method::POST, &[own[0], own[1]]), "without its token");
        assert!(!is(Method::POST, &[own[0], own[1], ("x-helve-csrf", "t1")]));
        assert!(!is(Method::POST, &[own[0], own[1], own[2], own[2]]), "twice");
        assert!(!is(Method::POST, &[own[0], ("origin", "http://127.0.0.1:3000"), own[2]]), "another port");
        assert!(!is(Method::POST, &[own[0], ("origin", "null"), own[2]]));
        for site in ["cross-site", "same-site", ""] {
            assert!(!is(Method::POST, &[own[0], own[1], own[2], ("sec-fetch-site", site)]), "{site}");
            assert!(!is(Method::GET, &[own[0], ("sec-fetch-site", site)]), "{site}");
        }
        for site in ["cross-site", "same-site"] {
            let link = headers(&[own[0], ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]);
            assert_eq!(
                check_page(&Method::GET, &link, None, "t0"),
                Err(Refusal::Token),
                "by way of the sign-in"
            );
        }
        assert!(is(Method::GET, &[own[0], ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]));
        assert!(is(Method::DELETE, &own) && !is(Method::DELETE, &own[..2]));
    }
}
