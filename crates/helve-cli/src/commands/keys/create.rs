//! `helve keys create`: a key, shown once.

use helve::identity::{Key, KeyError, Purpose};
use helve::{Access, PrincipalKind};
use helve_host::config::Loaded;
use helve_host::config::origin::short;
use helve_host::{running, wire};
use jiff::{Span, Timestamp, Zoned};
use serde_json::json;

use super::open;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::{caller, when};
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
A key either calls or decides, so an agent cannot approve its own calls with its key.

Examples:
  helve keys create ci --service --tools 'files/*' --expires 90d
  helve keys create reviewer --agent
  helve keys create ada --approver";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The principal that calls with this key are made for
    name: String,
    /// The principal is an agent
    #[arg(long, conflicts_with_all = ["service", "user"])]
    agent: bool,
    /// The principal is a program
    #[arg(long, conflicts_with = "user")]
    service: bool,
    /// The principal is a person (the default)
    #[arg(long)]
    user: bool,
    /// A role that the key gives, such as `auditor`; may be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// The key approves and denies calls, and makes none
    #[arg(long, conflicts_with_all = ["tools", "agent"])]
    approver: bool,
    /// Only these tools: names, or `ns/*`; may be repeated
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<String>,
    /// How long the key is valid, as in `90d` or `12h` [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = from_now)]
    expires: Option<Timestamp>,
}

fn from_now(text: &str) -> Result<Timestamp, String> {
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let end = span.and_then(|span| Zoned::now().checked_add(span).ok());
    end.map(|end| end.timestamp()).ok_or_else(|| "give a time such as `90d` or `12h`".to_owned())
}

impl Args {
    fn kind(&self) -> PrincipalKind {
        match (self.agent, self.service) {
            (true, _) => PrincipalKind::Agent,
            (false, true) => PrincipalKind::Service,
            (false, false) => PrincipalKind::User,
        }
    }
}

/// Which servers know the key, where there is another journal that a server may use.
fn counts_where(loaded: &Loaded) -> Option<String> {
    let here = short(&loaded.journal_path);
    if running::note(&loaded.journal_path).is_some() {
        return None;
    }
    if let Some(note) = running::note_near(loaded) {
        let address = note.address;
        return Some(format!(
            "the `helve up` at {address} uses another journal than {here}, and knows this key once it is restarted"
        ));
    }
    let other = short(&wire::journal::outside(loaded)?);
    Some(format!("servers of this project ({here}) know this key; those that use {other} do not"))
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let made_by = local_user("make keys")?;
    let purpose = if args.approver { Purpose::Decide } else { Purpose::Call };
    let (mut key, text) = Key::generate(&*args.name, purpose, made_by, Timestamp::now());
    key.kind = args.kind();
    key.expires_at = args.expires;
    key.access = if args.tools.is_empty() { Access::All } else { Access::Only(args.tools) };
    key.roles = args.role;
    key.check().map_err(|error: KeyError| Failure::usage(error.to_string()))?;
    let ledger = open(app)?;
    block_on(async { Ok(ledger.create_key(Box::new(key.clone()), caller::local()).await?) })?;
    ledger.close()?;
    if app.ui.is_json() {
        app.ui.json(&json!({
            "id": key.id, "name": key.name, "purpose": key.purpose, "kind": key.kind, "roles": key.roles,
            "access": key.access, "expires_at": key.expires_at, "key": text.reveal(),
        }))?;
        return Ok(Exit::Done);
    }
    app.ui.line(text.reveal())?;
    let until = key.expires_at.map(|at| format!(", until {}", when::shown(at))).unwrap_or_default();
    let good_for = if args.approver { "decides" } else { "calls" };
    app.ui.note(format!("`{}` {good_for} with it{until}. It is not shown again.", key.name))?;
    app.ui.note(format!("take it back: helve keys revoke {}", key.id))?;
    if let Some(warning) = counts_where(&app.load_config()?) {
        app.ui.note(format!("{} {warning}", app.ui.paint().warn("!")))?;
    }
    Ok(Exit::Done)
}
