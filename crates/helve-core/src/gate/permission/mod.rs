//! Permission modes, everyday rules and the changes to them, in the words of the Claude Agent SDK,
//! so that what speaks to it speaks to Helve.

mod address;
mod known_as;
mod readings;
mod rule;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gate::Stance;
pub use known_as::{COUNTERPARTS, Counterpart, known_as};
pub use rule::{PermissionRule, RuleError};

/// How calls are met that nobody has ruled on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// As risk and policy say.
    #[default]
    Default,
    /// Tools that change files below the allowed folders run unasked.
    AcceptEdits,
    /// Risk does not ask. Policies, deny and ask rules, hooks and labels still do.
    BypassPermissions,
    /// Nothing that changes the world runs.
    Plan,
    /// Whatever would ask is denied.
    DontAsk,
    /// As `default`; kept for agents that know it, since nothing here judges by guessing.
    Auto,
}

impl PermissionMode {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }
}

/// A rule as it travels: the tool, and what its arguments must look like.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleValue {
    /// The tool's name, or a pattern.
    pub tool_name: String,
    /// What its arguments must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// Where a change of permissions is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// The user's own settings.
    UserSettings,
    /// The project's, shared with others.
    ProjectSettings,
    /// The project's, on this machine alone.
    LocalSettings,
    /// This session, until it ends.
    Session,
    /// For as long as this process lives.
    CliArg,
}

impl Destination {
    /// Every destination, the widest first.
    pub const ALL: [Self; 5] =
        [Self::UserSettings, Self::ProjectSettings, Self::LocalSettings, Self::CliArg, Self::Session];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserSettings => "user",
            Self::ProjectSettings => "project",
            Self::LocalSettings => "local",
            Self::Session => "session",
            Self::CliArg => "command line",
        }
    }
}

/// A change of permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PermissionUpdate {
    /// Adds rules to those that are there.
    AddRules {
        /// The rules to add.
        rules: Vec<RuleValue>,
        /// What they say.
        behavior: Stance,
        /// Where they are kept.
        destination: Destination,
    },
    /// These rules instead of those that say the same.
    ReplaceRules {
        /// The rules that are there afterwards.
        rules: Vec<RuleValue>,
        /// What they say.
        behavior: Stance,
        /// Where they are kept.
        destination: Destination,
    },
    /// Removes rules where they are there.
    RemoveRules {
        /// The rules to remove.
        rules: Vec<RuleValue>,
        /// What they say.
        behavior: Stance,
        /// Where they are kept.
        destination: Destination,
    },
    /// Changes the mode.
    SetMode {
        /// The mode from now on.
        mode: PermissionMode,
        /// Where it is kept.
        destination: Destination,
    },
    /// More folders whose files may be changed.
    AddDirectories {
        /// The folders to add, by path.
        directories: Vec<String>,
        /// Where they are kept.
        destination: Destination,
    },
    /// Fewer such folders.
    RemoveDirectories {
        /// The folders to remove, by path.
        directories: Vec<String>,
        /// Where they are kept.
        destination: Destination,
    },
}

impl PermissionUpdate {
    /// Where it is kept.
    pub fn destination(&self) -> Destination {
        match self {
            Self::AddRules { destination, .. }
            | Self::ReplaceRules { destination, .. }
            | Self::RemoveRules { destination, .. }
            | Self::SetMode { destination, .. }
            | Self::AddDirectories { destination, .. }
            | Self::RemoveDirectories { destination, .. } => *destination,
        }
    }

    /// The same change, kept elsewhere.
    pub fn kept_in(mut self, place: Destination) -> Self {
        match &mut self {
            Self::AddRules { destination, .. }
            | Self::ReplaceRules { destination, .. }
            | Self::RemoveRules { destination, .. }
            | Self::SetMode { destination, .. }
            | Self::AddDirectories { destination, .. }
            | Self::RemoveDirectories { destination, .. } => *destination = place,
        }
        self
    }
}

/// How far changes of permissions reach that come with an answer: it depends on whose answer it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lasting {
    /// As far as they say. For the operator's own word alone.
    #[default]
    AsSaid,
    /// The session of the call, whatever they say.
    Session,
}

impl Lasting {
    /// Bounds changes, and says what of them is another by that.
    pub fn bound(self, updates: Vec<PermissionUpdate>) -> (Vec<PermissionUpdate>, Option<String>) {
        let reaches_further = |update: &PermissionUpdate| update.destination() != Destination::Session;
        if self == Self::AsSaid || !updates.iter().any(reaches_further) {
            return (updates, None);
        }
        let mut asked: Vec<_> = updates.iter().filter(|one| reaches_further(one)).collect();
        asked.dedup_by_key(|update| update.destination());
        let asked: Vec<_> = asked.iter().map(|update| update.destination().as_str()).collect();
        let remark = format!(
            "it wanted to change permissions of the {}; they hold for this session alone",
            asked.join(" and the ")
        );
        (updates.into_iter().map(|update| update.kept_in(Destination::Session)).collect(), Some(remark))
    }
}

/// An answer to the question whether a tool may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "behavior", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PermissionResult {
    /// The call may run.
    Allow {
        /// With these arguments instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updated_input: Option<Value>,
        /// And these changes are made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updated_permissions: Option<Vec<PermissionUpdate>>,
        /// The use that it answers.
        #[serde(default, rename = "toolUseID", skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
    /// It may not.
    Deny {
        /// Why it may not run, for the model.
        #[serde(default)]
        message: String,
        /// Whether the agent should stop altogether.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt: Option<bool>,
        /// The use that it answers.
        #[serde(default, rename = "toolUseID", skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
}

/// The permissions of one place: a file, or a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionSet {
    /// Calls that run although their risk would ask, such as `"file-write(notes/*)"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<PermissionRule>,
    /// Calls that ask a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<PermissionRule>,
    /// Calls that do not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<PermissionRule>,
    /// How calls are met that no rule names: `default`, `acceptEdits`, `bypassPermissions`, `plan`,
    /// `dontAsk` or `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// Folders whose files tools may change unasked in the mode `acceptEdits`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
}

impl PermissionSet {
    /// Most rules of one place.
    pub const RULES_MAX: usize = 1_000;

    /// The rules that say this.
    pub fn rules(&self, stance: Stance) -> &[PermissionRule] {
        match stance {
            Stance::Allow => &self.allow,
            Stance::Ask => &self.ask,
            Stance::Deny => &self.deny,
        }
    }

    fn rules_mut(&mut self, stance: Stance) -> &mut Vec<PermissionRule> {
        match stance {
            Stance::Allow => &mut self.allow,
            Stance::Ask => &mut self.ask,
            Stance::Deny => &mut self.deny,
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes a change, whatever its destination. Fails, and changes nothing, where a rule cannot be
    /// read or there would be too many.
    pub fn apply(&mut self, update: &PermissionUpdate) -> Result<(), RuleError> {
        let read =
            |rules: &[RuleValue]| rules.iter().map(PermissionRule::try_from).collect::<Result<Vec<_>, _>>();
        let mut changed = self.clone();
        match update {
            PermissionUpdate::AddRules { rules, behavior, .. } => {
                let own = changed.rules_mut(*behavior);
                for rule in read(rules)? {
                    if !own.contains(&rule) {
                        own.push(rule);
                    }
                }
            }
            PermissionUpdate::ReplaceRules { rules, behavior, .. } => {
                *changed.rules_mut(*behavior) = read(rules)?;
            }
            PermissionUpdate::RemoveRules { rules, behavior, .. } => {
                let gone = read(rules)?;
                changed.rules_mut(*behavior).retain(|rule| !gone.contains(rule));
            }
            PermissionUpdate::SetMode { mode, .. } => changed.mode = Some(*mode),
            PermissionUpdate::AddDirectories { directories, .. } => {
                for folder in directories {
                    if !changed.directories.contains(folder) {
                        changed.directories.push(folder.clone());
                    }
                }
            }
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                changed.directories.retain(|folder| !directories.contains(folder));
            }
        }
        let count = changed.allow.len() + changed.ask.len() + changed.deny.len() + changed.directories.len();
        if count > Self::RULES_MAX {
            return Err(RuleError::new(
                "",
                format!("there would be more than {} rules in one place", Self::RULES_MAX),
            ));
        }
        *self = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_travel_as_the_agent_sdk_writes_them() {
        for update in [
            json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "npm run *"}], "behavior": "allow", "destination": "session"}),
            json!({"type": "replaceRules", "rules": [{"toolName": "Read"}], "behavior": "deny", "destination": "userSettings"}),
            json!({"type": "removeRules", "rules": [], "behavior": "ask", "destination": "projectSettings"}),
            json!({"type": "setMode", "mode": "acceptEdits", "destination": "localSettings"}),
            json!({"type": "addDirectories", "directories": ["/tmp"], "destination": "cliArg"}),
            json!({"type": "removeDirectories", "directories": [], "destination": "session"}),
        ] {
            let read: PermissionUpdate = serde_json::from_value(update.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), update);
        }
        let null = json!({"toolName": "Read", "ruleContent": null});
        assert_eq!(serde_json::from_value::<RuleValue>(null).unwrap().rule_content, None);
        let allow = json!({"behavior": "allow", "updatedInput": {"a": 1}, "toolUseID": "t"});
        let read: PermissionResult = serde_json::from_value(allow.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), allow);
        let deny = json!({"behavior": "deny", "message": "no", "interrupt": true});
        let read: PermissionResult = serde_json::from_value(deny.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), deny);
    }

    #[test]
    fn a_change_is_made_whole_or_not_at_all() {
        let mut set = PermissionSet::default();
        let add = |names: &[&str]| PermissionUpdate::AddRules {
            rules: names
                .iter()
                .map(|name| RuleValue { tool_name: (*name).into(), rule_content: None })
                .collect(),
            behavior: Stance::Deny,
            destination: Destination::Session,
        };
        set.apply(&add(&["a", "b", "a"])).unwrap();
        assert_eq!(set.deny.len(), 2);
        assert!(set.apply(&add(&["c", "broken("])).is_err());
        assert_eq!(set.deny.len(), 2);
        let many: Vec<String> = (0..PermissionSet::RULES_MAX).map(|index| format!("t{index}")).collect();
        assert!(set.apply(&add(&many.iter().map(String::as_str).collect::<Vec<_>>())).is_err());
    }
}
