//! Questions to the gate besides calls: what a caller may see and do, its session, its permissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
use helve_core::permission::{Destination, PermissionMode, PermissionSet, PermissionUpdate};
use helve_core::ports::{Clock, JournalError, Ledger, Policy};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_core::{Caller, ErrorCode, LabelSet, Tool, ToolError, ToolName};
use jiff::Timestamp;
use serde_json::Value;

use super::Runtime;
use crate::formats::{ExportOptions, Format, export};
use crate::live::Live;
use crate::permissions::{PermissionOptions, Permissions};
use crate::pipeline;
use crate::registry::{Filter, Registered};
use crate::sessions::{Fresh, LabelSettings, Sessions};

/// The policy in force. It may be replaced while calls are made.
pub(crate) struct LivePolicy {
    policy: Live<Option<Arc<dyn Policy>>>,
    clock: Arc<dyn Clock>,
}

impl LivePolicy {
    fn new(policy: Option<Arc<dyn Policy>>, clock: Arc<dyn Clock>) -> Self {
        Self { policy: Live::new(policy, Option::is_none), clock }
    }

    /// What it says to a request that is made now. Nothing, where there is none.
    pub(crate) fn rule<'r>(&self, request: impl FnOnce(Timestamp) -> PolicyRequest<'r>) -> Option<Vote> {
        let policy = self.policy.load_if_used()?;
        policy.as_ref().as_ref().map(|policy| policy.rule(&request(self.clock.now())).from_policy())
    }
}

/// What judges calls: the policy, what was permitted, and what sessions have touched.
pub(crate) struct Judges {
    pub(crate) policy: LivePolicy,
    pub(crate) permissions: Permissions,
    pub(crate) sessions: Sessions,
}

impl Judges {
    pub(super) fn new(
        policy: Option<Arc<dyn Policy>>,
        permissions: PermissionOptions,
        labels: LabelSettings,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            policy: LivePolicy::new(policy, Arc::clone(&clock)),
            permissions: Permissions::new(permissions),
            sessions: Sessions::new(labels, ledger, clock),
        }
    }

    /// The permission mode that a caller works in.
    pub(crate) async fn mode(&self, caller: &Caller) -> PermissionMode {
        // Where the ledger cannot say, the gate denies anyway; hooks are told what is known.
        let session = self.sessions.of(caller, Fresh::known()).await.ok().flatten();
        self.permissions.mode(session.as_ref().map(|session| &session.permissions))
    }

    /// Makes changes of permissions, wherever they belong. The first that cannot be made ends it.
    pub(crate) async fn apply(&self, caller: &Caller, updates: &[PermissionUpdate]) -> Result<(), ToolError> {
        for update in updates {
            match update.destination() {
                Destination::Session => {
                    let change = SessionChange::Permit(update.clone());
                    self.sessions
                        .change(caller, change)
                        .await
                        .map_err(|error| ToolError::new(ErrorCode::PermissionDenied, error.to_string()))?;
                }
                Destination::UserSettings
                | Destination::ProjectSettings
                | Destination::LocalSettings
                | Destination::CliArg => self.permissions.apply(update).await?,
            }
        }
        Ok(())
    }
}

/// What a caller who does not say who they are ([`Caller::anonymous`]) may do in a runtime. Whatever it is, tools of
/// high risk still ask a person, and rules and labels hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    /// Use every tool: no policy was given, and nobody has to say who they are.
    Everything,
    /// What the policy allows to a caller without a name.
    AsPolicySays,
    /// Nothing: [`Settings::require_authentication`](crate::Settings::require_authentication) is set.
    Nothing,
}

impl std::fmt::Display for Anonymous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Everything => "a caller who does not say who they are may use every tool",
            Self::AsPolicySays => {
                "a caller who does not say who they are may do what the policy allows to everybody"
            }
            Self::Nothing => "a caller who does not say who they are may do nothing",
        })
    }
}

impl Runtime {
    /// Lets another policy say what callers may do, from the next call on.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) {
        self.engine().judges.policy.policy.store(Some(policy));
    }

    /// Whether a caller may know of a tool. What they may not know of they cannot call either.
    pub fn may_see(&self, caller: &Caller, tool: &Tool) -> bool {
        (caller.principal.is_some() || !self.settings().require_authentication)
            && pipeline::may_see(&self.engine().judges.policy, caller, tool)
    }

    /// The tool whose name is most like this one, of those that a caller may know of.
    pub fn nearest(&self, name: &str, caller: &Caller) -> Option<ToolName> {
        self.registry().near_of(name, 1, |tool| self.may_see(caller, tool)).pop()
    }

    /// What a caller who does not say who they are may do. Told plainly, because it is easily overlooked: with the
    /// default settings and no policy, they may use every tool.
    ///
    /// ```
    /// use helve::{Anonymous, Runtime, Settings};
    /// assert_eq!(Runtime::builder().build().anonymous(), Anonymous::Everything);
    /// let strict = Settings { require_authentication: true, ..Settings::default() };
    /// assert_eq!(Runtime::builder().settings(strict).build().anonymous(), Anonymous::Nothing);
    /// ```
    pub fn anonymous(&self) -> Anonymous {
        match (self.settings().require_authentication, self.has_policy()) {
            (true, _) => Anonymous::Nothing,
            (false, true) => Anonymous::AsPolicySays,
            (false, false) => Anonymous::Everything,
        }
    }

    /// The tools that a caller may know of.
    pub fn tools_for(&self, caller: &Caller, filter: &Filter) -> Vec<Registered> {
        let mut tools = self.registry().list(filter);
        tools.retain(|registered| self.may_see(caller, &registered.tool));
        tools
    }

    /// The integrations of a tool that are not connected for a caller. A tool that lacks one is not shown to models.
    pub fn lacks<'t>(&self, caller: &Caller, tool: &'t Tool) -> impl Iterator<Item = &'t str> {
        let integrations = &self.engine().conditions.integrations;
        let needed = tool.definition().integrations.iter().map(String::as_str);
        needed.filter(|name| !integrations.connected(name, caller))
    }

    /// The tools that a caller may know of and can use now: those whose integrations are connected. What models are
    /// shown; [`Runtime::tools_for`] lists the others too.
    pub fn available_tools(&self, caller: &Caller, filter: &Filter) -> Vec<Registered> {
        let mut tools = self.tools_for(caller, filter);
        tools.retain(|registered| self.lacks(caller, &registered.tool).next().is_none());
        tools
    }

    /// The [available tools](Self::available_tools) of a caller as a provider wants them in a request.
    ///
    /// ```
    /// use helve::formats::Format;
    /// use helve::ports::Connected;
    /// use helve::{Caller, Runtime, Tool};
    /// use serde_json::json;
    /// use std::sync::Arc;
    ///
    /// let tool = |name: &str| Tool::builder(name).description("Works.").handler(|_, _| async { Ok(json!(1)) });
    /// let runtime = Runtime::builder()
    ///     .integrations(Arc::new(Connected::new(["calendar"])))
    ///     .tool(tool("mail/send").integration("mail"))?
    ///     .tool(tool("events/list").integration("calendar"))?
    ///     .build();
    /// let tools = runtime.export(Format::Anthropic, &Caller::local());
    /// assert_eq!(tools.as_array().map(Vec::len), Some(1));
    /// assert_eq!(tools[0]["name"], "events__list");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(&self, format: Format, caller: &Caller) -> Value {
        let tools = self.available_tools(caller, &Filter::default());
        export(tools.iter().map(|registered| &registered.tool), format, &self.export_options())
    }

    /// How tools are written, as the settings have it.
    pub fn export_options(&self) -> ExportOptions {
        ExportOptions { ask_from: self.settings().ask_from, ..ExportOptions::default() }
    }

    /// Whether there is a policy that may keep a tool from a caller.
    pub fn has_policy(&self) -> bool {
        self.engine().judges.policy.policy.load().is_some()
    }

    /// What the policy says to something that is no call: `inspect`, `administer`, reading what an
    /// MCP server offers. Without a policy every caller may, but for what takes a role:
    /// deciding (`approver`), looking at others (`approver`, `auditor`, `admin`) and changing this
    /// runtime (`admin`).
    pub fn permits(&self, caller: &Caller, action: Action, resource: PolicyResource<'_>) -> Vote {
        let request = |now| {
            let (arguments, labels) = (None, LabelSet::NONE);
            PolicyRequest { caller, action, resource, arguments, labels, now }
        };
        if let Some(vote) = self.engine().judges.policy.rule(request) {
            return vote;
        }
        let roles: &[&str] = match action {
            Action::List | Action::Call | Action::ReadResource | Action::GetPrompt => {
                return Vote::named(VoteSource::Policy, "no policy", Stance::Allow);
            }
            Action::Approve => &["approver"],
            Action::Inspect => &["approver", "auditor", "admin"],
            Action::Administer => &["admin"],
        };
        if roles.iter().any(|role| caller.has_role(role)) {
            return Vote::new(VoteSource::Role, Stance::Allow);
        }
        let reason = format!("it takes the role {}", roles.join(" or "));
        Vote::new(VoteSource::Role, Stance::Deny).because(reason)
    }

    /// What is remembered of a caller's session: its labels and where they came from, and what was
    /// allowed for it.
    pub async fn session(&self, caller: &Caller) -> Result<Option<Arc<SessionState>>, JournalError> {
        self.engine().judges.sessions.of(caller, Fresh::Ledger).await
    }

    /// Sessions of a principal, or of all, last changed first.
    pub async fn sessions(
        &self,
        principal: Option<String>,
        limit: usize,
    ) -> Result<Vec<(SessionKey, SessionState)>, JournalError> {
        self.engine().ledger.sessions(principal, limit).await
    }

    /// Ends a session: what was allowed for it is taken back, and nothing runs in it any more. Its
    /// labels stay, since what it has read stays read. `by` is who wants it, for the journal.
    ///
    /// None where it has no id: what a principal does outside of sessions does not end.
    pub async fn end_session(
        &self,
        caller: &Caller,
        by: Arc<Caller>,
    ) -> Result<Option<Arc<SessionState>>, JournalError> {
        if caller.session.is_none() {
            return Ok(None);
        }
        self.engine().judges.sessions.change(caller, SessionChange::End { by }).await.map(Some)
    }

    /// Makes changes of permissions, in the caller's session or where they say.
    ///
    /// The caller of this speaks for the operator: nothing that a call's own caller says may come
    /// here.
    pub async fn change_permissions(
        &self,
        caller: &Caller,
        updates: &[PermissionUpdate],
    ) -> Result<(), ToolError> {
        self.engine().judges.apply(caller, updates).await
    }

    /// Permissions of every place but sessions.
    pub fn permissions(&self) -> Arc<BTreeMap<Destination, PermissionSet>> {
        self.engine().judges.permissions.all()
    }

    /// Puts other permissions in a place, as when a file has changed.
    pub fn set_permissions(&self, place: Destination, set: PermissionSet) {
        self.engine().judges.permissions.set(place, set);
    }
}
