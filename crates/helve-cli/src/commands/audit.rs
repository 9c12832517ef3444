#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command { List }
pub(crate) fn run(_args: Command, _app: &mut crate::app::App<'_>) -> anyhow::Result<crate::exit::Exit> { unimplemented!() }
