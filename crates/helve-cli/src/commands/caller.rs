//! Who a command stands in for.

use helve::Caller;

/// Who, as typed.
#[derive(Debug, clap::Args)]
pub(crate) struct CallerArgs {
    /// As this principal
    #[arg(long, value_name = "NAME", default_value = "local")]
    principal: String,
    /// As this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Within this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl CallerArgs {
    pub(crate) fn resolve(self) -> Caller {
        let mut caller = Caller::principal(self.principal).channel(helve::Channel::Cli);
        caller.agent = self.agent;
        caller.session = self.session;
        caller
    }
}
