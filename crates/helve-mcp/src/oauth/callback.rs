//! Where the browser comes back to: one answer, on its own loopback port.
//!
//! Everything on this machine can reach the port, web pages in a browser included, so an answer
//! counts only with the state that this login was started with. Others are told so, and waited past:
//! they must not be able to end a login either.

use std::net::Ipv4Addr;
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use super::error::{OAuthError, foreign};
use super::settings::Pasted;

const PATH: &str = "/callback";
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long one connection may take; browsers open some that they never use.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the browser may take to read how it ended.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS_AT_ONCE: usize = 16;
const CONNECTIONS_MAX: usize = 256;

/// What the authorization server sent the browser back with.
#[derive(Debug)]
pub(super) struct AuthorizationResponse {
    pub(super) state: String,
    pub(super) issuer: Option<String>,
    /// The code, or what went wrong.
    pub(super) code: Result<SecretString, String>,
}

impl AuthorizationResponse {
    /// Reads the query of a redirect. A query that says a thing twice means to be misread.
    fn parse(url: &Url) -> Result<Self, &'static str> {
        let (mut code, mut state, mut issuer, mut error, mut description) = (None, None, None, None, None);
        for (name, value) in url.query_pairs() {
            let place = match name.as_ref() {
                "code" => &mut code,
                "state" => &mut state,
                "iss" => &mut issuer,
                "error" => &mut error,
                "error_description" => &mut description,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err("it says a thing twice");
            }
        }
        let state = state.ok_or("it has no state")?;
        let code = match (code, error) {
            (Some(code), None) => Ok(code.into()),
            (None, Some(error)) => {
                let description = description.map(|text| format!(": {text}")).unwrap_or_default();
                Err(foreign(&format!("{error}{description}"), &[]))
            }
            _ => return Err("it has neither a code nor an error, or both"),
        };
        Ok(Self { state, issuer, code })
    }
}

/// The browser that brought the answer. It is told how the login ended, which is not known before the
/// answer was redeemed.
#[derive(Debug)]
pub(super) struct Browser(Option<TcpStream>);

impl Browser {
    /// A person brought it, who sees the end where they are.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Shows a person how it ended. Whether they still look changes nothing.
    pub(super) async fn tell(self, ended: Ended) {
        let Some(mut stream) = self.0 else { return };
        let (title, text) = match ended {
            Ended::LoggedIn => ("Thank you", "Helve goes on from here. You can close this window."),
            Ended::Failed => (
                "Not logged in",
                "The login did not work. You can close this window; the reason is where you came from.",
            ),
        };
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, respond(&mut stream, "200 OK", title, text)).await;
    }
}

/// How a login ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    LoggedIn,
    Failed,
}

/// Waits for the browser.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    redirect_uri: Url,
}

impl Callback {
    /// Listens on this port of 127.0.0.1, or on any that is free.
    pub(super) async fn listen(port: Option<u16>) -> Result<Self, OAuthError> {
        let failed = |error: std::io::Error| {
            OAuthError::login(format!("no port of 127.0.0.1 to come back to: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let redirect_uri = Url::parse(&format!("http://127.0.0.1:{port}{PATH}"))
            .map_err(|error| OAuthError::login(error.to_string()))?;
        Ok(Self { listener, redirect_uri })
    }

    pub(super) fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// The first answer with this state, and who waits to hear what came of it.
    pub(super) async fn answer(self, state: &str) -> Result<(AuthorizationResponse, Browser), OAuthError> {
        let mut connections = JoinSet::new();
        let mut accepted = 0;
        loop {
            tokio::select! {
                stream = self.listener.accept(), if connections.len() < CONNECTIONS_AT_ONCE => {
                    accepted += 1;
                    if accepted > CONNECTIONS_MAX {
                        return Err(OAuthError::login("too many connections came that were not the answer"));
                    }
                    // One that broke before it was taken is no reason to stop.
                    let Ok((stream, _)) = stream else { continue };
                    let (redirect_uri, state) = (self.redirect_uri.clone(), state.to_owned());
                    connections.spawn(async move {
                        let served = serve(stream, &redirect_uri, &state);
                        tokio::time::timeout(CONNECTION_TIMEOUT, served).await.ok().flatten()
                    });
                }
                served = connections.join_next(), if !connections.is_empty() => {
                    if let Some(Ok(Some(answer))) = served {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// What the browser brings, or what the person pastes in its place, whichever comes first.
    pub(super) async fn answer_or_pasted(
        self,
        state: &str,
        pasted: Option<Pasted>,
        patience: Duration,
    ) -> Result<(AuthorizationResponse, Browser), OAuthError> {
        let redirect_uri = self.redirect_uri.clone();
        let pasted = async {
            match pasted {
                Some(pasted) => {
                    Self::pasted(&redirect_uri, &pasted.await, state).map(|answer| (answer, Browser::none()))
                }
                None => std::future::pending().await,
            }
        };
        let answer = async {
            tokio::select! {
                answer = self.answer(state) => answer,
                answer = pasted => answer,
            }
        };
        tokio::time::timeout(patience, answer).await.map_err(|_| OAuthError::TimedOut)?
    }

    /// The answer in what the person pasted: the address that the browser ended up at.
    pub(super) fn pasted(
        redirect_uri: &Url,
        text: &str,
        state: &str,
    ) -> Result<AuthorizationResponse, OAuthError> {
        let refuse = |why: &str| OAuthError::login(format!("what was pasted is not the answer: {why}"));
        let text = text.trim();
        if text.len() > HEAD_BYTES_MAX {
            return Err(refuse("it is too long"));
        }
        let url = redirect_uri.join(text).map_err(|_| refuse("it is not a URL"))?;
        let answer = AuthorizationResponse::parse(&url).map_err(refuse)?;
        if answer.state != state {
            return Err(refuse("it belongs to another login"));
        }
        Ok(answer)
    }
}

/// Reads one connection; what it brought, if it is the answer. Others are told that they are not.
async fn serve(
    mut stream: TcpStream,
    redirect_uri: &Url,
    state: &str,
) -> Option<(AuthorizationResponse, Browser)> {
    let head = read_head(&mut stream).await?;
    match read_answer(&head, redirect_uri, state) {
        Ok(answer) => Some((answer, Browser(Some(stream)))),
        Err(status) => {
            let text = "This is not the answer that Helve is waiting for.";
            respond(&mut stream, status, "Not this way", text).await;
            None
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, title: &str, text: &str) {
    let page = page(title, text);
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The answer counts even where the browser has gone.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 4_096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&part[..count]);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

fn read_answer(head: &str, redirect_uri: &Url, state: &str) -> Result<AuthorizationResponse, &'static str> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else {
        return Err("405 Method Not Allowed");
    };
    // Only a path: `//host/` would be another place.
    if !target.starts_with('/') || target.starts_with("//") {
        return Err("400 Bad Request");
    }
    let url = redirect_uri.join(target).map_err(|_| "400 Bad Request")?;
    if url.path() != PATH {
        return Err("404 Not Found");
    }
    let answer = AuthorizationResponse::parse(&url).map_err(|_| "400 Bad Request")?;
    if answer.state == state { Ok(answer) } else { Err("400 Bad Request") }
}

fn page(title: &str, text: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;\
         color:#222;background:#fff}}@media(prefers-color-scheme:dark){{body{{color:#ddd;background:#181818}}}}\
         </style><h1>{title}</h1><p>{text}</p></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    async fn get(callback: &Url, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", callback.port().unwrap())).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_answer_with_our_state_counts() {
        let callback = Callback::listen(None).await.unwrap();
        let at = callback.redirect_uri().clone();
        let waiting = tokio::spawn(async move { callback.answer("right").await });
        // A connection that says nothing holds nobody up.
        let _silent = TcpStream::connect(("127.0.0.1", at.port().unwrap())).await.unwrap();
        for (target, status) in [
            ("/favicon.ico", "404"),
            ("/callback", "400"),
            ("/callback?code=x", "400"),
            ("/callback?code=x&state=wrong", "400"),
            ("/callback?code=x&code=y&state=right", "400"),
            ("/callback?code=x&error=y&state=right", "400"),
            ("//evil.example/callback?code=x&state=right", "400"),
        ] {
            let answer = get(&at, target).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {answer}");
        }
        let there = at.clone();
        let page = tokio::spawn(async move {
            get(&there, "/callback?code=c%20d&state=right&iss=https%3A%2F%2Fas.example").await
        });
        let (answer, browser) = waiting.await.unwrap().unwrap();
        browser.tell(Ended::LoggedIn).await;
        let page = page.await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("Thank you"), "{page}");
        assert_eq!(answer.code.unwrap().expose_secret(), "c d");
        assert_eq!(answer.issuer.as_deref(), Some("https://as.example"));
        assert!(TcpStream::connect(("127.0.0.1", at.port().unwrap())).await.is_err(), "it is one shot");
    }

    #[tokio::test]
    async fn a_flood_ends_the_wait() {
        let callback = Callback::listen(None).await.unwrap();
        let at = callback.redirect_uri().clone();
        let waiting = tokio::spawn(async move { callback.answer("right").await });
        for _ in 0..=CONNECTIONS_MAX {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", at.port().unwrap())).await else { break };
            let _ = stream.write_all(&[b'x'; 64]).await;
        }
        assert!(waiting.await.unwrap().unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn what_was_pasted_is_the_whole_address_or_its_query() {
        let at = Url::parse("http://127.0.0.1:1/callback").unwrap();
        for text in [" http://127.0.0.1:1/callback?code=c&state=s\n", "?code=c&state=s"] {
            let answer = Callback::pasted(&at, text, "s").unwrap();
            assert_eq!(answer.code.unwrap().expose_secret(), "c");
        }
        let told = |text: &str| Callback::pasted(&at, text, "s").unwrap_err().to_string();
        assert!(told("?code=c&state=other").contains("another login"));
        assert!(told("hello").contains("no state"));
        assert!(told(&"x".repeat(20_000)).contains("too long"));
        let refused =
            Callback::pasted(&at, "?error=access_denied&error_description=no%0Away&state=s", "s").unwrap();
        assert_eq!(refused.code.unwrap_err(), "access_denied: no way");
    }
}
