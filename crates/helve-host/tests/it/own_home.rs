//! Its own home for a test. Helve takes it from the process, so the test is run again in another one.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says to the process that it is the one with the home.
const MARK: &str = "HELVE_HOST_TEST_PROJECT";

/// Runs the test of this name in an empty home, with a project's folder in it.
#[expect(clippy::disallowed_methods, reason = "a test starts itself again, with another home")]
pub(crate) fn in_a_home<F: Future<Output = ()>>(test: &str, body: impl FnOnce(PathBuf) -> F) {
    if let Some(project) = std::env::var_os(MARK) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(body(project.into()));
    }
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    // A boundary: nothing above it is taken for the project.
    std::fs::create_dir_all(project.join(".git")).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture"]).current_dir(&project).env_clear();
    again.env("HOME", home.path()).env("PATH", "/usr/bin:/bin").env(MARK, &project);
    let ran = again.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// Writes a file of the project.
pub(crate) fn write(project: &Path, name: &str, text: &str) {
    std::fs::write(project.join(name), text).unwrap();
}
