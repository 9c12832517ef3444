//! What was found out about requests that differ in nothing that policies see.
//!
//! Looking something up takes one hash and one shared lock on a sixteenth of the entries. When a
//! part is full it is emptied: the next requests fill it again with what is asked for now.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use helve_core::{Action, Channel, LabelSet, PolicyRequest, PolicyResource, PrincipalKind};

const SHARDS: usize = 16;
const ENTRIES_MAX: usize = 8192;
/// Names longer than this are not worth keeping. Who reads resources chooses their names.
const NAME_BYTES_MAX: usize = 1024;

/// Something kept for each sort of request.
pub(crate) struct Cache<T> {
    hasher: RandomState,
    shards: Vec<RwLock<Shard<T>>>,
}

type Shard<T> = HashMap<u64, Arc<Entry<T>>, BuildHasherDefault<Hashed>>;

struct Entry<T> {
    key: Key,
    kept: Arc<T>,
}

/// All that policies see of a request, but for arguments, time and session.
struct Key {
    kind: PrincipalKind,
    principal: Option<String>,
    agent: Option<String>,
    roles: Vec<String>,
    channel: Channel,
    labels: LabelSet,
    action: Action,
    resource: Resource,
}

enum Resource {
    Tool(Arc<str>),
    Served(String, String),
    Runtime,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Self {
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    pub(crate) fn find(&self, request: &PolicyRequest<'_>) -> Option<Arc<T>> {
        let hash = self.hash(request);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.get(&hash)?;
        entry.key.is_of(request).then(|| Arc::clone(&entry.kept))
    }

    pub(crate) fn keep(&self, request: &PolicyRequest<'_>, kept: &Arc<T>) {
        if !is_worth_keeping(request) {
            return;
        }
        let hash = self.hash(request);
        let entry = Arc::new(Entry { key: Key::of(request), kept: Arc::clone(kept) });
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= ENTRIES_MAX / SHARDS {
            shard.clear();
        }
        shard.insert(hash, entry);
    }

    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap().len()).sum()
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<T>> {
        // The map uses the low bits.
        &self.shards[(hash >> 60) as usize % SHARDS]
    }

    fn hash(&self, request: &PolicyRequest<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        let caller = request.caller;
        (caller.kind, &caller.principal, &caller.agent, &caller.roles, caller.channel).hash(&mut hasher);
        (request.labels, request.action).hash(&mut hasher);
        match request.resource {
            PolicyResource::Tool(tool) => tool.digest().hash(&mut hasher),
            PolicyResource::Served { server, name } => (server, name).hash(&mut hasher),
            PolicyResource::Runtime => {}
        }
        hasher.finish()
    }
}

fn is_worth_keeping(request: &PolicyRequest<'_>) -> bool {
    let caller = request.caller;
    let names =
        [&caller.principal, &caller.agent].into_iter().flatten().chain(&caller.roles).map(String::len);
    let resource = match request.resource {
        PolicyResource::Served { server, name } => server.len() + name.len(),
        PolicyResource::Tool(_) | PolicyResource::Runtime => 0,
    };
    names.sum::<usize>() + resource <= NAME_BYTES_MAX
}

impl Key {
    fn of(request: &PolicyRequest<'_>) -> Self {
        let caller = request.caller;
        Self {
            kind: caller.kind,
            principal: caller.principal.clone(),
            agent: caller.agent.clone(),
            roles: caller.roles.clone(),
            channel: caller.channel,
            labels: request.labels,
            action: request.action,
            resource: match request.resource {
                PolicyResource::Tool(tool) => Resource::Tool(Arc::clone(tool.digest())),
                PolicyResource::Served { server, name } => {
                    Resource::Served(server.to_owned(), name.to_owned())
                }
                PolicyResource::Runtime => Resource::Runtime,
            },
        }
    }

    fn is_of(&self, request: &PolicyRequest<'_>) -> bool {
        let caller = request.caller;
        let same_resource = match (&self.resource, request.resource) {
            (Resource::Tool(digest), PolicyResource::Tool(tool)) => {
                Arc::ptr_eq(digest, tool.digest()) || **digest == **tool.digest()
            }
            (Resource::Served(server, name), PolicyResource::Served { server: its, name: own }) => {
                server == its && name == own
            }
            (Resource::Runtime, PolicyResource::Runtime) => true,
            (Resource::Tool(_) | Resource::Served(..) | Resource::Runtime, _) => false,
        };
        same_resource
            && self.action == request.action
            && self.labels == request.labels
            && self.kind == caller.kind
            && self.channel == caller.channel
            && self.principal == caller.principal
            && self.agent == caller.agent
            && self.roles == caller.roles
    }
}

/// Passes on what is a keyed hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
