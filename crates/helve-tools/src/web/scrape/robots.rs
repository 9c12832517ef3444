//! robots.txt, by RFC 9309.
//!
//! By hand: the crates for it compile a regular expression for each rule that ends in `$`, and half
//! a megabyte of such rules would take gigabytes. Here a rule is matched as it stands, in time
//! linear in its length and the path's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use helve::{ErrorCode, ToolError};
use helve_net::{Request, Url};

use super::super::client::LazyClient;

/// What sites call us.
const AGENT: &str = "helve";
/// How much of the file is obeyed; the RFC asks for at least this.
const RULES_BYTES_MAX: usize = 500 << 10;
/// A file larger than this is not read at all, and nothing is allowed.
const FILE_BYTES_MAX: usize = 2 << 20;
const RULES_MAX: usize = 20_000;
const FRESH: Duration = Duration::from_secs(3_600);
/// A site that could not say is asked again soon.
const FRESH_REFUSAL: Duration = Duration::from_secs(60);
const ORIGINS_MAX: usize = 256;
const FETCH_TIME: Duration = Duration::from_secs(10);

/// The rules of the sites that were asked lately.
#[derive(Default)]
pub(super) struct Robots {
    known: Mutex<HashMap<String, (Instant, Arc<Rules>)>>,
}

impl Robots {
    /// Whether a page may be read, as its site says.
    pub(super) async fn check(
        &self,
        url: &Url,
        client: &LazyClient,
        deadline: Instant,
    ) -> Result<(), ToolError> {
        let origin = url.origin().ascii_serialization();
        let rules = match self.fresh(&origin) {
            Some(rules) => rules,
            None => {
                let rules = Arc::new(ask(&origin, client, deadline).await?);
                self.keep(origin.clone(), Arc::clone(&rules));
                rules
            }
        };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        if rules.allow(&path) {
            return Ok(());
        }
        let message = match *rules {
            Rules::Unknown => {
                format!("`{origin}` could not say in its robots.txt what may be read, so nothing may")
            }
            Rules::All | Rules::List(_) => format!("the robots.txt of `{origin}` asks not to read this page"),
        };
        Err(ToolError::new(ErrorCode::PermissionDenied, message).suggest(
            "look for another source, or an API of the site; only the operator can turn this off, with \
             `robots = false` under `[web.scrape]`",
        ))
    }

    fn fresh(&self, origin: &str) -> Option<Arc<Rules>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, rules) = known.get(origin)?;
        let fresh = match **rules {
            Rules::Unknown => FRESH_REFUSAL,
            Rules::All | Rules::List(_) => FRESH,
        };
        (read.elapsed() < fresh).then(|| Arc::clone(rules))
    }

    fn keep(&self, origin: String, rules: Arc<Rules>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ORIGINS_MAX
            && let Some(oldest) =
                known.iter().min_by_key(|(_, (read, _))| *read).map(|(origin, _)| origin.clone())
        {
            known.remove(&oldest);
        }
        known.insert(origin, (Instant::now(), rules));
    }
}

async fn ask(origin: &str, client: &LazyClient, deadline: Instant) -> Result<Rules, ToolError> {
    let url = Url::parse(&format!("{origin}/robots.txt"));
    let url =
        url.map_err(|error| ToolError::failed(format!("`{origin}` is no origin")).with_source(error))?;
    let mut request = Request::new(helve_net::Method::GET, url).response_bytes_max(FILE_BYTES_MAX);
    request.deadline = deadline.min(Instant::now() + FETCH_TIME);
    let response = match client.fetch(request).await {
        Ok(response) => response,
        Err(error) if error.code() == ErrorCode::OutputTooLarge => return Ok(Rules::Unknown),
        // The page would fail alike; this error says more than a refusal would.
        Err(error) => return Err(error),
    };
    Ok(match response.status.as_u16() {
        200..=299 => {
            Rules::parse(&String::from_utf8_lossy(&response.body[..response.body.len().min(RULES_BYTES_MAX)]))
        }
        // Too many requests is no permission.
        429 | 500..=599 => Rules::Unknown,
        _ => Rules::All,
    })
}

/// What may be read.
#[derive(Debug, PartialEq)]
enum Rules {
    /// Everything: there is no file.
    All,
    /// Nothing: the site could not say.
    Unknown,
    List(Vec<Rule>),
}

#[derive(Debug, PartialEq)]
struct Rule {
    allow: bool,
    pattern: String,
}

impl Rules {
    /// Reads a file: the groups for us, or else the ones for everybody.
    fn parse(text: &str) -> Self {
        let (mut ours, mut everybodys) = (Vec::new(), Vec::new());
        let mut found_ours = false;
        // Whom the current group is for, and whether its rules have begun.
        let (mut for_us, mut for_all, mut in_rules) = (false, false, false);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "user-agent" => {
                    if std::mem::take(&mut in_rules) {
                        (for_us, for_all) = (false, false);
                    }
                    // The product name alone counts: `Helve/1.0` is `helve`.
                    let name = value.split(|c: char| !c.is_ascii_alphabetic() && c != '_' && c != '-').next();
                    let us = name.is_some_and(|name| name.eq_ignore_ascii_case(AGENT));
                    (for_us, for_all, found_ours) = (for_us || us, for_all || value == "*", found_ours || us);
                }
                key @ ("allow" | "disallow") => {
                    in_rules = true;
                    // An empty rule matches nothing.
                    if value.is_empty() || ours.len() + everybodys.len() >= RULES_MAX {
                        continue;
                    }
                    let rule = || Rule { allow: key == "allow", pattern: normal(value) };
                    if for_us {
                        ours.push(rule());
                    }
                    if for_all {
                        everybodys.push(rule());
                    }
                }
                _ => {}
            }
        }
        Self::List(if found_ours { ours } else { everybodys })
    }

    /// The longest rule that fits decides; among equals, the one that allows.
    fn allow(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Unknown => false,
            Self::List(_) if path == "/robots.txt" => true,
            Self::List(rules) => {
                let path = normal(path);
                let fitting = rules.iter().filter(|rule| fits(&rule.pattern, &path));
                fitting.max_by_key(|rule| (rule.pattern.len(), rule.allow)).is_none_or(|rule| rule.allow)
            }
        }
    }
}

/// Percent-encoding that both sides write alike: what needs none has none, the rest is upper case.
fn normal(text: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
    const KEPT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'%');
    let mut normal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        normal.push_str(&utf8_percent_encode(&rest[..at], KEPT).to_string());
        let escape =
            rest.get(at..at + 3).filter(|escape| escape.as_bytes()[1..].iter().all(u8::is_ascii_hexdigit));
        let Some(escape) = escape else {
            normal.push_str("%25");
            rest = &rest[at + 1..];
            continue;
        };
        match percent_decode_str(escape).next() {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                normal.push(char::from(byte))
            }
            _ => normal.push_str(&escape.to_ascii_uppercase()),
        }
        rest = &rest[at + 3..];
    }
    normal.push_str(&utf8_percent_encode(rest, KEPT).to_string());
    normal
}

/// Whether a pattern fits the start of a path: `*` is anything, a final `$` is the end.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, to_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (number, part) in parts.iter().enumerate() {
        // The last part must stand at the end, however often it occurs before.
        if to_end && number + 1 == parts.len() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    !to_end || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_decide_as_the_rfc_says() {
        let cases = [
            ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/x", false),
            ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", true),
            ("User-agent: *\nDisallow: /\nAllow: /", "/x", true),
            ("User-agent: *\nDisallow:", "/x", true),
            ("User-agent: *\nDisallow: /", "/robots.txt", true),
            ("user-AGENT : Helve/2.0 # us\ndisallow: /u\n\nUser-agent: *\nDisallow: /", "/x", true),
            ("User-agent: Helve\nUser-agent: other\nDisallow: /u", "/u", false),
            ("User-agent: helve-images\nDisallow: /", "/x", true),
            (
                "User-agent: helve\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: helve\nDisallow: /b",
                "/b",
                false,
            ),
            ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", false),
            ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", true),
            ("User-agent: *\nDisallow: /*.pdf$", "/x.pdf/y.pdf", false),
            ("User-agent: *\nDisallow: /a$", "/a", false),
            ("User-agent: *\nDisallow: /a$", "/ab", true),
            ("User-agent: *\nDisallow: /a*b*c", "/a-b-c-d", false),
            ("User-agent: *\nDisallow: *?q=", "/x?q=1", false),
            ("User-agent: *\nDisallow: /%7ejoe", "/~joe", false),
            ("User-agent: *\nDisallow: /caf\u{e9}", "/caf%C3%A9", false),
            ("User-agent: *\nDisallow: /a%2fb", "/a/b", true),
            ("\u{feff}User-agent: *\r\nDisallow: /a\r\n", "/a", false),
            ("Disallow: /", "/x", true),
            ("<html>not found</html>", "/x", true),
        ];
        for (text, path, allowed) in cases {
            assert_eq!(Rules::parse(text).allow(path), allowed, "{text:?} {path}");
        }
        assert!(Rules::All.allow("/x") && !Rules::Unknown.allow("/x"));
    }

    #[test]
    fn hostile_files_are_quick() {
        let stars = format!("User-agent: *\nDisallow: /{}z$\n", "*a".repeat(5_000)).repeat(20);
        let many = format!("User-agent: *\n{}", "Disallow: /a$\n".repeat(30_000));
        let path = format!("/{}", "a".repeat(2_000));
        assert!(Rules::parse(&stars).allow(&path));
        assert!(Rules::parse(&many).allow(&path));
    }

    proptest! {
        #[test]
        fn a_plain_rule_forbids_its_own_path(path in "/[a-zA-Z0-9/_.~é-]{0,20}") {
            let rules = Rules::parse(&format!("User-agent: *\nDisallow: {path}"));
            prop_assert_eq!(rules.allow(&path), path == "/robots.txt");
        }
    }
}
