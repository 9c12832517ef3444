//! The port to a submission server.

use bytes::Bytes;
use helve_core::BoxFuture;

use super::session::Session;
use super::transaction::{self, unsent};
use crate::account::{Envelope, Fault, Submit, Submitted};
use crate::wire::{Login, Server, Timeouts};

/// Servers that put what they take into the Sent folder: a copy of ours would be a second one.
const KEEP_COPIES: [&str; 4] =
    ["smtp.gmail.com", "smtp.googlemail.com", "smtp.office365.com", "smtp-mail.outlook.com"];

/// Hands mails over by SMTP. Each gets its own connection, because a connection that was kept could be lost
/// in the one moment that matters.
pub struct SmtpSubmit {
    server: Server,
    login: Login,
    timeouts: Timeouts,
}

impl SmtpSubmit {
    /// A submission server. Connects to nothing yet.
    pub fn new(server: Server, login: Login) -> Self {
        Self { server, login, timeouts: Timeouts::default() }
    }

    /// The same with other patience.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// Logs in, and says what the server can.
    pub async fn abilities(&self) -> Result<Vec<String>, Fault> {
        let session = Session::open(&self.server, &self.login, self.timeouts).await?;
        let found = session.abilities().collect();
        session.quit().await;
        Ok(found)
    }
}

impl Submit for SmtpSubmit {
    fn submit<'a>(&'a self, envelope: &'a Envelope, message: Bytes) -> BoxFuture<'a, Submitted> {
        Box::pin(async move {
            match Session::open(&self.server, &self.login, self.timeouts).await {
                Ok(session) => transaction::send_mail(session, envelope, &message, self.timeouts).await,
                Err(fault) => unsent(&fault),
            }
        })
    }

    fn keeps_copy(&self) -> bool {
        KEEP_COPIES.iter().any(|host| self.server.host.eq_ignore_ascii_case(host))
    }
}
