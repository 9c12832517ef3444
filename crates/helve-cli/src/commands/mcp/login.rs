//! `helve mcp login` and `logout`: the account at a server.

use std::time::Duration;

use helve_host::wire::mcp;
use helve_mcp::config::Credentials;
use helve_mcp::oauth::{LoginOptions, Session};
use helve_mcp::servers::{caller_login, shared_login};
use helve_sandbox::{Job, Policy, Sandbox};
use serde_json::json;

use super::ask::somebody_is_there;
use crate::app::App;
use crate::blocking::block_on;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

const AFTER_HELP: &str = "\
You log in in your browser, which then returns to a port of this machine. Without a browser here, open
the address elsewhere, and paste the address at which that browser ends, even if it shows an error.

Examples:
  helve mcp login github
  helve mcp login github --no-browser
  helve mcp login github --as ada";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LoginArgs {
    /// The server to log in at
    name: String,
    /// Log this principal in, at a server where each caller has their own account
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: Option<String>,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// Ask for this beyond what the server says it needs
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// How long to wait for you
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout_s: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// The server to log out of
    name: String,
    /// Forget the login of this principal
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: Option<String>,
}

pub(crate) fn login(args: &LoginArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (session, port) = session(&args.name, args.principal.as_deref(), app)?;
    let somebody = somebody_is_there(app);
    let browser = somebody && !args.no_browser;
    let options = LoginOptions {
        scopes: args.scope.clone(),
        patience: Duration::from_secs(args.timeout_s),
        port,
        // A pipe may hold the pasted address as well; a closed one holds nothing.
        pasted: Some(Box::pin(pasted())),
    };
    let logged_in = block_on(async {
        let open = |url: &url::Url| {
            // It cannot fail in a way that matters: the address can be had once more.
            let _ = app.ui.error_line(format!("open this address to log in:\n\n  {url}\n"));
            if somebody {
                let _ = app.ui.error_line("… or paste here the address that the browser ends up at");
            }
            if browser {
                tokio::spawn(open_browser(url.to_string()));
            }
        };
        let login = session.login(options, open).await;
        Ok(login.map_err(|error| Failure::failed("the login did not work").because(&error))?)
    })?;
    if app.ui.is_json() {
        app.ui.json(&json!({
            "server": args.name, "principal": args.principal, "issuer": logged_in.issuer,
            "scopes": logged_in.scopes, "renewable": logged_in.renewable,
        }))?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    let issuer = logged_in.issuer.map(|issuer| format!(" at {}", escape::one_line(&issuer, 200)));
    let who = of(args.principal.as_deref());
    app.ui.line(format!("{sign} logged {who}in to {}{}", args.name, issuer.unwrap_or_default()))?;
    app.ui.note(format!("helve mcp status {}", args.name))?;
    Ok(Exit::Done)
}

pub(crate) fn logout(args: &LogoutArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (session, _) = session(&args.name, args.principal.as_deref(), app)?;
    let was = block_on(async {
        let forgotten = session.logout().await;
        Ok(forgotten.map_err(|error| Failure::failed("the login could not be forgotten").because(&error))?)
    })?;
    if app.ui.is_json() {
        app.ui.json(&json!({ "server": args.name, "principal": args.principal, "was_logged_in": was }))?;
    } else {
        let who = of(args.principal.as_deref());
        app.ui.line(match (was, &args.principal) {
            (true, _) => format!("{} logged {who}out of {}", app.ui.paint().good("✓"), args.name),
            (false, Some(_)) => format!("{who}was not logged in to {}", args.name),
            (false, None) => format!("there was no login for {}", args.name),
        })?;
    }
    Ok(Exit::Done)
}

/// Who, in the middle of a sentence.
fn of(principal: Option<&str>) -> String {
    principal.map(|principal| format!("{} ", escape::one_line(principal, 200))).unwrap_or_default()
}

/// The account at a server, and the port at which the browser is to come back.
fn session(
    name: &str,
    principal: Option<&str>,
    app: &mut App<'_>,
) -> Result<(Session, Option<u16>), Failure> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, name)?;
    if let Some(reason) = one.hold() {
        return Err(Failure::denied(format!("MCP server `{name}`: {reason}")));
    }
    let surroundings = mcp::surroundings(&loaded, &[], &[&one.config])?;
    if principal.is_some() && one.config.credentials != Credentials::Caller {
        return Err(Failure::usage(format!("`{name}` has one account for all callers"))
            .hint(format!(
                "to give each caller their own, set `credentials = \"caller\"` in `[mcp.servers.{name}]`"
            ))
            .hint(format!("`helve mcp login {name}` logs in for all")));
    }
    let session = block_on(async {
        Ok(match principal {
            Some(principal) => caller_login(&one.config, &surroundings, principal).await,
            None => shared_login(&one.config, &surroundings).await,
        })
    });
    let session = session.map_err(|error| Failure::failed(error.to_string()))?;
    let session =
        session.map_err(|error| Failure::failed(format!("nobody can log in to `{name}`")).because(&error))?;
    let port = one.config.oauth.as_ref().and_then(|oauth| oauth.callback_port);
    let none = || {
        Failure::usage(format!("nobody can log in to `{name}`"))
            .detail("only a server at an `https` address, or on this machine, can have logins")
    };
    Ok((session.ok_or_else(none)?, port))
}

/// A line that a person pastes.
pub(crate) async fn pasted() -> String {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    match read.await {
        Ok(Ok(line)) if !line.trim().is_empty() => line.trim().to_owned(),
        // Nobody pastes; the browser may still come back by itself.
        _ => std::future::pending().await,
    }
}

/// Opens an address that was checked, as the person would.
pub(crate) async fn open_browser(url: String) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut job = Job::new(program).args([url]);
    let passed =
        ["PATH", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
    for name in passed {
        if let Ok(value) = std::env::var(name) {
            job = job.env(name, value);
        }
    }
    job.policy = Policy { unconfined: true, ..job.policy };
    match Sandbox::default().start(job).await {
        Ok(mut running) => drop(running.wait().await),
        Err(error) => tracing::debug!(%error, "no browser could be opened"),
    }
}
