//! OAuth for remote servers: how Helve gets, keeps and renews the token that a server asks for.
//!
//! - [`Session`] is one account at one server. A transport asks it for a token before a request
//!   ([`Session::bearer`]) and for advice after a refusal ([`Session::challenged`]); a person logs
//!   in through [`Session::login`].
//! - [`TokenStore`] keeps what was granted in an encrypted file, shared between processes.
//! - `flow` is one conversation with an authorization server. The protocol is rmcp's
//!   `AuthorizationManager`; what it sends goes through [`Http`], that is through `helve-net`.
//! - [`IssuerSession`] is one account at an issuer that a person names, for servers that do not speak MCP: mail.
//! - [`SecretFile`] keeps passwords in the same way as tokens.
//! - `callback` waits on loopback for the browser to come back.
//!
//! INVARIANT: no token, code, secret or key is in any `Debug`, error or log line. rmcp logs codes
//! when asked for details, so it runs without a subscriber (`flow`).
//!
//! INVARIANT: nothing is sent to, and no person is sent to, an address that is neither `https` nor,
//! for a server on this machine, `http` on this machine (`http::Http::check`).

mod assertion;
mod callback;
mod error;
mod flow;
mod http;
mod issuer;
mod lock;
mod secrets;
mod session;
mod settings;
mod store;
mod vault;

pub use error::OAuthError;
pub use http::Http;
pub use issuer::{Endpoints, IssuerSession, IssuerSettings};
pub use secrets::SecretFile;
pub use session::{Next, Session};
pub use settings::{Identity, LoggedIn, LoginOptions, Pasted, Proof, Settings, Signature};
pub use store::{Held, TokenStore};
