//! `helve memory get`: one value.

use helve::ports::Memory as _;

use super::{OwnerArgs, document, with_memory};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{escape, json as json_text};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key to read
    key: String,
    #[command(flatten)]
    owner: OwnerArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Args { key, owner } = args;
    let place = owner.place(key.clone());
    let found = with_memory(app, async |runtime| runtime.memory().read(place).await)?;
    let Some(found) = found else {
        let key = escape::one_line(&key, 128);
        return Err(Failure::failed(format!("nothing is remembered under `{key}`"))
            .hint("`--scope`, `--principal`, `--agent` and `--session` say whose memory")
            .into());
    };
    if app.ui.is_json() {
        app.ui.json(&document(&key, &found))?;
    } else {
        app.ui.line(escape::visible(&json_text::pretty(&found.value)?))?;
    }
    Ok(Exit::Done)
}
