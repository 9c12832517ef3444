//! A client that shows everything: what came, word for word.

use std::sync::atomic::{AtomicI64, Ordering};

use helve_net::{Client, HeaderValue, Method, NetPolicy, Request};
use serde_json::{Value, json};

/// A client of the session era.
pub(crate) struct RawClient {
    http: Client,
    url: String,
    session: Option<HeaderValue>,
    next: AtomicI64,
    pub(crate) greeting: Value,
}

/// What came for one request.
pub(crate) struct Heard {
    /// The answer: `result` or `error`.
    pub(crate) answer: Value,
    /// What came before it.
    pub(crate) others: Vec<Value>,
}

impl RawClient {
    pub(crate) async fn connect(url: &str, capabilities: Value) -> Self {
        let policy = NetPolicy { allow: vec!["127.0.0.1".parse().unwrap()], ..NetPolicy::default() };
        let http = Client::new(policy).unwrap();
        let mut client =
            Self { http, url: url.to_owned(), session: None, next: AtomicI64::new(1), greeting: Value::Null };
        let greeting = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "raw", "version": "1" },
        });
        let (heard, session) = client
            .send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting }))
            .await;
        client.session = session;
        client.greeting = heard.into_iter().find(|message| message["id"] == 0).unwrap()["result"].clone();
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Heard {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (heard, _) =
            self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let (answers, others): (Vec<_>, Vec<_>) =
            heard.into_iter().partition(|message| message["id"] == id && message.get("method").is_none());
        let mut answer = answers.into_iter().next().unwrap_or_else(|| panic!("no answer to {method}"));
        let fields = answer.as_object_mut().unwrap();
        fields.remove("id");
        fields.remove("jsonrpc");
        Heard { answer, others }
    }

    /// A whole list, page by page.
    pub(crate) async fn list(&self, method: &str, key: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.ask(method, params).await.answer;
            all.extend(page["result"][key].as_array().unwrap_or_else(|| panic!("{method}: {page}")).clone());
            match page["result"].get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return all,
            }
        }
    }

    async fn send(&self, message: Value) -> (Vec<Value>, Option<HeaderValue>) {
        let mut request = Request::new(Method::POST, self.url.parse().unwrap()).body(message.to_string());
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ] {
            request
                .headers
                .insert(name.parse::<helve_net::HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        if let Some(session) = &self.session {
            request
                .headers
                .insert("mcp-session-id".parse::<helve_net::HeaderName>().unwrap(), session.clone());
        }
        let response = self.http.fetch(request).await.unwrap();
        let text = response.text().into_owned();
        let messages = if response.content_type() == "text/event-stream" {
            text.lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .map(str::trim)
                .filter(|data| !data.is_empty())
                .map(|data| serde_json::from_str(data).unwrap())
                .collect()
        } else if text.is_empty() {
            Vec::new()
        } else {
            vec![serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))]
        };
        (messages, response.headers.get("mcp-session-id").cloned())
    }
}
