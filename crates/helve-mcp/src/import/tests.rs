//! Files as people have them, and files that nobody should have.

use super::*;
use crate::config::{McpConfig, Place, Secrets, Setting, TransportChoice};
use futures_util::FutureExt;
use proptest::prelude::*;
use secrecy::ExposeSecret;

struct Folders {
    root: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn homes(&self) -> Homes {
        Homes { home: self.home(), config: None, claude: None }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn found(&self, path: &str) -> ServerFile {
        let path = self.root.path().join(path);
        let kind = Kind::of(&path).unwrap();
        ServerFile { path, kind, scope: Scope::Project, project: self.project(), home: self.home() }
    }
}

fn import(path: &str, text: &str) -> Import {
    let folders = Folders::new();
    folders.write(path, text);
    read(&folders.found(path)).unwrap()
}

/// One server, and no secret anywhere in what is said of it.
fn one(path: &str, text: &str) -> Imported {
    let import = import(path, text);
    assert!(import.refused.is_empty(), "{:?}", import.refused);
    let server = import.servers.into_iter().next().unwrap();
    let said = format!("{server:?} {} {:?}", server.to_toml(), serde_json::to_string(&server.config));
    assert!(!said.contains("hush"), "{said}");
    server
}

#[test]
fn comments_that_end_a_file_stay_where_they_belong() {
    let before = "[redact]\n# names = [\"iban\"]\n\n# Tools of your own:\n#\n# [[tool.http]]\n";
    let server = crate::config::ServerConfig::program("x", ["y"]);
    let after = super::insert_server(before, "a", &server).unwrap();
    assert_eq!(after, format!("{before}\n[mcp.servers.a]\ncommand = \"x\"\nargs = [\"y\"]\n"));
    assert_eq!(super::remove_server(&after, "a").unwrap().as_deref(), Some(before));
}

#[test]
fn comments_about_something_else_stay_where_they_stood() {
    let server = |name: &str| format!("[mcp.servers.{name}]\ncommand = \"{name}\"\n");
    let header = "# What this file is.\n\n";
    let check = |before: String, after: String| {
        assert_eq!(super::remove_server(&before, "a").unwrap(), Some(after), "{before}");
    };
    let (a, b) = (server("a"), server("b"));
    check(format!("{header}# Of a.\n{a}\n# Of b.\n{b}"), format!("{header}# Of b.\n{b}"));
    check(format!("{header}{a}\n[mcp.servers.a.env]\nX = \"1\"\n\n{b}"), format!("{header}{b}"));
    check(
        format!("{b}\n{header}{a}\n[[tool.http]]\nname = \"x\"\n"),
        format!("{b}\n{header}[[tool.http]]\nname = \"x\"\n"),
    );
    check(format!("{b}\n{header}{a}"), format!("{b}\n# What this file is.\n"));
}

#[test]
fn all_files_are_found_where_they_are() {
    let folders = Folders::new();
    let places = [
        ("project/.mcp.json", Kind::ClaudeCode, Scope::Project),
        ("project/.vscode/mcp.json", Kind::VsCode, Scope::Project),
        ("project/.cursor/mcp.json", Kind::Cursor, Scope::Project),
        ("home/.claude.json", Kind::ClaudeCodeUser, Scope::User),
        ("home/.cursor/mcp.json", Kind::Cursor, Scope::User),
        ("home/.config/Claude/claude_desktop_config.json", Kind::ClaudeDesktop, Scope::User),
        ("home/.config/Code/User/mcp.json", Kind::VsCode, Scope::User),
        (
            "home/Library/Application Support/Claude/claude_desktop_config.json",
            Kind::ClaudeDesktop,
            Scope::User,
        ),
        ("home/AppData/Roaming/Claude/claude_desktop_config.json", Kind::ClaudeDesktop, Scope::User),
    ];
    assert!(find(&folders.project(), &folders.homes()).is_empty());
    for (path, ..) in places {
        folders.write(path, "{}");
    }
    let found = find(&folders.project(), &folders.homes());
    assert_eq!(found.len(), places.len());
    for (path, kind, scope) in places {
        let path = folders.root.path().join(path);
        let one = found.iter().find(|found| found.path == path).unwrap();
        assert_eq!((one.kind, one.scope, Kind::of(&path)), (kind, scope, Some(kind)));
    }
    // A project that is the person's own folder: no file twice, and all as the project's word.
    assert_eq!(find(&folders.home(), &folders.homes()).iter().filter(|f| f.kind == Kind::Cursor).count(), 1);
}

#[test]
fn files_are_found_where_a_person_keeps_their_settings_instead() {
    let folders = Folders::new();
    for path in [
        "home/.claude.json",
        "home/.config/Code/User/mcp.json",
        "kept/Code/User/mcp.json",
        "claude/.claude.json",
    ] {
        folders.write(path, "{}");
    }
    let at = |name: &str| folders.root.path().join(name);
    let homes = Homes { config: Some(at("kept")), claude: Some(at("claude")), ..folders.homes() };
    let found: Vec<_> = find(&folders.project(), &homes).into_iter().map(|found| found.path).collect();
    assert_eq!(found, [at("claude/.claude.json"), at("kept/Code/User/mcp.json")]);
}

#[test]
fn a_project_of_claude_code() {
    let import = import(
        "project/.mcp.json",
        r#"{ // what the team uses
          "mcpServers": {
            "github": { "type": "http", "url": "https://api.example.com/mcp",
                        "headers": { "Authorization": "Bearer ${GITHUB_TOKEN}", "X-Plain": "yes" } },
            "db": { "command": "npx", "args": ["-y", "server-db", "--port", "5432"],
                    "env": { "DB_URL": "${DB_URL:-postgres://localhost/x}", "LEVEL": 3, "DEBUG": true }, },
          }
        }"#,
    );
    let by_name = |name: &str| import.servers.iter().find(|server| server.name == name).unwrap();
    let github = &by_name("github").config;
    assert_eq!(github.transport, TransportChoice::Http);
    assert_eq!(github.headers["Authorization"], "Bearer ${env:GITHUB_TOKEN}".into());
    assert_eq!(github.headers["X-Plain"], "yes".into());
    let db = by_name("db");
    assert_eq!(db.config.env["DB_URL"], Setting::from_env("DB_URL"));
    assert_eq!(db.config.env["LEVEL"], "3".into());
    assert_eq!(db.config.args, ["-y", "server-db", "--port", "5432"]);
    assert!(db.notes.iter().any(|note| note.contains("`DB_URL`: the file has a default")), "{:?}", db.notes);
}

#[test]
fn claude_codes_own_file_has_servers_of_this_project_and_of_the_person() {
    let folders = Folders::new();
    let text = serde_json::json!({
        "numStartups": 7,
        "mcpServers": { "mine": { "command": "a" }, "both": { "command": "old" } },
        "projects": {
            folders.project().to_str().unwrap(): { "mcpServers": { "both": { "command": "new" } }, "history": [] },
            "/elsewhere": { "mcpServers": { "other": { "command": "b" } } },
        },
    });
    folders.write("home/.claude.json", &text.to_string());
    let import = read(&folders.found("home/.claude.json")).unwrap();
    let servers: Vec<_> =
        import.servers.iter().map(|s| (s.name.as_str(), s.config.command.as_deref().unwrap())).collect();
    assert_eq!(servers, [("both", Path::new("new")), ("mine", Path::new("a"))]);
}

#[test]
fn vs_code_asks_for_inputs_and_knows_places() {
    let folders = Folders::new();
    folders.write(
        "project/.vscode/mcp.json",
        r#"{
          "inputs": [{ "type": "promptString", "id": "perplexity-key", "description": "Key\u001b[0m of it", "password": true }],
          "servers": {
            "Perplexity": { "type": "stdio", "command": "${workspaceFolder}/run", "cwd": "${userHome}",
              "args": ["--in", "${workspaceFolder}", "--x=${unknown}"], "envFile": "${workspaceFolder}/.env", "dev": {},
              "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}", "OTHER": "${env:OTHER}", "GONE": null } }
          }
        }"#,
    );
    let import = read(&folders.found("project/.vscode/mcp.json")).unwrap();
    let server = &import.servers[0];
    assert_eq!(server.config.command.as_deref(), Some(folders.project().join("run").as_path()));
    assert_eq!(server.config.cwd, Some(folders.home()));
    assert_eq!(server.config.args[1], folders.project().to_str().unwrap());
    assert_eq!(server.config.env["PERPLEXITY_API_KEY"], Setting::from_env("PERPLEXITY_KEY"));
    assert_eq!(server.config.env["OTHER"], Setting::from_env("OTHER"));
    assert_eq!(server.config.env.len(), 2);
    let notes = server.notes.join("\n");
    for expected in [
        "`PERPLEXITY_KEY`, for which the editor would ask (Key of it)",
        "`envFile` is not read",
        "`${unknown}`",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
    assert!(!notes.contains('\u{1b}'));
}

#[test]
fn cursor_and_claude_desktop() {
    let server = one(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"url": "https://a.example/sse", "type": "sse", "disabled": true, "command": null,
            "auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "hush", "scopes": ["read"]}}}}"#,
    );
    assert_eq!(server.config.transport, TransportChoice::Sse);
    assert!(!server.config.enabled);
    let oauth = server.config.oauth.as_ref().unwrap();
    assert_eq!(oauth.client_id.as_deref(), Some("id"));
    assert_eq!(oauth.client_secret, Some(Setting::from_env("A_CLIENT_SECRET")));
    assert_eq!(oauth.scopes, ["read"]);
    // Claude Desktop fills in nothing.
    let server =
        one("claude_desktop_config.json", r#"{"mcpServers": {"a": {"command": "x", "args": ["${HOME}"]}}}"#);
    assert_eq!(server.config.args, ["${HOME}"]);
}

#[test]
fn secrets_become_references_and_are_never_said() {
    let server = one(
        ".mcp.json",
        r#"{"mcpServers": {"my srv": {"command": "docker", "args": [
            "run", "-e", "API_TOKEN=hush", "--api-key", "hushhush", "--password=hush",
            "--header", "Authorization: Bearer hush", "postgres://u:hush@db.example/x?a=b",
            "ghp_hushhushhushhush", "--verbose", "img", "hush1hush2hush3hush4hush5", "--token", "--flag"],
            "env": {"GITHUB_TOKEN": "hush", "SOME": "a8f5f167f44f4964e6hush98dee827110c", "URL": "redis://:hush@h/0",
                    "EMPTY_TOKEN": "", "MODEL": "claude-3-5-sonnet-20241022", "KEY_FILE": "/run/key"}}}}"#,
    );
    assert_eq!(server.name, "my_srv");
    assert!(server.notes[0].contains("renamed from `my srv`"));
    let config = &server.config;
    assert_eq!(
        config.args,
        [
            "run",
            "-e",
            "API_TOKEN=${env:MY_SRV_API_TOKEN}",
            "--api-key",
            "${env:MY_SRV_API_KEY}",
            "--password=${env:MY_SRV_PASSWORD}",
            "--header",
            "Authorization: Bearer ${env:MY_SRV_AUTHORIZATION}",
            "postgres://u:${env:MY_SRV_ARG}@db.example/x?a=b",
            "${env:MY_SRV_ARG_2}",
            "--verbose",
            "img",
            "${env:MY_SRV_ARG_3}",
            "--token",
            "--flag",
        ]
    );
    assert_eq!(config.env["GITHUB_TOKEN"], Setting::from_env("GITHUB_TOKEN"));
    assert_eq!(config.env["SOME"], Setting::from_env("SOME"));
    assert_eq!(config.env["URL"], "redis://:${env:URL}@h/0".into());
    assert_eq!(config.env["EMPTY_TOKEN"], "".into());
    assert_eq!(config.env["MODEL"], "claude-3-5-sonnet-20241022".into());
    assert_eq!(config.env["KEY_FILE"], "/run/key".into());
    assert!(server.notes.iter().any(|note| note.contains("set the environment variable `GITHUB_TOKEN`")
        && note.contains("env.GITHUB_TOKEN")));
}

#[test]
fn secrets_in_headers_and_addresses_too() {
    let server = one(
        ".mcp.json",
        r#"{"mcpServers": {"exa": {"url": "https://u:hush@a.example/s/hush1hush2hush3hush4hush5/mcp?exaApiKey=hush&mode=x",
            "headers": {"Authorization": "Bearer hush", "X-Api-Key": "hush", "X-Id": "hush1hush2hush3hush4hush5", "Cookie": "a=hush"}}}}"#,
    );
    let config = &server.config;
    assert_eq!(
        config.url.as_deref(),
        Some("https://a.example/s/${env:EXA_URL_KEY}/mcp?exaApiKey=${env:EXA_EXAAPIKEY}&mode=x")
    );
    assert_eq!(
        config.headers["Authorization"],
        Setting::from_env("EXA_AUTHORIZATION").with_prefix("Bearer ")
    );
    assert_eq!(config.headers["X-Api-Key"], Setting::from_env("EXA_X_API_KEY"));
    // And they come back where they belong.
    let secrets =
        Secrets::fixed([("EXA_AUTHORIZATION", "t"), ("EXA_URL_KEY", "k/"), ("EXA_EXAAPIKEY", "q&")]);
    assert_eq!(
        secrets.resolve(&config.headers["Authorization"]).now_or_never().unwrap().unwrap().expose_secret(),
        "Bearer t"
    );
    let url = secrets.fill_url(config.url.as_deref().unwrap()).unwrap();
    assert_eq!(url.as_str(), "https://a.example/s/k%2F/mcp?exaApiKey=q%26&mode=x");
}

#[test]
fn one_variable_never_stands_for_two_secrets() {
    let import = import(
        ".mcp.json",
        r#"{"mcpServers": {
            "a": {"command": "x", "env": {"API_KEY": "hush-1"}},
            "b": {"command": "x", "env": {"API_KEY": "hush-2"}},
            "c": {"command": "x", "env": {"API_KEY": "hush-1"}}}}"#,
    );
    let variables: Vec<_> =
        import.servers.iter().map(|server| server.config.env["API_KEY"].clone()).collect();
    assert_eq!(
        variables,
        [Setting::from_env("API_KEY"), Setting::from_env("B_API_KEY"), Setting::from_env("API_KEY")]
    );
}

#[test]
fn one_bad_server_does_not_hide_the_others() {
    let import = import(
        ".mcp.json",
        r#"{"mcpServers": {
            "good": {"command": "x"}, "Good": {"command": "y"}, "": {"command": "z"},
            "text": "hush", "none": {}, "list": {"command": ["hush"]}, "args": {"command": "x", "args": "hush"},
            "deep": {"command": "x", "args": [["hush"]]}, "env": {"command": "x", "env": {"A": {"b": "hush"}}},
            "file": {"url": "file:///etc/hush"}, "shell": {"command": "npx -y hush"},
            "type": {"url": "https://a.example", "type": "carrier-pigeon"}, "both": {"command": "x", "url": "https://a.example"},
            "name": {"command": "x", "env": {"A B": "c"}}}}"#,
    );
    let names: Vec<_> = import.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["good", "Good-2", "server"]);
    assert_eq!(import.refused.len(), 11, "{:#?}", import.refused);
    assert!(
        import.refused.iter().all(|refused| !refused.reason.contains("hush") && !refused.reason.is_empty())
    );
}

#[test]
fn hostile_files_are_refused_with_a_reason() {
    let many: String = (0..=SERVERS_MAX).map(|n| format!(r#""s{n}": {{"command": "x"}},"#)).collect();
    for (text, expected) in [
        (String::new(), "not valid JSON"),
        ("[1]".to_owned(), "does not hold a JSON object"),
        ("{".repeat(100_000), "not valid JSON"),
        (format!("{{\"a\": {}1{}}}", "[".repeat(100), "]".repeat(100)), "deeper than"),
        (r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#.to_owned(), "stands twice"),
        ("{\"a\": \"\\u0000\"}".to_owned(), "NUL"),
        (format!("{{\"mcpServers\": {{{many}}}}}"), "more than 200 servers"),
        (" ".repeat(FILE_BYTES_MAX + 1), "larger than"),
        ("{\"mcpServers\": {\"a\": hush}}".to_owned(), "not valid JSON"),
    ] {
        let folders = Folders::new();
        folders.write(".mcp.json", &text);
        let error = read(&folders.found(".mcp.json")).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hush"), "{error}");
    }
    let folders = Folders::new();
    std::fs::create_dir(folders.root.path().join(".mcp.json")).unwrap();
    assert!(read(&folders.found(".mcp.json")).unwrap_err().to_string().contains("not a plain file"));
    assert!(import(".mcp.json", r#"{"mcpServers": []}"#).servers.is_empty());
}

#[test]
fn a_server_is_written_into_a_file_that_keeps_its_comments() {
    let server = one(
        ".mcp.json",
        r#"{"mcpServers": {"a.b": {"command": "npx", "args": ["-y", "quote\"\n"], "env": {"TOKEN": "hush", "A": "b"}, "disabled": true}}}"#,
    );
    let before = "# mine\n[security]\nask_from = \"low\" # careful\n\n[mcp.servers.old]\ncommand = 'x'\n";
    let after = server.insert_into(before).unwrap();
    assert!(after.starts_with(before), "{after}");
    assert!(
        after.contains("# Imported from") && after.contains("# - set the environment variable `TOKEN`"),
        "{after}"
    );
    let read = |text: &str| -> McpConfig {
        let whole: toml::Table = toml::from_str(text).unwrap();
        whole["mcp"].clone().try_into().unwrap()
    };
    let config = read(&after);
    assert_eq!(config.servers["a.b"], server.config);
    assert_eq!(config.servers["old"].place(), Some(Place::Command(Path::new("x"))));
    assert_eq!(read(&server.to_toml()).servers["a.b"], server.config);
    assert!(server.insert_into(&after).unwrap_err().to_string().contains("already"));
    assert!(server.insert_into("mcp = 1").is_err());
    let error = server.insert_into("a = 1\nb = \"hush").unwrap_err().to_string();
    assert!(error.contains("line 2") && !error.contains("hush"), "{error}");
}

#[test]
fn a_note_cannot_leave_its_comment() {
    let mut server =
        one(".mcp.json", r#"{"mcpServers": {"a": {"command": "x", "evil\nconfined = false": 1}}}"#);
    server.origin = "/tmp/x\nconfined = false\n".into();
    let config: toml::Table = toml::from_str(&server.to_toml()).unwrap();
    assert!(config["mcp"]["servers"]["a"].get("confined").is_none());
}

fn json_value() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "command", "args", "env", "url", "headers", "type", "oauth", "auth", "cwd", "x",
    ]);
    let text = prop::sample::select(vec![
        "x",
        "",
        "${A:-b}",
        "${",
        "${env:",
        "${input:é}",
        "https://u:p@a.example/?k=v&token=t",
        "Bearer x",
        "--token",
        "A=b",
        "é=ü",
        "é: b",
        "://:@",
        "a://b:c@",
        "\u{202e}",
        "-----BEGIN PRIVATE KEY-----",
        "ghp_0123456789abcdefé",
    ]);
    let leaf = prop_oneof![text.prop_map(Value::from), Just(Value::Null), any::<i64>().prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_entry_makes_it_panic_and_what_comes_out_is_right(entry in json_value(), vs_code in any::<bool>()) {
        let path = if vs_code { ".vscode/mcp.json" } else { ".mcp.json" };
        let found = ServerFile {
            path: path.into(), kind: Kind::of(Path::new(path)).unwrap(), scope: Scope::Project,
            project: "/p".into(), home: "/h".into(),
        };
        let document = Value::Null;
        if let Ok((config, notes)) = entry::Reader::new(&found, &document).read("a", &entry) {
            prop_assert!(config.check("a").is_empty());
            let server = Imported { name: "a".to_owned(), config, origin: path.into(), scope: Scope::Project, notes };
            let whole: toml::Table = toml::from_str(&server.to_toml()).unwrap();
            let read: McpConfig = whole["mcp"].clone().try_into().unwrap();
            prop_assert_eq!(&read.servers["a"], &server.config);
        }
    }
}
