//! `helve connect mail`: IMAP and SMTP.

use std::path::PathBuf;

use helve_host::wire;
use helve_host::wire::office::OfficeSecrets;
use helve_office::connect::discover_mail::{self, Candidate, Evidence, Service};
use helve_office::connect::dns::Resolver;
use helve_office::connect::presets::Preset;
use helve_office::connect::{AccountSettings, Auth, MailSettings, Secrets, ServerSettings, Tls, mail_login};
use helve_office::text::Address;
use helve_office::wire::{Login, Server};

use super::account::{AccountArgs, NewAccount};
use super::login::{For, LoginArgs, give_up};
use super::secret::SecretArgs;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Helve finds the servers from the address: known providers, the domain's own records, usual names. It tries the login
before it keeps anything. It asks for the password without showing it, and keeps it in the system's keyring, or in an
encrypted file where there is none; never in helve.toml.

Examples:
  helve connect mail ada@example.org
  helve connect mail ada@example.org --id work --password-stdin < password.txt
  helve connect mail ada@example.org --imap mail.example.org:993 --smtp mail.example.org:465 --secret env:MAIL_PW
  helve connect mail ada@gmail.com --oauth google --client-id ID --client-secret file:secret.txt";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    account: AccountArgs,
    /// The IMAP server; 993 speaks TLS at once, others after a greeting [default: found]
    #[arg(long, value_name = "HOST[:PORT]")]
    imap: Option<String>,
    /// The SMTP server; 465 speaks TLS at once, others after a greeting [default: found]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "no_smtp")]
    smtp: Option<String>,
    /// Only read mail
    #[arg(long)]
    no_smtp: bool,
    /// How lines to both are kept private: implicit, starttls, or none for a server on this machine
    #[arg(long, value_name = "HOW", value_parser = tls)]
    tls: Option<Tls>,
    /// A PEM file with certificates to trust in addition to this machine's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    oauth: LoginArgs,
}

fn tls(text: &str) -> Result<Tls, String> {
    let known = [Tls::Implicit, Tls::Starttls, Tls::None];
    known
        .into_iter()
        .find(|tls| tls.as_str() == text)
        .ok_or_else(|| "it is implicit, starttls or none".to_owned())
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let office = wire::office::office(&loaded)?;
    let secrets = wire::office::secrets(&loaded);
    block_on(async {
        let yes = args.account.yes;
        let account = args.account.resolve("mail", &office, app).await?;
        let ca_file = args.ca_file.map(|file| std::path::absolute(&file).unwrap_or(file));
        let servers = Servers {
            imap: args.imap.as_deref().map(|text| named(text, args.tls, 993)).transpose()?,
            smtp: args.smtp.as_deref().map(|text| named(text, args.tls, 465)).transpose()?,
        };
        let wants_smtp = !args.no_smtp;
        let servers = servers.found(account.person.address(), wants_smtp, yes, app).await?;
        let connecting = Connecting { account, servers, ca_file, secrets: &secrets };
        let (settings, found) = if args.oauth.is_wanted() {
            let login = args.oauth.log_in(For::Mail, &secrets, app).await?;
            let auth = Auth::OAuth(Box::new(login));
            let found = connecting.try_login(&connecting.login(&auth)).await;
            if found.is_err() {
                give_up(&auth, &secrets).await;
            }
            (connecting.settings(auth), found?)
        } else {
            let question = format!("the password of {}", connecting.account.login);
            advise(connecting.account.person.address(), app);
            let secret = args.secret.resolve(&question, app)?;
            let (user, password) = (connecting.account.login.clone(), secret.read(&secrets).await?);
            let found = connecting.try_login(&Login::Password { user, password }).await?;
            let place = secret.keep(&connecting.account.id, &secrets).await?;
            (connecting.settings(Auth::Password(place)), found)
        };
        let settings = AccountSettings::Mail(settings);
        let left = connecting.account.keep(&settings, &office, &secrets).await?;
        connecting.account.tell(&settings, &found, left.as_ref(), app)
    })
}

/// What a person has to do at a provider before a password works there.
fn advise(address: &Address, app: &mut App<'_>) {
    if let Some(preset) = Preset::of_domain(address.domain()) {
        let _ = app.ui.note(format!("{}: {}", preset.name, preset.password_advice));
    }
}

/// Reads a server from `mail.example.org` or `mail.example.org:143`.
fn named(text: &str, tls: Option<Tls>, implicit: u16) -> Result<ServerSettings, Failure> {
    if text.contains(['@', '/']) {
        return Err(Failure::usage("a mail server is named as HOST or HOST:PORT")
            .hint("`--login NAME` names who logs in; the password is asked for"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => {
            let wrong = |_| Failure::usage(format!("`{text}` has no port behind the colon"));
            (host, port.parse().map_err(wrong)?)
        }
        None => (text, implicit),
    };
    let guess = if port == implicit { Tls::Implicit } else { Tls::Starttls };
    Ok(ServerSettings { host: host.to_owned(), port, tls: tls.unwrap_or(guess) })
}

/// The servers that are named or found.
struct Servers {
    imap: Option<ServerSettings>,
    smtp: Option<ServerSettings>,
}

/// The same, once there are enough.
struct Chosen {
    imap: ServerSettings,
    smtp: Option<ServerSettings>,
}

impl Servers {
    /// Fills in what nobody named.
    async fn found(
        self,
        address: &Address,
        wants_smtp: bool,
        yes: bool,
        app: &mut App<'_>,
    ) -> Result<Chosen, Failure> {
        let Self { imap, smtp } = self;
        let lacks_smtp = wants_smtp && smtp.is_none();
        let found = match imap.is_none() || lacks_smtp {
            true => discover_mail::candidates(address, &Resolver::system().await).await,
            false => Vec::new(),
        };
        let first = |service| found.iter().find(|one| one.service == service);
        let candidates = [
            first(Service::Imap).filter(|_| imap.is_none()),
            first(Service::Submission).filter(|_| lacks_smtp),
        ];
        agree(&candidates, yes, app)?;
        let [found_imap, found_smtp] = candidates.map(|one| one.map(|one| ServerSettings::from(&one.server)));
        let missing = |what: &str, flag: &str| {
            Failure::usage(format!("no {what} server was found for {}", address.domain()))
                .hint(format!("name it: {flag} HOST:PORT"))
        };
        let imap = imap.or(found_imap).ok_or_else(|| missing("IMAP", "--imap"))?;
        let smtp = smtp.or(found_smtp);
        if wants_smtp && smtp.is_none() {
            return Err(missing("SMTP", "--smtp").hint("or only read mail: --no-smtp"));
        }
        Ok(Chosen { imap, smtp })
    }
}

/// A password goes to a server that only DNS or a guess names once a person has seen its name.
fn agree(candidates: &[Option<&Candidate>], yes: bool, app: &mut App<'_>) -> Result<(), Failure> {
    let unsure: Vec<&Candidate> = candidates
        .iter()
        .flatten()
        .copied()
        .filter(|one| !matches!(one.found, Evidence::Preset(_)))
        .collect();
    if unsure.is_empty() {
        return Ok(());
    }
    let named = |one: &&Candidate| {
        let what = match one.service {
            Service::Imap => "IMAP",
            Service::Submission => "SMTP",
        };
        format!("{what} at {}", Server::to_string(&one.server))
    };
    let names = unsure.iter().map(named).collect::<Vec<_>>().join(", ");
    match ask(&format!("Found {names}. Log in there?"), yes, app) {
        Ok(Confirmation::Yes) => Ok(()),
        Ok(Confirmation::No) => Err(Failure::denied("nothing was connected")),
        Ok(Confirmation::Nobody) | Err(_) => {
            Err(Failure::usage(format!("found {names}, and there is no terminal to agree on"))
                .hint("say it with --yes, or name the servers with --imap and --smtp"))
        }
    }
}

struct Connecting<'s> {
    account: NewAccount,
    servers: Chosen,
    ca_file: Option<PathBuf>,
    secrets: &'s OfficeSecrets,
}

impl Connecting<'_> {
    fn login(&self, auth: &Auth) -> Login {
        let secrets: std::sync::Arc<dyn Secrets> = std::sync::Arc::new(self.secrets.clone());
        mail_login(&secrets, &self.account.login, auth)
    }

    /// Tries the login at each server. What they said.
    async fn try_login(&self, login: &Login) -> Result<Vec<(&'static str, String)>, Failure> {
        let services = [
            ("imap", Service::Imap, Some(&self.servers.imap)),
            ("smtp", Service::Submission, self.servers.smtp.as_ref()),
        ];
        let mut found = Vec::new();
        for (name, service, server) in services {
            let Some(server) = server else { continue };
            let server = server.server(self.ca_file.clone());
            let shown = server.to_string();
            let candidate = Candidate { service, server, found: Evidence::Guessed };
            let checked = discover_mail::check(&candidate, login).await.map_err(|fault| {
                Failure::failed(format!("the login did not work at {shown}, and nothing was kept"))
                    .because(&fault)
            })?;
            let folders = checked.folders.map(|folders| format!(", {folders} folders")).unwrap_or_default();
            found.push((name, format!("{shown}{folders}")));
        }
        Ok(found)
    }

    fn settings(&self, auth: Auth) -> MailSettings {
        MailSettings {
            imap: self.servers.imap.clone(),
            smtp: self.servers.smtp.clone(),
            login: self.account.login.clone(),
            auth,
            ca_file: self.ca_file.clone(),
        }
    }
}
