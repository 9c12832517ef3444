use helve::Facet::{Egress, Mutates, ReadsPrivate, ReadsUntrusted};
use serde_json::json;

use super::known::table;
use super::*;
use crate::config::Setting;

fn program(command: &str, args: &[&str]) -> ServerConfig {
    let config = ServerConfig::program(command, args.iter().copied());
    ServerConfig { confined: false, cwd: Some("/home/ada/project".into()), ..config }
}

fn counted(config: &ServerConfig, definition: Value) -> Counted {
    Counted::tool("srv", config, Account::Unknown, &definition)
}

fn facets(config: &ServerConfig, definition: Value) -> Vec<Facet> {
    counted(config, definition).facets.into_iter().collect()
}

#[test]
fn every_entry_of_the_table_is_well_formed_and_named_once() {
    let mut ways = BTreeSet::new();
    for known in table() {
        let (patterns, named) = known.parts();
        assert!(!patterns.is_empty() && !named.is_empty(), "{}", known.name);
        for pattern in patterns {
            assert!(known.facets_of(&pattern.replace('*', "x")).is_some(), "{}: {pattern}", known.name);
        }
        assert!(ways.insert(("name", known.name.as_str())), "{}", known.name);
        // A program may be named as its package is.
        let own: BTreeSet<_> = named.into_iter().collect();
        for way in own {
            assert!(ways.insert(("way", way)), "{way} is there twice");
        }
    }
    assert!(table().len() >= 20);
}

#[test]
fn well_known_servers_are_recognised_by_what_the_operator_wrote() {
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("npx", &["-y", "@modelcontextprotocol/server-filesystem", "/srv"], Some("filesystem")),
        ("npx", &["@modelcontextprotocol/server-memory@2026.1.1"], Some("memory")),
        ("/home/ada/.nvm/bin/npx", &["-y", "@playwright/mcp@latest"], Some("playwright")),
        ("pnpm", &["dlx", "@stripe/mcp", "--tools=all"], Some("stripe")),
        ("uvx", &["mcp-server-fetch"], Some("fetch")),
        ("uvx", &["mcp-server-git==2026.1", "--repository", "/r"], Some("git")),
        ("uvx", &["Mcp_Server.Time@latest"], Some("time")),
        ("uv", &["tool", "run", "mcp-server-time"], Some("time")),
        ("pipx", &["run", "mcp-server-time"], Some("time")),
        ("mcp-server-time", &[], Some("time")),
        ("/opt/venv/bin/mcp-server-git", &[], Some("git")),
        ("/opt/venv/bin/python", &["-m", "mcp_server_fetch"], Some("fetch")),
        ("/opt/venv/bin/python3", &["/opt/venv/bin/mcp-server-fetch"], Some("fetch")),
        ("node", &["/opt/x/node_modules/@modelcontextprotocol/server-memory/dist/index.js"], Some("memory")),
        ("docker", &["run", "-i", "--rm", "-e", "T", "ghcr.io/github/github-mcp-server:v1"], Some("github")),
        // A command with more than the name may mean something else.
        ("uvx", &["--from", "evil", "mcp-server-time"], None),
        ("uvx", &["--index-url", "https://evil.example", "mcp-server-time"], None),
        ("uvx", &["mcp-server-time@git+https://evil.example/x"], None),
        ("uvx", &["evil", "mcp-server-time"], None),
        ("npx", &["-p", "evil", "@modelcontextprotocol/server-memory"], None),
        ("npx", &["evil", "@modelcontextprotocol/server-memory"], None),
        ("docker", &["run", "--entrypoint", "/evil", "mcp/time"], None),
        ("docker", &["run", "evil.example/mcp/time"], None),
        // What lies in the project could be called anything.
        ("/home/ada/project/bin/mcp-server-time", &[], None),
        ("node", &["/home/ada/project/node_modules/@modelcontextprotocol/server-memory/dist/index.js"], None),
        ("node", &["node_modules/@modelcontextprotocol/server-memory/dist/index.js"], None),
        ("python3", &["/home/ada/project/mcp-server-time"], None),
        ("python3", &["server.py"], None),
    ];
    for (command, args, expected) in cases {
        let found = known(&program(command, args)).map(|known| known.name.as_str());
        assert_eq!(found, *expected, "{command} {args:?}");
    }
    let at = |url: &str| known(&ServerConfig::remote(url)).map(|known| known.name.as_str());
    assert_eq!(at("https://mcp.linear.app/mcp"), Some("linear"));
    for other in
        ["http://mcp.linear.app/mcp", "https://mcp.linear.app.evil.example/", "https://mcp.linear.app:444/"]
    {
        assert_eq!(at(other), None, "{other}");
    }
}

#[test]
fn the_operators_word_comes_first_and_a_servers_only_adds() {
    let mut time = program("uvx", &["mcp-server-time"]);
    let said = counted(&time, json!({ "name": "convert_time" }));
    assert_eq!((said.by, said.facets.len()), (By::Helve("time"), 0));
    let admits = json!({ "name": "convert_time", "annotations": { "openWorldHint": true } });
    assert_eq!(facets(&time, admits.clone()), [ReadsUntrusted, Egress]);
    let unheard_of = counted(&time, json!({ "name": "new_tool" }));
    assert_eq!(unheard_of.by, By::Nobody);
    assert!(unheard_of.facets.contains(&Egress));
    time.tools.facets.insert("*".to_owned(), vec![ReadsPrivate]);
    let said = counted(&time, json!({ "name": "convert_time" }));
    assert_eq!((said.by, Vec::from_iter(said.facets)), (By::Operator, vec![ReadsPrivate]));
    assert_eq!(facets(&time, admits), [ReadsUntrusted, ReadsPrivate, Egress]);
}

#[test]
fn what_nobody_said_is_assumed_from_reach_and_from_what_was_given() {
    let closed = || json!({ "readOnlyHint": true, "openWorldHint": false });
    let look = |annotations: Value| json!({ "name": "look_up", "annotations": annotations });
    let public = ServerConfig::remote("https://mcp.example.com/mcp");
    assert_eq!(facets(&public, look(json!({}))), [ReadsUntrusted, Egress]);
    assert_eq!(facets(&public, look(closed())), [ReadsUntrusted, Egress], "its word takes nothing away");
    assert_eq!(facets(&public, json!({ "name": "forecast" })), [ReadsUntrusted, Egress, Mutates]);
    assert_eq!(facets(&public, json!({ "name": "read_mail" })), [ReadsUntrusted, ReadsPrivate, Egress]);
    let near = ServerConfig::remote("http://127.0.0.1:3000/mcp");
    assert_eq!(facets(&near, look(closed())), [ReadsUntrusted, ReadsPrivate, Egress]);

    let unboxed = program("python3", &["server.py"]);
    assert_eq!(facets(&unboxed, look(json!({}))), [ReadsUntrusted, Egress]);
    assert_eq!(facets(&unboxed, look(closed())), [Egress], "it may say that it brings no strangers' words");
    let mut with_token = unboxed.clone();
    with_token.env.insert("TOKEN".to_owned(), Setting::from_env("TOKEN"));
    assert_eq!(facets(&with_token, look(json!({}))), [ReadsUntrusted, ReadsPrivate, Egress]);

    let mut boxed = ServerConfig { confined: true, ..unboxed };
    assert_eq!(facets(&boxed, json!({ "name": "forecast" })), [], "it reaches nobody, and nothing stays");
    assert_eq!(
        facets(&boxed, json!({ "name": "x", "annotations": { "openWorldHint": true } })),
        [ReadsUntrusted, Egress]
    );
    boxed.read.push("/srv/docs".into());
    assert_eq!(facets(&boxed, look(json!({}))), [ReadsPrivate]);
    boxed.write.push("/srv/docs".into());
    assert_eq!(facets(&boxed, json!({ "name": "save" })), [ReadsPrivate, Mutates]);
    boxed.network.push("api.example.com:443".to_owned());
    assert_eq!(facets(&boxed, look(closed())), [ReadsUntrusted, ReadsPrivate, Egress]);
}

#[test]
fn only_what_looks_something_up_keeps_to_its_server() {
    let server = ServerConfig::remote("https://mcp.example.com/mcp");
    let with = |name: &str, argument: &str| {
        let schema = json!({ "type": "object", "properties": { argument: { "type": "string" } } });
        counted(&server, json!({ "name": name, "inputSchema": schema })).sends_to
    };
    for (name, argument) in
        [("get_issue", "id"), ("search", "query"), ("order_status", "id"), ("listOrders", "n")]
    {
        assert_eq!(with(name, argument), SendsTo::ItsServer, "{name}");
    }
    for (name, argument) in [
        ("fetch", "url"),
        ("get", "endpoint"),
        ("send_message", "text"),
        ("create_issue", "title"),
        ("find_and_post", "text"),
        ("anything", "x"),
    ] {
        assert_eq!(with(name, argument), SendsTo::Anybody, "{name}");
    }
    let says_it_changes = json!({ "name": "get_x", "annotations": { "readOnlyHint": false } });
    assert_eq!(counted(&server, says_it_changes).sends_to, SendsTo::Anybody);
}

#[test]
fn it_is_known_before_the_tools_are_who_says_what_they_count_as() {
    let mut config = program("python3", &["server.py"]);
    assert_eq!(Standing::of(&config), Standing::Assumed);
    config.tools.facets.insert("read_*".to_owned(), vec![ReadsPrivate]);
    assert_eq!(Standing::of(&config), Standing::PartlySaid);
    config.tools.facets.insert("*".to_owned(), vec![]);
    assert_eq!(Standing::of(&config), Standing::Said);
    assert_eq!(Standing::of(&program("uvx", &["mcp-server-time"])), Standing::Known("time"));
}

/// The table against the servers themselves, as far as the tests have them.
#[tokio::test]
async fn the_table_names_the_tools_that_well_known_servers_have() {
    use helve_testkit::peers::{home, node, npm};
    let module = |name: &str| {
        let script = npm(&format!("@modelcontextprotocol/{name}/dist/index.js"));
        ServerConfig::program(node(), [script, "/tmp".to_owned()])
    };
    let console = |name: &str| ServerConfig::program(home().join("python/bin").join(name), [""; 0]);
    let servers = [
        (
            "everything",
            ServerConfig {
                args: module("server-everything").args[..1].to_vec(),
                ..module("server-everything")
            },
        ),
        ("filesystem", module("server-filesystem")),
        ("memory", module("server-memory")),
        ("fetch", console("mcp-server-fetch")),
        ("git", console("mcp-server-git")),
        ("time", console("mcp-server-time")),
    ];
    for (name, config) in servers {
        let config = ServerConfig { confined: false, cwd: Some("/nowhere".into()), ..config };
        let known = known(&config).unwrap_or_else(|| panic!("{name} is recognised"));
        assert_eq!(known.name, name);
        let surroundings = crate::servers::Surroundings {
            sandbox: helve_sandbox::Sandbox::default(),
            net: helve_net::Client::new(helve_net::NetPolicy::default()).unwrap(),
            secrets: crate::config::Secrets::process(),
            pins: None,
            sampler: None,
            tokens: None,
        };
        let started = ServerConfig { cwd: Some("/".into()), connect_timeout_s: 60, ..config.clone() };
        let report = crate::servers::Probe::default().look(started, surroundings).await;
        assert!(report.ok, "{name}: {report:#?}");
        let tools: Vec<Value> =
            report.tools.iter().map(|tool| serde_json::from_str(tool.get()).unwrap()).collect();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        for tool in &tools {
            let counted = Counted::tool("x", &config, Account::Unknown, tool);
            assert_eq!(counted.by, By::Helve(&known.name), "{name}: {}", tool["name"]);
        }
        let pieces = ["resources.read", "prompts.get", "git_init"];
        let (patterns, _) = known.parts();
        for pattern in patterns.iter().filter(|pattern| !pieces.contains(pattern)) {
            let fits = |tool: &&str| helve::pattern::matches(pattern, tool);
            assert!(names.iter().any(fits), "{name} has no {pattern}: {names:?}");
        }
    }
}
