//! SOCKS5 (RFC 1928) without authentication: `CONNECT` to a name or an address.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};

use super::Proxy;
use super::meter::Metered;
use super::route::{connect, is_refusal};
use crate::error::NetError;
use crate::target::Target;

/// The first byte of every message.
pub(super) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const COMMAND_CONNECT: u8 = 1;

/// The answers to a request.
#[derive(Debug, Clone, Copy)]
enum Reply {
    Done = 0,
    NotAllowed = 2,
    Unreachable = 4,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// Serves a connection whose first byte was read.
pub(super) async fn serve<S>(proxy: &Proxy, mut stream: Metered<S>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        return stream.write_all(&[VERSION, NO_METHOD]).await;
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let target = match read_target(&mut stream).await? {
        Ok(target) => target,
        Err(reply) => return answer(&mut stream, reply).await,
    };
    match connect(proxy, &target).await {
        Ok(mut upstream) => {
            answer(&mut stream, Reply::Done).await?;
            copy_bidirectional(&mut stream, &mut upstream).await.map(drop)
        }
        Err(error) => answer(&mut stream, reply_to(&error)).await,
    }
}

async fn read_target<S: AsyncRead + Unpin>(stream: &mut Metered<S>) -> io::Result<Result<Target, Reply>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Some(Ipv4Addr::from_bits(stream.read_u32().await?).to_string()),
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).ok()
        }
        4 => Some(format!("[{}]", Ipv6Addr::from_bits(stream.read_u128().await?))),
        _ => return Ok(Err(Reply::NoSuchAddress)),
    };
    let port = stream.read_u16().await?;
    if command != COMMAND_CONNECT {
        return Ok(Err(Reply::NoSuchCommand));
    }
    let target = host.and_then(|host| Target::of_host(&host, port));
    Ok(target.ok_or(Reply::NoSuchAddress))
}

/// The address in an answer is only of use to servers that listen.
async fn answer<S: AsyncWrite + Unpin>(stream: &mut Metered<S>, reply: Reply) -> io::Result<()> {
    let nowhere = [0; 6];
    stream.write_all(&[&[VERSION, reply as u8, 0, 1][..], &nowhere].concat()).await
}

fn reply_to(error: &NetError) -> Reply {
    if is_refusal(error) { Reply::NotAllowed } else { Reply::Unreachable }
}
