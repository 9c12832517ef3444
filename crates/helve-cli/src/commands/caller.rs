//! Who a command stands in for.

use std::sync::Arc;

use helve::identity::LOCAL;
use helve::principal::{self, PrincipalError};
use helve::{Caller, Channel};

/// The person at this machine, who runs it.
pub(crate) fn local() -> Arc<Caller> {
    Arc::new(named(LOCAL))
}

/// A caller for whom the person at this machine stands in. Only they themselves administer it.
fn named(principal: impl Into<String>) -> Caller {
    let principal = principal.into();
    let roles = (principal == LOCAL).then_some("admin");
    Caller::principal(principal).roles(roles).channel(Channel::Cli)
}

/// The name of a principal or an agent, as typed.
pub(crate) fn name(text: &str) -> Result<String, PrincipalError> {
    principal::check(text).map(|()| text.to_owned())
}

/// Who, as typed.
#[derive(Debug, clap::Args)]
pub(crate) struct CallerArgs {
    /// As this principal
    #[arg(long, value_name = "NAME", default_value = "local", value_parser = name)]
    principal: String,
    /// As this agent
    #[arg(long, value_name = "NAME", value_parser = name)]
    agent: Option<String>,
    /// Within this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl CallerArgs {
    pub(crate) fn resolve(self) -> Caller {
        let mut caller = named(self.principal);
        caller.agent = self.agent;
        caller.session = self.session;
        caller
    }
}
