//! The world: a server on loopback that counts what is asked of it, and how to ask it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use helve::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Something that was done to the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Deed {
    /// Which of the runs did it.
    pub(super) number: u64,
    /// What, without the scenario's name.
    pub(super) what: String,
    /// The idempotency key of the call that did it. Nothing is refused because of it: a call that
    /// comes twice is seen twice.
    pub(super) key: String,
}

/// What was done to the world, in order.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Vec<Deed>>>);

impl World {
    /// Serves the world until the runtime ends.
    pub(super) fn serve(&self, runtime: &tokio::runtime::Handle) -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/do", post(Self::act))
            .route("/seen", post(Self::seen))
            .with_state(self.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        address
    }

    async fn act(State(world): State<Self>, Json(deed): Json<Deed>) -> Json<Value> {
        let answer = json!({ "did": deed.what });
        world.0.lock().unwrap().push(deed);
        Json(answer)
    }

    async fn seen(State(world): State<Self>, Json(key): Json<String>) -> Json<Value> {
        let deeds = world.0.lock().unwrap();
        Json(
            deeds.iter().find(|deed| deed.key == key).map_or(Value::Null, |deed| json!({ "did": deed.what })),
        )
    }

    pub(super) fn deeds(&self) -> Vec<Deed> {
        self.0.lock().unwrap().clone()
    }
}

/// The world as tools reach it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remote(pub(super) SocketAddr);

impl Remote {
    /// Does something to the world. What it answers is what the tool returns.
    pub(super) async fn act(self, deed: Deed) -> Result<Value, ToolError> {
        self.post("/do", json!(deed)).await
    }

    /// What the call with this key returned, or null where it never came.
    pub(super) async fn seen(self, key: &str) -> Result<Value, ToolError> {
        self.post("/seen", json!(key)).await
    }

    /// By hand: one request a connection, and nothing between us and the count.
    async fn post(self, path: &str, body: Value) -> Result<Value, ToolError> {
        let (body, address) = (body.to_string(), self.0);
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = exchange.await.map_err(|error| ToolError::failed(error.to_string()))?;
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a body");
        serde_json::from_str(body).map_err(|error| ToolError::failed(format!("{error}: {answer}")))
    }
}
