//! Programs that cannot be started, and what the message says to do.

use std::path::Path;

use helve_core::ports::{ExitStatus, Program};

use crate::{launch, program, shell};

/// Writes an executable file by way of a program: a file that this process itself had open for
/// writing can be "busy" for as long as another test is forking.
async fn write_executable(file: &Path, text: &str) {
    let script = "cat > \"$1\"; chmod 755 \"$1\"";
    let exit =
        launch(Program { stdin: text.as_bytes().to_vec(), ..shell(script, &[file.to_str().unwrap()]) }).await;
    assert_eq!(exit.unwrap().status, ExitStatus::Code(0));
}

async fn refused(program: Program, expected: &str) {
    let error = launch(program).await.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named_with_what_to_do() {
    refused(
        program("no-such-program"),
        "cannot start `no-such-program`: no such program in /usr/local/bin, /usr/bin, /bin; install it there or give its full path",
    )
    .await;
    refused(program("/no/such/program"), "there is no such file; check the path").await;
    refused(program(""), "the path is relative").await;
}

#[tokio::test]
async fn relative_paths_are_refused_whatever_is_there() {
    for path in ["./sh", "../bin/sh", "bin/sh", "sh/", "..", "."] {
        refused(program(path), "the path is relative; give the full path or a bare name").await;
    }
}

#[tokio::test]
async fn folders_and_files_that_are_not_executable_are_refused() {
    refused(program("/bin"), "it is not a file").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    refused(program(&file), "is not executable; try `chmod +x").await;
}

#[tokio::test]
async fn a_script_without_an_interpreter_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("bare");
    write_executable(&bare, "echo hello\n").await;
    refused(program(&bare), "nor a script whose first line names its interpreter").await;
    let lost = folder.path().join("lost");
    write_executable(&lost, "#!/no/such/interpreter\n").await;
    refused(program(&lost), "the interpreter that its first line (`#!`) names is not there").await;
}

#[tokio::test]
async fn a_missing_folder_and_a_nul_are_explained() {
    let work_dir = Some("/no/such/folder".into());
    refused(Program { work_dir, ..program("pwd") }, "its work_dir `/no/such/folder` is not a folder").await;
    refused(Program { args: vec!["a\0b".into()], ..program("echo") }, "contains a NUL character").await;
}
