//! Connects to addresses that were checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

use crate::error::NetError;
use crate::target::Target;

/// How long one address may keep the next waiting (RFC 8305): a machine can have an address of a kind that
/// leads nowhere from here.
const NEXT_AFTER: Duration = Duration::from_millis(300);

/// A connection to the first of these addresses that answers. The caller looks at the clock.
pub(crate) async fn dial(target: &Target, addresses: Vec<IpAddr>) -> Result<TcpStream, NetError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut rest = addresses.into_iter().map(|address| SocketAddr::new(address, target.port));
    let mut trying = FuturesUnordered::new();
    trying.extend(rest.next().map(TcpStream::connect));
    loop {
        tokio::select! {
            biased;
            tried = trying.next() => match tried {
                Some(Ok(stream)) => {
                    // Only a matter of speed.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Some(Err(error)) => last = error,
                None => return Err(NetError::Connect { host: target.to_string(), source: last.into() }),
            },
            () = tokio::time::sleep(NEXT_AFTER), if rest.len() > 0 => {}
        }
        trying.extend(rest.next().map(TcpStream::connect));
    }
}
