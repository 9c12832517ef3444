//! Traces of calls, from the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use helve_mcp::config::{Secrets, ServerConfig, Setting};
use helve_net::Client;
use helve_sandbox::Sandbox;
use helve_telemetry::{OptionsError, Telemetry, TelemetryOptions};
use secrecy::ExposeSecret as _;

use crate::blocking::run_within;
use crate::config::{Loaded, TelemetrySection};
use crate::error::HostError;

/// How long a secret may take to be looked up.
const SECRET_WAIT: Duration = Duration::from_secs(30);

/// The exporter of calls, if there is one. The collector itself may be reached wherever it is: its
/// address is the operator's word.
pub(super) fn telemetry(loaded: &Loaded) -> Result<Option<Telemetry>, HostError> {
    let section = &loaded.config.telemetry;
    let Some(endpoint) = &section.otlp_endpoint else { return Ok(None) };
    let unusable = |error: OptionsError| HostError::usage("`[telemetry]` cannot be used").because(&error);
    let mut options = options(endpoint, section).map_err(unusable)?;
    check_headers(endpoint, section)?;
    for (name, setting) in &headers(loaded) {
        let without = || HostError::usage(format!("the header `{name}` of `[telemetry]` has no value"));
        let setting = setting.clone();
        // By itself: a keyring is asked by a program, and nobody else must wait for it.
        let looked_up =
            run_within(
                SECRET_WAIT,
                async move { Secrets::system(Sandbox::default()).resolve(&setting).await },
            );
        let value = looked_up.map_err(|error| without().detail(error.to_string()))?;
        let value = value.ok_or_else(|| without().detail("the keyring took too long"))?;
        let value = value.map_err(|error| without().because(&error))?;
        options = options.header(name, value.expose_secret()).map_err(unusable)?;
    }
    let mut policy = loaded.config.net.clone();
    policy.allow.extend(options.own_host());
    let client =
        Client::new(policy).map_err(|error| HostError::failed("traces cannot be sent").because(&error))?;
    Ok(Some(Telemetry::new(options, client)))
}

/// The headers, with files of secrets from where the configuration was loaded for.
fn headers(loaded: &Loaded) -> BTreeMap<String, Setting> {
    let mut like = ServerConfig::remote("");
    like.headers = loaded.config.telemetry.headers.clone();
    like.relative_to(&loaded.work_dir).headers
}

fn options(endpoint: &str, section: &TelemetrySection) -> Result<TelemetryOptions, OptionsError> {
    let options = TelemetryOptions::new(endpoint)?
        .service_name(section.service_name.clone())?
        .sample_ratio(section.sample_ratio)?;
    Ok(if section.content { options.with_content() } else { options })
}

/// Headers are those of an MCP server: a secret does not stand in a file.
fn check_headers(endpoint: &str, section: &TelemetrySection) -> Result<(), HostError> {
    let mut like = ServerConfig::remote(endpoint);
    like.headers = section.headers.clone();
    let problems = like.check("collector");
    if problems.is_empty() {
        return Ok(());
    }
    let failure = HostError::usage("`[telemetry]` cannot be used");
    Err(problems.iter().fold(failure, |failure, problem| failure.detail(problem.to_string())))
}
