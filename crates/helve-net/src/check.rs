//! Says what would become of a URL, without connecting.

use std::net::IpAddr;

use serde::Serialize;
use url::Url;

use crate::address;
use crate::error::{NetError, Refused};
use crate::policy::NetPolicy;
use crate::resolver::{Lookup, look_up};
use crate::target::Target;

/// What would become of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// As it was given.
    pub url: String,
    /// Whether it would be fetched.
    pub verdict: Verdict,
    /// Why, or why not and what to do.
    pub reason: String,
    /// The host as it is understood: a name, or an address in its plain form.
    pub host: Option<String>,
    /// The port, where it can be told.
    pub port: Option<u16>,
    /// Where the host is.
    pub addresses: Vec<AddressReport>,
}

/// Whether something may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may be reached.
    Allow,
    /// It may not.
    Deny,
}

/// What would become of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddressReport {
    /// One of the addresses that the name stands for.
    pub address: IpAddr,
    /// Whether a connection may go there.
    pub verdict: Verdict,
    /// What its range is for: `public`, `loopback`, `private use`, and so on.
    pub range: &'static str,
    /// Why, or why not and what to do.
    pub reason: String,
}

/// Looks at a URL as [`Client`](crate::Client) would, up to the connection. Nothing fails: what
/// cannot be checked is denied.
pub async fn check(policy: &NetPolicy, url: &str, lookup: &Lookup) -> Report {
    let mut report = Report {
        url: url.to_owned(),
        verdict: Verdict::Deny,
        reason: String::new(),
        host: None,
        port: None,
        addresses: Vec::new(),
    };
    match judge(policy, url, lookup, &mut report).await {
        Ok(reason) => (report.verdict, report.reason) = (Verdict::Allow, reason),
        Err(error) => report.reason = error.to_string(),
    }
    report
}

async fn judge(
    policy: &NetPolicy,
    url: &str,
    lookup: &Lookup,
    report: &mut Report,
) -> Result<String, NetError> {
    let url = Url::parse(url).map_err(|error| NetError::BadUrl { reason: error.to_string() })?;
    report.host = url.host_str().map(|host| host.trim_matches(['[', ']']).to_owned());
    report.port = url.port_or_known_default();
    let target = Target::of(&url)?;
    let Target { host, port, address } = &target;
    report.host = Some(host.clone());
    let refuse = |refused: Refused| NetError::refused(target.to_string(), &refused);
    let addresses = match address {
        Some(address) => vec![*address],
        None => {
            policy.check_target(&target).map_err(refuse)?;
            let found = tokio::time::timeout(policy.connect_timeout(), look_up(lookup, host)).await;
            let found = found.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            found.map_err(|error| NetError::Dns { host: target.to_string(), source: error.into() })?
        }
    };
    report.addresses = addresses.iter().map(|address| judge_address(policy, &target, *address)).collect();
    policy.admit(host, *port, addresses).map_err(refuse)?;
    let listed = report.addresses.iter().any(|found| found.range != PUBLIC);
    Ok(if listed { "[net] allow lists it" } else { "it is on the public internet" }.to_owned())
}

const PUBLIC: &str = "public";

fn judge_address(policy: &NetPolicy, target: &Target, address: IpAddr) -> AddressReport {
    let range = address::special(address).map_or(PUBLIC, |special| special.name);
    let (verdict, reason) = match policy.check(&target.host, target.port, address) {
        Ok(()) if range == PUBLIC => (Verdict::Allow, "it is on the public internet".to_owned()),
        Ok(()) => (Verdict::Allow, "[net] allow lists it".to_owned()),
        Err(refused) => (Verdict::Deny, NetError::refused(target.to_string(), &refused).to_string()),
    };
    AddressReport { address, verdict, range, reason }
}
