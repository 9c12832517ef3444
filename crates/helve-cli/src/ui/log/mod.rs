//! The log: on standard error, by `-v` or `HELVE_LOG`.

mod once;

use tracing_subscriber::EnvFilter;

use super::{Detail, Paint};

/// The variable with a filter such as `helve=debug`.
pub(crate) const VARIABLE: &str = "HELVE_LOG";

/// Starts the log. A broken filter is reported by the caller, not obeyed in part.
pub(crate) fn start(detail: Detail, paint: Paint) -> Result<(), String> {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text).map_err(|error| format!("{VARIABLE}=`{text}`: {error}"))?,
        Err(_) => EnvFilter::new(match detail {
            Detail::Quiet => "off",
            Detail::Normal => "error",
            Detail::Verbose => "info,helve=debug",
        }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(once::Once::default())
        .with_ansi(paint == Paint::Colour)
        .with_target(false)
        .without_time()
        .init();
    Ok(())
}
