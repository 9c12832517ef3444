//! Idempotency keys: what their rows say, and what that means for a claim.
//!
//! Rows change, so the chain does not cover them. Each has a seal, a digest of the rest, so that
//! a damaged row is noticed instead of answering wrongly.

use std::sync::Arc;

use helve_core::json::hex;
use helve_core::ports::{Begun, KeyClaim, KeyHolder};
use helve_core::{CallId, Status};
use sha2::{Digest, Sha256};

use crate::chain::Hash;

/// What a key's row says.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// The key within its scope.
    pub scoped_key: Vec<u8>,
    /// A digest of the arguments.
    pub fingerprint: Vec<u8>,
    /// The call that claimed it.
    pub call_id: String,
    /// Who runs that call.
    pub owner: String,
    /// How far the call has come.
    pub state: KeyState,
    /// How the call ended, as JSON.
    pub status: Option<String>,
}

/// How far the call of a key has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyState {
    /// It has not ended.
    Running = 0,
    /// It has ended, and the answer is kept.
    Finished = 1,
    /// It has ended, and the answer was erased.
    Erased = 2,
}

impl KeyState {
    /// The state with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::Running, Self::Finished, Self::Erased].into_iter().find(|state| *state as i64 == number)
    }
}

/// What is known of a key that a caller claims.
#[derive(Debug)]
pub enum Found {
    /// Nothing, or nothing that counts: the claim is made.
    Claimed {
        /// The call that held the key and died.
        from: Option<CallId>,
    },
    /// This process is running it.
    Ours,
    /// Another living process is running it.
    Elsewhere,
    /// It is decided.
    Settled(Begun),
}

/// How the call that holds a key stands, where it has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a person to find out whether it had its effect.
    InDoubt,
    /// It waits for a person.
    Waits,
    /// This process is running it.
    Ours,
    /// Another living process is running it.
    Others,
    /// Its process has gone.
    Nobodys,
}

/// What a row means for a claim.
#[derive(Debug)]
pub enum Meaning {
    /// The claim has its answer.
    Found(Found),
    /// The call that held the key died, and the claim may have it.
    Free(CallId),
}

/// A row that is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the idempotency key `{0}` in the table `keys` is damaged: its row was changed")]
pub struct DamagedKey(String);

impl DamagedKey {
    /// The row of this key.
    pub fn new(scoped_key: &[u8]) -> Self {
        Self(hex(scoped_key))
    }
}

impl KeyRow {
    /// The row of a claim that is made.
    pub fn running(claim: &KeyClaim, call_id: CallId, owner: &str) -> Self {
        Self {
            scoped_key: claim.scoped_key.to_vec(),
            fingerprint: claim.fingerprint.to_vec(),
            call_id: call_id.to_string(),
            owner: owner.to_owned(),
            state: KeyState::Running,
            status: None,
        }
    }

    /// What this row means for a claim. `standing` is asked where the call has not ended.
    pub fn meaning<E: From<DamagedKey>>(
        &self,
        claim: &KeyClaim,
        standing: impl FnOnce(CallId) -> Result<Standing, E>,
    ) -> Result<Meaning, E> {
        let damaged = || E::from(DamagedKey::new(&claim.scoped_key));
        let earlier: CallId = self.call_id.parse().map_err(|_| damaged())?;
        if self.fingerprint != claim.fingerprint {
            return Ok(Meaning::Found(Found::Settled(Begun::Conflict { call_id: earlier })));
        }
        let unknown = Found::Settled(Begun::Unknown { call_id: earlier });
        Ok(Meaning::Found(match self.state {
            KeyState::Finished => {
                let text = self.status.as_deref().ok_or_else(damaged)?;
                let status: Status = serde_json::from_str(text).map_err(|_| damaged())?;
                Found::Settled(Begun::Finished { call_id: earlier, status: Arc::new(status) })
            }
            // The answer is gone, and running again could do the work twice.
            KeyState::Erased => unknown,
            KeyState::Running => match standing(earlier)? {
                // A person has to find that out, and who calls again is told so instead of being kept.
                Standing::InDoubt => unknown,
                // The process that resumes it when the person has answered also ends it, and that may be any process.
                Standing::Waits | Standing::Others => Found::Elsewhere,
                Standing::Ours => Found::Ours,
                Standing::Nobodys if claim.repeatable => return Ok(Meaning::Free(earlier)),
                Standing::Nobodys => unknown,
            },
        }))
    }

    /// The call that has the key, beside a claim on it.
    pub fn holder(&self, claim: &KeyClaim) -> Result<KeyHolder, DamagedKey> {
        let call_id = self.call_id.parse().map_err(|_| DamagedKey::new(&claim.scoped_key))?;
        Ok(KeyHolder { call_id, same_arguments: self.fingerprint == claim.fingerprint })
    }

    /// A digest of the rest.
    pub fn seal(&self) -> Hash {
        let status = self.status.as_deref().unwrap_or_default();
        let fields = [
            &self.scoped_key[..],
            &self.fingerprint,
            self.call_id.as_bytes(),
            self.owner.as_bytes(),
            &[self.state as u8],
            status.as_bytes(),
        ];
        let mut digest = Sha256::new_with_prefix(b"helve idempotency key v1\0");
        for field in fields {
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        }
        digest.finalize().into()
    }
}
