//! What code can be written in, and what it takes to run it.

use std::path::{Path, PathBuf};

use helve_sandbox::FileIn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where Helve's own files lie in the work directory.
pub(super) const OWN_DIR: &str = ".helve";

/// A language that code can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Language {
    Python,
    Javascript,
    Shell,
}

impl Language {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Javascript => "JavaScript",
            Self::Shell => "the shell",
        }
    }

    /// The interpreter's name, where the configuration gives no path.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Javascript => "node",
            Self::Shell => "bash",
        }
    }

    /// Where the code lies. Node reads from the name how modules are meant.
    pub(super) fn code_file(self, code: &str) -> PathBuf {
        let name = match self {
            Self::Python => "code.py",
            Self::Javascript if needs_older_form(code) => "code.cjs",
            Self::Javascript => "code.mjs",
            Self::Shell => "code.sh",
        };
        Path::new(OWN_DIR).join(name)
    }

    /// What can wait for its code, started and warm.
    pub(super) fn warm_file(self) -> Option<&'static str> {
        match self {
            Self::Python => Some("warm.py"),
            Self::Javascript => Some("warm.cjs"),
            Self::Shell => None,
        }
    }

    /// The client with which the code calls other tools, and what starts it warm.
    pub(super) fn own_files(self) -> Vec<FileIn> {
        let file = |path: &str, content: &str, executable| FileIn {
            path: Path::new(OWN_DIR).join(path),
            content: content.as_bytes().to_vec(),
            executable,
        };
        const PACKAGE: &str = r#"{ "name": "helve", "main": "index.cjs" }"#;
        match self {
            Self::Python => vec![
                file("helve.py", include_str!("client/helve.py"), false),
                file("warm.py", include_str!("client/warm.py"), false),
            ],
            Self::Javascript => vec![
                file("node_modules/helve/index.cjs", include_str!("client/helve.cjs"), false),
                file("node_modules/helve/package.json", PACKAGE, false),
                file("warm.cjs", include_str!("client/warm.cjs"), false),
            ],
            Self::Shell => vec![file("bin/helve", include_str!("client/helve.sh"), true)],
        }
    }
}

/// Whether code is written for the older form of modules: it asks for them by `require`, and does
/// nothing that only the newer one can.
fn needs_older_form(code: &str) -> bool {
    let is_newer = |line: &str| line.starts_with("import ") || line.starts_with("export ");
    let has_newer = code.lines().map(str::trim_start).any(is_newer);
    let has_older = ["__dirname", "__filename", "module.exports"].iter().any(|name| code.contains(name));
    !has_newer && (has_older || code.contains("require(") && !code.contains("await "))
}

/// In the newer form there is no `require`; models use both together. One line with no end, so that
/// errors name the line that was written.
pub(super) fn with_require(code: &str) -> String {
    const MAKE: &str = "import { createRequire as helveRequire } from 'module'; globalThis.require ??= helveRequire(import.meta.url); ";
    if code.contains("require(") { format!("{MAKE}{code}") } else { code.to_owned() }
}
