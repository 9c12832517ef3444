//! `web-search` against a real searx, Debian's, from which SearXNG was forked. Its one engine asks a
//! server of ours, so that nothing leaves this machine.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::response::IntoResponse;
use serde_json::json;

use super::{backend, named, server, tools};
use crate::call;

const SETTINGS: &str = r#"
general: { debug: false, instance_name: test }
search: { safe_search: 0, autocomplete: "", default_lang: "", formats: [html, json], ban_time_on_fail: 1, max_ban_time_on_fail: 1 }
server: { port: PORT, bind_address: 127.0.0.1, secret_key: of a test, base_url: false, image_proxy: false, http_protocol_version: "1.1", method: GET, default_http_headers: {} }
ui: { default_theme: oscar, static_path: /usr/share/python3-searx/static, templates_path: /usr/share/python3-searx/templates }
outgoing: { request_timeout: 10.0, useragent_suffix: "" }
locales: { en: English }
engines:
  - { name: stub, engine: json_engine, shortcut: st, categories: general, disabled: false, enable_http: true, timeout: 10.0,
      search_url: "http://ENGINE/find?q={query}", results_query: items, url_query: link, title_query: name, content_query: about }
doi_resolvers: { oadoi.org: "https://oadoi.org/" }
default_doi_resolver: oadoi.org
"#;

/// A running searx, which ends with this value.
struct Searx {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Searx {
    #[expect(clippy::disallowed_methods, reason = "the test starts the real searx")]
    async fn start(engine: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings.yml");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text =
            SETTINGS.replace("PORT", &address.port().to_string()).replace("ENGINE", &engine.to_string());
        std::fs::write(&settings, text).unwrap();
        // By its path: its first line names whatever Python comes first.
        let child = Command::new("/usr/bin/python3")
            .arg("/usr/bin/searx-run")
            .env("SEARX_SETTINGS_PATH", &settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut searx = Self { child, address, _folder: folder };
        let began = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let ended = searx.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "searx has ended: {ended:?}; is it installed? run scripts/setup-searx.sh"
            );
            assert!(began.elapsed() < Duration::from_secs(60), "searx does not come up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        searx
    }

    fn config(&self) -> String {
        format!("[search]\nproviders = ['searxng']\n[search.searxng]\nurl = 'http://{}'\n", self.address)
    }
}

impl Drop for Searx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_real_server_is_asked_and_understood() {
    let (engine, asked) = server(|_| {
        let item = |n| json!({ "link": format!("https://example.com/{n}"), "name": format!("Page {n}"), "about": "tea & \"cake\"" });
        axum::Json(json!({ "items": [item(1), item(2), item(3)] })).into_response()
    })
    .await;
    let searx = Searx::start(engine).await;
    let search = named(tools(&searx.config(), searx.address, &backend()), "web-search");
    let answer = call(&search, json!({ "query": "grüße & tea", "maxResults": 2 })).await.unwrap();
    assert_eq!(answer["provider"], "searxng", "{answer}");
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{answer}");
    assert_eq!(results[0]["url"], "https://example.com/1");
    assert_eq!(results[0]["title"], "Page 1");
    assert!(answer.to_string().contains(r#"tea & \"cake\""#), "{answer}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].uri, "/find?q=gr%C3%BC%C3%9Fe+%26+tea");
}
