//! Text that a client carries for us and cannot change: cursors, and the state of a call that waits.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};

const BLOCK: usize = 64;
const MAC_BYTES: usize = 32;
/// Longest sealed text that is looked at.
const SEALED_BYTES_MAX: usize = 4_096;

/// A key of this process.
pub(super) struct Seal([u8; BLOCK]);

impl Seal {
    /// A key that nobody knows.
    ///
    /// # Panics
    /// Where the operating system has no randomness.
    pub(super) fn random() -> Self {
        let mut key = [0; BLOCK];
        getrandom::fill(&mut key[..32]).expect("the operating system has randomness");
        Self(key)
    }

    /// Seals `text` for one purpose: it opens for no other.
    pub(super) fn close(&self, purpose: &str, text: &str) -> String {
        format!("{}.{}", BASE64.encode(text), BASE64.encode(self.mac(purpose, text)))
    }

    /// What was sealed, if nobody touched it.
    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Option<String> {
        if sealed.len() > SEALED_BYTES_MAX {
            return None;
        }
        let (text, mac) = sealed.split_once('.')?;
        let text = String::from_utf8(BASE64.decode(text).ok()?).ok()?;
        let mac = BASE64.decode(mac).ok()?;
        let expected = self.mac(purpose, &text);
        let differing = mac.iter().zip(expected).fold(0, |bits, (a, b)| bits | (a ^ b));
        (mac.len() == MAC_BYTES && differing == 0).then_some(text)
    }

    /// HMAC-SHA-256 (RFC 2104), which is short enough to write out.
    fn mac(&self, purpose: &str, text: &str) -> [u8; MAC_BYTES] {
        let padded = |pad: u8| self.0.map(|byte| byte ^ pad);
        let inner = Sha256::new().chain_update(padded(0x36));
        let inner = inner.chain_update(purpose).chain_update([0]).chain_update(text).finalize();
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
    }
}

/// A random id of 128 bits.
///
/// # Panics
/// Where the operating system has no randomness.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_for_this_purpose_opens() {
        let seal = Seal::random();
        let sealed = seal.close("cursor", "tools:100");
        assert_eq!(seal.open("cursor", &sealed).as_deref(), Some("tools:100"));
        assert_eq!(seal.open("state", &sealed), None);
        assert_eq!(Seal::random().open("cursor", &sealed), None);
        for tampered in
            [format!("{sealed}x"), format!("x{sealed}"), sealed.replace('.', ""), String::new(), ".".into()]
        {
            assert_eq!(seal.open("cursor", &tampered), None, "{tampered}");
        }
        let other = seal.close("cursor", "tools:200");
        let mixed = format!("{}.{}", other.split_once('.').unwrap().0, sealed.split_once('.').unwrap().1);
        assert_eq!(seal.open("cursor", &mixed), None);
    }

    #[test]
    fn the_mac_is_hmac_sha_256() {
        // RFC 4231, test case 2, whose data is split here where the purpose ends; a zero byte stands between.
        let mut key = [0; BLOCK];
        key[..4].copy_from_slice(b"Jefe");
        let mac = Seal(key).mac("what do ya want ", "for nothing?");
        let reference = |data: &[u8]| {
            let inner = Sha256::new().chain_update(key.map(|b| b ^ 0x36)).chain_update(data).finalize();
            Sha256::new().chain_update(key.map(|b| b ^ 0x5c)).chain_update(inner).finalize()
        };
        assert_eq!(mac[..], reference(b"what do ya want \0for nothing?")[..]);
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let hex: String =
            reference(b"what do ya want for nothing?").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, known);
    }
}
