//! API keys: the secrets by which a server knows who comes in, and what each is good for.
//!
//! A key is either for calling or for deciding, never for both: a holder of a caller's key
//! can decide nothing.

pub mod principal;

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::caller::{Access, Caller, Channel, PrincipalKind};
use crate::id::{ApprovalId, KeyId};
use crate::json::hex;
use crate::ports::was_set_back;
use crate::record::Entry;
use principal::PrincipalError;

/// Most roles, and most tool patterns, of a key.
const LIST_MAX: usize = 64;
/// Every key begins so.
const PREFIX: &str = "helve_";
/// The secret's hexadecimal digits: 256 bits.
const SECRET_DIGITS: usize = 64;

/// The principal of the person at this machine. No key, and nobody from elsewhere, has this name.
pub const LOCAL: &str = "local";

/// How long a sign-in code can be used.
pub const CODE_TTL: SignedDuration = SignedDuration::from_mins(10);

/// What is kept of a key. The secret itself is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Key {
    /// The public part.
    pub id: KeyId,
    /// Whom it stands for: the principal of a caller, the name of a decider.
    pub name: String,
    /// What it is good for.
    pub purpose: Purpose,
    /// What sort of principal.
    #[serde(default)]
    pub kind: PrincipalKind,
    /// What they are to this runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The tools that a caller may use.
    #[serde(default)]
    pub access: Access,
    /// The one question that a person signed in with it may see and decide. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<ApprovalId>,
    /// SHA-256 of the secret. It has 256 random bits, so that no slow hash is needed.
    pub digest: String,
    /// Who made it.
    pub made_by: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Who took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// About when it was last used; for a sign-in code, when it was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
}

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Calling tools, and looking after one's own calls.
    Call,
    /// Deciding questions to people, and looking at everything. Never calls.
    Decide,
    /// Signing in to the page, once, as the person at this machine.
    SignIn,
}

impl Purpose {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Decide => "decide",
            Self::SignIn => "sign_in",
        }
    }
}

/// Whether a key can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// The key can be used.
    Live,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
    /// It was good for one use.
    Used,
}

/// A key as its user has it. Shown once, kept nowhere.
pub struct KeyText(String);

impl KeyText {
    /// The text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The public id and the secret of what may be a key.
    pub fn parse(text: &str) -> Option<(KeyId, &str)> {
        let (digits, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_secret = secret.len() == SECRET_DIGITS && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = format!("{}{digits}", KeyId::PREFIX).parse().ok()?;
        is_secret.then_some((id, secret))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

/// A key that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name will not do.
    #[error("the key cannot have this name: {0}")]
    Name(#[from] PrincipalError),
    /// The name of the person at this machine is nobody else's.
    #[error("`local` is the person at this machine; give the key a name of its own")]
    Reserved,
    /// Too many roles or tools.
    #[error("a key has at most {LIST_MAX} roles and {LIST_MAX} patterns of tools")]
    TooMany,
    /// A decider with tools.
    #[error("a key for deciding calls no tools; give the tools to another key")]
    DeciderWithTools,
}

impl Key {
    /// A new key from the operating system's randomness, and its text.
    pub fn generate(
        name: impl Into<String>,
        purpose: Purpose,
        made_by: impl Into<String>,
        now: Timestamp,
    ) -> (Self, KeyText) {
        let mut secret = [0; SECRET_DIGITS / 2];
        getrandom::fill(&mut secret).expect("the operating system has randomness");
        let (id, secret) = (KeyId::new(now), hex(&secret));
        let digits = id.to_string();
        let text = format!("{PREFIX}{}_{secret}", &digits[KeyId::PREFIX.len()..]);
        let key = Self {
            id,
            name: name.into(),
            purpose,
            kind: PrincipalKind::User,
            roles: Vec::new(),
            access: Access::All,
            only: None,
            digest: digest(&secret),
            made_by: made_by.into(),
            made_at: now,
            expires_at: (purpose == Purpose::SignIn)
                .then(|| now.saturating_add(CODE_TTL).unwrap_or(Timestamp::MAX)),
            revoked_by: None,
            revoked_at: None,
            used_at: None,
        };
        (key, KeyText(text))
    }

    /// Whether it may be made so.
    pub fn check(&self) -> Result<(), KeyError> {
        principal::check(&self.name)?;
        if self.purpose != Purpose::SignIn && self.name.eq_ignore_ascii_case(LOCAL) {
            return Err(KeyError::Reserved);
        }
        let tools = match &self.access {
            Access::All => 0,
            Access::Only(tools) => tools.len(),
        };
        match self.purpose {
            _ if self.roles.len() > LIST_MAX || tools > LIST_MAX => Err(KeyError::TooMany),
            Purpose::Decide | Purpose::SignIn if self.access != Access::All => {
                Err(KeyError::DeciderWithTools)
            }
            Purpose::Call | Purpose::Decide | Purpose::SignIn => Ok(()),
        }
    }

    /// Whether this is its secret. How long it takes says nothing of how much of it is right.
    pub fn fits(&self, secret: &str) -> bool {
        self.digest.as_bytes().ct_eq(digest(secret).as_bytes()).into()
    }

    /// Whether it can be used at a time. One that ends does not live longer by a clock that is set back
    /// before it was made.
    pub fn state_at(&self, now: Timestamp) -> KeyState {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => KeyState::Revoked,
            (None, _) if self.purpose == Purpose::SignIn && self.used_at.is_some() => KeyState::Used,
            (None, Some(expires_at)) if now >= expires_at || was_set_back(now, self.made_at) => {
                KeyState::Expired
            }
            (None, _) => KeyState::Live,
        }
    }

    /// Takes it back. Returns whether it was not before.
    pub fn revoke(&mut self, by: &Caller, at: Timestamp) -> bool {
        let now = self.revoked_at.is_none();
        if now {
            (self.revoked_by, self.revoked_at) = (Some(name_of(by)), Some(at));
        }
        now
    }

    /// Uses up a sign-in code. Returns whether it could be.
    pub fn redeem(&mut self, at: Timestamp) -> bool {
        let good = self.purpose == Purpose::SignIn && self.state_at(at) == KeyState::Live;
        if good {
            self.used_at = Some(at);
        }
        good
    }

    /// Who calls with it.
    pub fn caller(&self) -> Caller {
        let mut caller = Caller::principal(&*self.name)
            .kind(self.kind)
            .roles(self.roles.iter().cloned())
            .channel(Channel::Http);
        caller.access = self.access.clone();
        if self.kind == PrincipalKind::Agent {
            caller.agent = Some(self.name.clone());
        }
        caller
    }

    /// What an entry tells of it: everything that never changes. The fingerprint covers the rest of
    /// that, so that a row whose digest was swapped no longer fits.
    pub fn told(&self) -> Value {
        let lasting = Self { revoked_by: None, revoked_at: None, used_at: None, ..self.clone() };
        let lasting = serde_json::to_vec(&lasting).unwrap_or_default();
        json!({
            "id": self.id, "name": self.name, "purpose": self.purpose, "kind": self.kind,
            "roles": self.roles, "access": self.access, "expires_at": self.expires_at,
            "fingerprint": hex(&Sha256::digest(lasting)),
        })
    }

    /// The journal's entry for what was done with it: `keys create`, `keys revoke`, `keys sign-in`.
    pub fn record(&self, what: &str, by: Arc<Caller>, at: Timestamp) -> Entry {
        Entry::of_deed(what, self.id.to_string(), &self.told(), by, at)
    }
}

fn name_of(caller: &Caller) -> String {
    caller.principal.clone().unwrap_or_else(|| "an unnamed caller".to_owned())
}

fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    #[test]
    fn a_key_is_known_by_its_text_and_by_nothing_near_it() {
        let (key, text) = Key::generate("ci", Purpose::Call, "ada", now());
        let (id, secret) = KeyText::parse(text.reveal()).unwrap();
        assert_eq!(id, key.id);
        assert!(key.fits(secret) && !key.fits(&secret[1..]) && !key.fits(""));
        let (other, _) = Key::generate("ci", Purpose::Call, "ada", now());
        assert!(!other.fits(secret));
        let kept = serde_json::to_string(&key).unwrap() + &format!("{text:?}");
        assert!(!kept.contains(secret), "the secret is kept nowhere");
        let cut = &text.reveal()[..text.reveal().len() - 1];
        for wrong in ["", "helve_", "helve__", cut, &format!("{}0", text.reveal()), "helve_01ARZ_zz", "x"] {
            assert!(KeyText::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_is_told_of_a_key_changes_with_what_should_not() {
        let (key, _) = Key::generate("ci", Purpose::Call, "ada", now());
        let mut used = key.clone();
        used.used_at = Some(now());
        used.revoke(&Caller::principal("ada"), now());
        assert_eq!(used.told(), key.told());
        let mut swapped = key.clone();
        swapped.digest = digest("another");
        assert_ne!(swapped.told(), key.told());
        assert!(!key.told().to_string().contains(&key.digest));
    }

    #[test]
    fn keys_end() {
        let (mut key, _) = Key::generate("ci", Purpose::Call, "ada", now());
        assert_eq!(key.state_at(Timestamp::MAX), KeyState::Live);
        key.expires_at = Some(now() + SignedDuration::from_secs(5));
        assert_eq!(key.state_at(now() + SignedDuration::from_secs(4)), KeyState::Live);
        assert_eq!(key.state_at(now() + SignedDuration::from_secs(5)), KeyState::Expired);
        assert!(
            key.revoke(&Caller::principal("ada"), now()) && !key.revoke(&Caller::principal("eve"), now())
        );
        assert_eq!((key.state_at(now()), key.revoked_by.as_deref()), (KeyState::Revoked, Some("ada")));
        assert!(!key.redeem(now()), "only a code is used up");
    }

    #[test]
    fn a_code_is_good_once_and_for_ten_minutes() {
        let (mut code, _) = Key::generate("ada", Purpose::SignIn, "ada", now());
        let mut late = code.clone();
        assert!(!late.redeem(now() + CODE_TTL));
        assert!(!late.redeem(now() - SignedDuration::from_hours(24)), "the clock was set back");
        assert!(code.redeem(now()) && !code.redeem(now()));
        assert_eq!(code.state_at(now()), KeyState::Used);
    }

    #[test]
    fn a_key_that_decides_has_no_tools() {
        let (mut key, _) = Key::generate("ada", Purpose::Decide, "ada", now());
        assert_eq!(key.check(), Ok(()));
        key.access = Access::Only(vec!["mail/*".into()]);
        assert_eq!(key.check(), Err(KeyError::DeciderWithTools));
        for name in ["", " ", "a\nb", "ada ", "ada\u{200b}", "ad\u{430}", &"a".repeat(129)] {
            let (key, _) = Key::generate(name, Purpose::Call, "ada", now());
            assert!(matches!(key.check(), Err(KeyError::Name(_))), "{name}");
        }
    }
}
