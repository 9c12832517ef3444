//! The file tools, on real files.
//!
//! - `hostile`: odd names, and files that are too much;
//! - `paths`: every way out of a root that we could think of;
//! - `races`: files swapped for links while tools are at them, and writers side by side;
//! - `reading`, `writing`, `walking`: what the tools do;
//! - `undoing`: back to what was, through the runtime and after a restart.

mod hostile;
mod paths;
mod races;
mod reading;
mod undoing;
mod walking;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::{Example, Tool, ToolError};
use helve_sandbox::Unwritable;
use helve_tools::files::{Files, FilesConfig, RootConfig, RootDetail, file_tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::call;

/// A root with a few files, a folder next to it that nobody may see, and the tools.
pub(crate) struct World {
    dir: TempDir,
    tools: Vec<Tool>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|config| config)
    }

    /// One where these cannot be written.
    pub(crate) fn guarded(unwritable: Unwritable) -> Self {
        Self::made(|config| config, unwritable)
    }

    pub(crate) fn with(change: impl FnOnce(FilesConfig) -> FilesConfig) -> Self {
        Self::made(change, Unwritable::default())
    }

    fn made(change: impl FnOnce(FilesConfig) -> FilesConfig, unwritable: Unwritable) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["root/sub", "outside", "state"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("root/a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(dir.path().join("root/sub/b.txt"), "inner\n").unwrap();
        std::fs::write(dir.path().join("outside/secret.txt"), "top secret\n").unwrap();
        let config =
            FilesConfig { roots: vec![RootConfig::Path(dir.path().join("root"))], ..FilesConfig::default() };
        let files = Self::files(dir.path(), change(config), unwritable);
        Self { tools: file_tools(&files), dir }
    }

    fn files(dir: &Path, config: FilesConfig, unwritable: Unwritable) -> Arc<Files> {
        let builder = Files::builder(config).backups(dir.join("state/backups"));
        builder.private(dir.join("root/private")).unwritable(unwritable).build()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) -> &Self {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
        self
    }

    pub(crate) fn tool(&self, name: &str) -> &Tool {
        self.tools.iter().find(|tool| tool.name().as_str() == name).unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        call(self.tool(tool), arguments).await
    }

    /// A call that must work.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments.clone()).await {
            Ok(answer) => answer,
            Err(error) => panic!("{tool} {arguments}: {error:?}"),
        }
    }

    /// A call that must fail.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> ToolError {
        match self.call(tool, arguments.clone()).await {
            Err(error) => error,
            Ok(answer) => panic!("{tool} {arguments}: {answer}"),
        }
    }
}

pub(crate) fn read_only(path: PathBuf) -> RootConfig {
    RootConfig::Detailed(RootDetail { path, read_only: true })
}

#[test]
fn what_models_see_of_them() {
    let world = World::new();
    assert_eq!(world.tools.len(), 5);
    for tool in &world.tools {
        let definition = tool.definition();
        assert_eq!(tool.warnings(), [], "{}", tool.name());
        assert!(definition.examples.len() >= 2 && definition.output_schema.is_some());
        assert_eq!(definition.aliases, [tool.name().as_str().replacen('-', ":", 1)]);
        insta::assert_json_snapshot!(tool.name().as_str(), definition);
    }
}

#[tokio::test]
async fn arguments_that_a_tool_does_not_know_are_refused() {
    let world = World::new();
    for tool in &world.tools {
        let Some(Example::Arguments { arguments, .. }) = tool.definition().examples.first() else { panic!() };
        let mut arguments = arguments.clone();
        arguments["extra"] = json!(1);
        assert!(tool.input().validate(&arguments).is_err(), "{}", tool.name());
    }
}
