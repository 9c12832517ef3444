//! Every tool that the configuration gives.

use helve::{Layer, Registry};

use crate::config::Loaded;
use crate::failure::Failure;

/// Every tool that the configuration gives, in its layers.
pub(crate) fn registry(loaded: &Loaded) -> Result<Registry, Failure> {
    let registry = Registry::with_limit(loaded.config.registry.tools_max);
    let without = &loaded.config.builtin.without;
    let kept = |name: &str| !without.iter().any(|one| one == "*" || one == name);
    let builtin = helve_tools::builtin_tools().into_iter().filter(|tool| kept(tool.name().as_str()));
    registry
        .register_many(Layer::BuiltIn, builtin)
        .map_err(|error| Failure::usage("the built-in tools cannot be loaded").because(&error))?;
    Ok(registry)
}
