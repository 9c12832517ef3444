//! Environment variables by reference, and their values kept out of what comes back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use helve::schema::redact::REDACTED;
use helve::{ErrorCode, ToolError};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::plan::{HeaderForm, RequestPlan};
use super::render::encode;

/// Shorter values are not searched for: they would be found everywhere, and guard nothing.
const SECRET_BYTES_MIN: usize = 4;

/// Where `${env:NAME}` looks. Read at every call, so that a new value needs no restart.
#[derive(Clone)]
pub struct Variables(Arc<ReadVariable>);

type ReadVariable = dyn Fn(&str) -> Option<SecretString> + Send + Sync;

impl Variables {
    /// The environment of this process.
    pub fn process() -> Self {
        Self::new(|name| std::env::var(name).ok().map(SecretString::from))
    }

    /// Variables from elsewhere, such as a vault.
    pub fn new(read: impl Fn(&str) -> Option<SecretString> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// These variables and no others.
    pub fn fixed<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let map: BTreeMap<String, SecretString> =
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        Self::new(move |name| map.get(name).cloned())
    }

    /// The values of all that a plan names.
    pub(crate) fn resolve(&self, plan: &RequestPlan) -> Result<Secrets, ToolError> {
        let public = plan.base.variables().map(|name| (name, false));
        let secret = plan.secret_variables().into_iter().map(|name| (name, true));
        let mut secrets = Secrets::default();
        for (name, hidden) in public.chain(secret) {
            let value = self.read(name)?;
            if hidden {
                secrets.hide(value.expose_secret());
            }
            secrets.values.insert(name.to_owned(), value);
        }
        for header in plan.headers.iter().filter(|header| header.form == HeaderForm::Basic) {
            let credentials = header.value.render(&Map::new(), &secrets).unwrap_or_default();
            secrets.hide(&base64(&credentials));
        }
        Ok(secrets)
    }

    /// The value of one variable, which must be set.
    pub(crate) fn read(&self, name: &str) -> Result<SecretString, ToolError> {
        let value = (self.0)(name).filter(|value| !value.expose_secret().trim().is_empty());
        let value = value.ok_or_else(|| missing(name))?;
        // A value read from a file often ends in a line break, which no header may hold.
        Ok(value.expose_secret().trim().into())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables")
    }
}

fn missing(name: &str) -> ToolError {
    ToolError::new(ErrorCode::IntegrationMissing, format!("the environment variable `{name}` is not set"))
        .suggest(format!("tell the user to set `{name}` where Helve runs; the tool cannot work without it"))
}

/// The values that one call uses.
#[derive(Default)]
pub(crate) struct Secrets {
    values: BTreeMap<String, SecretString>,
    /// Every form in which a secret may come back.
    hidden: Vec<SecretString>,
}

impl Secrets {
    /// The value of a variable that the plan names.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |value| value.expose_secret())
    }

    /// Hides a value in each form in which a server may echo it.
    pub(crate) fn hide(&mut self, value: &str) {
        if value.len() < SECRET_BYTES_MIN {
            return;
        }
        let json = Value::from(value).to_string();
        // A query writes a space as `+`, a path does not.
        let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let forms = [value.to_owned(), encode(value), form, json.trim_matches('"').to_owned(), base64(value)];
        for form in forms {
            if !self.hidden.iter().any(|known| known.expose_secret() == form) {
                self.hidden.push(form.into());
            }
        }
        // Longest first: one secret may be a part of another.
        self.hidden.sort_by_key(|text| std::cmp::Reverse(text.expose_secret().len()));
    }

    /// The length of the longest form of a secret.
    pub(crate) fn bytes_max(&self) -> usize {
        self.hidden.iter().map(|secret| secret.expose_secret().len()).max().unwrap_or(0)
    }

    /// Whether a secret stands in these bytes, in any of its forms.
    pub(crate) fn found_in(&self, bytes: &[u8]) -> bool {
        let stands = |secret: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
        self.hidden.iter().any(|secret| stands(secret.expose_secret().as_bytes()))
    }

    /// The text without secrets.
    pub(crate) fn redact(&self, text: String) -> String {
        self.hidden.iter().fold(text, |text, secret| {
            let secret = secret.expose_secret();
            if text.contains(secret) { text.replace(secret, REDACTED) } else { text }
        })
    }

    /// The value without secrets, in keys and strings at every depth.
    pub(crate) fn redact_value(&self, value: Value) -> Value {
        if self.hidden.is_empty() {
            return value;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
            Value::String(text) => Value::String(self.redact(text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, value)| (self.redact(key), self.redact_value(value))).collect()
            }
        }
    }
}

/// Standard base64, as HTTP's basic authentication wants it.
pub(crate) fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|index| u32::from(chunk.get(index).copied().unwrap_or(0)));
        let bits = (a << 16) | (b << 8) | c;
        for digit in 0..4 {
            if digit <= chunk.len() {
                encoded.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            } else {
                encoded.push('=');
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn base64_agrees_with_the_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (text, expected) in cases {
            assert_eq!(base64(text), expected);
        }
    }

    #[test]
    fn a_secret_is_found_in_every_form_it_may_come_back_in() {
        let mut secrets = Secrets::default();
        secrets.hide("p\"ss w/rd");
        let echoed = json!({ "plain p\"ss w/rd": ["p%22ss%20w%2Frd", { "x": base64("p\"ss w/rd") }, "?k=p%22ss+w%2Frd"], "n": 1 });
        let shown = secrets.redact_value(echoed);
        let expected =
            json!({ "plain [redacted]": ["[redacted]", { "x": "[redacted]" }, "?k=[redacted]"], "n": 1 });
        assert_eq!(shown, expected);
        assert_eq!(secrets.redact(r#"{"a":"p\"ss w/rd"}"#.to_owned()), r#"{"a":"[redacted]"}"#);
    }
}
