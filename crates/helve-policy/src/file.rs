//! What policies are read from.

/// Bounds on what is read.
pub mod limits {
    /// Most bytes of policy text, all files together.
    pub const BYTES_MAX: usize = 16 * 1024 * 1024;
    /// Most policies, all files together.
    pub const POLICIES_MAX: usize = 10_000;
    /// Deepest nesting of a policy's conditions.
    pub const DEPTH_MAX: usize = 200;
    /// Deepest nesting of brackets.
    pub const BRACKETS_MAX: usize = 50;
    /// Most operators in one policy.
    pub const OPERATORS_MAX: usize = 2_000;
}

/// The text of one file of policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// What people call it: its path, or `default.cedar`.
    pub name: String,
    /// What it says.
    pub text: String,
    /// How much its word counts.
    pub weight: Weight,
}

impl PolicyFile {
    /// A file of the operator.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), weight: Weight::Decides }
    }

    /// A file that came with a project.
    pub fn narrowing(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { weight: Weight::Narrows, ..Self::new(name, text) }
    }
}

/// How much the word of a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weight {
    /// It permits and forbids.
    Decides,
    /// It can only take away from what the deciding files permit: both must allow. Without a `permit`
    /// of its own it takes away what it forbids; with one, also whatever it does not permit.
    Narrows,
}
