//! Signing in as MCP clients do: real clients, a real authorization server on loopback, a real `helve up`. What proves
//! a refusal is the file that no tool wrote.

use std::process::Stdio;

use helve_testkit::peers::{self, Peer};
use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

const TOOLS: &str = r#"
[[tool.program]]
name = "look"
description = "Leaves a line."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "echo look >> deeds; echo '{\"did\": \"look\"}'"]
risk = "low"

[[tool.program]]
name = "act"
description = "Leaves a line."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "echo act >> deeds; echo '{\"did\": \"act\"}'"]
risk = "low"
"#;

/// A `helve up` whose callers sign in at an authorization server.
struct Place {
    home: Home,
    up: Up,
    issuer: Peer,
    mcp: String,
}

impl Place {
    fn open() -> Self {
        let peers = peers::home().display().to_string();
        let server = peers::script("oauth_server.mjs");
        let args = [server.as_str(), "helve:look", "helve:act", "helve:other"];
        let issuer = Peer::start(&peers::node(), &args, &[("HELVE_MCP_PEERS", &peers)]);
        let (home, port) = (Home::new(), peers::free_port());
        let mcp = format!("http://127.0.0.1:{port}/mcp");
        let folder = home.project().parent().unwrap().join(".config/helve");
        std::fs::create_dir_all(&folder).unwrap();
        let section = format!(
            "[identity.jwt]\nissuer = '{}'\nresource = '{mcp}'\nfirst_scopes = ['helve:look']\n\
             [identity.jwt.scopes.'helve:look']\ntools = ['look']\n\
             [identity.jwt.scopes.'helve:act']\ntools = ['act']\n",
            issuer.url("")
        );
        std::fs::write(folder.join("helve.toml"), section).unwrap();
        home.write("helve.toml", TOOLS);
        let up = Up::at(&home, port);
        Self { home, up, issuer, mcp }
    }

    /// Runs a client that signs in by itself; what it printed.
    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    fn client(&self, program: &str, script: &str, tools: &[&str]) -> Value {
        let mut command = std::process::Command::new(program);
        command.arg(peers::script(script)).arg(&self.mcp).args(tools);
        let run = command.env("HELVE_MCP_PEERS", peers::home()).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        serde_json::from_str(&said)
            .unwrap_or_else(|_| panic!("{said} {}", String::from_utf8_lossy(&run.stderr)))
    }

    fn deeds(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.project().join("deeds")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Posts a call to `/mcp`; status and head of the answer.
    fn post(&self, path: &str, token: Option<&str>, tool: &str) -> (u16, String) {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} });
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
            ("Accept", "application/json, text/event-stream"),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let (status, head, _) = self.up.send(&format!("POST {path}"), &headers, &body);
        (status, head)
    }
}

/// Signs in with the first scope, calls with it, asks for another when it is told to, and calls with that.
fn signs_in(program: &str, script: &str) {
    let place = Place::open();
    let said = place.client(program, script, &["look", "act"]);
    assert_eq!(said["tools"], json!(["look"]), "what its first scope is for: {said}");
    let asked = said["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 2, "{said}");
    for (n, scopes) in [(0, vec!["helve:look"]), (1, vec!["helve:act", "helve:look"])] {
        let mut words: Vec<_> = asked[n]["scope"].as_str().unwrap().split(' ').collect();
        words.retain(|word| word.starts_with("helve:"));
        words.sort_unstable();
        assert_eq!(words, scopes, "{said}");
        assert_eq!(asked[n]["resource"], place.mcp.as_str(), "{said}");
        assert_eq!(asked[n]["code_challenge_method"], "S256", "{said}");
    }
    assert_eq!(said["isRegistered"], true);
    assert_eq!(
        (&said["claims"]["aud"], &said["claims"]["sub"]),
        (&json!(place.mcp), &json!("ada")),
        "{said}"
    );
    for tool in ["look", "act"] {
        assert_eq!(said["results"][tool]["structuredContent"], json!({ "did": tool }), "{said}");
    }
    assert_eq!(place.deeds(), ["look", "act"], "each ran once");
    let records = place.home.json(&["audit", "list", "--tool", "act"]);
    assert_eq!(records[0]["caller"]["principal"], "ada", "{records}");
}

#[test]
fn the_python_sdk_signs_in_at_the_issuer_and_calls() {
    signs_in(&peers::python("python"), "oauth_client.py");
}

#[test]
fn the_npm_sdk_signs_in_at_the_issuer_and_calls() {
    signs_in(&peers::node(), "oauth_client.mjs");
}

#[test]
fn a_stranger_learns_where_to_sign_in_and_nothing_else() {
    let place = Place::open();
    let metadata = json!({
        "resource": place.mcp, "authorization_servers": [place.issuer.url("")],
        "bearer_methods_supported": ["header"], "resource_name": "Helve",
        "scopes_supported": ["helve:act", "helve:look"],
    });
    for path in ["", "/mcp"] {
        let line = format!("GET /.well-known/oauth-protected-resource{path}");
        let (status, _, said) = place.up.send(&line, &[], &Value::Null);
        assert_eq!((status, &said), (200, &metadata), "{line}");
    }
    let challenge = format!(
        "www-authenticate: Bearer realm=\"helve\", scope=\"helve:look\", \
         resource_metadata=\"{}\"",
        place.mcp.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    );
    let (status, head) = place.post("/mcp", None, "look");
    assert!(status == 401 && head.contains(&challenge), "{challenge} {head}");
    for line in [
        "GET /.well-known/oauth-protected-resource/v1",
        "GET /.well-known/oauth-protected-resource/../../v1/tools",
        "GET /.well-known/openid-configuration",
        "POST /.well-known/oauth-protected-resource",
        "GET /v1/tools",
        "GET /v1/openapi.json",
        "GET /mcp",
    ] {
        assert_eq!(place.up.send(line, &[], &Value::Null).0, 401, "{line}");
    }
    // By another name of this machine, which nobody gave it, it says nothing at all.
    let host = [("Host", "evil.example.com")];
    let (status, head, _) = place.up.send("GET /.well-known/oauth-protected-resource", &host, &Value::Null);
    assert!(status != 200, "{head}");
    assert_eq!(place.deeds(), [""; 0]);
}

#[test]
fn without_an_issuer_there_is_no_metadata() {
    let home = Home::new();
    home.write("helve.toml", TOOLS);
    let up = Up::start(&home);
    for path in ["", "/mcp"] {
        let line = format!("GET /.well-known/oauth-protected-resource{path}");
        let (status, head, _) = up.send(&line, &[], &Value::Null);
        assert!(status == 401 && !head.contains("resource_metadata"), "{head}");
        let bearer = format!("Bearer {}", up.token());
        assert_eq!(up.send(&line, &[("Authorization", &bearer)], &Value::Null).0, 404);
    }
}

#[test]
fn a_token_is_good_for_its_scope_in_the_header_alone() {
    let place = Place::open();
    let said = place.client(&peers::python("python"), "oauth_client.py", &["look"]);
    let token = said["token"].as_str().unwrap();
    assert_eq!(place.post("/mcp", Some(token), "look").0, 200);
    assert_eq!(place.deeds().len(), 2);
    // Another scope is needed, which is said; over the API it is refused as well.
    let (status, head) = place.post("/mcp", Some(token), "act");
    assert_eq!(status, 403, "{head}");
    assert!(head.contains("error=\"insufficient_scope\", scope=\"helve:look helve:act\""), "{head}");
    let record = place.home.json(&["audit", "list", "--tool", "act"])[0].to_string();
    assert!(record.contains("\"ada\"") && record.contains("not_authorized"), "{record}");
    assert!(matches!(place.up.call(token, "act", json!({})).0, 403 | 404));
    // In the address, in a form, as a cookie.
    for path in ["/mcp?access_token=", "/mcp?token=", "/mcp?authorization=Bearer%20"] {
        assert_eq!(place.post(&format!("{path}{token}"), None, "look").0, 401, "{path}");
    }
    let call = json!({ "tool": "look", "arguments": {} });
    let cookie = format!("access_token={token}; helve_session={token}");
    assert_eq!(place.up.send("POST /v1/calls", &[("Cookie", &cookie)], &call).0, 401);
    let form = format!("access_token={token}");
    let media = "application/x-www-form-urlencoded";
    assert_eq!(place.up.send_as(media, "POST /mcp", &[], &form).0, 401);
    assert_eq!(place.deeds().len(), 2);
    // One that the same server gave to the same person for somebody else.
    let other = Place::open();
    assert_eq!(other.post("/mcp", Some(token), "look").0, 401, "of another issuer, for another audience");
    let (status, head) = place.post("/mcp", Some(&format!("{token}x")), "look");
    assert!(status == 401 && head.contains("error=\"invalid_token\""), "{head}");
    assert_eq!((other.deeds().len(), place.deeds().len()), (0, 2));
}
