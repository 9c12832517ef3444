//! `helve session end`: closes a session for good.

use helve::session::SessionKey;
use helve::{Caller, Runtime};
use serde_json::json;

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::{Desk, local_user};
use crate::commands::caller;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session's id
    session: String,
    /// Whose session it is [default: local]
    #[arg(long = "as", value_name = "NAME")]
    principal: Option<String>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("end sessions")?;
    let caller = args.principal.as_deref().unwrap_or("local");
    let whose = Caller::principal(caller).session(&args.session);
    let desk = Desk::needed(app)?;
    let (owners, ended) = block_on(async {
        let owners = owners(&desk.runtime, &args.session).await?;
        // A caller that names the owner means that session, known or not.
        let is_meant =
            args.principal.is_some() || owners.is_empty() || owners.iter().any(|own| own == caller);
        if !is_meant {
            return Ok((owners, None));
        }
        Ok((owners, desk.runtime.end_session(&whose, caller::local()).await?))
    })?;
    desk.ledger.close()?;
    let Some(ended) = ended else { return Err(anothers(&args.session, caller, &owners).into()) };
    let is_known = owners.iter().any(|own| own == caller);
    if app.ui.is_json() {
        let SessionKey { principal, session } = SessionKey::of(&whose);
        let told =
            json!({ "principal": principal, "session": session, "was_known": is_known, "state": ended });
        app.ui.json(&told)?;
        return Ok(Exit::Done);
    }
    if is_known {
        app.ui.line("ended: what was allowed for it is taken back, and nothing runs in it any more")?;
        return Ok(Exit::Done);
    }
    // One that has touched nothing is not kept, and may be at work all the same.
    app.ui.line(format!(
        "closed: nothing was known of a session `{}` of `{}`; nothing runs in one of that id from now on",
        escape::one_line(&args.session, 200),
        escape::one_line(caller, 200)
    ))?;
    app.ui.note("see those that are known: helve session list")?;
    Ok(Exit::Done)
}

/// The callers that have a session of this id, as far as anything is known of it.
async fn owners(runtime: &Runtime, session: &str) -> anyhow::Result<Vec<String>> {
    let all = runtime.sessions(None, usize::MAX).await?;
    let of_id = all.into_iter().filter(|(key, _)| key.session.as_deref() == Some(session));
    Ok(of_id.filter_map(|(key, _)| key.principal.map(|principal| principal.to_string())).collect())
}

fn anothers(session: &str, caller: &str, owners: &[String]) -> Failure {
    let named: Vec<_> =
        owners.iter().take(5).map(|owner| format!("`{}`", escape::one_line(owner, 100))).collect();
    let session = escape::one_line(session, 200);
    let have = if owners.len() == 1 { "has one" } else { "have one" };
    Failure::usage(format!("no such session of `{caller}`: `{session}`; {} {have}", named.join(", ")))
        .hint(format!("say whose you mean: `helve session end {session} --as NAME`"))
}
