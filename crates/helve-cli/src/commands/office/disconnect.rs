//! `helve office disconnect`: forgets an account, its secret and what was synced from it.

use helve_host::wire;
use helve_office::connect::LOCAL;
use serde_json::json;

use super::unusable;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The account to forget, by its id
    id: String,
    /// Do not ask first
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("disconnect accounts")?;
    let Args { id, yes } = args;
    let loaded = app.load_config()?;
    let office = wire::office::office(&loaded)?;
    office.accounts();
    let row = block_on(async { Ok(office.db().account(id).await.map_err(|error| unusable(&error))?) })?;
    let row = row.ok_or_else(|| {
        Failure::usage(format!("there is no account `{id}`")).hint("`helve office accounts` lists them")
    })?;
    if id == LOCAL {
        return Err(Failure::usage(
            "the account `local` cannot be disconnected: what is in it is nowhere else",
        )
        .hint("`helve office demo remove` takes the demo out; `office.enabled = false` turns the tools off")
        .into());
    }
    let question =
        format!("Forget {id}, its password and what was synced? What is on its server stays there.");
    match ask(&question, *yes, app)? {
        Confirmation::Yes => {}
        Confirmation::No => return Ok(Exit::Denied),
        Confirmation::Nobody => {
            return Err(Failure::usage("there is no terminal to ask on").hint("say it with --yes").into());
        }
    }
    let left = block_on(async {
        // The secret first: should the rest fail, it is gone all the same. And should it stay, the rest goes.
        let forgot = wire::office::secrets(&loaded).forget_all_of(id, &row.settings).await;
        office.db().remove_account(id).await.map_err(|error| unusable(&error))?;
        Ok(forgot.err().map(Failure::from))
    })?;
    tell(id, left, app)
}

fn tell(id: &str, left: Option<Failure>, app: &mut App<'_>) -> anyhow::Result<Exit> {
    if app.ui.is_json() {
        app.ui
            .json(&json!({ "disconnected": id, "secret_left": left.as_ref().map(|left| &left.message) }))?;
    } else {
        app.ui
            .line(format!("{} forgot {id}; nothing on its server was changed", app.ui.paint().good("✓")))?;
    }
    let Some(left) = left else { return Ok(Exit::Done) };
    say_left(&left, app)?;
    Ok(Exit::Failed)
}

/// Says that a secret is left where we kept it.
pub(in crate::commands) fn say_left(left: &Failure, app: &mut App<'_>) -> std::io::Result<()> {
    let why = left.details.join("; ");
    let why = if why.is_empty() { why } else { format!(" ({why})") };
    app.ui.error_line(format!("warning: {}{}", left.message, escape::one_line(&why, 500)))?;
    app.ui.note("remove it there yourself; nothing of Helve uses it any more")
}
