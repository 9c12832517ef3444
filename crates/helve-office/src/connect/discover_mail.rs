//! Finds the mail servers of an address: known providers, what its domain says in DNS (RFC 6186, 8314), and names
//! that most domains use, tried by connecting. Then tries a login.
//!
//! DNS answers are not signed. So a server that only DNS names is shown to the person before a password goes
//! there, and its certificate must be for the very name that is shown.

use std::time::Duration;

use futures_util::future::join_all;

use super::dns::Resolver;
use super::presets::Preset;
use crate::account::{Fault, MailStore as _};
use crate::imap::ImapAccount;
use crate::smtp::SmtpSubmit;
use crate::text::Address;
use crate::wire::{Login, Opened, Security, Server, Timeouts, Wire};

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Where mails are.
    Imap,
    /// Where mails are handed over.
    Submission,
}

/// A server that may be the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What it is for.
    pub service: Service,
    /// Where it is.
    pub server: Server,
    /// How it was found.
    pub found: Evidence,
}

/// How a server was found, surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The provider is known.
    Preset(&'static Preset),
    /// The domain names it in DNS.
    Dns,
    /// It has a usual name, and answers with a certificate for it.
    Guessed,
}

/// What a server can, once it took a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What it says it can: `CONDSTORE`, `SIZE 26214400`.
    pub abilities: Vec<String>,
    /// How many folders there are, on a server that has some.
    pub folders: Option<usize>,
}

/// The names of services in DNS, best first: what speaks TLS at once comes before what begins without.
const IN_DNS: [(&str, Service, Security); 4] = [
    ("_imaps._tcp", Service::Imap, Security::Tls),
    ("_imap._tcp", Service::Imap, Security::StartTls),
    ("_submissions._tcp", Service::Submission, Security::Tls),
    ("_submission._tcp", Service::Submission, Security::StartTls),
];

/// Usual names below a domain, with usual ports.
const USUAL: [(&str, u16, Service, Security); 8] = [
    ("imap", 993, Service::Imap, Security::Tls),
    ("mail", 993, Service::Imap, Security::Tls),
    ("imap", 143, Service::Imap, Security::StartTls),
    ("mail", 143, Service::Imap, Security::StartTls),
    ("smtp", 465, Service::Submission, Security::Tls),
    ("mail", 465, Service::Submission, Security::Tls),
    ("smtp", 587, Service::Submission, Security::StartTls),
    ("mail", 587, Service::Submission, Security::StartTls),
];

/// Patience with a server that may not be there.
const GUESS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(5),
    command: Duration::from_secs(5),
    delivery: Duration::from_secs(5),
};

/// The servers of an address, best first for each service. No secret is sent to any of them.
pub async fn candidates(address: &Address, resolver: &Resolver) -> Vec<Candidate> {
    let domain = address.domain();
    if let Some(preset) = Preset::of_domain(domain) {
        return of_preset(preset);
    }
    let named = in_dns(domain, resolver).await;
    let has = |service| named.iter().any(|candidate| candidate.service == service);
    if has(Service::Imap) && has(Service::Submission) {
        return named;
    }
    // A company's own domain often stands with one of the large providers.
    let exchangers = resolver.mx(domain).await.unwrap_or_default();
    if let Some(preset) = exchangers.iter().find_map(|host| Preset::of_exchanger(host)) {
        return of_preset(preset);
    }
    let guessed = usual(domain).await.into_iter().filter(|candidate| !has(candidate.service));
    named.iter().cloned().chain(guessed).collect()
}

fn of_preset(preset: &'static Preset) -> Vec<Candidate> {
    let found = Evidence::Preset(preset);
    vec![
        Candidate { service: Service::Imap, server: preset.imap(), found },
        Candidate { service: Service::Submission, server: preset.smtp(), found },
    ]
}

async fn in_dns(domain: &str, resolver: &Resolver) -> Vec<Candidate> {
    let asked = IN_DNS.map(|(name, service, security)| async move {
        let found = resolver.srv(name, domain).await.unwrap_or_default();
        let candidate = move |srv: super::dns::Srv| Candidate {
            service,
            server: Server::new(srv.host, srv.port, security),
            found: Evidence::Dns,
        };
        found.into_iter().map(candidate)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Those of the usual names that answer. All are tried at once: most lead nowhere.
async fn usual(domain: &str) -> Vec<Candidate> {
    let tried = USUAL.map(|(name, port, service, security)| async move {
        let server = Server::new(format!("{name}.{domain}"), port, security);
        // For STARTTLS that is a connection alone; the rest shows when the login is tried.
        match Wire::open(&server, GUESS).await {
            Ok(Opened::Ready(_) | Opened::Plain(_)) => {
                Some(Candidate { service, server, found: Evidence::Guessed })
            }
            Err(_) => None,
        }
    });
    join_all(tried).await.into_iter().flatten().collect()
}

/// Logs in, and says what the server can. Nothing is changed there, and no mail is sent.
pub async fn check(candidate: &Candidate, login: &Login) -> Result<Checked, Fault> {
    let (server, login) = (candidate.server.clone(), login.clone());
    match candidate.service {
        Service::Imap => {
            let account = ImapAccount::new(server, login);
            let abilities = account.abilities().await?;
            Ok(Checked { abilities, folders: Some(account.folders().await?.len()) })
        }
        Service::Submission => {
            let abilities = SmtpSubmit::new(server, login).abilities().await?;
            Ok(Checked { abilities, folders: None })
        }
    }
}
