//! A map whose copies share what they have in common.
//!
//! A copy costs a few hundred pointers, a change copies one shard of many: so a registry of
//! 100,000 tools takes one more in microseconds, while readers keep the old one.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

const SHARDS: usize = 512;

#[derive(Clone)]
pub(super) struct Shards<K, V> {
    shards: Box<[Arc<HashMap<K, V>>]>,
    hasher: DefaultHashBuilder,
    len: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        let hasher = DefaultHashBuilder::default();
        let empty = Arc::new(HashMap::with_hasher(hasher.clone()));
        Self { shards: vec![empty; SHARDS].into(), hasher, len: 0 }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Shards<K, V> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards[self.place(key)].get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let place = self.place(&key);
        let former = Arc::make_mut(&mut self.shards[place]).insert(key, value);
        self.len += usize::from(former.is_none());
        former
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key);
        let former = Arc::make_mut(&mut self.shards[place]).remove(key);
        self.len -= usize::from(former.is_some());
        former
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        // From the middle: the map inside the shard finds its place by the lowest bits and tells keys
        // apart by the highest, and would find all of them in one place if they were alike there.
        (self.hasher.hash_one(key) >> 32) as usize % SHARDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_shard_have_places_of_their_own() {
        let shards = Shards::<String, ()>::default();
        let mut lowest = vec![std::collections::HashSet::new(); SHARDS];
        for name in (0..100_000).map(|number| format!("tool-{number}")) {
            // By these the map inside the shard finds its place.
            lowest[shards.place(name.as_str())].insert(shards.hasher.hash_one(name.as_str()) % 128);
        }
        assert!(
            lowest.iter().all(|places| places.len() > 32),
            "{:?}",
            lowest.iter().map(|of| of.len()).min()
        );
    }
}
