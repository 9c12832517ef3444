//! `helve connect jmap`: mail by JMAP.

use std::sync::Arc;

use helve_host::wire;
use helve_office::connect::{AccountSettings, Auth, JmapSettings, Secrets, web_settings};
use helve_office::jmap::JmapAccount;
use helve_office::web::{Login, PlainHttp, WebSettings};
use url::Url;

use super::account::AccountArgs;
use super::login::{For, LoginArgs, give_up};
use super::secret::SecretArgs;
use super::server_url::server_url;
use crate::app::App;
use crate::blocking::block_on;
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Examples:
  helve connect jmap ada@example.org --url https://mail.example.org/.well-known/jmap
  helve connect jmap ada@example.org --url https://mail.example.org --secret env:MAIL_PW";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    account: AccountArgs,
    /// Where its session is described, or the server [default: the domain of the address]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    oauth: LoginArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let named = args.url.as_deref().map(|text| server_url(text, "--url")).transpose()?;
    let loaded = app.load_config()?;
    let office = wire::office::office(&loaded)?;
    let secrets = wire::office::secrets(&loaded);
    let port: Arc<dyn Secrets> = Arc::new(secrets.clone());
    block_on(async {
        let account = args.account.resolve("jmap", &office, app).await?;
        let url = match named {
            Some(url) => well_known(url),
            None => Url::parse(&format!("https://{}/.well-known/jmap", account.person.address().domain()))?,
        };
        let (auth, submits) = if args.oauth.is_wanted() {
            let auth = Auth::OAuth(Box::new(args.oauth.log_in(For::Mail, &secrets, app).await?));
            let tried = check(&web_settings(&port, &url, &account.login, &auth, &loaded.config.net)).await;
            if tried.is_err() {
                give_up(&auth, &secrets).await;
            }
            (auth, tried?)
        } else {
            let secret = args.secret.resolve(&format!("the password of {}", account.login), app)?;
            let login =
                Login::Password { user: account.login.clone(), password: secret.read(&secrets).await? };
            let settings = WebSettings {
                plain_http: PlainHttp::OnLoopback,
                net: loaded.config.net.clone(),
                ..WebSettings::new(url.clone(), login)
            };
            let submits = check(&settings).await?;
            (Auth::Password(secret.keep(&account.id, &secrets).await?), submits)
        };
        let sends = if submits { "reads and sends" } else { "only reads" };
        let found = [("server", url.to_string()), ("mail", sends.to_owned())];
        let settings =
            AccountSettings::Jmap(JmapSettings { session: url, login: account.login.clone(), auth });
        let left = account.keep(&settings, &office, &secrets).await?;
        account.tell(&settings, &found, left.as_ref(), app)
    })
}

/// A server alone is asked where servers say it.
fn well_known(mut url: Url) -> Url {
    if matches!(url.path(), "" | "/") {
        url.set_path("/.well-known/jmap");
    }
    url
}

/// Tries the login, and says whether mails can be sent.
async fn check(settings: &WebSettings) -> Result<bool, Failure> {
    let failed = |fault: &(dyn std::error::Error + 'static)| {
        Failure::failed(format!("the login did not work at {}, and nothing was kept", settings.url))
            .because(fault)
    };
    let account = JmapAccount::new(settings).map_err(|fault| failed(&fault))?;
    account.check().await.map_err(|fault| failed(&fault))
}
