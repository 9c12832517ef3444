//! API keys, within a group: each change with the entry that tells of it.

use std::sync::Arc;

use helve_core::identity::{Key, Purpose};
use helve_core::ports::{JournalError, too_many_keys};
use helve_ledger::request::KeyChange;

use super::ledger::Group;
use crate::identity::table;

/// What became of a request, or why it is refused.
type Served<T> = rusqlite::Result<Result<T, JournalError>>;

impl Group<'_> {
    pub(super) fn change_keys(&mut self, change: &KeyChange) -> Served<Option<Key>> {
        match change {
            KeyChange::Create { key, by } => {
                table::forget_codes(self.tx, key.made_at)?;
                if !table::has_room(self.tx, key)? {
                    return Ok(Err(too_many_keys(key)));
                }
                if let Err(error) = self.record(&key.record("keys create", Arc::clone(by), key.made_at))? {
                    return Ok(Err(error));
                }
                table::keep(self.tx, key)?;
                self.vouch(Some(table::voucher(key)?), key.made_at)?;
                table::changed(self.tx)?;
                Ok(Ok(Some(Key::clone(key))))
            }
            KeyChange::Revoke { id, by, at } => {
                let Some(mut key) = table::find(self.tx, *id)? else { return Ok(Ok(None)) };
                if key.revoke(by, *at) {
                    if let Err(error) = self.record(&key.record("keys revoke", Arc::clone(by), *at))? {
                        return Ok(Err(error));
                    }
                    table::keep(self.tx, &key)?;
                    self.vouch(Some(table::voucher(&key)?), *at)?;
                    table::changed(self.tx)?;
                }
                Ok(Ok(Some(key)))
            }
            KeyChange::Redeem { id, at } => {
                // What vouches for it may be among the rows that wait.
                self.rows.flush(self.tx)?;
                let Some(mut key) = table::find_vouched(self.tx, *id)? else { return Ok(Ok(None)) };
                if !key.redeem(*at) {
                    return Ok(Ok(None));
                }
                if let Err(error) = self.record(&key.record("keys sign-in", Arc::new(key.caller()), *at))? {
                    return Ok(Err(error));
                }
                table::keep(self.tx, &key)?;
                self.vouch(Some(table::voucher(&key)?), *at)?;
                Ok(Ok(Some(key)))
            }
            KeyChange::Touch { used } => {
                for (id, at) in used {
                    // A code is used up by signing in, and not by being looked at.
                    if let Some(mut key) =
                        table::find(self.tx, *id)?.filter(|key| key.purpose != Purpose::SignIn)
                    {
                        key.used_at = Some(*at);
                        table::keep(self.tx, &key)?;
                    }
                }
                Ok(Ok(None))
            }
        }
    }
}
