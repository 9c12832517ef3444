//! A server's program made ready for this machine: found, and given the folders of code that it is made of.

use std::path::Path;

use helve_mcp::config::ServerConfig;
use helve_mcp::launch::{Machine, Plan, plan};

/// What was worked out.
pub(super) struct Prepared {
    pub(super) plan: Plan,
}

/// Works out how a server's program is started by a configuration file in `folder`.
pub(super) fn program(config: ServerConfig, folder: &Path) -> Prepared {
    let cwd = config.cwd.clone();
    // A program starts in the folder of its file unless it says where, and sees it.
    let within = ServerConfig { cwd: Some(folder.join(cwd.as_deref().unwrap_or(Path::new("")))), ..config };
    let mut plan = plan(within, &Machine::here());
    plan.config.cwd = cwd;
    Prepared { plan }
}

impl Prepared {
    /// What a person should know of it.
    pub(super) fn note(&self, name: &str) -> Option<String> {
        let config = &self.plan.config;
        config.command.as_ref()?;
        Some(match (&self.plan.runner, &self.plan.not_found) {
            (Some(runner), _) if !config.confined => format!(
                "`{runner}` fetches what it runs, so `{name}` is written with `confined = false`: it can do all that you \
                 can. To confine it, install the server, name its program, and take that line out"
            ),
            (_, Some(program)) => format!(
                "no program named `{program}` is on your PATH, or where installers put programs below your home"
            ),
            (Some(_) | None, None) if config.confined && config.network.is_empty() => format!(
                "it runs in a box without a network; `helve mcp grant {name} --network HOST:PORT` lets it reach a host, \
                 `--read` and `--write` give it files"
            ),
            (Some(_) | None, None) => return None,
        })
    }
}
