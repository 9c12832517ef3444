#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_args: &Args, _app: &mut crate::app::App<'_>) -> anyhow::Result<crate::exit::Exit> { unimplemented!() }
