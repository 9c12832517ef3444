//! Toolboxes and workspaces: tools put together before they are registered.

use helve_core::{DefinitionError, NameError, Tool, ToolBuilder};

/// Tools by namespace, ready to be registered in a layer.
///
/// ```
/// use helve::{Layer, Registry, Tool, Workspace};
/// use serde_json::json;
///
/// let ping = Tool::builder("ping").description("Answers pong.").handler(|_, _| async { Ok(json!("pong")) });
/// let workspace = Workspace::builder().toolbox("net").tool(ping).done().build().unwrap();
/// let registry = Registry::default();
/// registry.register_workspace(Layer::Project, workspace).unwrap();
/// assert!(registry.has("net/ping"));
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    tools: Vec<Tool>,
}

impl Workspace {
    /// Starts an empty workspace.
    pub fn builder() -> WorkspaceBuilder {
        WorkspaceBuilder::default()
    }

    pub(crate) fn into_tools(self) -> Vec<Tool> {
        self.tools
    }
}

/// A workspace in the making.
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WorkspaceBuilder {
    toolboxes: Vec<(Option<String>, Vec<Addition>)>,
}

/// A tool, or what will be one.
enum Addition {
    Built(Tool),
    InTheMaking(Box<ToolBuilder>),
}

impl WorkspaceBuilder {
    /// Opens a toolbox: its tools are named `namespace/tool`.
    pub fn toolbox(self, namespace: impl Into<String>) -> ToolboxBuilder {
        ToolboxBuilder { workspace: self, namespace: Some(namespace.into()), tools: Vec::new() }
    }

    /// Adds a tool outside any toolbox: it keeps its name.
    pub fn tool(self, tool: impl Into<Toolish>) -> Self {
        ToolboxBuilder { workspace: self, namespace: None, tools: Vec::new() }.tool(tool).done()
    }

    /// Names and checks all tools.
    pub fn build(self) -> Result<Workspace, WorkspaceError> {
        let mut workspace = Workspace::default();
        for (namespace, additions) in self.toolboxes {
            for addition in additions {
                let tool = match addition {
                    Addition::Built(tool) => tool,
                    Addition::InTheMaking(builder) => builder.build()?,
                };
                workspace.tools.push(match &namespace {
                    Some(namespace) => tool.within(namespace)?,
                    None => tool,
                });
            }
        }
        Ok(workspace)
    }
}

/// An open toolbox.
#[must_use = "a toolbox does nothing until it is `done` and the workspace built"]
pub struct ToolboxBuilder {
    workspace: WorkspaceBuilder,
    namespace: Option<String>,
    tools: Vec<Addition>,
}

impl ToolboxBuilder {
    /// Adds a tool.
    pub fn tool(mut self, tool: impl Into<Toolish>) -> Self {
        self.tools.push(tool.into().0);
        self
    }

    /// Closes this toolbox and opens another.
    pub fn toolbox(self, namespace: impl Into<String>) -> Self {
        self.done().toolbox(namespace)
    }

    /// Closes this toolbox.
    pub fn done(mut self) -> WorkspaceBuilder {
        self.workspace.toolboxes.push((self.namespace, self.tools));
        self.workspace
    }

    /// Closes this toolbox and builds the workspace.
    pub fn build(self) -> Result<Workspace, WorkspaceError> {
        self.done().build()
    }
}

/// A tool, or a builder of one: what a toolbox takes.
pub struct Toolish(Addition);

impl From<Tool> for Toolish {
    fn from(tool: Tool) -> Self {
        Self(Addition::Built(tool))
    }
}

impl From<ToolBuilder> for Toolish {
    fn from(builder: ToolBuilder) -> Self {
        Self(Addition::InTheMaking(Box::new(builder)))
    }
}

/// A workspace that was refused.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// A tool is broken.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A namespace makes a name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
}
