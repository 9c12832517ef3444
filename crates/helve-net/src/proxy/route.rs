//! Decides about a target, and connects to it.

use std::net::IpAddr;

use tokio::net::TcpStream;

use super::{Passage, Proxy};
use crate::check::Verdict;
use crate::dial::dial;
use crate::error::{NetError, Refused};
use crate::pattern::is_localhost;
use crate::policy::covers;
use crate::resolver::look_up;
use crate::target::Target;

/// A connection to a target, if it may be reached and answers.
pub(super) async fn connect(proxy: &Proxy, target: &Target) -> Result<TcpStream, NetError> {
    let host = || target.to_string();
    let work = async {
        let found = addresses(proxy, target).await;
        tell(proxy, target, found.as_ref().err());
        dial(target, found?).await
    };
    let within = tokio::time::timeout(proxy.policy.connect_timeout(), work);
    within.await.unwrap_or_else(|_| Err(NetError::Timeout { host: host(), unsent: true }))
}

/// The addresses of a target, all of which were granted and passed the policy.
async fn addresses(proxy: &Proxy, target: &Target) -> Result<Vec<IpAddr>, NetError> {
    let Target { host, port, address } = target;
    let refuse = |refused: Refused| NetError::refused(target.to_string(), &refused);
    let found = match address {
        Some(address) => vec![*address],
        None => {
            // A lookup tells the name to others, and data can leave that way: a name must be granted
            // as such. What is looked up nowhere can be granted by its address.
            if !proxy.grants.iter().any(|grant| grant.names(host, *port)) && !is_localhost(host) {
                return Err(not_granted(target));
            }
            proxy.policy.check_target(target).map_err(refuse)?;
            look_up(&proxy.lookup, host)
                .await
                .map_err(|error| NetError::Dns { host: target.to_string(), source: error.into() })?
        }
    };
    let granted: Vec<_> =
        found.into_iter().filter(|address| covers(&proxy.grants, host, *port, *address)).collect();
    if granted.is_empty() {
        return Err(not_granted(target));
    }
    proxy.policy.admit(host, *port, granted).map_err(refuse)
}

fn not_granted(target: &Target) -> NetError {
    let host = target.to_string();
    let reason = format!("it was not granted; if it should be reached, grant `{host}`");
    NetError::Denied { host, reason }
}

fn tell(proxy: &Proxy, target: &Target, error: Option<&NetError>) {
    let passage = match error {
        Some(error) if is_refusal(error) => {
            Passage { target: target.to_string(), verdict: Verdict::Deny, reason: error.to_string() }
        }
        Some(_) | None => {
            Passage { target: target.to_string(), verdict: Verdict::Allow, reason: String::new() }
        }
    };
    tracing::debug!(target = passage.target, verdict = ?passage.verdict, reason = passage.reason, "asked of the proxy");
    (proxy.tell)(&passage);
}

/// Whether it was refused, and not merely impossible.
pub(super) fn is_refusal(error: &NetError) -> bool {
    matches!(error, NetError::Denied { .. } | NetError::Forbidden { .. } | NetError::BadUrl { .. })
}
