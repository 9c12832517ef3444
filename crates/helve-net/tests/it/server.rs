//! A real server on loopback, and clients that may reach it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use helve_net::{Client, Lookup, NetPolicy, Request};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// Serves `router` on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A client that may reach these hosts.
pub(crate) fn client<'a>(allow: impl IntoIterator<Item = &'a str>) -> Client {
    Client::new(NetPolicy::allowing(allow).unwrap()).unwrap()
}

/// A client for which every name has these addresses.
pub(crate) fn client_with_dns(allow: &[&str], addresses: &'static [&'static str]) -> Client {
    let lookup: Lookup = Arc::new(move |_| {
        let found: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Box::pin(async move { Ok(found) })
    });
    Client::with_lookup(NetPolicy::allowing(allow.iter().copied()).unwrap(), lookup).unwrap()
}

/// Answers each connection with `act`, which gets the stream after the request's head, and counts
/// connections.
pub(crate) async fn raw<F: Future<Output = ()> + Send + 'static>(
    act: impl Fn(TcpStream) -> F + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4_096]).await;
            tokio::spawn(act(stream));
        }
    });
    (address, accepted)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Request {
    Request::get(&format!("http://{address}{path}")).unwrap()
}
