//! Who came in: a caller, or a person who decides. Never both.

use std::sync::Arc;

use axum::http::Extensions;
use helve::approvals::{Decider, Vouch};
use helve::{
    Action, ApprovalId, Caller, Channel, Key, KeyId, PolicyResource, PrincipalKind, Purpose, Runtime, Stance,
};
use jiff::Timestamp;

use crate::login::Login;
use crate::place::Place;
use crate::problem::Problem;

/// Roles that this server gives; what they are good for is the runtime's to say.
const APPROVER: &str = "approver";
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

/// A person who decides.
#[derive(Debug)]
pub(crate) struct Deciding {
    /// As approvals know them.
    pub(crate) decider: Decider,
    /// As policies know them. Never makes a call.
    pub(crate) person: Arc<Caller>,
    /// What every change must carry that comes with a cookie.
    pub(crate) csrf: Option<String>,
    /// What every address begins with on which their cookie counts.
    pub(crate) place: Place,
    /// The one question that they may see and decide. None: all of them.
    pub(crate) only: Option<ApprovalId>,
}

impl Deciding {
    pub(crate) fn new(name: &str, vouch: Vouch, roles: &[String]) -> Self {
        let roles = roles.iter().cloned().chain([APPROVER.to_owned()]);
        let person = Caller::principal(name).kind(PrincipalKind::User).roles(roles).channel(Channel::Http);
        let (decider, place) = (Decider::vouched(name, vouch), Place::default());
        Self { decider, person: Arc::new(person), csrf: None, place, only: None }
    }

    /// Whom a code that was used up stands for.
    pub(crate) fn of_code(code: &Key) -> Self {
        match code.only {
            // A link travels through the hands of others, so it opens its own question and no more.
            Some(only) => Self { only: Some(only), ..Self::new(&code.name, Vouch::Link, &[]) },
            // Only a user who can open the ledger's own file gets such a code.
            None => Self::new(&code.name, Vouch::LocalUser, &[ADMIN.to_owned()]),
        }
    }

    /// Whether a question is theirs to see and decide.
    pub(crate) fn sees(&self, id: ApprovalId) -> bool {
        self.only.is_none_or(|only| only == id)
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

    /// Whether they may do something that concerns this runtime as a whole, as its policy says.
    pub(crate) fn may(&self, action: Action, runtime: &Runtime) -> bool {
        let is_for_them = match (self, action) {
            // Whatever a policy says, a caller's secret decides nothing, and a decider's calls nothing.
            (Self::Caller(_), Action::Approve) => false,
            (Self::Caller(_), _) => true,
            (Self::Decider(_), Action::Approve | Action::Inspect | Action::Administer) => true,
            (Self::Decider(_), _) => false,
        };
        let said = || runtime.permits(self.person(), action, PolicyResource::Runtime);
        is_for_them && said().stance == Stance::Allow
    }

    /// Whether something of this principal is theirs to see.
    pub(crate) fn sees(&self, principal: Option<&str>, runtime: &Runtime) -> bool {
        self.owns(principal) || self.may(Action::Inspect, runtime)
    }

    /// Whose things a list shows: those that are asked for, to who may inspect; to other callers their own. None:
    /// everybody's. Who decides has none of their own, whatever they are called.
    pub(crate) fn whose(&self, asked: Option<String>, runtime: &Runtime) -> Result<Option<String>, Problem> {
        if self.may(Action::Inspect, runtime) {
            return Ok(asked);
        }
        match self {
            // Of those who do not say who they are nobody has any.
            Self::Caller(caller) => caller.principal.clone().map(Some).ok_or_else(Problem::not_found),
            Self::Decider(_) => Err(Problem::not_found()),
        }
    }

    /// Whether something of this principal is their own.
    pub(crate) fn owns(&self, principal: Option<&str>) -> bool {
        match self {
            Self::Caller(caller) => principal.is_some() && caller.principal.as_deref() == principal,
            Self::Decider(_) => false,
        }
    }
}

/// What a caller or person came in with, to be looked at again by what lasts longer than a request.
#[derive(Clone)]
pub(crate) enum Pass {
    /// What cannot end: a token of the configuration, an open door.
    Lasting,
    /// A key, as long as nobody takes it back.
    Key(KeyId),
    /// A token of an issuer, until its time, with the scopes of it that count here.
    Token { until: Timestamp, scopes: Arc<[String]> },
    /// A sign-in, until they sign out.
    Login(Arc<Login>),
}
