//! What is kept of a folder between two looks at it: a line of text, opaque to everybody else.

use std::collections::BTreeMap;
use std::fmt;

use super::session::Folder;
use super::uids::Uids;
use crate::account::Flags;

/// How many UIDs share one sum of flags.
const BLOCK: u32 = 128;
/// A state longer than this is not ours.
const STATE_BYTES_MAX: usize = 64 << 20;

/// What is known of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    validity: u32,
    /// Flags are known as they were then; zero where the server does not count.
    pub(super) modseq: u64,
    /// UIDs from here on were not seen yet.
    pub(super) next: u32,
    /// Messages that were handed on.
    pub(super) known: Uids,
    /// Messages that are there and come in later pages.
    pub(super) todo: Uids,
    /// Sums of flags, by block of UIDs, where the server does not count changes.
    pub(super) sums: BTreeMap<u32, u64>,
}

impl State {
    /// The state to go on from, and whether all before is void.
    pub(super) fn resume(since: Option<&str>, folder: &Folder) -> (Self, bool) {
        let fresh = Self { validity: folder.validity, next: 1, ..Self::default() };
        match since.map(Self::parse) {
            None => (fresh, false),
            Some(Some(state)) if state.validity == folder.validity => (state, false),
            Some(_) => (fresh, true),
        }
    }

    /// Whether pages are still to come.
    pub(super) fn has_more(since: &str) -> bool {
        since.split(';').nth(5).is_some_and(|todo| !todo.is_empty())
    }

    /// Whether a look at the folder now would bring something, as far as its numbers say.
    pub(super) fn is_behind(since: &str, folder: &Folder) -> bool {
        let (state, reset) = Self::resume(Some(since), folder);
        let counts = !state.todo.is_empty() || state.known.len() != folder.exists;
        reset || counts || folder.modseq.is_some_and(|modseq| modseq != state.modseq)
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > STATE_BYTES_MAX {
            return None;
        }
        let fields: Vec<&str> = text.split(';').collect();
        let ["imap1", validity, modseq, next, known, todo, sums] = fields[..] else { return None };
        let sum = |pair: &str| {
            let (block, sum) = pair.split_once(':')?;
            Some((block.parse().ok()?, u64::from_str_radix(sum, 36).ok()?))
        };
        Some(Self {
            validity: validity.parse().ok()?,
            modseq: modseq.parse().ok()?,
            next: next.parse().ok()?,
            known: Uids::parse(known)?,
            todo: Uids::parse(todo)?,
            sums: sums.split(',').filter(|pair| !pair.is_empty()).map(sum).collect::<Option<_>>()?,
        })
    }

    /// Those whose flags may be others than at the last look: all of a block whose sum changed.
    pub(super) fn changed_flags(&mut self, found: &[(u32, Flags)]) -> Vec<(u32, Flags)> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (uid, flags) in found {
            let sum = sums.entry(uid / BLOCK).or_default();
            *sum = sum.wrapping_add(mixed(*uid, *flags));
        }
        let is_changed = |uid: u32| sums.get(&(uid / BLOCK)) != self.sums.get(&(uid / BLOCK));
        let changed = found.iter().copied().filter(|(uid, _)| is_changed(*uid)).collect();
        self.sums = sums;
        changed
    }
}

/// A number for one message's flags. Added up in any order, they tell sets apart (splitmix64).
fn mixed(uid: u32, flags: Flags) -> u64 {
    let bits = [flags.seen, flags.answered, flags.flagged, flags.draft];
    let bits = bits.iter().fold(0_u64, |bits, bit| bits << 1 | u64::from(*bit));
    let mut mixed = (u64::from(uid) << 4 | bits).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { validity, modseq, next, known, todo, sums } = self;
        write!(f, "imap1;{validity};{modseq};{next};{known};{todo};")?;
        for (at, (block, sum)) in sums.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{block}:{}", base36(*sum))?;
        }
        Ok(())
    }
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
        number /= 36;
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: Folder = Folder { validity: 7, next: Some(9), exists: 3, modseq: None };

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let mut state = State::resume(None, &FOLDER).0;
        state.known = Uids::parse("1:5,300").unwrap();
        state.todo = Uids::parse("9").unwrap();
        state.changed_flags(&[(1, Flags::default()), (300, Flags { seen: true, ..Flags::default() })]);
        assert_eq!(State::resume(Some(&state.to_string()), &FOLDER), (state, false));
    }

    #[test]
    fn other_numbers_or_another_state_void_everything() {
        let other = Folder { validity: 8, ..FOLDER };
        let state = State::resume(None, &FOLDER).0.to_string();
        for (since, folder) in
            [(state.as_str(), &other), ("", &FOLDER), ("imap1;7;;;;;", &FOLDER), ("x", &FOLDER)]
        {
            let (state, reset) = State::resume(Some(since), folder);
            assert!(reset && state.known.is_empty(), "{since}");
        }
    }

    #[test]
    fn a_changed_flag_is_found_by_its_block() {
        let mut state = State::resume(None, &FOLDER).0;
        let seen = Flags { seen: true, ..Flags::default() };
        let before = [(1, Flags::default()), (2, seen), (500, seen)];
        assert_eq!(state.changed_flags(&before).len(), 3);
        assert_eq!(state.changed_flags(&before), []);
        // Two that swap their flags.
        let after = [(1, seen), (2, Flags::default()), (500, seen)];
        assert_eq!(state.changed_flags(&after), after[..2]);
    }
}
