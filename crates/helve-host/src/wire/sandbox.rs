//! From configuration to a sandbox, whose way out is the proxy of the guarded client.

use std::sync::Arc;

use helve_sandbox::{Limits, Sandbox, SandboxOptions};
use helve_tools::egress::ThroughProxy;

use super::builtin::own_files;
use super::judges;
use crate::config::{Config, Loaded};

/// Where programs run. Helve's own files are not theirs.
pub fn sandbox(loaded: &Loaded) -> Sandbox {
    let config = &loaded.config;
    Sandbox::new(SandboxOptions {
        hidden: own_files(loaded),
        unwritable: judges::unwritable(loaded),
        limits: limits(config),
        min_level: config.sandbox.min_level,
        egress: Some(Arc::new(ThroughProxy::new(config.net.clone()))),
        ..SandboxOptions::default()
    })
}

/// How much a program may use that does not say.
pub fn limits(config: &Config) -> Limits {
    let section = &config.sandbox;
    Limits {
        memory_bytes: section.memory_mb << 20,
        pids: section.pids,
        cpu_s: section.cpu_s,
        work_bytes: section.work_mb << 20,
        wall_ms: config.execution.default_timeout_ms,
        ..Limits::default()
    }
}
