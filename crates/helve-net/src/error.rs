//! Why a request did not end in a response.
//!
//! Messages name the host and port alone: a path, a query or a header may hold a secret.

use std::net::IpAddr;

use crate::address::{Reach, Special};
use crate::pattern::HostPattern;

/// Why a request did not end in a response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Not a URL that Helve fetches.
    #[error("the URL is refused: {reason}")]
    BadUrl {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A header that a request must not bring along.
    #[error("the header `{name}` is the client's own to set; leave it out")]
    BadHeader {
        /// The name of the header.
        name: String,
    },
    /// The address is not on the public internet and the policy does not list it.
    #[error("`{host}` is at {address} ({range}), not on the public internet{}", advice(.entry.as_deref()))]
    Forbidden {
        /// Host and port.
        host: String,
        /// Where it is.
        address: IpAddr,
        /// What that range is for.
        range: &'static str,
        /// The entry that would allow it, where that can be advised: not where credentials are given out.
        entry: Option<String>,
    },
    /// The lists of the policy rule it out.
    #[error("`{host}` must not be reached: {reason}")]
    Denied {
        /// Host and port.
        host: String,
        /// Which list, and what to do.
        reason: String,
    },
    /// The name could not be resolved.
    #[error("the name of `{host}` could not be resolved; check its spelling and this machine's DNS")]
    Dns {
        /// Host and port.
        host: String,
        /// For the log.
        source: Source,
    },
    /// No connection could be made.
    #[error("no connection to `{host}`; check that it runs and can be reached from here")]
    Connect {
        /// Host and port.
        host: String,
        /// For the log.
        source: Source,
    },
    /// The other side could not prove who it is, or does not speak TLS.
    #[error("no secure connection to `{host}`: {reason}")]
    Tls {
        /// Host and port.
        host: String,
        /// What went wrong, from the TLS library.
        reason: String,
        /// Whether that was before anything of the request was sent.
        unsent: bool,
    },
    /// Not done before the deadline.
    #[error("`{host}` did not answer in time")]
    Timeout {
        /// Host and port.
        host: String,
        /// Whether there was no connection yet, so that nothing of the request was sent.
        unsent: bool,
    },
    /// The response is larger than allowed, after decompression.
    #[error("the response of `{host}` is larger than {limit} bytes; ask for less, or raise the limit")]
    TooLarge {
        /// Host and port.
        host: String,
        /// How many bytes are allowed.
        limit: usize,
    },
    /// A redirect that is not followed.
    #[error("`{host}` redirects, and that is not followed: {reason}")]
    Redirect {
        /// Host and port.
        host: String,
        /// Why the redirect is not followed.
        reason: &'static str,
    },
    /// A redirect was followed, and nothing could be sent to where it leads.
    #[error("a redirect leads nowhere: {source}")]
    Redirected {
        /// Why nothing could be sent there.
        source: Box<NetError>,
    },
    /// The connection broke, or what came was not HTTP.
    #[error("the exchange with `{host}` broke off: {}", cause(&**.source))]
    Broken {
        /// Host and port.
        host: String,
        /// For the log.
        source: Source,
    },
    /// The client itself cannot be made.
    #[error("the HTTP client cannot be made; check that CA certificates are installed")]
    Setup {
        /// For the log.
        source: Source,
    },
}

/// What lies beneath, for the log.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// What a check says when it refuses; the resolver's is found again in the chain of a client error.
/// An address is there unless a name was refused without a lookup.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the policy refuses it")]
pub(crate) enum Refused {
    /// It is not on the public internet.
    Special { address: IpAddr, special: Special },
    /// An entry of `deny` has it.
    Denied { address: Option<IpAddr>, entry: HostPattern },
    /// There are entries of `only`, and none has it.
    NotListed { address: Option<IpAddr> },
}

impl NetError {
    pub(crate) fn refused(host: String, refused: &Refused) -> Self {
        let found = |address: &Option<IpAddr>| match address {
            Some(address) => format!(", and it is at {address}"),
            None => String::new(),
        };
        match refused {
            Refused::Special { address, special: Special { name, reach } } => {
                let entry = match reach {
                    Reach::Private => Some(host.clone()),
                    Reach::ByAddress => None,
                };
                Self::Forbidden { host, address: *address, range: name, entry }
            }
            Refused::Denied { address, entry } => {
                Self::Denied { host, reason: format!("[net] deny has `{entry}`{}", found(address)) }
            }
            Refused::NotListed { address } => {
                let found = found(address);
                let reason = format!(
                    "[net] only does not list it{found}; if it should be reached, add `{host}` there"
                );
                Self::Denied { host, reason }
            }
        }
    }

    /// Whether nothing of the request was sent, so that the other side cannot have begun what it asks for.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::BadUrl { .. }
            | Self::BadHeader { .. }
            | Self::Forbidden { .. }
            | Self::Denied { .. }
            | Self::Dns { .. }
            | Self::Connect { .. }
            | Self::Setup { .. } => true,
            Self::Tls { unsent, .. } | Self::Timeout { unsent, .. } => *unsent,
            Self::TooLarge { .. } | Self::Redirect { .. } | Self::Broken { .. } | Self::Redirected { .. } => {
                false
            }
        }
    }

    /// The same error of a request that followed another one's redirect: that one had its answer.
    pub(crate) fn after_redirect(self) -> Self {
        match self {
            // The policy's word stays as it is: it is no matter of trying again.
            Self::Forbidden { .. } | Self::Denied { .. } => self,
            error if error.is_unsent() => Self::Redirected { source: Box::new(error) },
            error => error,
        }
    }

    /// Sorts an error of the HTTP library.
    pub(crate) fn sort(host: &str, error: reqwest::Error) -> Self {
        // Never keep the URL: its query may hold a key.
        let error = error.without_url();
        let host = host.to_owned();
        if let Some(refused) = find::<Refused>(&error) {
            return Self::refused(host, refused);
        }
        if let Some(tls) = find::<rustls::Error>(&error) {
            return Self::Tls { host, reason: tls.to_string(), unsent: error.is_connect() };
        }
        if error.is_timeout() {
            return Self::Timeout { host, unsent: error.is_connect() };
        }
        if error.is_dns() {
            return Self::Dns { host, source: error.into() };
        }
        if error.is_connect() {
            return Self::Connect { host, source: error.into() };
        }
        Self::Broken { host, source: error.into() }
    }
}

fn advice(entry: Option<&str>) -> String {
    entry.map(|entry| format!("; if it should be reached, add `{entry}` to [net] allow")).unwrap_or_default()
}

/// Why an exchange broke off, as far as the HTTP library tells. It says nothing of what the other side sent.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    use std::io::ErrorKind;
    if let Some(error) = find::<hyper::Error>(error) {
        if error.is_parse_too_large() {
            return "its headers are too large".to_owned();
        }
        if error.is_parse() {
            return "what it answers is not HTTP".to_owned();
        }
        if error.is_incomplete_message() {
            return "it closed the connection before it had answered".to_owned();
        }
    } else if let Some(error) = find::<std::io::Error>(error)
        && matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other)
    {
        // Only what unpacks a content says so.
        return "its content cannot be unpacked".to_owned();
    }
    deepest(error).to_string()
}

/// The error that the others are about.
fn deepest<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last
}

/// Looks for an error of one type in a chain, also inside I/O errors, which hide what they wrap.
fn find<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
