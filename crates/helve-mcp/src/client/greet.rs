//! The first words with a server, in either era.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::connection::Greeting;
use super::headers;
use super::hub::Hub;
use super::link::{Link, LinkError, Outgoing};
use crate::era::{Era, SESSION_VERSIONS, STATELESS_VERSIONS};
use crate::message::{Fields, Notification, Raw, RpcError, empty, in_words, is_object, raw};

/// How much of the versions that a server names is shown.
const VERSIONS_CHARS_MAX: usize = 100;

/// Why a greeting came to nothing.
#[derive(Debug)]
pub(crate) enum NotGreeted {
    /// The link failed.
    Link(LinkError),
    /// The server refused: it may speak only the other era.
    Refused(RpcError),
    /// It speaks these versions, as it answered to this method, and none of its era that we speak.
    Versions(&'static str, Vec<String>),
}

impl NotGreeted {
    /// What to report where greeting in the other era came to nothing as well: a server that only does
    /// not know the second greeting has said with the first what is wrong.
    pub(crate) fn or(self, second: Self) -> Self {
        // Some libraries call a method that they do not know wrong parameters.
        const UNKNOWN: [i64; 2] = [RpcError::METHOD_NOT_FOUND, RpcError::INVALID_PARAMS];
        match (&self, &second) {
            (Self::Refused(first), _) if first.code == RpcError::METHOD_NOT_FOUND => second,
            (_, Self::Refused(error)) if UNKNOWN.contains(&error.code) => self,
            _ => second,
        }
    }

    /// The failure as one of the link.
    pub(crate) fn into_error(self) -> LinkError {
        match self {
            Self::Link(error) => error,
            Self::Refused(error) => LinkError::Protocol(format!("it refused the greeting: {error}")),
            Self::Versions(asked, theirs) => LinkError::Protocol(unspoken(asked, &theirs)),
        }
    }
}

/// What to say of versions that are no answer to this method.
fn unspoken(asked: &str, theirs: &[String]) -> String {
    let ours = [&STATELESS_VERSIONS[..], &SESSION_VERSIONS[..]].concat();
    let shown = crate::text::one_line(&theirs.join(", "), VERSIONS_CHARS_MAX);
    match theirs.iter().any(|version| ours.contains(&version.as_str())) {
        // We speak it, but not as it was asked.
        true => format!("it answers `{asked}` with version `{shown}`, which does not know that method"),
        false => format!("it speaks version `{shown}`, and we speak {}", ours.join(", ")),
    }
}

/// Greets in the session era: `initialize`.
pub(crate) async fn session(link: &dyn Link, hub: &Hub, timeout: Duration) -> Result<Greeting, NotGreeted> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
        #[serde(default)]
        capabilities: Fields,
        server_info: Option<Raw>,
        instructions: Option<String>,
    }
    let mut params = Fields::default();
    params.set("protocolVersion", raw(&Era::Session.version()));
    params.set("capabilities", hub.identity.capabilities.clone());
    params.set("clientInfo", hub.identity.info.clone());
    let result = exchange(link, hub, "initialize", params, Vec::new(), timeout).await?;
    let said: Initialized = understood(&result, "initialize")?;
    if !SESSION_VERSIONS.contains(&said.protocol_version.as_str()) {
        return Err(NotGreeted::Versions("initialize", vec![said.protocol_version]));
    }
    link.greeted(&said.protocol_version, false);
    let told = link.notify(Notification::bare("notifications/initialized")).await;
    told.map_err(NotGreeted::Link)?;
    link.listen().await;
    Ok(Greeting {
        era: Era::Session,
        version: said.protocol_version,
        server_info: said.server_info.unwrap_or_else(empty),
        capabilities: said.capabilities,
        instructions: said.instructions,
    })
}

/// Greets in the stateless era: `server/discover`.
pub(crate) async fn stateless(link: &dyn Link, hub: &Hub, timeout: Duration) -> Result<Greeting, NotGreeted> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered {
        supported_versions: Vec<String>,
        #[serde(default)]
        capabilities: Fields,
        server_info: Option<Raw>,
        instructions: Option<String>,
        #[serde(default, rename = "_meta")]
        about: Fields,
    }
    let version = Era::Stateless.version();
    link.greeted(version, true);
    let mut about = Fields::default();
    hub.identity.add_to(&mut about, version, None);
    let mut params = Fields::default();
    let headers = headers::standard("server/discover", &params);
    params.set("_meta", about.to_raw());
    let discover = || exchange(link, hub, "server/discover", params.clone(), headers.clone(), timeout);
    let result = match discover().await {
        // It names our version as one that it speaks: that refusal was a mistake, or the first of a
        // server that wakes up.
        Err(NotGreeted::Refused(error)) if names_version(&error, version) => discover().await?,
        other => other?,
    };
    let mut said: Discovered = understood(&result, "server/discover")?;
    if !said.supported_versions.iter().any(|supported| supported == version) {
        return Err(NotGreeted::Versions("server/discover", said.supported_versions));
    }
    let info = said.about.remove("io.modelcontextprotocol/serverInfo").or(said.server_info);
    Ok(Greeting {
        era: Era::Stateless,
        version: version.to_owned(),
        server_info: info.unwrap_or_else(empty),
        capabilities: said.capabilities,
        instructions: said.instructions,
    })
}

/// Whether an error for want of a common version says that this one would do.
fn names_version(error: &RpcError, version: &str) -> bool {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().filter(|_| error.code == RpcError::UNSUPPORTED_VERSION);
    let data = data.and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    data.is_some_and(|data| data.supported.iter().any(|supported| supported == version))
}

async fn exchange(
    link: &dyn Link,
    hub: &Hub,
    method: &'static str,
    params: Fields,
    headers: Vec<(String, String)>,
    timeout: Duration,
) -> Result<Raw, NotGreeted> {
    let deadline = Instant::now() + timeout;
    let params = Some(params.to_raw());
    let outgoing = Outgoing { id: hub.next_id(), method: method.to_owned(), params, headers, deadline };
    let answer = tokio::time::timeout_at(deadline, link.request(outgoing)).await;
    answer
        .unwrap_or(Err(LinkError::timed_out(timeout)))
        .map_err(|error| NotGreeted::Link(error.asking(method)))?
        .map_err(NotGreeted::Refused)
}

fn understood<'a, T: Deserialize<'a>>(result: &'a Raw, method: &str) -> Result<T, NotGreeted> {
    let unfit = |why: &str| {
        NotGreeted::Link(LinkError::Protocol(format!("its answer to `{method}` cannot be read: {why}")))
    };
    // Serde would take a list for an object, field by field.
    if !is_object(result) {
        return Err(unfit("it is no object"));
    }
    serde_json::from_str(result.get()).map_err(|error| unfit(&in_words(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_we_speak_is_not_said_to_be_unknown() {
        let said = |asked, versions: &[&str]| {
            let versions = versions.iter().map(|&version| version.to_owned()).collect();
            NotGreeted::Versions(asked, versions).into_error().to_string()
        };
        let other_era = said("initialize", &["2026-07-28"]);
        assert!(
            other_era.ends_with(
                "it answers `initialize` with version `2026-07-28`, which does not know that method"
            )
        );
        let unknown = said("initialize", &["9.9\u{1b}[31m"]);
        assert!(
            unknown.contains("it speaks version `9.9") && unknown.contains("and we speak 2026-07-28, "),
            "{unknown}"
        );
        assert!(!unknown.contains('\u{1b}'), "{unknown:?}");
    }

    #[test]
    fn what_is_no_object_is_no_greeting() {
        for answer in [r#"["2025-11-25",{},{},"x"]"#, "7", "null"] {
            let answer = raw(&serde_json::from_str::<serde_json::Value>(answer).unwrap());
            let Err(NotGreeted::Link(error)) = understood::<Fields>(&answer, "initialize") else {
                panic!("{answer}")
            };
            assert!(
                error.to_string().ends_with("its answer to `initialize` cannot be read: it is no object")
            );
        }
    }
}
