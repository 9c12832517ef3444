//! `helve session end`: closes a session for good.

use helve::Caller;
use helve::session::SessionKey;
use serde_json::json;

use crate::app::App;
use crate::commands::approvals::{Desk, local_user};
use crate::commands::caller;
use crate::exit::Exit;
use crate::wire;

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session's id
    session: String,
    /// Whose it is
    #[arg(long = "as", value_name = "NAME", default_value = "local")]
    principal: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("end sessions")?;
    let whose = Caller::principal(&args.principal).session(&args.session);
    let desk = Desk::needed(app)?;
    let ended = wire::block_on(async { Ok(desk.runtime.end_session(&whose, caller::local()).await?) })?;
    desk.store.close()?;
    if app.ui.is_json() {
        let SessionKey { principal, session } = SessionKey::of(&whose);
        app.ui.json(&json!({ "principal": principal, "session": session, "state": ended }))?;
        return Ok(Exit::Done);
    }
    app.ui.line("ended: what was allowed for it is taken back, and nothing runs in it any more")?;
    Ok(Exit::Done)
}
