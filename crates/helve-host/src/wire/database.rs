//! The database of `[store]`: where it is, and that no password stands in a file.

use std::io;

use helve_mcp::config::{Secrets, Setting};
use helve_postgres::PostgresOptions;
use helve_sandbox::Sandbox;
use secrecy::ExposeSecret as _;

use crate::config::{Loaded, Origin, store};
use crate::error::HostError;

/// How to open the database, where the configuration names one.
pub(super) fn options(loaded: &Loaded) -> Result<Option<PostgresOptions>, HostError> {
    let section = &loaded.config.store;
    let Some(url) = &section.url else { return Ok(None) };
    let is_in_file = matches!(loaded.origin("/store/url"), Origin::File { .. });
    if is_in_file && store::password(url).is_some_and(|password| !password.contains("${env:")) {
        return Err(HostError::usage("a password stands in `store.url`").hint(
            "keep it in a variable: `url = \"postgres://helve:${env:HELVE_DB_PASSWORD}@host/helve\"`",
        ));
    }
    let secrets = Secrets::system(Sandbox::default());
    let setting = Setting::Text(url.clone());
    let resolved = wait(secrets.resolve(&setting)).map_err(|error| no_wait(&error))?;
    let resolved =
        resolved.map_err(|error| HostError::usage("`store.url` cannot be used").because(&error))?;
    let mut options = PostgresOptions::new(resolved.expose_secret());
    options.replica = section.replica.clone().unwrap_or_else(machine);
    options.connections_max = section.connections_max;
    Ok(Some(options))
}

/// Refuses what works on a journal's file alone, and says what to do instead.
pub fn need_file(loaded: &Loaded, instead: &str) -> Result<(), HostError> {
    match loaded.config.store.url {
        None => Ok(()),
        Some(_) => Err(HostError::usage(
            "this works on the file of a journal, and `[store] url` names a PostgreSQL database",
        )
        .hint(instead)),
    }
}

/// What this machine is called, as far as that can name a replica.
fn machine() -> String {
    const NAME_CHARS_MAX: usize = 64;
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    name.chars().filter(is_plain).take(NAME_CHARS_MAX).collect()
}

/// There is no thread or socket left to wait with.
pub(super) fn no_wait(error: &io::Error) -> HostError {
    HostError::failed("no answer can be waited for").because(error)
}

/// Waits for an answer, wherever this is called: the thread that waits belongs to no runtime.
pub(super) fn wait<T: Send>(future: impl Future<Output = T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(future))
        });
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
