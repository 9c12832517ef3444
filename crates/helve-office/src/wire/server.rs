//! Where a server is, and how long it may take.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A mail server that an account uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// Its name or address. The certificate must be for this.
    pub host: String,
    /// The port it listens on.
    pub port: u16,
    /// How the connection is secured.
    pub security: Security,
    /// A PEM file with authorities that are trusted besides those of this machine.
    pub ca_file: Option<PathBuf>,
}

impl Server {
    /// A server whose certificate this machine trusts.
    pub fn new(host: impl Into<String>, port: u16, security: Security) -> Self {
        Self { host: host.into(), port, security, ca_file: None }
    }
}

/// Host and port, as messages name a server.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How a connection is secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// TLS from the first byte.
    Tls,
    /// TLS before anything that matters; where the server does not offer it, nothing is said.
    StartTls,
    /// None. Refused unless the server is on this machine.
    PlainOnThisMachine,
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To find, connect and shake hands.
    pub connect: Duration,
    /// Without a byte from it, or taken by it.
    pub silence: Duration,
    /// For one whole command, however slowly it trickles.
    pub command: Duration,
    /// From the end of a mail to the reply: servers scan mails before they answer.
    pub delivery: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            command: Duration::from_secs(300),
            delivery: Duration::from_secs(300),
        }
    }
}
