//! Where the database is, and connections to it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls, Row};

use crate::error::{PostgresError, is_lost};
use crate::sql::Param;
use crate::tls::Tls;

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long who reads waits for a connection, and for an answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// A database, as its address names it.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    tls: Option<Tls>,
    /// Where it is, without secrets.
    at: String,
}

impl Server {
    /// Reads an address, `postgres://user:password@host/database?sslmode=verify-full`.
    ///
    /// Without `sslmode` a connection to another machine is encrypted and the server's name checked; `disable` is to
    /// be said. `sslrootcert` names a file of certificates to trust instead of the machine's.
    pub(crate) fn parse(address: &str, name: &str) -> Result<Self, PostgresError> {
        let (place, asked) = address.split_once('?').unwrap_or((address, ""));
        if !place.starts_with("postgres://") && !place.starts_with("postgresql://") {
            return Err(PostgresError::Url("it begins with another scheme".to_owned()));
        }
        let (mut mode, mut roots) = (None, None);
        let mut rest = url::form_urlencoded::Serializer::new(String::new());
        for (key, value) in url::form_urlencoded::parse(asked.as_bytes()) {
            match &*key {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(value.into_owned()),
                _ => drop(rest.append_pair(&key, &value)),
            }
        }
        // The library takes `+` as it is.
        let rest = rest.finish().replace('+', "%20");
        let parsed: Result<Config, _> = format!("{place}?{rest}").parse();
        let mut config = parsed.map_err(|error| PostgresError::Url(cause(&error)))?;
        let tls = match encryption(mode.as_deref(), &config)? {
            true => Some(Tls::new(roots.as_deref().map(Path::new))?),
            false => None,
        };
        config
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .application_name(format!("helve {name}"))
            .connect_timeout(CONNECT_TIME)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(15));
        let at = shown(&config);
        Ok(Self { config, tls, at })
    }

    /// Where it is, without secrets.
    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    /// A new connection, driven by the runtime that asks.
    pub(crate) async fn connect(&self) -> Result<Link, PostgresError> {
        let (client, task) = match tokio::time::timeout(CONNECT_TIME, self.dial(&self.config)).await {
            Ok(dialled) => dialled.map_err(|error| self.unreachable(error))?,
            Err(_) => return Err(self.slow(CONNECT_TIME)),
        };
        Ok(Link { client, task })
    }

    async fn dial(&self, config: &Config) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        // What goes wrong with the connection reaches the statement that fails.
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(async { drop(connection.await) })))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, tokio::spawn(async { drop(connection.await) })))
            }
        }
    }

    pub(crate) fn unreachable(&self, source: tokio_postgres::Error) -> PostgresError {
        PostgresError::Unreachable { at: self.at.clone(), source: Box::new(source) }
    }

    pub(crate) fn failed(&self, action: &'static str, source: std::io::Error) -> PostgresError {
        PostgresError::Process { action, at: self.at.clone(), source }
    }

    pub(crate) fn slow(&self, waited: Duration) -> PostgresError {
        PostgresError::Slow { at: self.at.clone(), seconds: waited.as_secs() }
    }
}

/// Whether connections are encrypted.
fn encryption(mode: Option<&str>, config: &Config) -> Result<bool, PostgresError> {
    match mode {
        Some("disable") => Ok(false),
        Some("require" | "verify-ca" | "verify-full") => Ok(true),
        Some(other) => Err(PostgresError::Url(format!(
            "`sslmode={other}` promises nothing; say `verify-full`, or `disable`"
        ))),
        None => Ok(!config.get_hosts().iter().all(is_here)),
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let ports: Vec<_> = config.get_ports().iter().map(u16::to_string).collect();
    let port = if ports.is_empty() { String::new() } else { format!(":{}", ports.join(",")) };
    format!("{hosts}{port}/{}", config.get_dbname().unwrap_or_default())
}

fn cause(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// A connection, closed when it is dropped.
pub(crate) struct Link {
    pub(crate) client: Client,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl deadpool_postgres::Connect for Server {
    fn connect(
        &self,
        config: &Config,
    ) -> std::pin::Pin<
        Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + '_>,
    > {
        let config = config.clone();
        Box::pin(async move { self.dial(&config).await })
    }
}

/// Connections for reading. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers {
    server: Server,
    pool: Pool,
    max: usize,
}

impl Readers {
    pub(crate) fn new(server: Server, max: usize) -> Result<Self, PostgresError> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(server.config.clone(), server.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(max.max(1))
            .wait_timeout(Some(CONNECT_TIME))
            .create_timeout(Some(CONNECT_TIME))
            .recycle_timeout(Some(CONNECT_TIME))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| PostgresError::Url(error.to_string()))?;
        Ok(Self { server, pool, max: max.max(1) })
    }

    /// Rows of one statement, which changes nothing. Where the connection was lost it is asked once more on another.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        match self.try_query(sql, params).await {
            Err(PostgresError::Refused(error)) if is_lost(&error) => self.try_query(sql, params).await,
            answered => answered,
        }
    }

    async fn try_query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, PostgresError> {
        let client = self.pool.get().await.map_err(|error| self.error(error))?;
        match tokio::time::timeout(READ_TIME, client.query_typed(sql, params)).await {
            Ok(answered) => answered.map_err(PostgresError::Refused),
            Err(_) => {
                // Its answer may still come; the connection is not used again.
                drop(deadpool_postgres::Object::take(client));
                Err(self.server.slow(READ_TIME))
            }
        }
    }

    /// The only row, where there is one.
    pub(crate) async fn query_opt(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, PostgresError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Lets go of the database.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    fn error(&self, error: PoolError) -> PostgresError {
        match error {
            PoolError::Timeout(TimeoutType::Wait) => PostgresError::Exhausted { max: self.max },
            PoolError::Timeout(_) => self.server.slow(CONNECT_TIME),
            PoolError::Backend(error) => self.server.unreachable(error),
            PoolError::Closed => PostgresError::Journal(helve_ledger::queue::closed()),
            PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                PostgresError::Url(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypts(address: &str) -> Result<bool, String> {
        Server::parse(address, "a").map(|server| server.tls.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn connections_to_other_machines_are_encrypted_unless_that_is_said() {
        for (address, expected) in [
            ("postgres://ada@db.example.com/helve", true),
            ("postgres://ada@db.example.com/helve?sslmode=disable", false),
            ("postgres://ada@127.0.0.1:5433/helve", false),
            ("postgres://ada@localhost/helve?sslmode=verify-full", true),
            ("postgresql:///helve?host=/run/postgresql&user=ada", false),
            ("postgres://a@127.0.0.1,db.example.com/helve", true),
        ] {
            assert_eq!(encrypts(address), Ok(expected), "{address}");
        }
        for address in ["postgres://ada@db/helve?sslmode=prefer", "mysql://db/helve", "postgres://db:x/helve"]
        {
            assert!(encrypts(address).is_err(), "{address}");
        }
    }

    #[test]
    fn what_is_shown_of_an_address_has_no_secret() {
        let server = Server::parse("postgres://ada:s3cret@127.0.0.1:5433/helve", "a").unwrap();
        assert_eq!(server.at(), "127.0.0.1:5433/helve");
    }
}
