//! A real Chromium, driven over a pair of pipes.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The protocol's pipes are the descriptors 3 and 4.
const SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
const PATIENCE: Duration = Duration::from_secs(30);

fn evaluation(expression: &str) -> Value {
    json!({ "expression": expression, "awaitPromise": true, "returnByValue": true })
}

/// A browser with one page.
pub(crate) struct Browser {
    _child: Child,
    _profile: tempfile::TempDir,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// What pages complained of: errors of scripts, and of their policy.
    pub(crate) complaints: Vec<String>,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", "chromium", "--headless=new", "--remote-debugging-pipe"]);
        command.args(["--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-extensions", "--hide-scrollbars", "--window-size=1280,800"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("scripts/setup-browser.sh installs Chromium");
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self {
            _child: child,
            _profile: profile,
            commands,
            answers,
            session: None,
            last_id: 0,
            complaints: Vec::new(),
        };
        let target = browser.tell("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.tell("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.tell(domain, json!({})).await;
        }
        browser.size(1280, 800).await;
        browser
    }

    /// Sends a command that has to succeed; its answer.
    pub(crate) async fn tell(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a command; its answer, or why there is none.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        let answered = async {
            loop {
                let mut bytes = Vec::new();
                self.answers.read_until(0, &mut bytes).await.unwrap();
                assert_eq!(bytes.pop(), Some(0), "the browser has ended");
                let message: Value = serde_json::from_slice(&bytes).unwrap();
                if message["id"] == json!(self.last_id) {
                    return match &message["error"] {
                        Value::Null => Ok(message["result"].clone()),
                        error => Err(error.clone()),
                    };
                }
                let said = &message["params"];
                match message["method"].as_str() {
                    Some("Runtime.exceptionThrown") => {
                        self.complaints.push(said["exceptionDetails"].to_string())
                    }
                    // That the server refused something is seen by what it says.
                    Some("Log.entryAdded")
                        if said["entry"]["level"] == "error" && said["entry"]["source"] != "network" =>
                    {
                        self.complaints.push(said["entry"]["text"].as_str().unwrap_or_default().to_owned());
                    }
                    _ => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("no answer to {method}"))
    }

    pub(crate) async fn size(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.tell("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    pub(crate) async fn scheme(&mut self, name: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": name }]);
        self.tell("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    pub(crate) async fn go(&mut self, url: &str) {
        self.tell("Page.navigate", json!({ "url": url })).await;
    }

    /// What an expression is.
    pub(crate) async fn eval(&mut self, expression: &str) -> Value {
        self.tell("Runtime.evaluate", evaluation(expression)).await["result"]["value"].clone()
    }

    /// Waits until an expression is true. Pages that are still coming throw, which is not yet true; nor is it true
    /// where the page goes away while it is asked, which the browser calls an error.
    pub(crate) async fn until(&mut self, expression: &str) {
        let until = tokio::time::Instant::now() + PATIENCE;
        let asked = format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()");
        while !self
            .ask("Runtime.evaluate", evaluation(&asked))
            .await
            .is_ok_and(|said| said["result"]["value"] == json!(true))
        {
            if tokio::time::Instant::now() > until {
                let page = self.eval("location.href + '\\n' + document.body.innerText").await;
                panic!("never: {expression}\n{}\n{:?}", page.as_str().unwrap_or_default(), self.complaints);
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// Presses keys, one after the other: `a`, `Tab`, `Enter`, `Ctrl+Enter`.
    pub(crate) async fn press(&mut self, keys: &[&str]) {
        for key in keys {
            let (modifiers, key) = match key.strip_prefix("Ctrl+") {
                Some(key) => (2, key),
                None => (0, *key),
            };
            let (code, text) = match key {
                "Tab" => (9, ""),
                "Enter" => (13, "\r"),
                "Escape" => (27, ""),
                "ArrowDown" => (40, ""),
                "ArrowUp" => (38, ""),
                letter => (u32::from(letter.to_uppercase().as_bytes()[0]), letter),
            };
            let mut event = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
            if !text.is_empty() && modifiers == 0 {
                event["text"] = text.into();
            }
            self.tell("Input.dispatchKeyEvent", event.clone()).await;
            event["type"] = "keyUp".into();
            event.as_object_mut().unwrap().remove("text");
            self.tell("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types a text where the cursor is.
    pub(crate) async fn write(&mut self, text: &str) {
        self.tell("Input.insertText", json!({ "text": text })).await;
    }

    /// Takes a picture, where somebody wants to look: `HELVE_SCREENSHOTS` names the folder.
    pub(crate) async fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("HELVE_SCREENSHOTS") else { return };
        let picture = self.tell("Page.captureScreenshot", json!({ "format": "png" })).await;
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}
