//! The system's keyring, behind a trait: which one there is, is the program's choice.

use std::path::Path;
use std::time::Duration;

use helve::BoxFuture;
use helve_sandbox::{End, Finished, Job, Limits, Policy, Sandbox};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use crate::text::one_line;

/// Where secrets of a service and a user are kept.
pub trait Keyring: Send + Sync {
    /// The secret, or `None` where there is no such entry.
    fn read<'a>(
        &'a self,
        service: &'a str,
        user: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretString>, KeyringError>>;
}

/// A keyring that could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is none.
    #[error("there is no keyring on this system; use `{{ env = \"NAME\" }}` or `{{ file = \"PATH\" }}`")]
    Absent,
    /// There may be one, and nothing to ask it with.
    #[error(
        "`secret-tool` is not installed, which asks the keyring (Debian: `apt install libsecret-tools`, \
         Fedora: `dnf install libsecret`)"
    )]
    NoProgram,
    /// It did not answer.
    #[error("the keyring did not answer: {0}")]
    Failed(String),
}

/// The program of libsecret that asks the Secret Service: GNOME's keyring, KDE's wallet, KeePassXC.
const PROGRAM: &str = "secret-tool";
/// A keyring that is locked asks its user to unlock it, who has this long.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longest secret that is read.
const BYTES_MAX: usize = 64 << 10;
/// What the program needs to find the user's session, and nothing else of ours.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_DATA_DIRS"];

/// The keyring of the user who runs this program, by the Secret Service on the session's D-Bus.
///
/// It is asked with `secret-tool`, whose attributes are those that other programs use: an entry made by
/// `secret-tool store --label=L service SERVICE username USER` is `SERVICE/USER`. A library that speaks
/// D-Bus itself costs a clean build more than a minute of processor time, for one question at a connection.
#[derive(Debug, Clone)]
pub struct SystemKeyring {
    sandbox: Sandbox,
    variables: Vec<(String, String)>,
}

impl SystemKeyring {
    /// The keyring of this process's user.
    pub fn new(sandbox: Sandbox) -> Self {
        let known = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
        Self { sandbox, variables: VARIABLES.into_iter().filter_map(known).collect() }
    }

    /// Whether there is a session to ask: without one the program would look for it in vain.
    fn has_session(&self) -> bool {
        self.variable("DBUS_SESSION_BUS_ADDRESS").is_some()
            || self.variable("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(folder).join("bus").exists())
    }

    fn has_program(&self) -> bool {
        let folders = [self.variable("PATH").unwrap_or_default(), helve_sandbox::policy::PATH];
        folders.into_iter().flat_map(std::env::split_paths).any(|folder| folder.join(PROGRAM).is_file())
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    async fn look_up(&self, service: &str, user: &str) -> Result<Option<SecretString>, KeyringError> {
        let ended = self.run(&["lookup", "--", "service", service, "username", user], Vec::new()).await?;
        match ended.end {
            End::Exited { code: 0 } => match String::from_utf8(ended.stdout) {
                Ok(secret) => Ok(Some(secret.into())),
                // The error would carry what was stored.
                Err(_) => Err(KeyringError::Failed("what it holds is not text".to_owned())),
            },
            // It says nothing where there is no such entry, and why where something is wrong.
            End::Exited { .. } if ended.stderr.is_empty() => Ok(None),
            end => Err(failure(&end, &ended.stderr)),
        }
    }

    /// Keeps a secret, in the place of another. The label is what people see.
    pub async fn store(
        &self,
        service: &str,
        user: &str,
        label: &str,
        secret: &SecretString,
    ) -> Result<(), KeyringError> {
        let label = format!("--label={label}");
        // On its standard input: arguments can be seen by everybody on this machine.
        let secret = secret.expose_secret().as_bytes().to_vec();
        let ended = self.run(&["store", &label, "service", service, "username", user], secret).await?;
        match ended.end {
            End::Exited { code: 0 } => Ok(()),
            end => Err(failure(&end, &ended.stderr)),
        }
    }

    /// Forgets a secret. Fine where there is none.
    pub async fn clear(&self, service: &str, user: &str) -> Result<(), KeyringError> {
        let ended = self.run(&["clear", "service", service, "username", user], Vec::new()).await?;
        match ended.end {
            End::Exited { code: 0 } => Ok(()),
            End::Exited { .. } if ended.stderr.is_empty() => Ok(()),
            end => Err(failure(&end, &ended.stderr)),
        }
    }

    async fn run(&self, args: &[&str], input: Vec<u8>) -> Result<Finished, KeyringError> {
        if !self.has_session() {
            return Err(KeyringError::Absent);
        }
        if !self.has_program() {
            return Err(KeyringError::NoProgram);
        }
        let mut job = Job::new(PROGRAM).args(args.iter().copied());
        for (name, value) in &self.variables {
            job = job.env(name, value);
        }
        let wall_ms = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits { wall_ms, output_bytes: BYTES_MAX, ..Limits::default() };
        // The operator's own keyring is behind a socket of their session, which no box reaches.
        job.policy = Policy { limits, unconfined: true, ..Policy::default() };
        let ended = self.sandbox.run(job, input, CancellationToken::new()).await;
        ended.map_err(|error| KeyringError::Failed(error.to_string()))
    }
}

/// Why the program did not do it.
fn failure(end: &End, stderr: &[u8]) -> KeyringError {
    KeyringError::Failed(match end {
        End::Exited { .. } => {
            let said = String::from_utf8_lossy(stderr);
            if said.contains("org.freedesktop.secrets") {
                return KeyringError::Absent;
            }
            one_line(said.trim(), 200)
        }
        End::Timeout => format!("not within {} s; is it locked?", TIMEOUT.as_secs()),
        End::OutputLimit => format!("what it holds is larger than {BYTES_MAX} bytes"),
        end => format!("`{PROGRAM}` {end}"),
    })
}

impl Keyring for SystemKeyring {
    fn read<'a>(
        &'a self,
        service: &'a str,
        user: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretString>, KeyringError>> {
        Box::pin(self.look_up(service, user))
    }
}

/// No keyring at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeyring;

impl Keyring for NoKeyring {
    fn read<'a>(
        &'a self,
        _service: &'a str,
        _user: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretString>, KeyringError>> {
        Box::pin(std::future::ready(Err(KeyringError::Absent)))
    }
}
