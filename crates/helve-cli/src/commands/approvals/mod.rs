//! `helve approvals`: questions that calls put to a person, and deciding them.
//!
//! A user of these commands has opened the journal's own file as this machine's user. Callers
//! cannot: they reach tools, and programs in boxes do not see the file.

mod approve;
mod deny;
mod list;
mod preview;
mod rules;
mod show;
mod watch;

use helve::approvals::{DecideError, Decider, Vouch};
use helve::{Approval, ApprovalId, ApprovalQuery, Registry, Runtime};
use helve_host::config::Loaded;
use helve_host::wire::{self, OpenLedger};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;

/// See and decide what calls ask.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the questions that wait for you, newest first
    List(list::Args),
    /// Show one question: who asks, what exactly would run, and why you are asked
    Show(show::Args),
    /// Let a call run, once
    Approve(approve::Args),
    /// Refuse a call, and say why
    Deny(deny::Args),
    /// Show questions and decisions as they come, until Ctrl-C
    Watch(watch::Args),
    /// List what was allowed for a whole session
    Rules(rules::ListArgs),
    /// Take back what was allowed for a session
    Revoke(rules::RevokeArgs),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(&args, app),
        Command::Show(args) => show::run(&args, app),
        Command::Approve(args) => approve::run(&args, app),
        Command::Deny(args) => deny::run(args, app),
        Command::Watch(args) => watch::run(&args, app),
        Command::Rules(args) => rules::list(&args, app),
        Command::Revoke(args) => rules::revoke(&args, app),
    }
}

/// How many questions are looked at to find the one whose id begins so.
const LOOK_MAX: usize = 100_000;
const LIST: &str = "`helve approvals list --all` shows questions and their ids";

/// The journal of this configuration, and a runtime on it that knows these tools.
pub(crate) struct Desk {
    pub(crate) ledger: OpenLedger,
    pub(crate) runtime: Runtime,
}

impl Desk {
    /// Without tools: most of what is done here needs none, and a broken one should not keep a
    /// person from deciding.
    pub(crate) fn open(app: &mut App<'_>) -> Result<Option<Self>, Failure> {
        let loaded = app.load_config()?;
        Self::with(&loaded, Registry::default())
    }

    /// The same, which must be there.
    pub(crate) fn needed(app: &mut App<'_>) -> Result<Self, Failure> {
        let loaded = app.load_config()?;
        Self::with(&loaded, Registry::default())?.ok_or_else(|| missing(&loaded))
    }

    /// None: nothing was ever recorded.
    fn with(loaded: &Loaded, registry: Registry) -> Result<Option<Self>, Failure> {
        if wire::open_trail(loaded)?.is_err_and(|error| error.is_missing()) {
            return Ok(None);
        }
        let ledger = wire::open_ledger(loaded)?;
        let runtime = Runtime::builder()
            .registry(registry)
            .ledger(ledger.port())
            .settings(wire::settings(&loaded.config))
            .build();
        Ok(Some(Self { ledger, runtime }))
    }

    /// The question of this id, or of one that begins so.
    async fn find(&self, id: &str) -> anyhow::Result<Approval> {
        let approvals = self.runtime.approvals();
        if let Ok(id) = id.parse::<ApprovalId>() {
            return Ok(approvals.get(id).await?.ok_or_else(|| failure(&DecideError::NotFound(id)))?);
        }
        let prefix = id.to_ascii_uppercase();
        let digits = prefix.strip_prefix("APR_").unwrap_or(&prefix);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Failure::usage(format!("`{id}` is not the id of an approval")).hint(LIST).into());
        }
        let mut query = ApprovalQuery::default();
        query.limit = LOOK_MAX;
        let begins = format!("apr_{digits}");
        let mut found = approvals.list(query).await?;
        found.retain(|one| one.id.to_string().starts_with(&begins));
        match found.len() {
            0 => Err(Failure::usage(format!("no approval has an id that begins with `{id}`"))
                .hint(LIST)
                .into()),
            1 => Ok(found.remove(0)),
            _ => Err(Failure::usage(format!("several approvals have ids that begin with `{id}`"))
                .details(found.iter().take(10).map(|one| one.id.to_string()))
                .hint("give more of the id")
                .into()),
        }
    }
}

fn missing(loaded: &Loaded) -> Failure {
    let path = loaded.ledger();
    Failure::failed(format!("there is no journal at {path}, so no question was asked"))
        .hint("`helve config show journal` says why it is looked for there")
}

/// The person at this machine, who has opened the journal's own file.
fn decider() -> Result<Decider, Failure> {
    Ok(Decider::vouched(local_user("decide")?, Vouch::LocalUser))
}

/// The name of the person at this machine, for what no tool does.
pub(crate) fn local_user(what: &str) -> Result<String, Failure> {
    // A tool that the operator runs unconfined can open the file too. This keeps it from deciding by
    // accident; what it is trusted with is its operator's choice.
    if std::env::var_os("HELVE_CALL_ID").is_some() {
        return Err(Failure::usage(format!(
            "a tool does not {what}: this runs within a call (`HELVE_CALL_ID` is set)"
        ))
        .hint(format!("{what} in a terminal of your own")));
    }
    let uid = rustix::process::getuid().as_raw();
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    Ok(name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})")))
}

/// What a person can do about it.
fn failure(error: &DecideError) -> Failure {
    match error {
        DecideError::NotFound(_) => Failure::usage(error.to_string()).hint(LIST),
        DecideError::Already(approval) => Failure::failed(error.to_string())
            .hint(format!("`helve approvals show {}` shows all of it", approval.id)),
        DecideError::Invalid(error) => Failure::usage(error.message())
            .details(error.field_errors().iter().map(|field| field.message.clone())),
        DecideError::AsksEachTime => Failure::usage(error.to_string())
            .hint("decide without `--always`: a person is then asked each time"),
        DecideError::Journal(error) => Failure::failed("the journal cannot be used")
            .because(error)
            .hint("`helve doctor` says what is wrong"),
        other => Failure::failed(other.to_string()),
    }
}

/// Who asks, in few words.
fn who(approval: &Approval) -> String {
    let caller = &approval.caller;
    let name = caller.agent.as_deref().or(caller.principal.as_deref()).unwrap_or("an unnamed caller");
    match &caller.session {
        Some(session) => format!("{name} in {session}"),
        None => name.to_owned(),
    }
}
