//! Resources, checks and permissions of the configuration: what tools' preconditions ask for.

use std::path::PathBuf;

use helve::expression::Expression;
use helve::json::escape_pointer;
use helve::{Context, Registry, RuntimeBuilder, ToolCheck, ToolError};
use helve_sandbox::Sandbox;
use serde_json::Value;

use super::integrations::is_set;
use crate::config::{CheckSection, Loaded, Resource};
use crate::error::HostError;

/// Declares what the configuration says of resources, checks and permissions.
pub(super) fn declare(
    mut builder: RuntimeBuilder,
    loaded: &Loaded,
    registry: &Registry,
) -> Result<RuntimeBuilder, HostError> {
    let config = &loaded.config;
    for (name, resource) in &config.resources {
        let probe = Probe::new(name, resource, loaded, registry);
        builder = builder.resource(name, move |_: Value, _: Context| {
            let found = probe.look();
            async move { found.map(|()| true) }
        });
    }
    for (id, check) in &config.checks {
        // A check by a broken tool does not hold, and so what asks for it does not run.
        builder = match registry.broken(&check.tool) {
            Some(broken) if !registry.has(&check.tool) => builder.check(id, move |_: Value, _: Context| {
                let why = broken.reason.clone();
                async move { Err(ToolError::failed(why)) }
            }),
            Some(_) | None => builder.check_by_tool(id, tool_check(id, check, registry)?),
        };
    }
    for (principal, permissions) in &config.permissions {
        builder = builder.grant(principal, permissions);
    }
    Ok(builder)
}

fn tool_check(id: &str, check: &CheckSection, registry: &Registry) -> Result<ToolCheck, HostError> {
    let refuse = |why: String| {
        HostError::usage(format!("the check `{id}` cannot be used"))
            .detail(why)
            .hint("`helve config keys checks` documents the keys")
    };
    let name = &check.tool;
    let tool = registry.get(name).ok_or_else(|| refuse(format!("there is no tool `{name}`")))?.tool;
    if let Some(objection) = ToolCheck::objection(&tool) {
        return Err(refuse(format!("`{name}`: {objection}")));
    }
    let expect = Expression::parse(&check.expect).map_err(|error| refuse(error.to_string()))?;
    if let Some(other) = expect.names().find(|name| *name != "result") {
        return Err(refuse(format!("`expect` looks at `{other}`, and there is only `result`")));
    }
    Ok(ToolCheck { tool: name.clone(), arguments: Value::Object(check.arguments.clone()), expect })
}

/// How to find out whether a resource is at hand.
enum Probe {
    Command(PathBuf),
    File(PathBuf),
    Env(String),
    Tool(String, Registry),
}

impl Probe {
    fn new(name: &str, resource: &Resource, loaded: &Loaded, registry: &Registry) -> Self {
        match resource {
            Resource::Command(command) => Self::Command(command.clone()),
            Resource::File(path) => {
                let pointer = format!("/resources/{}/file", escape_pointer(name));
                Self::File(loaded.start_of(&pointer).join(path))
            }
            Resource::Env(variable) => Self::Env(variable.clone()),
            Resource::Tool(tool) => Self::Tool(tool.clone(), registry.clone()),
        }
    }

    fn look(&self) -> Result<(), ToolError> {
        match self {
            Self::Command(command) => {
                Sandbox::default().check(command).map_err(|error| ToolError::failed(error.to_string()))
            }
            Self::File(path) if path.exists() => Ok(()),
            Self::File(path) => Err(ToolError::failed(format!("there is no `{}`", path.display()))),
            Self::Env(variable) if is_set(variable) => Ok(()),
            Self::Env(variable) => {
                Err(ToolError::failed(format!("the environment variable {variable} is not set")))
            }
            Self::Tool(name, registry) if registry.has(name) => Ok(()),
            Self::Tool(name, _) => Err(ToolError::failed(format!("no tool `{name}` is registered"))),
        }
    }
}
