//! Logins at issuers: Google's, Microsoft's, or one that the person names.

use std::time::Duration;

use helve_host::wire::office::OfficeSecrets;
use helve_mcp::oauth::{Endpoints, LoginOptions};
use helve_mcp::server::random_id;
use helve_office::connect::presets::{OauthEndpoints, PRESETS};
use helve_office::connect::{Auth, OAuthSettings, SecretPlace};
use url::Url;

use super::ask;
use super::secret::place;
use super::server_url::server_url;
use crate::app::App;
use crate::commands::mcp::ask::somebody_is_there;
use crate::commands::mcp::login::{open_browser, pasted};
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Login in the browser")]
pub(super) struct LoginArgs {
    /// Log in at this provider instead of with a password: google, microsoft
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["password_stdin", "secret", "issuer"])]
    oauth: Option<String>,
    /// Log in at this issuer instead of with a password
    #[arg(long, value_name = "URL", conflicts_with_all = ["password_stdin", "secret"])]
    issuer: Option<String>,
    /// What the provider or issuer calls this program; docs/office.md says how to get one
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Where the client's secret lies, where it has one: env:NAME, file:PATH or keyring:SERVICE/USER
    #[arg(long, value_name = "REF", value_parser = place)]
    client_secret: Option<SecretPlace>,
    /// Ask for this [default: what the provider wants for it]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// The port on 127.0.0.1 that the browser comes back to, for clients that were registered with one
    #[arg(long, value_name = "PORT")]
    callback_port: Option<u16>,
    /// How long to wait for you, in seconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    login_timeout_s: u64,
}

/// What a login is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Mail,
    Objects,
}

impl LoginArgs {
    /// Whether the login is at an issuer.
    pub(super) fn is_wanted(&self) -> bool {
        self.oauth.is_some() || self.issuer.is_some()
    }

    /// Lets a person log in. The tokens are kept then.
    pub(super) async fn log_in(
        self,
        purpose: For,
        secrets: &OfficeSecrets,
        app: &mut App<'_>,
    ) -> Result<OAuthSettings, Failure> {
        let somebody = somebody_is_there(app);
        let options = LoginOptions {
            scopes: Vec::new(),
            patience: Duration::from_secs(self.login_timeout_s),
            port: self.callback_port,
            pasted: Some(Box::pin(pasted())),
        };
        let browser = somebody && !self.no_browser;
        let settings = self.settings(purpose, secrets, app).await?;
        let session = secrets.session(&settings).await?;
        let open = |url: &Url| {
            // It cannot fail in a way that matters: the command can be run once more.
            let _ = app.ui.error_line(format!("open this address to log in:\n\n  {url}\n"));
            if somebody {
                let _ = app.ui.error_line("… or paste here the address that the browser ends up at");
            }
            if browser {
                tokio::spawn(open_browser(url.to_string()));
            }
        };
        let logged_in = session.login(options, open).await;
        let logged_in =
            logged_in.map_err(|error| Failure::failed("the login did not work").because(&error))?;
        if !logged_in.renewable {
            let _ = app.ui.note(
                "note: the issuer gave no token to renew it with; you will have to log in again when it ends",
            );
        }
        Ok(settings)
    }

    async fn settings(
        self,
        purpose: For,
        secrets: &OfficeSecrets,
        app: &mut App<'_>,
    ) -> Result<OAuthSettings, Failure> {
        let (endpoints, scopes) = match (&self.oauth, &self.issuer) {
            (Some(provider), _) => preset(provider, purpose)?,
            (None, Some(issuer)) => {
                let issuer = server_url(issuer, "--issuer")?;
                let client = secrets.client(&[&issuer])?;
                let found = Endpoints::discover(&client, &issuer).await;
                let found =
                    found.map_err(|error| Failure::failed("the issuer cannot be used").because(&error))?;
                (found, Vec::new())
            }
            (None, None) => {
                return Err(Failure::usage(
                    "no provider and no issuer is given; name one with --oauth or --issuer",
                ));
            }
        };
        let scopes = if self.scope.is_empty() { scopes } else { self.scope };
        if scopes.is_empty() {
            return Err(Failure::usage("no scope is given").hint("give it as --scope, once for each"));
        }
        let client_id = ask::text(self.client_id, "the client id", "--client-id", app)?;
        Ok(OAuthSettings {
            id: format!("office-{}", &random_id()[..12]),
            issuer: endpoints.issuer,
            authorization_url: endpoints.authorization_url,
            token_url: endpoints.token_url,
            client_id,
            client_secret: self.client_secret,
            scopes,
        })
    }
}

/// A provider that is known by name.
fn preset(name: &str, purpose: For) -> Result<(Endpoints, Vec<String>), Failure> {
    let known = PRESETS.iter().filter_map(|one| Some((one, one.oauth?)));
    let mut names = Vec::new();
    for (one, oauth) in known {
        names.push(one.name.to_ascii_lowercase());
        if !one.name.eq_ignore_ascii_case(name) {
            continue;
        }
        let scopes = match purpose {
            For::Mail => oauth.mail_scopes,
            For::Objects => oauth.calendar_and_contacts_scopes,
        };
        if scopes.is_empty() {
            return Err(Failure::usage(format!("{} has no open protocol for this", one.name))
                .hint("use its MCP server behind Helve: `helve mcp add`; docs/office.md says more"));
        }
        return Ok((endpoints(&oauth)?, scopes.iter().map(|scope| (*scope).to_owned()).collect()));
    }
    Err(Failure::usage(format!("no provider `{}` is known", escape::one_line(name, 100)))
        .hint(format!("there are {}; `--issuer URL` names another", names.join(", "))))
}

fn endpoints(oauth: &OauthEndpoints) -> Result<Endpoints, Failure> {
    let url = |text: &str| Url::parse(text).map_err(|error| Failure::failed(error.to_string()));
    let authorization_url = url(oauth.authorize)?;
    // Who they are is known by their host.
    let issuer = url(&authorization_url.origin().ascii_serialization())?;
    Ok(Endpoints { issuer, authorization_url, token_url: url(oauth.token)? })
}

/// Forgets a login that came to nothing.
pub(super) async fn give_up(auth: &Auth, secrets: &OfficeSecrets) {
    // The failure before is what counts.
    let _ = secrets.forget(auth).await;
}
