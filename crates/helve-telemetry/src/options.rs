//! What is told, and to whom.

use helve_net::{HeaderMap, HeaderName, HeaderValue, HostPattern, Url};

/// Longest name of a service.
const NAME_CHARS_MAX: usize = 256;

/// What is told, and to whom.
#[derive(Debug, Clone)]
pub struct TelemetryOptions {
    /// Where traces are posted.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) service_name: String,
    /// Whether arguments and results are told, without their secrets.
    pub(crate) content: bool,
    /// Which part of traces that begin here is told, from 0 to 1.
    pub(crate) sample_ratio: f64,
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The address is none.
    #[error("`otlp_endpoint` {reason}")]
    Endpoint {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A header cannot be sent. Its value is not repeated.
    #[error("the header `{name}` cannot be sent")]
    Header {
        /// The name of the header.
        name: String,
    },
    /// The name of the service is none.
    #[error("`service_name` has 1 to {NAME_CHARS_MAX} characters")]
    ServiceName,
    /// No part of a whole.
    #[error("`sample_ratio` is a number from 0 to 1")]
    SampleRatio,
}

impl TelemetryOptions {
    /// Tells everything but content to the collector at `endpoint`, as in `http://localhost:4318`.
    pub fn new(endpoint: &str) -> Result<Self, OptionsError> {
        let wrong = |reason: &str| OptionsError::Endpoint { reason: reason.to_owned() };
        let mut url = Url::parse(endpoint).map_err(|error| wrong(&format!("is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("begins with `http://` or `https://`, as in `http://localhost:4318`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("may not hold a user or a password; use `headers`"));
        }
        // As the variable OTEL_EXPORTER_OTLP_ENDPOINT has it; a whole address is left as it is.
        if !url.path().ends_with("/v1/traces") {
            let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(Self {
            url,
            headers: HeaderMap::new(),
            service_name: "helve".to_owned(),
            content: false,
            sample_ratio: 1.0,
        })
    }

    /// Sends a header along, such as a token. Its value is kept out of logs.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, OptionsError> {
        let wrong = || OptionsError::Header { name: name.to_owned() };
        let parsed: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.headers.append(parsed, value);
        Ok(self)
    }

    /// Names the service that the spans are of.
    pub fn service_name(mut self, name: impl Into<String>) -> Result<Self, OptionsError> {
        self.service_name = name.into();
        let fits = (1..=NAME_CHARS_MAX).contains(&self.service_name.chars().count());
        if fits { Ok(self) } else { Err(OptionsError::ServiceName) }
    }

    /// Tells arguments and results too, without what is secret in them.
    pub fn with_content(mut self) -> Self {
        self.content = true;
        self
    }

    /// Tells this part of the traces that begin here, from 0 to 1. For others the service that began them decides.
    pub fn sample_ratio(mut self, ratio: f64) -> Result<Self, OptionsError> {
        self.sample_ratio = ratio;
        if (0.0..=1.0).contains(&ratio) { Ok(self) } else { Err(OptionsError::SampleRatio) }
    }

    /// The collector as an entry of `[net] allow`: it is the operator's own word, and mostly on this
    /// machine.
    pub fn own_host(&self) -> Option<HostPattern> {
        let port = self.url.port_or_known_default()?;
        format!("{}:{port}", self.url.host_str()?).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_base_or_a_whole_address() {
        for (endpoint, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/otlp/", "https://otel.example/otlp/v1/traces"),
            ("https://otel.example/otlp/v1/traces", "https://otel.example/otlp/v1/traces"),
        ] {
            assert_eq!(TelemetryOptions::new(endpoint).unwrap().url.as_str(), expected);
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_repeating_secrets() {
        for endpoint in ["", "localhost:4318", "file:///etc/passwd", "grpc://a:4317", "http://u:hush@a"] {
            let error = TelemetryOptions::new(endpoint).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
        let options = || TelemetryOptions::new("http://a").unwrap();
        let error = options().header("authorization", "hush\n").unwrap_err().to_string();
        assert_eq!(error, "the header `authorization` cannot be sent");
        assert!(options().header("a b", "x").is_err() && options().service_name("").is_err());
        assert!(options().sample_ratio(1.5).is_err() && options().sample_ratio(f64::NAN).is_err());
        assert!(!format!("{:?}", options().header("authorization", "hush").unwrap()).contains("hush"));
    }
}
