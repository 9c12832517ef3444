//! Everything there is, served to MCP clients: over HTTP (`helve up`) or over standard
//! input and output (`helve mcp serve`).

mod follow;
mod troubles;
mod upstream;

use std::error::Error as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use helve::identity::KeyText;
use helve::{Access, Caller, Filter, Runtime};
use helve_host::config::Loaded;
use helve_host::running::{self, Following, Note, Place};
use helve_host::wire::background::{SESSION_END_WAIT, follow_decisions, keep_taking_over};
use helve_host::wire::records::AuditRecords;
use helve_host::wire::{self, OpenLedger};
use helve_host::wire::{mcp, page};
use helve_mcp::server::random_id;
use helve_server::records::Records;
use helve_server::{
    ApiOptions, BindError, Door, HttpOptions, HttpServer, Issuer, JwtConfig, ServerConfig, Tokens, Webhook,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::follow::{Follower, InForce, Seen};
use self::upstream::Upstream;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::keys::new_code;
use crate::commands::mcp::show::quoted;
use crate::commands::recovered;
use crate::commands::stopping::Stopping;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Table;
use crate::ui::escape;
use crate::ui::table::{Cell, Tone};

/// Where `helve up` listens unless told otherwise.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);
/// The command that makes a link to the page.
const SIGN_IN: &str = "helve keys sign-in";
/// How long a client has to read its last answers before the process ends.
const ANSWERS_WAIT: Duration = Duration::from_secs(5);

/// Refuses an address that other machines reach, where nobody said who may come in.
pub(crate) fn refuse_open(address: SocketAddr, token_file: Option<&Path>) -> Result<(), Failure> {
    match token_file.is_some() || address.ip().is_loopback() {
        true => Ok(()),
        false => Err(Failure::usage(format!("`{address}` can be reached from other machines"))
            .hint("say where their token is to be kept: --token-file FILE; Helve makes one")
            .hint("or listen on 127.0.0.1")),
    }
}

/// Serves over HTTP until Ctrl-C: where it is told to, or where it usually does.
pub(crate) fn http(
    address: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    app: &mut App<'_>,
) -> anyhow::Result<Exit> {
    let seen = Seen::files(&app.inputs);
    let loaded = app.load_config()?;
    let place = Place::take(&mcp::state_folder()?, &loaded.journal_path)?;
    let address = match (address, &place) {
        // A second one is not found by commands: it was asked for by its address.
        (Some(address), _) => address,
        (None, None) => return already_up(running::note(&loaded.journal_path).as_ref(), app),
        (None, Some(_)) => usual_or_free(app)?,
    };
    // Before tools are made: it is kept from them.
    if let Some(file) = &token_file {
        wire::secret_files::remember(file)?;
    }
    wire::journal::keep_adopted(&loaded)?;
    let opened = open(&loaded, seen)?;
    let (runtime, ledger) = (opened.runtime.clone(), opened.ledger.clone());
    let token_file = match token_file {
        // One that the person made is theirs to keep as they like, but they should know.
        Some(file) if file.exists() => {
            if trusted(&file).is_err() {
                app.ui.note(format!("note: others can read {}; `chmod 600` it", file.display()))?;
            }
            file
        }
        Some(file) => own_token(&file)?,
        None => own_token(&loaded.journal_path.with_file_name("token"))?,
    };
    block_on(async {
        let tokens = Tokens::read(&token_file).await.map_err(|error| {
            Failure::usage(format!("{} cannot be used", token_file.display())).because(&error)
        })?;
        let upstream = Upstream::start(&loaded, &runtime, app).await?;
        tokio::spawn(troubles::watch(upstream.servers.clone()));
        let deciding = follow_decisions(runtime.clone());
        let records = Arc::new(AuditRecords::new(ledger.clone()));
        let verifying = records.keep_verifying(loaded.config.journal.verify_every_s, &runtime);
        let pruning = records.keep_pruning(&loaded.config, &runtime);
        let hooked = runtime.clone();
        let mcp = upstream.served(runtime.clone());
        let shown = Arc::clone(&records) as Arc<dyn Records>;
        let options = HttpOptions {
            config: ServerConfig { hosts: own_names(&loaded)?, ..ServerConfig::default() },
            servers: Some(upstream.servers.clone()),
            api: Some(ApiOptions { runtime: runtime.clone(), records: Some(shown) }),
            issuer: loaded.config.identity.jwt.as_ref().map(|jwt| issuer(jwt, &loaded)).transpose()?,
            page: page::configured(&loaded)?,
            ..HttpOptions::new(mcp, Door::Tokens(tokens))
        };
        let server = HttpServer::bind(address, options).await.map_err(|error| cannot_bind(&error))?;
        let token = token_file.canonicalize().unwrap_or_else(|_| token_file.clone());
        let following = Following::default();
        let inputs = app.inputs.clone();
        let work_dir = inputs.work_dir.clone();
        let note = Note { address: server.address()?, token_file: token, work_dir, following };
        let mut follower = Follower::new(&inputs, &loaded, opened, &upstream);
        follower.announce_at(place.as_ref(), note)?;
        let telling = tell_webhook(&loaded, &runtime, server.address()?)?;
        // The link lets its reader decide: it goes to a person's eyes, not into a file that others read.
        let code = match app.ui.on_terminal() {
            true => Some(new_code(runtime.keys(), &local_user("serve")?).await?),
            false => None,
        };
        announce(server.address()?, &token_file, code.as_ref(), app)?;
        let stop = CancellationToken::new();
        let running = async {
            tokio::select! {
                () = server.run(stop.cancelled()) => {}
                () = follower.follow() => {}
                () = deciding => {}
                () = keep_taking_over(&hooked, recovered::say) => {}
                () = telling => {}
                () = verifying => {}
                () = pruning => {}
                () = wire::office::keep_syncing(&loaded) => {}
            }
        };
        let stopping = Stopping {
            runtime: &runtime,
            grace: stop_grace(&loaded),
            // Before the port is free for others.
            begins: || place.iter().for_each(Place::withdraw),
            ends: || stop.cancel(),
        };
        stopping.serve(Box::pin(running), app.ui).await;
        upstream.servers.close().await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        Ok(())
    })?;
    ledger.close().context("the record of the last calls may not be on disk")?;
    Ok(Exit::Done)
}

/// Where `helve up` usually listens, or any free port.
fn usual_or_free(app: &mut App<'_>) -> io::Result<SocketAddr> {
    match TcpListener::bind(USUAL) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            app.ui.note(format!("note: another program listens on {USUAL}, so a free port is taken"))?;
            Ok(SocketAddr::new(USUAL.ip(), 0))
        }
        // Whatever else is wrong is told when it is bound for good.
        Ok(_) | Err(_) => Ok(USUAL),
    }
}

/// Nothing is served twice unless the user asks for it.
fn already_up(note: Option<&Note>, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let address = note.map(|note| note.address);
    if app.ui.is_json() {
        app.ui.json(&json!({ "already_up": address }))?;
    } else {
        app.ui.line("")?;
        match address {
            Some(address) => app.ui.line(format!("Helve is up already, at http://{address}"))?,
            None => app.ui.line("Helve is about to be up already")?,
        }
        app.ui.line("  helve keys sign-in      a link to its page")?;
        app.ui.line("  helve up --listen ADDR  start a second one")?;
        for remark in note.iter().flat_map(|note| note.following.remarks()) {
            app.ui.line(format!("! {}", escape::visible(&remark.to_string())))?;
        }
    }
    Ok(Exit::Done)
}

fn cannot_bind(error: &BindError) -> Failure {
    let failure = Failure::failed(error.to_string()).details(error.source().map(ToString::to_string));
    match error {
        BindError::Address(_, cause) if cause.kind() == io::ErrorKind::AddrInUse => failure
            .hint("another program listens there, perhaps another `helve up`")
            .hint("take another port, or 0 for any that is free: --listen 127.0.0.1:0"),
        _ => failure,
    }
}

/// Serves one client over standard input and output, until the input ends.
pub(crate) fn stdio(caller: Caller, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let seen = Seen::files(&app.inputs);
    let loaded = app.load_config()?;
    let opened = open(&loaded, seen)?;
    let (runtime, ledger) = (opened.runtime.clone(), opened.ledger.clone());
    for entry in unmatched(&caller, &runtime, &loaded) {
        app.ui.note(format!("note: `--allow {entry}` fits no tool; `helve tools list` shows their names"))?;
    }
    block_on(async {
        let upstream = Upstream::start(&loaded, &runtime, app).await?;
        tokio::spawn(troubles::watch(upstream.servers.clone()));
        let hooked = runtime.clone();
        let server = upstream.served(runtime);
        let inputs = app.inputs.clone();
        let mut follower = Follower::new(&inputs, &loaded, opened, &upstream);
        if let Some(page) = page::configured(&loaded)?.or_else(|| page::running(&loaded)) {
            server.set_page(page);
        }
        let stop = CancellationToken::new();
        let running = async {
            tokio::select! {
                ended = server.serve_stdio_until(stop.cancelled(), caller) => ended,
                () = keep_taking_over(&hooked, recovered::say) => Ok(()),
                // A client that does not read its answers is not waited for.
                () = long_after(&stop) => Ok(()),
                () = follower.follow() => Ok(()),
                () = wire::office::keep_syncing(&loaded) => Ok(()),
            }
        };
        let stopping =
            Stopping { runtime: &hooked, grace: stop_grace(&loaded), begins: || {}, ends: || stop.cancel() };
        let ended = stopping.serve(Box::pin(running), app.ui).await;
        hooked.hooks().stop(SESSION_END_WAIT).await;
        upstream.servers.close().await;
        hooked.flush_traces(wire::TRACES_WAIT).await;
        ended.context("the connection to the client broke")
    })?;
    ledger.close().context("the record of the last calls may not be on disk")?;
    Ok(Exit::Done)
}

/// What a caller is allowed that no tool fits. Tools of MCP servers come later, so nothing is said of those.
fn unmatched(caller: &Caller, runtime: &Runtime, loaded: &Loaded) -> Vec<String> {
    let Access::Only(entries) = &caller.access else { return Vec::new() };
    let names: Vec<_> =
        runtime.registry().list(&Filter::default()).iter().map(|one| one.tool.name().clone()).collect();
    let servers = &loaded.config.mcp.servers;
    let comes_later = |entry: &str| {
        servers.iter().any(|(name, server)| match server.namespace(name) {
            "" => true,
            namespace => entry.split('/').next() == Some(namespace),
        })
    };
    let fits = |entry: &String| {
        let alone = Access::Only([entry.clone()].into_iter().collect());
        names.iter().any(|name| alone.allows(name))
    };
    entries.iter().filter(|entry| !fits(entry) && !comes_later(entry)).cloned().collect()
}

/// How long calls that run may go on once the process is to end.
fn stop_grace(loaded: &Loaded) -> Duration {
    Duration::from_millis(loaded.config.execution.stop_grace_ms)
}

/// Waits until the last answers have had their time.
async fn long_after(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(ANSWERS_WAIT).await;
}

/// The names by which people and clients reach this server, as the user says. A proxy in front of it passes
/// them on as `Host`.
fn own_names(loaded: &Loaded) -> Result<Vec<String>, Failure> {
    let resource =
        loaded.config.identity.jwt.as_ref().and_then(|jwt| Url::parse(jwt.resource.as_deref()?).ok());
    let urls = [page::configured(loaded)?, resource];
    Ok(urls.iter().flatten().filter_map(|url| url.host_str().map(str::to_owned)).collect())
}

/// The issuer that says who people are. Its own addresses may be reached: they are the operator's words.
fn issuer(config: &JwtConfig, loaded: &Loaded) -> Result<Issuer, Failure> {
    let own = [Some(config.issuer.as_str()), config.jwks_url.as_deref()];
    let own: Vec<_> = own.into_iter().flatten().map(helve_mcp::config::ServerConfig::remote).collect();
    let client = mcp::client(&loaded.config.net, &own.iter().collect::<Vec<_>>())?;
    Issuer::new(config.clone(), client)
        .map_err(|error| Failure::usage("`[identity.jwt]` cannot be used").because(&error))
}

/// What is served, before MCP servers bring more.
struct Opened {
    runtime: Runtime,
    ledger: OpenLedger,
    tools: InForce,
    seen: Seen,
}

fn open(loaded: &Loaded, seen: Seen) -> anyhow::Result<Opened> {
    let seen = seen.with_policies(&loaded.policy_files);
    let tools = wire::tools(loaded)?;
    let in_force = InForce::of(&tools, loaded);
    let ledger = wire::open_ledger(loaded)?;
    let runtime = wire::runtime(loaded, tools.registry, ledger.port(), wire::settings(&loaded.config))?;
    Ok(Opened { runtime, ledger, tools: in_force, seen })
}

/// Tells the webhook of questions, where there is one. Runs until dropped.
fn tell_webhook(
    loaded: &Loaded,
    runtime: &Runtime,
    address: SocketAddr,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let config = &loaded.config.approvals.webhook;
    let own: Vec<_> =
        config.url.as_deref().map(helve_mcp::config::ServerConfig::remote).into_iter().collect();
    let client = mcp::client(&loaded.config.net, &own.iter().collect::<Vec<_>>())?;
    let webhook = Webhook::new(config, client, &format!("http://{address}"))
        .map_err(|error| Failure::usage("`[approvals.webhook]` cannot be used").because(&error))?;
    let runtime = runtime.clone();
    Ok(async move {
        match webhook {
            Some(webhook) => webhook.follow(runtime).await,
            None => std::future::pending().await,
        }
    })
}

/// The token that Helve makes itself, in a file that nobody else can read.
fn own_token(file: &Path) -> Result<PathBuf, Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let made = match options.open(file) {
        Ok(mut made) => made.write_all(format!("{}{}\n", random_id(), random_id()).as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return trusted(file),
        Err(error) => Err(error),
    };
    match made {
        Ok(()) => Ok(file.to_owned()),
        Err(error) => {
            Err(Failure::failed(format!("cannot write a token to {}", file.display())).because(&error))
        }
    }
}

/// A token that others can read, or that came with a project's files, is nobody's secret.
fn trusted(file: &Path) -> Result<PathBuf, Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let is_private = fs::symlink_metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o077 == 0);
        if !is_private {
            return Err(Failure::usage(format!("others could read the token in {}", file.display()))
                .hint("delete the file; Helve makes a new one"));
        }
    }
    Ok(file.to_owned())
}

/// Says where, and how the usual clients are connected. The token itself is never shown, and a link to decide
/// only where there is a code for one.
fn announce(
    address: SocketAddr,
    token_file: &Path,
    code: Option<&KeyText>,
    app: &mut App<'_>,
) -> anyhow::Result<()> {
    let url = format!("http://{address}/mcp");
    // After `#`, so that the code is in no server's log.
    let sign_in = code.map(|code| format!("http://{address}/sign-in#{}", code.reveal()));
    let file = token_file.canonicalize().unwrap_or_else(|_| token_file.to_owned());
    let file = escape::visible(&file.display().to_string()).into_owned();
    if app.ui.is_json() {
        app.ui.json(&json!({
            "listening": address, "url": url, "token_file": file, "sign_in": sign_in,
            "sign_in_command": SIGN_IN,
        }))?;
        app.ui.flush()?;
        return Ok(());
    }
    app.ui.line("")?;
    app.ui.heading("Serving, until Ctrl-C")?;
    let header = format!("Authorization: Bearer $(cat {})", quoted(&file));
    let claude = format!("claude mcp add --transport http helve {url} --header \"{header}\"");
    let inspector =
        format!("npx @modelcontextprotocol/inspector --cli {url} --method tools/list --header \"{header}\"");
    let older = format!("{url}/sse (server-sent events), {}/ws (WebSocket)", url.replace("http:", "ws:"));
    let decide = match &sign_in {
        Some(link) => Cell::to_copy(link, Tone::Strong),
        None => {
            Cell::to_copy(format!("{SIGN_IN}  makes a sign-in link for a person who decides"), Tone::Strong)
        }
    };
    let mut table = Table::bare().indented();
    let mut row = |name: &str, what: Cell| table.row([Cell::new(name, Tone::Dim), what]);
    let strong = |text: String| Cell::to_copy(text, Tone::Strong);
    row("address", strong(url));
    row(
        "HTTP API",
        strong(format!(
            "http://{address}/v1, described in http://{address}/v1/openapi.json (with the token)"
        )),
    );
    row("decide", decide);
    if sign_in.is_some() {
        row("", Cell::new(format!("once, for 10 minutes; `{SIGN_IN}` makes another"), Tone::Dim));
    }
    row("token", strong(format!("in {file}")));
    row("Claude Code", strong(claude));
    row("inspector (Node 22)", strong(inspector));
    row("older clients", strong(older));
    row("over stdio", strong("command `helve`, arguments `mcp serve`".to_owned()));
    app.ui.table(table)?;
    app.ui.flush()?;
    Ok(())
}
