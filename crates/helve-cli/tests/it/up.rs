//! A running `helve up`, and a client that says exactly what a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;

/// A `helve up`, ended with the test.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) told: Value,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    pub(crate) fn start_with(home: &Home, args: &[&str]) -> Self {
        Self::start_with_env(home, args, &[])
    }

    pub(crate) fn start_with_env(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::run(home, &[&["up", "--listen", "127.0.0.1:0", "--json"], args].concat(), variables)
    }

    /// On a port that the test has chosen.
    pub(crate) fn at(home: &Home, port: u16) -> Self {
        Self::run(home, &["up", "--listen", &format!("127.0.0.1:{port}"), "--json"], &[])
    }

    /// Where it likes to.
    pub(crate) fn anywhere(home: &Home) -> Self {
        Self::run(home, &["up", "--json"], &[])
    }

    fn run(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = home.command(args);
        command.envs(variables.iter().copied());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut up = Self { child, address: String::new(), told: Value::Null };
        let mut text = String::new();
        for line in BufReader::new(up.child.stdout.take().unwrap()).lines() {
            text.push_str(&line.unwrap());
            let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            if let Some(told) = documents.flatten().find(|document| document["listening"].is_string()) {
                up.address = told["listening"].as_str().unwrap().to_owned();
                up.told = told;
                return up;
            }
        }
        panic!("it does not listen: {text}");
    }

    /// Status, headers and body.
    pub(crate) fn send(&self, line: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_as("application/json", line, headers, &body)
    }

    pub(crate) fn send_as(
        &self,
        media: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, Value) {
        let (status, head, body) = self.exchange(media, line, headers, body);
        (status, head, serde_json::from_str(&body).unwrap_or_default())
    }

    /// What a path answers, as text.
    pub(crate) fn text(&self, path: &str, key: &str) -> String {
        let headers = [("Authorization", &*format!("Bearer {key}"))];
        let (status, head, body) = self.exchange("text/plain", &format!("GET {path}"), &headers, "");
        assert_eq!(status, 200, "{head}\n{body}");
        body
    }

    fn exchange(
        &self,
        media: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut text = format!(
            "{line} HTTP/1.1\r\nConnection: close\r\nContent-Type: {media}\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        write!(stream, "{text}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    pub(crate) fn with(&self, line: &str, key: &str, body: Value) -> (u16, Value) {
        let (status, _, body) = self.send(line, &[("Authorization", &format!("Bearer {key}"))], &body);
        (status, body)
    }

    /// The token that it made itself.
    pub(crate) fn token(&self) -> String {
        let text = std::fs::read_to_string(self.told["token_file"].as_str().unwrap()).unwrap();
        text.trim().to_owned()
    }

    /// A new key's text, once it is known to be one.
    pub(crate) fn key(&self, home: &Home, args: &[&str]) -> String {
        let made = home.json(&[&["keys", "create"], args].concat());
        let key = made["key"].as_str().unwrap().to_owned();
        let until = Instant::now() + Duration::from_secs(10);
        while self.with("GET /v1/me", &key, Value::Null).0 != 200 {
            assert!(Instant::now() < until, "the key is never known");
            std::thread::sleep(Duration::from_millis(50));
        }
        key
    }

    /// Calls a tool.
    pub(crate) fn call(&self, key: &str, tool: &str, arguments: Value) -> (u16, Value) {
        self.with("POST /v1/calls", key, json!({ "tool": tool, "arguments": arguments }))
    }

    /// Ends it without a warning, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
