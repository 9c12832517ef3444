//! Looking up what references refer to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use helve_sandbox::Sandbox;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::keyring::{Keyring, NoKeyring, SystemKeyring};
use super::literal::is_plain_secret;
use super::reference::{Reference, Setting, Source};

/// Largest file that holds a secret.
const FILE_BYTES_MAX: u64 = 64 << 10;
const START: &str = "${env:";

/// Where references are looked up: at every connection anew, so that a new value needs no restart.
#[derive(Clone)]
pub struct Secrets {
    variables: Arc<ReadVariable>,
    keyring: Arc<dyn Keyring>,
}

type ReadVariable = dyn Fn(&str) -> Option<SecretString> + Send + Sync;

/// A secret that is not there. Names the reference, never a value.
#[derive(Debug, thiserror::Error)]
#[error("{reference} {problem}")]
pub struct SecretError {
    reference: String,
    problem: String,
}

impl Secrets {
    /// The environment of this process and its files, and no keyring.
    pub fn process() -> Self {
        Self::new(variable, NoKeyring)
    }

    /// The environment of this process, its files, and the keyring of its user.
    pub fn system(sandbox: Sandbox) -> Self {
        Self::new(variable, SystemKeyring::new(sandbox))
    }

    /// Variables and a keyring from elsewhere.
    pub fn new(
        variables: impl Fn(&str) -> Option<SecretString> + Send + Sync + 'static,
        keyring: impl Keyring + 'static,
    ) -> Self {
        Self { variables: Arc::new(variables), keyring: Arc::new(keyring) }
    }

    /// These variables and no others, and no keyring.
    pub fn fixed<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let map: BTreeMap<String, SecretString> =
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        Self::new(move |name| map.get(name).cloned(), NoKeyring)
    }

    /// The value of a setting.
    pub async fn resolve(&self, setting: &Setting) -> Result<SecretString, SecretError> {
        match setting {
            Setting::Text(text) => self.fill(text),
            Setting::Reference(Reference { source, prefix }) => {
                let value = self.look_up(source).await?;
                if prefix.is_empty() {
                    return Ok(value);
                }
                Ok(format!("{prefix}{}", value.expose_secret()).into())
            }
        }
    }

    /// What of a setting's resolved value is secret: what a reference leads to, and of the variables in a text
    /// those that are secret by name or by look.
    pub(crate) fn secret_parts(&self, setting: &Setting, value: &str) -> Vec<String> {
        match setting {
            Setting::Text(text) => self.secrets_in(text),
            Setting::Reference(Reference { prefix, .. }) => {
                vec![value.strip_prefix(prefix.as_str()).unwrap_or(value).to_owned()]
            }
        }
    }

    /// The values of those `${env:NAME}` in a text that are secret by name or by look.
    pub(crate) fn secrets_in(&self, text: &str) -> Vec<String> {
        let names = text.split(START).skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
        let values = names.filter_map(|name| Some((name, self.variable(name).ok()?)));
        let secret = values.filter(|(name, value)| is_plain_secret(name, value.expose_secret()));
        secret.map(|(_, value)| value.expose_secret().to_owned()).collect()
    }

    /// A text with the values of its `${env:NAME}`.
    pub fn fill(&self, text: &str) -> Result<SecretString, SecretError> {
        Ok(self.replace(text, str::to_owned)?.into())
    }

    /// An address with the values of its `${env:NAME}`, percent-encoded, so that none can choose
    /// the host or add a part to the path.
    pub fn fill_url(&self, text: &str) -> Result<Url, SecretError> {
        let filled = self.replace(text, |value| utf8_percent_encode(value, NON_ALPHANUMERIC).to_string())?;
        let wrong =
            |problem: &str| SecretError { reference: "the `url`".to_owned(), problem: problem.to_owned() };
        Url::parse(&filled).map_err(|_| wrong("is not an address"))
    }

    fn replace(&self, text: &str, encode: impl Fn(&str) -> String) -> Result<String, SecretError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(START) {
            filled.push_str(before);
            match after.split_once('}').filter(|(name, _)| is_variable_name(name)) {
                Some((name, after)) => {
                    filled.push_str(&encode(self.variable(name)?.expose_secret()));
                    rest = after;
                }
                None => {
                    filled.push_str(START);
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    async fn look_up(&self, source: &Source) -> Result<SecretString, SecretError> {
        let refuse = |problem: &str| refuse(source, problem);
        let value = match source {
            Source::Env(name) => return self.variable(name),
            Source::File(path) => read_file(path).map_err(|problem| refuse(&problem))?,
            Source::Keyring { service, user } => match self.keyring.read(service, user).await {
                Ok(value) => value.ok_or_else(|| refuse("is not there; store it and try again"))?,
                Err(error) => return Err(refuse(&format!("cannot be read: {error}"))),
            },
        };
        usable(source, value)
    }

    fn variable(&self, name: &str) -> Result<SecretString, SecretError> {
        let source = Source::Env(name.to_owned());
        let value = (self.variables)(name);
        usable(&source, value.ok_or_else(|| refuse(&source, "is not set; set it and try again"))?)
    }
}

fn variable(name: &str) -> Option<SecretString> {
    std::env::var(name).ok().map(SecretString::from)
}

fn refuse(source: &Source, problem: &str) -> SecretError {
    SecretError { reference: source.to_string(), problem: problem.to_owned() }
}

/// A value that can stand in an environment or in a header.
fn usable(source: &Source, value: SecretString) -> Result<SecretString, SecretError> {
    match value.expose_secret() {
        "" => Err(refuse(source, "is empty")),
        text if text.contains('\0') => Err(refuse(source, "contains a NUL character")),
        _ => Ok(value),
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

fn read_file(path: &Path) -> Result<SecretString, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    // Asked before opening: to open a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("is not a plain file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text.into())
}

pub(super) fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use helve::BoxFuture;

    use super::super::keyring::KeyringError;
    use super::*;

    struct One;

    impl Keyring for One {
        fn read<'a>(
            &'a self,
            service: &'a str,
            user: &'a str,
        ) -> BoxFuture<'a, Result<Option<SecretString>, KeyringError>> {
            let found = (service == "gh" && user == "me").then(|| "from-keyring".into());
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    fn value(secrets: &Secrets, setting: &Setting) -> Result<String, String> {
        secrets
            .resolve(setting)
            .now_or_never()
            .expect("nothing here takes its time")
            .map(|value| value.expose_secret().to_owned())
            .map_err(|error| error.to_string())
    }

    fn keyring(service: &str, user: &str) -> Setting {
        let source = Source::Keyring { service: service.to_owned(), user: user.to_owned() };
        Setting::Reference(Reference { source, prefix: String::new() })
    }

    #[test]
    fn references_are_looked_up_where_they_point() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "from-file\r\n").unwrap();
        let secrets = Secrets::new(|name| (name == "T").then(|| "from-env".into()), One);
        let get = |setting| value(&secrets, &setting).unwrap();
        assert_eq!(get(Setting::from_env("T").with_prefix("Bearer ")), "Bearer from-env");
        assert_eq!(get(Setting::from_file(&path)), "from-file");
        assert_eq!(get(keyring("gh", "me")), "from-keyring");
        assert_eq!(
            get("a ${env:T} b ${env:T} ${HOME} ${env: ${env:1}".into()),
            "a from-env b from-env ${HOME} ${env: ${env:1}"
        );
    }

    #[test]
    fn what_is_absent_is_named_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Setting::from_file(path)
        };
        let secrets = Secrets::new(|name| (name == "EMPTY").then(|| "".into()), One);
        for (setting, expected) in [
            (Setting::from_env("NONE"), "environment variable `NONE` is not set"),
            ("x ${env:NONE}".into(), "`NONE` is not set"),
            (Setting::from_env("EMPTY"), "is empty"),
            (keyring("gh", "you"), "`gh/you` in the keyring is not there"),
            (Setting::from_file(folder.path()), "not a plain file"),
            (Setting::from_file(folder.path().join("none")), "cannot be read"),
            (write("big", &vec![b'x'; 70_000]), "larger than"),
            (write("binary", b"hush\xff"), "not UTF-8"),
            (write("nul", b"hush\0"), "NUL"),
            (write("blank", b"\n"), "is empty"),
        ] {
            let error = value(&secrets, &setting).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hush"));
        }
        let error = value(&Secrets::fixed([]), &keyring("gh", "me")).unwrap_err();
        assert!(error.contains("no keyring on this system"), "{error}");
    }

    #[test]
    fn a_value_cannot_leave_its_place_in_an_address() {
        let secrets = Secrets::fixed([("K", "a/../b?c#d@evil.example:1 \n")]);
        let url = secrets.fill_url("https://mcp.example.com/${env:K}/mcp?key=${env:K}").unwrap();
        assert_eq!(url.host_str(), Some("mcp.example.com"));
        assert_eq!(url.path_segments().unwrap().count(), 2);
        assert_eq!(url.query_pairs().next().unwrap().1, "a/../b?c#d@evil.example:1 \n");
        assert!(secrets.fill_url("https://${env:NONE}/").is_err());
    }

    #[test]
    fn debug_shows_no_value() {
        let secrets = Secrets::fixed([("K", "hush")]);
        let value = secrets.resolve(&Setting::from_env("K")).now_or_never().unwrap().unwrap();
        assert!(!format!("{secrets:?} {value:?}").contains("hush"));
    }
}
