//! `helve keys sign-in`: a link to the page, good once and for ten minutes.

use helve::identity::{Key, KeyText, Purpose};
use helve::ports::{JournalError, Keys};
use helve_host::running;
use jiff::Timestamp;
use serde_json::json;

use super::open;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::caller;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A new code for this person.
pub(crate) async fn new_code(keys: &dyn Keys, name: &str) -> Result<KeyText, JournalError> {
    let (code, text) = Key::generate(name, Purpose::SignIn, name, Timestamp::now());
    keys.create_key(Box::new(code), caller::local()).await?;
    Ok(text)
}

pub(crate) fn run(_: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let name = local_user("sign in")?;
    let loaded = app.load_config()?;
    let address = running::note(&loaded.journal_path).map(|note| note.address);
    let ledger = open(app)?;
    let code = block_on(async { Ok(new_code(&*ledger, &name).await?) })?;
    ledger.close()?;
    // After `#`, so that the code is in no server's log.
    let link = address.map(|address| format!("http://{address}/sign-in#{}", code.reveal()));
    if app.ui.is_json() {
        app.ui.json(&json!({ "code": code.reveal(), "link": link }))?;
        return Ok(Exit::Done);
    }
    match link {
        Some(link) => app.ui.line(link)?,
        None => {
            app.ui.line(code.reveal())?;
            app.ui
                .note("no `helve up` runs here; the code is for a `helve up` that uses the same journal")?;
        }
    }
    app.ui.note("good once, for ten minutes")?;
    Ok(Exit::Done)
}
