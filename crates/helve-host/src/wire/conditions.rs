//! Resources, checks and permissions of the configuration: what tools' preconditions ask for.

use std::path::PathBuf;

use helve::expression::Expression;
use helve::json::escape_pointer;
use helve::{Context, Registry, RuntimeBuilder, ToolCheck, ToolError};
use helve_sandbox::Sandbox;
use serde_json::Value;

use super::integrations::is_set;
use crate::Remark;
use crate::config::{CheckSection, Loaded, Resource, document};

/// Declares what the configuration says of resources, checks and permissions.
pub(super) fn declare(mut builder: RuntimeBuilder, loaded: &Loaded, registry: &Registry) -> RuntimeBuilder {
    let config = &loaded.config;
    for (name, resource) in &config.resources {
        let probe = Probe::new(name, resource, loaded, registry);
        builder = builder.resource(name, move |_: Value, _: Context| {
            let found = probe.look();
            async move { found.map(|()| true) }
        });
    }
    for (id, check) in &config.checks {
        // A check that cannot be made does not hold, and so what asks for it does not run.
        builder = match tool_check(check, registry) {
            Ok(check) => builder.check_by_tool(id, check),
            Err(why) => builder.check(id, move |_: Value, _: Context| {
                let why = why.clone();
                async move { Err(ToolError::failed(why)) }
            }),
        };
    }
    for (principal, permissions) in &config.permissions {
        builder = builder.grant(principal, permissions);
    }
    builder
}

/// The checks that cannot be made.
pub(super) fn broken_checks(loaded: &Loaded, registry: &Registry) -> Vec<Remark> {
    let checks = loaded.config.checks.iter();
    let broken = checks.filter_map(|(id, check)| Some((id, tool_check(check, registry).err()?)));
    let remark = |(id, why): (&String, String)| {
        let origin = document::at(&loaded.origin(&format!("/checks/{}/tool", escape_pointer(id))));
        Remark {
            found: format!(
                "{origin}  the check `{id}` cannot be used, so what asks for it does not run: {why}"
            ),
            fix: "`helve config keys checks` documents the keys".to_owned(),
        }
    };
    broken.map(remark).collect()
}

fn tool_check(check: &CheckSection, registry: &Registry) -> Result<ToolCheck, String> {
    let name = &check.tool;
    let tool = match (registry.get(name), registry.broken(name)) {
        (Some(registered), _) => registered.tool,
        (None, Some(broken)) => return Err(broken.reason),
        (None, None) => return Err(format!("there is no tool `{name}`")),
    };
    if let Some(objection) = ToolCheck::objection(&tool) {
        return Err(format!("`{name}`: {objection}"));
    }
    let expect = Expression::parse(&check.expect).map_err(|error| error.to_string())?;
    if let Some(other) = expect.names().find(|name| *name != "result") {
        return Err(format!("`expect` looks at `{other}`, and there is only `result`"));
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
