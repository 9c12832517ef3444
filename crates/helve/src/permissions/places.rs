//! The permissions in force, place by place.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use helve_core::permission::{Destination, PermissionMode, PermissionSet, PermissionUpdate, known_as};
use helve_core::{ErrorCode, Tool, ToolError};
use serde_json::Value;

use super::{CanUseTool, PermissionKeeper, PermissionOptions, PermissionVotes, votes};
use crate::live::Live;
use crate::volatile::lock;

/// Most tools whose names are kept.
const KNOWN_MAX: usize = 10_000;

type Places = BTreeMap<Destination, PermissionSet>;

/// The permissions in force.
pub(crate) struct Permissions {
    places: Live<Places>,
    /// Names of tools, by digest.
    known: Mutex<HashMap<Arc<str>, Arc<[String]>>>,
    keeper: Option<Arc<dyn PermissionKeeper>>,
    /// Held while a change is kept and put in force: each is made from the one before it.
    changing: tokio::sync::Mutex<()>,
    pub(crate) can_use_tool: Option<Arc<dyn CanUseTool>>,
}

impl Permissions {
    pub(crate) fn new(options: PermissionOptions) -> Self {
        let mut places = Places::new();
        for (place, set) in options.places {
            places.insert(place, set);
        }
        Self {
            places: Live::new(places, |places| places.values().all(PermissionSet::is_empty)),
            known: Mutex::default(),
            keeper: options.keeper,
            changing: tokio::sync::Mutex::default(),
            can_use_tool: options.can_use_tool,
        }
    }

    /// What is said to a call, with what its session adds.
    pub(crate) fn votes(
        &self,
        session: Option<&PermissionSet>,
        tool: &Tool,
        arguments: &Value,
    ) -> PermissionVotes {
        let places = self.places.load_if_used();
        let session = session.filter(|set| !set.is_empty());
        if session.is_none()
            && places.as_ref().is_none_or(|places| places.values().all(PermissionSet::is_empty))
        {
            return PermissionVotes::NOTHING;
        }
        let all = Destination::ALL.into_iter().filter_map(|place| match (place, &places) {
            (Destination::Session, _) => session.map(|set| (place, set)),
            (_, Some(places)) => places.get(&place).map(|set| (place, set)),
            (_, None) => None,
        });
        votes(all, tool, &self.known_as(tool), arguments)
    }

    /// The mode in force, with what a session says.
    pub(crate) fn mode(&self, session: Option<&PermissionSet>) -> PermissionMode {
        let own = session.and_then(|set| set.mode);
        own.or_else(|| self.places.load().values().filter_map(|set| set.mode).next_back()).unwrap_or_default()
    }

    /// Every place but sessions.
    pub(crate) fn all(&self) -> Arc<Places> {
        Arc::clone(&self.places.load())
    }

    /// Puts other permissions in a place.
    pub(crate) fn set(&self, place: Destination, set: PermissionSet) {
        self.places.update(|places| {
            let mut places = places.clone();
            places.insert(place, set.clone());
            places
        });
    }

    /// Makes a change outside of sessions, and keeps it.
    pub(crate) async fn apply(&self, update: &PermissionUpdate) -> Result<(), ToolError> {
        let refused = |why: String| ToolError::new(ErrorCode::PermissionDenied, why);
        let place = update.destination();
        let _turn = self.changing.lock().await;
        let set = match (place, &self.keeper) {
            (Destination::CliArg | Destination::Session, _) => {
                let mut set = self.places.load().get(&place).cloned().unwrap_or_default();
                set.apply(update).map_err(|error| refused(error.to_string()))?;
                set
            }
            (_, Some(keeper)) => keeper.keep(update).await.map_err(refused)?,
            (_, None) => {
                let why =
                    format!("this runtime has nowhere to keep changed permissions of the {}", place.as_str());
                return Err(refused(why));
            }
        };
        self.set(place, set);
        Ok(())
    }

    fn known_as(&self, tool: &Tool) -> Arc<[String]> {
        let mut known = lock(&self.known);
        if let Some(names) = known.get(tool.digest()) {
            return Arc::clone(names);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let names: Arc<[String]> = known_as(tool).into();
        known.insert(Arc::clone(tool.digest()), Arc::clone(&names));
        names
    }
}
