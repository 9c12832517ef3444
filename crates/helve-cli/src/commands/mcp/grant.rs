//! `helve mcp grant`: lets a server's box do more.

use std::path::{Path, PathBuf};

use helve_host::config::{Origin, load};
use helve_host::wire;
use helve_host::wire::trust::Store;
use helve_net::HostPattern;
use serde_json::json;
use toml_edit::{Array, DocumentMut, TableLike, Value};

use crate::app::App;
use crate::commands::file;
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Changes the helve.toml that names the server, and trusts the server as it is then.

Examples:
  helve mcp grant notes --read ~/notes
  helve mcp grant search --network api.example.com:443
  helve mcp grant odd --unconfined";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The server whose box may do more
    name: String,
    #[command(flatten)]
    grants: Grants,
}

/// What a server may do beyond its box.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Grants {
    /// A file or folder that it may read
    #[arg(long, value_name = "PATH")]
    pub(super) read: Vec<PathBuf>,
    /// A file or folder that it may change
    #[arg(long, value_name = "PATH")]
    pub(super) write: Vec<PathBuf>,
    /// A host that it may reach, as `HOST:PORT`
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) network: Vec<String>,
    /// No box: it can do all that you can
    #[arg(long)]
    pub(super) unconfined: bool,
}

impl Grants {
    pub(super) fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.network.is_empty() && !self.unconfined
    }

    /// Refuses what no box could be given: it would keep the server from starting.
    fn check(&self) -> Result<(), Failure> {
        if let Some(path) = self.read.iter().chain(&self.write).find(|path| !path.exists()) {
            return Err(Failure::usage(format!("there is no `{}`", path.display()))
                .hint("make it first; what is not there cannot be granted"));
        }
        let wrong = self.network.iter().find_map(|host| host.parse::<HostPattern>().err());
        wrong.map_or(Ok(()), |error| Err(Failure::usage(error.to_string())))
    }

    /// Paths as typed from a folder, in full.
    fn from(mut self, folder: &Path) -> Self {
        for path in self.read.iter_mut().chain(&mut self.write) {
            *path = folder.join(&path);
        }
        self
    }
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let before = app.load_config()?;
    let one = wire::mcp::find_configured(&before, &args.name)?;
    let name = &one.name;
    if args.grants.is_empty() {
        return Err(Failure::usage(format!("what may `{name}` do?"))
            .hint("give `--read PATH`, `--write PATH`, `--network HOST:PORT` or `--unconfined`")
            .into());
    }
    if one.config.command.is_none() {
        return Err(Failure::usage(format!("`{name}` is at an address: no box holds it")).into());
    }
    let Origin::File { path, .. } = &one.origin else {
        return Err(Failure::usage(format!("`{name}` is in no file; it comes from {}", one.origin)).into());
    };
    // What was not trusted before is not trusted by a grant: the person has to see all of it.
    let was_held = one.hold();
    let grants = args.grants.from(&app.inputs.work_dir);
    grants.check()?;
    file::change(path, |text| granted(text, name, &grants))?;
    let after = wire::mcp::find_configured(&load(&app.inputs)?, name)?;
    if was_held.is_none() {
        wire::trust::open(Store::Servers)?.accept(&after.scope, name, &after.config)?;
    }
    if app.ui.is_json() {
        app.ui.json(&json!({ "granted": name, "file": path, "trusted": was_held.is_none() }))?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!("{sign} {name} may do that now; helve mcp test {name} tries it"))?;
    if was_held.is_some() {
        app.ui.note(format!("it waits to be trusted: helve mcp trust {name}"))?;
    }
    Ok(Exit::Done)
}

/// The file's text with the grants in it.
fn granted(text: &str, name: &str, grants: &Grants) -> Result<String, Failure> {
    let unfit = || Failure::usage(format!("`{name}` is not written so that it could be changed here"));
    let mut document: DocumentMut = text.parse().map_err(|_| unfit())?;
    let server = ["mcp", "servers", name]
        .iter()
        .try_fold(document.as_item_mut(), |item, key| item.get_mut(*key))
        .and_then(|item| item.as_table_like_mut())
        .ok_or_else(unfit)?;
    let texts = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    for (key, more) in
        [("read", texts(&grants.read)), ("write", texts(&grants.write)), ("network", grants.network.clone())]
    {
        add(server, key, more).ok_or_else(unfit)?;
    }
    if grants.unconfined {
        server.insert("confined", toml_edit::value(false));
    }
    Ok(document.to_string())
}

/// Adds to a list what is not in it yet.
fn add(server: &mut dyn TableLike, key: &str, more: Vec<String>) -> Option<()> {
    if more.is_empty() {
        return Some(());
    }
    if !server.contains_key(key) {
        server.insert(key, toml_edit::value(Array::new()));
    }
    let list = server.get_mut(key)?.as_array_mut()?;
    for one in more {
        if !list.iter().any(|there| there.as_str() == Some(&one)) {
            list.push(Value::from(one));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_added_to_what_is_there_and_comments_stay() {
        let grants = Grants {
            read: vec!["/a".into(), "/b".into()],
            network: vec!["h.example:443".to_owned()],
            ..Grants::default()
        };
        let text = "# mine\n[mcp.servers.x]\ncommand = \"y\" # why\nread = [\"/a\"]\n\n[other]\n";
        let granted = granted(text, "x", &grants).unwrap();
        assert_eq!(
            granted,
            "# mine\n[mcp.servers.x]\ncommand = \"y\" # why\nread = [\"/a\", \"/b\"]\nnetwork = [\"h.example:443\"]\n\n[other]\n"
        );
        assert!(super::granted(text, "z", &grants).is_err());
    }
}
