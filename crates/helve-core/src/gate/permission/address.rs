//! The host of an address, read by the parser that the web tools read it with: what a rule takes for the host
//! must be who is asked.

use url::{Host, ParseError, Url};

/// A host's name as addresses have it once they are read: in lower case, in ASCII, without a dot at its end.
pub(super) fn host(name: &str) -> Option<String> {
    let name = name.trim().trim_end_matches('.');
    let is_pattern = name.contains(['*', '?']);
    Host::parse(name).ok().filter(|_| !is_pattern).map(|host| host.to_string())
}

/// Whether an address is surely of this host, or of one below it.
pub(super) fn is_at(domain: &str, text: &str) -> bool {
    !is_read_differently(text) && of(text.trim()).is_some_and(|host| is_below(&host, domain))
}

/// Whether an address may be of this host, or of one below it. One that cannot be read may be anybody's.
pub(super) fn may_be_at(domain: &str, text: &str) -> bool {
    is_read_differently(text) || readings(text).is_none() || speaks_of(domain, text)
}

/// Whether a text that need not be an address is one of this host, or of one below it.
pub(super) fn speaks_of(domain: &str, text: &str) -> bool {
    readings(text).into_iter().flatten().any(|host| is_below(&host, domain))
}

/// Some parsers take a backslash for a slash and some for a letter, and find different hosts.
fn is_read_differently(text: &str) -> bool {
    text.contains('\\')
}

/// The hosts that a text may mean: some tools add a scheme where none is written, and others know more schemes.
/// None where it cannot be read.
fn readings(text: &str) -> Option<Vec<String>> {
    let text = text.trim().replace('\\', "/");
    match Url::parse(&text) {
        Ok(url) if is_of_the_web(&url) => Some(vec![of(&text)?]),
        Ok(_) | Err(ParseError::RelativeUrlWithoutBase) => {
            let after_scheme = text.split_once(':').and_then(|(_, rest)| of(&format!("https:{rest}")));
            Some([of(&format!("https://{text}"))?].into_iter().chain(after_scheme).collect())
        }
        Err(_) => None,
    }
}

/// The host that is asked for an address of the web.
fn of(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(is_of_the_web)?;
    let host = url.host_str()?.trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_owned())
}

fn is_of_the_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp")
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
