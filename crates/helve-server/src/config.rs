//! How the server behaves.

use std::time::Duration;

/// How the server behaves. The defaults are safe.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Names under which clients reach it, besides those of loopback.
    pub hosts: Vec<String>,
    /// Web pages that may use it, as in `https://app.example.com`, besides those of loopback.
    pub origins: Vec<String>,
    /// Largest body of a request.
    pub body_bytes_max: usize,
    /// Most sessions. Beyond it, the principal with the most loses the one that was unused for longest.
    pub sessions_max: usize,
    /// Most sessions of one principal, who then loses the one that was unused for longest; never more
    /// than half of all. Callers without a name are not held to it: nobody tells them apart.
    pub sessions_per_principal_max: usize,
    /// How long a session that nobody uses is kept.
    pub session_idle: Duration,
    /// Most connections. A quarter of them is for clients that have not shown a key yet, an eighth for who
    /// decides, and the rest for callers, half of it for one at most. A newcomer always gets in: the
    /// stranger goes that keeps a place longest without using it.
    pub connections_max: usize,
    /// How long a client may take to send a request's head.
    pub head_timeout: Duration,
    /// How long a client may take to send a request's body.
    pub body_timeout: Duration,
    /// How often a silent stream gets a sign of life.
    pub keep_alive: Duration,
    /// How long requests may still run once the server is told to stop.
    pub stop_grace: Duration,
}

impl ServerConfig {
    /// Most sessions of one principal: some are always left for others.
    pub(crate) fn own_sessions_max(&self) -> usize {
        self.sessions_per_principal_max.min(self.sessions_max / 2).max(1)
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            body_bytes_max: 4 << 20,
            sessions_max: 1_000,
            sessions_per_principal_max: 500,
            session_idle: Duration::from_secs(30 * 60),
            connections_max: 2_048,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            stop_grace: Duration::from_secs(5),
        }
    }
}
