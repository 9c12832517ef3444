//! Logins whose secret comes through the port, anew each time.

use std::sync::Arc;

use helve_core::BoxFuture;
use helve_net::{NetPolicy, Url};
use secrecy::SecretString;

use super::{Auth, Secrets};
use crate::account::Fault;
use crate::web::{self, PlainHttp, WebSettings};
use crate::wire::{self, Tokens};

/// A secret, looked up when it is needed.
struct Source {
    secrets: Arc<dyn Secrets>,
    auth: Auth,
}

impl Tokens for Source {
    fn token(&self) -> BoxFuture<'_, Result<SecretString, Fault>> {
        match &self.auth {
            Auth::Password(place) => self.secrets.read(place),
            Auth::OAuth(login) => self.secrets.token(login),
        }
    }
}

/// How an account logs in to its mail servers.
pub fn mail_login(secrets: &Arc<dyn Secrets>, user: &str, auth: &Auth) -> wire::Login {
    let source = Arc::new(Source { secrets: Arc::clone(secrets), auth: auth.clone() });
    let user = user.to_owned();
    match auth {
        Auth::Password(_) => wire::Login::Kept { user, password: source },
        Auth::OAuth(_) => wire::Login::Token { user, tokens: source },
    }
}

/// How an account reaches its web server and logs in there.
pub fn web_settings(
    secrets: &Arc<dyn Secrets>,
    url: &Url,
    user: &str,
    auth: &Auth,
    net: &NetPolicy,
) -> WebSettings {
    let source = Arc::new(Source { secrets: Arc::clone(secrets), auth: auth.clone() });
    let password: web::TokenSource = Arc::new(move || {
        let source = Arc::clone(&source);
        Box::pin(async move { source.token().await })
    });
    let login = match auth {
        Auth::Password(_) => web::Login::Kept { user: user.to_owned(), password },
        Auth::OAuth(_) => web::Login::Token(password),
    };
    // The person named this very address, and it is refused anywhere but on this machine.
    WebSettings {
        plain_http: PlainHttp::OnLoopback,
        net: net.clone(),
        ..WebSettings::new(url.clone(), login)
    }
}
