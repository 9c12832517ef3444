//! Who came in: somebody who calls, or somebody who decides. Never both.

use std::sync::Arc;

use axum::http::Extensions;
use helve::approvals::{Decider, Vouch};
use helve::{Action, Caller, Channel, Key, PrincipalKind, Purpose};

/// Roles that this server itself knows.
const APPROVER: &str = "approver";
const AUDITOR: &str = "auditor";
pub(crate) const ADMIN: &str = "admin";

/// Who came in.
///
/// INVARIANT: nothing leads from one to the other. A decider's secret calls no tool, and a caller's
/// decides nothing.
#[derive(Debug, Clone)]
pub(crate) enum Visitor {
    /// Calls tools, and looks after its own calls.
    Caller(Arc<Caller>),
    /// Decides, and looks at everything.
    Decider(Arc<Deciding>),
}

/// Somebody who decides.
#[derive(Debug)]
pub(crate) struct Deciding {
    /// As approvals know them.
    pub(crate) decider: Decider,
    /// As policies know them. Never makes a call.
    pub(crate) person: Arc<Caller>,
    /// What every change must carry that comes with a cookie.
    pub(crate) csrf: Option<String>,
}

impl Deciding {
    pub(crate) fn new(name: &str, vouch: Vouch, roles: &[String]) -> Self {
        let roles = roles.iter().cloned().chain([APPROVER.to_owned()]);
        let person = Caller::principal(name).kind(PrincipalKind::User).roles(roles).channel(Channel::Http);
        Self { decider: Decider::vouched(name, vouch), person: Arc::new(person), csrf: None }
    }
}

impl Visitor {
    /// Whom a key stands for. A sign-in code stands for nobody before it is used up.
    pub(crate) fn of(key: &Key) -> Option<Self> {
        match key.purpose {
            Purpose::Call => Some(Self::Caller(Arc::new(key.caller()))),
            Purpose::Decide => {
                Some(Self::Decider(Arc::new(Deciding::new(&key.name, Vouch::Key, &key.roles))))
            }
            Purpose::SignIn => None,
        }
    }

    /// The one that the guard let in with this request.
    pub(crate) fn in_request(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// As policies know them.
    pub(crate) fn person(&self) -> &Arc<Caller> {
        match self {
            Self::Caller(caller) => caller,
            Self::Decider(deciding) => &deciding.person,
        }
    }

    /// Whether they may do something that concerns this runtime as a whole.
    pub(crate) fn may(&self, action: Action) -> bool {
        let has = |role: &str| self.person().has_role(role);
        match (self, action) {
            // Whatever its roles, a caller's secret decides nothing.
            (Self::Caller(_), Action::Approve) => false,
            (Self::Caller(_), Action::Inspect) => has(AUDITOR) || has(ADMIN),
            (Self::Decider(_), Action::Approve | Action::Inspect) => has(APPROVER),
            (_, Action::Administer) => has(ADMIN),
            (Self::Caller(_), _) => true,
            (Self::Decider(_), _) => false,
        }
    }

    /// Whether something of this principal is theirs to see.
    pub(crate) fn sees(&self, principal: Option<&str>) -> bool {
        let is_own = match self {
            Self::Caller(caller) => caller.principal.is_some() && caller.principal.as_deref() == principal,
            Self::Decider(_) => false,
        };
        is_own || self.may(Action::Inspect)
    }
}
