use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

/// A home folder to put programs in.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("home").tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn machine(&self) -> Machine {
        Machine::new("/usr/bin:/bin", Some(self.path("")))
    }
}

fn planned(home: &Home, command: &str, args: &[&str]) -> Plan {
    let config = ServerConfig::program(command, args.iter().copied());
    plan(ServerConfig { cwd: Some("/work-folder".into()), ..config }, &home.machine())
}

#[test]
fn a_tool_of_uv_gets_its_environment_and_its_python() {
    let home = Home::new();
    let python = home.program(".local/share/uv/python/cpython-3.12/bin/python3.12", "ELF");
    fs::create_dir_all(home.path(".local/share/uv/python/cpython-3.12/lib")).unwrap();
    let environment = home.path(".local/share/uv/tools/mcp-x");
    let shebang = format!("#!{}/bin/python\nprint()", environment.display());
    let script = home.program(".local/share/uv/tools/mcp-x/bin/mcp-x", &shebang);
    symlink(&python, environment.join("bin/python")).unwrap();
    let base = python.parent().unwrap().display().to_string();
    fs::write(environment.join("pyvenv.cfg"), format!("home = {base}\nuv = 0.5\n")).unwrap();
    fs::create_dir_all(home.path(".local/bin")).unwrap();
    symlink(&script, home.path(".local/bin/mcp-x")).unwrap();
    fs::create_dir_all(home.path(".local/lib")).unwrap();

    let plan = planned(&home, "mcp-x", &[]);
    assert_eq!(
        plan.config.command,
        Some(home.path(".local/bin/mcp-x")),
        "its bare name finds nothing in a box"
    );
    let expected = [
        home.path(".local/bin/mcp-x"),
        home.path(".local/share/uv/python/cpython-3.12"),
        environment.clone(),
    ];
    assert_eq!(plan.worked_out, expected);
    assert_eq!(plan.config.read, expected);
    assert!(plan.config.confined && plan.runner.is_none());
    // Where the path is too long for the first line, installers write it into the second.
    let long = format!("#!/bin/sh\n'''exec' \"{}/bin/python\" \"$0\" \"$@\"\n' '''\n", environment.display());
    home.program("elsewhere/mcp-y", &long);
    let plan = planned(&home, home.path("elsewhere/mcp-y").to_str().unwrap(), &[]);
    assert!(plan.worked_out.contains(&environment), "{plan:?}");
}

#[test]
fn a_script_of_node_is_started_with_the_node_that_it_lies_beside() {
    let home = Home::new();
    let versions = ".nvm/versions/node";
    for version in ["v9.0.0", "v22.1.0"] {
        home.program(&format!("{versions}/{version}/bin/node"), "ELF");
        fs::create_dir_all(home.path(&format!("{versions}/{version}/lib"))).unwrap();
    }
    let script =
        home.program(&format!("{versions}/v22.1.0/lib/node_modules/mcp-z/cli.js"), "#!/usr/bin/env node\n");
    symlink(&script, home.path(&format!("{versions}/v22.1.0/bin/mcp-z"))).unwrap();
    let plan = planned(&home, "mcp-z", &["--flag"]);
    assert_eq!(plan.config.command, Some(home.path(&format!("{versions}/v22.1.0/bin/node"))));
    assert_eq!(plan.config.args, [script.display().to_string(), "--flag".to_owned()]);
    assert_eq!(plan.worked_out, [home.path(&format!("{versions}/v22.1.0"))]);
}

/// A home with pyenv, these versions of Python, and a shim for each of them.
fn home_with_pyenv(versions: &[&str], global: &str) -> Home {
    let home = Home::new();
    home.program(
        ".pyenv/shims/python3",
        "#!/usr/bin/env bash\nexec \"$HOME/.pyenv/libexec/pyenv\" exec python3 \"$@\"\n",
    );
    for version in versions {
        home.program(&format!(".pyenv/versions/{version}/bin/python3"), "ELF");
        fs::create_dir_all(home.path(&format!(".pyenv/versions/{version}/lib"))).unwrap();
    }
    fs::write(home.path(".pyenv/version"), global).unwrap();
    home
}

#[test]
fn a_shim_of_pyenv_is_the_python_that_it_starts() {
    let shim_of = |home: &Home, folder: Option<PathBuf>| {
        let shim = home.path(".pyenv/shims/python3");
        let config = ServerConfig::program(shim.to_str().unwrap(), ["-m", "server"]);
        plan(ServerConfig { cwd: folder, ..config }, &home.machine())
    };
    let check = |versions: &[&str], global: &str, expected: &str| {
        let home = home_with_pyenv(versions, global);
        let plan = shim_of(&home, None);
        let prefix = home.path(&format!(".pyenv/versions/{expected}"));
        assert_eq!(plan.config.command, Some(prefix.join("bin/python3")), "{global}");
        assert_eq!(plan.worked_out, [prefix], "{global}");
    };
    check(&["3.9.18", "3.12.1"], "3.9.18\n", "3.9.18");
    check(&["3.9.18", "3.12.1", "3.12.10"], "3.12 # the newest\n", "3.12.10");
    check(&["3.9.18", "3.12.1"], "3.13.0\n3.12.1\n", "3.12.1");

    // The folder in which it starts may name another.
    let home = home_with_pyenv(&["3.9.18", "3.12.1"], "3.9.18");
    fs::create_dir_all(home.path("work/deep")).unwrap();
    fs::write(home.path("work/.python-version"), "3.12.1").unwrap();
    let plan = shim_of(&home, Some(home.path("work/deep")));
    assert_eq!(plan.config.command, Some(home.path(".pyenv/versions/3.12.1/bin/python3")));

    // With `system`, pyenv takes the first Python on the path that is not a shim.
    let home = home_with_pyenv(&["3.12.1"], "system\n");
    home.program(".local/bin/python3", "ELF");
    let found = shim_of(&home, None).config.command.unwrap();
    assert!(!found.starts_with(home.path(".pyenv")) && found.ends_with("python3"), "{found:?}");

    // Nothing is made up where pyenv itself would find nothing.
    let home = home_with_pyenv(&["3.12.1"], "../../elsewhere");
    assert_eq!(shim_of(&home, None).config.command, Some(home.path(".pyenv/shims/python3")));
}

#[test]
fn runners_are_found_below_the_home_folder_and_are_in_no_box() {
    let home = Home::new();
    let uvx = home.program(".local/bin/uvx-of-the-test", "ELF");
    fs::rename(&uvx, home.path(".local/bin/pnpx")).unwrap();
    let plan = planned(&home, "pnpx", &["mcp-server-x"]);
    assert_eq!((plan.runner.as_deref(), plan.config.confined), (Some("pnpx"), false));
    assert_eq!(plan.config.command, Some(home.path(".local/bin/pnpx")));
    assert!(home.machine().path().contains(".local/bin"), "and what it starts is found as well");
    let plan = planned(&home, "no-such-program-anywhere", &[]);
    assert_eq!(plan.not_found.as_deref(), Some("no-such-program-anywhere"));
    assert_eq!(
        planned(&home, "sh", &["-c", "x"]).config.command,
        Some("sh".into()),
        "the system's stays as typed"
    );
}

#[test]
fn files_among_the_arguments_are_shown_and_what_was_granted_is_not_granted_twice() {
    let home = Home::new();
    let script = home.program("servers/one/server.py", "print()");
    let folder = home.path("servers/one");
    let plan = planned(&home, "sh", &[script.to_str().unwrap(), "/nowhere", "/usr/share"]);
    assert_eq!(plan.worked_out, std::slice::from_ref(&folder));
    let config =
        ServerConfig { read: vec![folder], ..ServerConfig::program("sh", [script.to_str().unwrap()]) };
    assert!(super::plan(config, &home.machine()).worked_out.is_empty());
    let home_itself = home.path("");
    let plan = planned(&home, "sh", &[home.program("server.py", "x").to_str().unwrap()]);
    assert_ne!(plan.worked_out, [home_itself], "never the whole home folder for one script");
}

#[test]
fn its_last_words_tell_what_a_server_was_not_granted() {
    let home = Home::new();
    let file = home.program("data/notes.db", "x");
    let shown = file.display().to_string();
    let config = ServerConfig::program("x", [""; 0]);
    let of = |config: &ServerConfig, line: String| {
        missing(config, &[line]).first().map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!(
        of(&config, format!("FileNotFoundError: [Errno 2] No such file or directory: '{shown}'")),
        format!("--read {shown}")
    );
    assert_eq!(
        of(&config, format!("Error: EACCES: permission denied, open '{shown}'")),
        format!("--read {shown}")
    );
    assert_eq!(
        of(&config, format!("OSError: [Errno 30] Read-only file system: '{shown}'")),
        format!("--write {shown}")
    );
    let folder = home.path("data").display().to_string();
    assert_eq!(
        of(&config, format!("ENOENT: no such file or directory, mkdir '{folder}/new'")),
        format!("--write {folder}")
    );
    assert_eq!(
        of(&config, "Error: getaddrinfo EAI_AGAIN api.example.com".to_owned()),
        "--network api.example.com:443"
    );
    let python = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.example.com', port=443): \
                  [Errno -3] Temporary failure in name resolution";
    assert_eq!(of(&config, python.to_owned()), "--network api.example.com:443");
    assert_eq!(of(&config, "ready".to_owned()), "");
    let unboxed = ServerConfig { confined: false, ..config };
    assert_eq!(of(&unboxed, format!("No such file or directory: '{shown}'")), "");
}
