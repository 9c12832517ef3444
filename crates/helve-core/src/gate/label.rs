//! What a session has touched. Labels only rise.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::id::CallId;

/// Something that a session has touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Text that anybody may have written: it may hold instructions of a stranger.
    Untrusted,
    /// What not everybody may know.
    Private,
    /// What nobody else may know.
    Secret,
}

impl Label {
    /// Every label, in the order of the declaration.
    pub const ALL: [Self; 3] = [Self::Untrusted, Self::Private, Self::Secret];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Private => "private",
            Self::Secret => "secret",
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a call of a tool reads, of one that can read both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reads {
    /// What everybody can read.
    Public,
    /// What not everybody can. Assumed where a tool does not tell its calls apart.
    #[default]
    Private,
}

/// How a tool that can read private things tells the calls that do from those that do not. Without it,
/// every call counts as one that does. See [`ToolBuilder::tells_reads`](crate::ToolBuilder::tells_reads).
pub trait TellsReads: Send + Sync + 'static {
    /// What the arguments alone say; none where that has to be found out. Asked before the call is
    /// permitted, so it must tell nobody of it.
    fn says(&self, arguments: &Value) -> Option<Reads>;

    /// Finds it out, just before the call runs. It must not take long. What it cannot find out is public:
    /// the tool keeps to it ([`Context::reads`](crate::Context::reads)).
    fn find_out(&self, arguments: &Value) -> BoxFuture<'static, Reads>;
}

/// A set of labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LabelSet(u8);

impl LabelSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The same and one more.
    pub fn with(self, label: Label) -> Self {
        Self(self.0 | 1 << label as u8)
    }

    /// The labels of either set.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this one and not in the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has a label.
    pub fn has(self, label: Label) -> bool {
        self.0 & (1 << label as u8) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a stranger's words have met what is not theirs to know.
    pub fn has_met(self) -> bool {
        self.has(Label::Untrusted) && (self.has(Label::Private) || self.has(Label::Secret))
    }

    /// The labels, in order.
    pub fn iter(self) -> impl Iterator<Item = Label> {
        Label::ALL.into_iter().filter(move |label| self.has(*label))
    }
}

impl FromIterator<Label> for LabelSet {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        labels.into_iter().fold(Self::NONE, Self::with)
    }
}

impl JsonSchema for LabelSet {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LabelSet".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Label>::json_schema(generator)
    }
}

impl Serialize for LabelSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for LabelSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Label>::deserialize(deserializer).map(|labels| labels.into_iter().collect())
    }
}

/// Where a label of a session came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// The labels that rose.
    pub labels: LabelSet,
    /// By which tool.
    pub tool: Arc<str>,
    /// In which call.
    pub call_id: CallId,
    /// When they rose.
    pub at: Timestamp,
}

impl Taint {
    /// The namespace of the tool: for a tool of an MCP server, that server's.
    pub fn namespace(&self) -> Option<&str> {
        self.tool.rsplit_once('/').map(|(namespace, _)| namespace)
    }
}
