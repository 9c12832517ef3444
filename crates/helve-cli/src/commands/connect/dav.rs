//! `helve connect calendar` and `helve connect contacts`: CalDAV and CardDAV.

use std::sync::Arc;

use helve_host::config::Loaded;
use helve_host::wire;
use helve_office::connect::discover_dav::{self, Service, What};
use helve_office::connect::dns::Resolver;
use helve_office::connect::presets::Preset;
use helve_office::connect::{AccountSettings, Auth, DavSettings, Secrets, web_settings};
use helve_office::text::Address;
use helve_office::web::{Login, PlainHttp, WebSettings};
use url::Url;

use super::account::AccountArgs;
use super::login::{For, LoginArgs, give_up};
use super::secret::SecretArgs;
use super::server_url::server_url;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Helve finds the server from the address, unless --url names it. A server that has contacts as well as calendars is
connected for both. The login is tried before anything is kept.

Examples:
  helve connect calendar ada@example.org
  helve connect calendar ada@example.org --url https://dav.example.org --login ada --password-stdin < password.txt
  helve connect contacts ada@example.org --url https://dav.example.org --secret env:DAV_PW
  helve connect calendar ada@gmail.com --oauth google --client-id ID --client-secret file:secret.txt";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    account: AccountArgs,
    /// Where the server is [default: found from the address]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    oauth: LoginArgs,
}

pub(crate) fn run(args: Args, service: Service, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let named = args.url.as_deref().map(|text| server_url(text, "--url")).transpose()?;
    let loaded = app.load_config()?;
    let office = wire::office::office(&loaded)?;
    let secrets = wire::office::secrets(&loaded);
    let port: Arc<dyn Secrets> = Arc::new(secrets.clone());
    block_on(async {
        let yes = args.account.yes;
        let account = args.account.resolve("dav", &office, app).await?;
        let urls = match named {
            Some(url) => vec![url],
            None => found(account.person.address(), service, yes, app).await?,
        };
        let (url, what, auth) = if args.oauth.is_wanted() {
            let auth = Auth::OAuth(Box::new(args.oauth.log_in(For::Objects, &secrets, app).await?));
            let try_at = |url: &Url| web_settings(&port, url, &account.login, &auth, &loaded.config.net);
            let tried = first_that_works(&urls, try_at).await;
            if tried.is_err() {
                give_up(&auth, &secrets).await;
            }
            let (url, what) = tried?;
            (url, what, auth)
        } else {
            let secret = args.secret.resolve(&format!("the password of {}", account.login), app)?;
            let password = secret.read(&secrets).await?;
            let login = Login::Password { user: account.login.clone(), password };
            let (url, what) = first_that_works(&urls, |url| settings_at(url, &login, &loaded)).await?;
            (url, what, Auth::Password(secret.keep(&account.id, &secrets).await?))
        };
        let found = said(&url, &what);
        let settings = AccountSettings::Dav(DavSettings {
            url,
            layout: what.layout,
            login: account.login.clone(),
            auth,
        });
        let left = account.keep(&settings, &office, &secrets).await?;
        account.tell(&settings, &found, left.as_ref(), app)
    })
}

fn settings_at(url: &Url, login: &Login, loaded: &Loaded) -> WebSettings {
    WebSettings {
        plain_http: PlainHttp::OnLoopback,
        net: loaded.config.net.clone(),
        ..WebSettings::new(url.clone(), login.clone())
    }
}

/// Where the service of an address may be. A host of another domain is agreed to first.
async fn found(
    address: &Address,
    service: Service,
    yes: bool,
    app: &mut App<'_>,
) -> Result<Vec<Url>, Failure> {
    let domain = address.domain();
    let urls = discover_dav::candidates(address, service, &Resolver::system().await).await;
    if Preset::of_domain(domain).is_some() {
        return Ok(urls);
    }
    let is_own = |host: &str| host == domain || host.ends_with(&format!(".{domain}"));
    let foreign: Vec<_> = urls.iter().filter_map(Url::host_str).filter(|host| !is_own(host)).collect();
    if !foreign.is_empty() {
        let names = foreign.join(", ");
        match ask(&format!("{domain} says that it is at {names}. Log in there?"), yes, app) {
            Ok(Confirmation::Yes) => {}
            Ok(Confirmation::No) => return Err(Failure::denied("nothing was connected")),
            Ok(Confirmation::Nobody) | Err(_) => {
                return Err(Failure::usage(format!(
                    "{domain} says that it is at {names}, and there is no terminal to agree on"
                ))
                .hint("say it with --yes, or name the server with --url"));
            }
        }
    }
    Ok(urls)
}

/// Tries the login at one place after another.
async fn first_that_works(
    urls: &[Url],
    settings: impl Fn(&Url) -> WebSettings,
) -> Result<(Url, What), Failure> {
    let mut why = Failure::usage("no server was found").hint("name it with --url");
    for url in urls {
        match discover_dav::check(&settings(url)).await {
            Ok(what) if !what.collections.is_empty() => return Ok((url.clone(), what)),
            Ok(_) => {
                why =
                    Failure::failed(format!("{url} has neither calendars nor contacts, and nothing was kept"))
            }
            Err(fault) => {
                why = Failure::failed(format!("the login did not work at {url}, and nothing was kept"))
                    .because(&fault)
                    .hint("where the server is elsewhere, name it with --url");
            }
        }
    }
    Err(why)
}

fn said(url: &Url, what: &What) -> Vec<(&'static str, String)> {
    let counted = |number: usize, noun: &str| count(number as u64, noun);
    let all = [
        (what.calendars().count(), "calendar"),
        (what.task_lists().count(), "task list"),
        (what.address_books().count(), "address book"),
    ];
    let all: Vec<_> = all.into_iter().filter(|(n, _)| *n > 0).map(|(n, noun)| counted(n, noun)).collect();
    vec![("server", url.to_string()), ("has", all.join(", "))]
}
