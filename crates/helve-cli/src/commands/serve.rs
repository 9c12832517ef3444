//! Everything there is, served to MCP clients: over HTTP (`helve up`) or over standard
//! input and output (`helve mcp serve`).

use std::error::Error as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use helve::hook::{HookEvent, HookInput};
use helve::identity::KeyText;
use helve::runs::{Recovered, TakenUp};
use helve::{Caller, Runtime};
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions, random_id};
use helve_mcp::servers::{Servers, SetServers};
use helve_server::records::Records;
use helve_server::{BindError, Door, HttpServer, Issuer, JwtConfig, ServerConfig, Tokens, Webhook};
use helve_store::Store;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::app::App;
use crate::commands::approvals::local_user;
use crate::commands::interrupt;
use crate::commands::keys::new_code;
use crate::commands::mcp::instance::{self, Place};
use crate::config::{Inputs, Loaded, PolicyPath, load};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Table;
use crate::ui::escape;
use crate::ui::table::{Cell, Tone};
use crate::wire;
use crate::wire::mcp;
use crate::wire::records::AuditRecords;

/// Where `helve up` listens unless told otherwise.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);
/// The command that makes a link to the page.
const SIGN_IN: &str = "helve keys sign-in";
/// How long the hooks of a session's end have before the process ends.
const SESSION_END_WAIT: Duration = Duration::from_secs(2);
/// How often runs are looked for that the journal's failure has left.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often the configuration is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);

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
    let loaded = app.load_config()?;
    let place = Place::take(&loaded)?;
    let address = match (address, &place) {
        // One beside another is nobody's to find: it was asked for by its address.
        (Some(address), _) => address,
        (None, None) => return already_up(instance::address(&loaded), app),
        (None, Some(_)) => usual_or_free(app)?,
    };
    // Before tools are made: it is kept from them.
    if let Some(file) = &token_file {
        wire::secret_files::remember(file)?;
    }
    let (runtime, store) = open(&loaded)?;
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
    wire::block_on(async {
        let tokens = Tokens::read(&token_file).await.map_err(|error| {
            Failure::usage(format!("{} cannot be used", token_file.display())).because(&error)
        })?;
        let upstream = Upstream::start(&loaded, &runtime, app).await?;
        let deciding = follow_decisions(runtime.clone());
        let records = Arc::new(AuditRecords::new(Arc::clone(&store)));
        let verifying = records.keep_verifying(loaded.config.journal.verify_every_s, &runtime);
        let pruning = records.keep_pruning(&loaded.config.journal.retention, &runtime);
        let hooked = runtime.clone();
        let mcp = upstream.served(runtime.clone());
        let config = ServerConfig { hosts: own_names(&loaded)?, ..ServerConfig::default() };
        let server = HttpServer::bind(address, mcp, Door::Tokens(tokens), config)
            .await
            .map_err(|error| cannot_bind(&error))?;
        let mut server = server
            .with_servers(upstream.servers.clone())
            .with_runtime(runtime.clone())
            .with_page(page(&loaded)?)
            .with_records(Arc::clone(&records) as Arc<dyn Records>);
        if let Some(jwt) = &loaded.config.identity.jwt {
            server = server.with_issuer(issuer(jwt, &loaded)?);
        }
        if let Some(place) = &place {
            place.announce(server.address()?, &token_file)?;
        }
        let telling = tell_webhook(&loaded, &runtime, server.address()?)?;
        // Whoever reads the link decides: it goes to a person's eyes, not into a file that others read.
        let code = match app.ui.on_terminal() {
            true => Some(new_code(runtime.keys(), &local_user("serve")?).await?),
            false => None,
        };
        announce(server.address()?, &token_file, code.as_ref(), app)?;
        let stop = CancellationToken::new();
        let App { ui, inputs } = app;
        let running = async {
            tokio::select! {
                () = server.run(stop.cancelled()) => {}
                () = upstream.watch(inputs, &hooked, &loaded) => {}
                () = deciding => {}
                () = take_up_left(&hooked) => {}
                () = telling => {}
                () = verifying => {}
                () = pruning => {}
            }
        };
        let end = async || {
            // Before the port is free for others.
            place.iter().for_each(Place::withdraw);
            stop.cancel();
        };
        interrupt::until_interrupt(Box::pin(running), ui, end).await;
        upstream.servers.close().await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        Ok(())
    })?;
    store.close().context("the record of the last calls may not be on disk")?;
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

/// Nothing is served twice unless somebody asks for it.
fn already_up(address: Option<SocketAddr>, app: &mut App<'_>) -> anyhow::Result<Exit> {
    if app.ui.is_json() {
        app.ui.json(&json!({ "already_up": address }))?;
    } else {
        app.ui.line("")?;
        match address {
            Some(address) => app.ui.line(format!("Helve is up already, at http://{address}"))?,
            None => app.ui.line("Helve is about to be up already")?,
        }
        app.ui.line("  helve keys sign-in      a link to its page")?;
        app.ui.line("  helve up --listen ADDR  another beside it")?;
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
    let loaded = app.load_config()?;
    let (runtime, store) = open(&loaded)?;
    wire::block_on(async {
        let upstream = Upstream::start(&loaded, &runtime, app).await?;
        let hooked = runtime.clone();
        let server = upstream.served(runtime);
        if let Some(page) = page(&loaded)?.or_else(|| running_page(&loaded)) {
            server.set_page(page);
        }
        let stop = CancellationToken::new();
        let running = async {
            tokio::select! {
                ended = server.serve_stdio(caller) => ended,
                () = take_up_left(&hooked) => Ok(()),
                () = stop.cancelled() => Ok(()),
            }
        };
        let ended = interrupt::until_interrupt(running, app.ui, async || stop.cancel()).await;
        hooked.hooks().stop(SESSION_END_WAIT).await;
        upstream.servers.close().await;
        hooked.flush_traces(wire::TRACES_WAIT).await;
        ended.context("the connection to the client broke")
    })?;
    store.close().context("the record of the last calls may not be on disk")?;
    Ok(Exit::Done)
}

/// Where people find the page on which they decide, if the configuration says so.
fn page(loaded: &Loaded) -> Result<Option<Url>, Failure> {
    let approvals = &loaded.config.approvals;
    let (key, text) = match (&approvals.page_url, &approvals.webhook.base_url) {
        (Some(text), _) => ("approvals.page_url", text),
        (None, Some(text)) => ("approvals.webhook.base_url", text),
        (None, None) => return Ok(None),
    };
    let page = Url::parse(text).ok().filter(|page| matches!(page.scheme(), "http" | "https"));
    let page = page.filter(|page| page.username().is_empty() && page.password().is_none());
    let wrong = || {
        Failure::usage(format!("`{key}` is no address of a page"))
            .hint("it begins with http:// or https:// and carries no password: https://helve.example.com")
    };
    page.map(Some).ok_or_else(wrong)
}

/// The names by which people and clients reach this server, as the user says. A proxy in front of it passes
/// them on as `Host`.
fn own_names(loaded: &Loaded) -> Result<Vec<String>, Failure> {
    let resource =
        loaded.config.identity.jwt.as_ref().and_then(|jwt| Url::parse(jwt.resource.as_deref()?).ok());
    let urls = [page(loaded)?, resource];
    Ok(urls.iter().flatten().filter_map(|url| url.host_str().map(str::to_owned)).collect())
}

/// The page of the `helve up` that runs with this configuration, and so with the same journal.
fn running_page(loaded: &Loaded) -> Option<Url> {
    let address = instance::address(loaded).filter(|address| !address.ip().is_unspecified())?;
    Url::parse(&format!("http://{address}")).ok()
}

/// Whoever else says who people are. Its own addresses may be reached: they are the operator's words.
fn issuer(config: &JwtConfig, loaded: &Loaded) -> Result<Issuer, Failure> {
    let own = [Some(config.issuer.as_str()), config.jwks_url.as_deref()];
    let own: Vec<_> = own.into_iter().flatten().map(helve_mcp::config::ServerConfig::remote).collect();
    let client = mcp::client(&loaded.config.net, &own.iter().collect::<Vec<_>>())?;
    Issuer::new(config.clone(), client)
        .map_err(|error| Failure::usage("`[identity.jwt]` cannot be used").because(&error))
}

fn open(loaded: &Loaded) -> anyhow::Result<(Runtime, Arc<Store>)> {
    let registry = wire::registry(loaded)?;
    let store = Arc::new(wire::open_store(loaded)?);
    let runtime = wire::runtime(loaded, registry, store.clone(), wire::settings(&loaded.config))?;
    Ok((runtime, store))
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

/// Goes on with runs as soon as what they wait for is decided, by whatever process. Runs until
/// dropped.
async fn follow_decisions(runtime: Runtime) {
    let Err(error) = runtime.approvals().follow().await;
    tracing::warn!(%error, "decisions are not followed; `helve runs resume --all` goes on with them");
    std::future::pending().await
}

/// Goes on with runs that were left because the journal failed, once it works again. Runs until
/// dropped.
async fn take_up_left(runtime: &Runtime) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let runtime = runtime.clone();
        // A run may take its time, and others are left meanwhile.
        tokio::spawn(async move {
            match runtime.recover_left().await {
                Ok(runs) => say_recovered(&runs),
                Err(error) => tracing::debug!(%error, "runs that were left cannot go on yet"),
            }
        });
    }
}

fn say_recovered(recovered: &[Recovered]) {
    let mut runs = 0;
    for one in recovered {
        match &one.taken_up {
            TakenUp::Ended(_) | TakenUp::Waits(_) => runs += 1,
            TakenUp::Failed(error) => {
                tracing::warn!(run = %one.run, %error, "a run that was left cannot be taken up");
            }
        }
    }
    if runs > 0 {
        tracing::info!(runs, "the journal works again: runs were taken up");
    }
}

/// The MCP servers behind what is served.
struct Upstream {
    servers: Servers,
}

impl Upstream {
    /// Starts those that may be started, and says which may not. Nobody waits for a connection.
    async fn start(loaded: &Loaded, runtime: &Runtime, app: &mut App<'_>) -> anyhow::Result<Self> {
        let (started, held): (Vec<_>, Vec<_>) =
            mcp::configured(loaded).into_iter().partition(|one| one.hold().is_none());
        let servers = mcp::open(loaded, runtime.registry(), &started)?;
        let set = servers.set(mcp::configs(started)).await;
        let wrong = set.errors.iter().map(|(name, reason)| (name.clone(), reason.clone()));
        let held = held.into_iter().filter_map(|one| Some((one.name.clone(), one.hold()?)));
        for (name, reason) in held.chain(wrong) {
            app.ui.note(format!("note: MCP server `{name}`: {}", escape::one_line(&reason, 300)))?;
        }
        Ok(Self { servers })
    }

    /// What is served: the runtime's tools, and all else that the servers have.
    fn served(&self, runtime: Runtime) -> McpServer {
        let gateway = Gateway::new(runtime, self.servers.clone());
        McpServer::new(Arc::new(gateway), ServerOptions::default())
    }

    /// Follows the configuration, and says what became of it. Runs until dropped.
    async fn watch(&self, inputs: &Inputs, runtime: &Runtime, first: &Loaded) {
        let mut policies = first.policy_files.clone();
        let mut last = None;
        let of_policies = |policies: &[PolicyPath]| {
            mcp::fingerprint_of(policies.iter().map(|policy| policy.path.as_path()))
        };
        let mut before = (mcp::fingerprint(inputs), of_policies(&policies));
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            let now = (mcp::fingerprint(inputs), of_policies(&policies));
            if now == before {
                continue;
            }
            before = now;
            match load(inputs) {
                Ok(mut loaded) => {
                    // What is followed is kept from the tools that run before it counts.
                    loaded.unwritable = first.unwritable.clone();
                    // The tools that run were made with these.
                    loaded.in_use = Arc::clone(&first.in_use);
                    wire::judges::unwritable(&loaded);
                    // Taken before they are read, so that no change falls in between.
                    policies.clone_from(&loaded.policy_files);
                    before.1 = of_policies(&policies);
                    let started = mcp::configured(&loaded).into_iter().filter(|one| one.hold().is_none());
                    match mcp::set(&self.servers, started.collect()).await {
                        Ok(set) => say_set(&set),
                        Err(failure) => say(&format!("MCP servers are not followed: {failure}")),
                    }
                    follow_gate(&loaded, runtime);
                    follow_hooks(&loaded, runtime).await;
                    last = Some(loaded);
                }
                Err(failure) => {
                    say(&format!(
                        "the configuration is not followed: {failure}: {}",
                        failure.details.join("; ")
                    ));
                    // Policies are: what somebody forbids does not wait until another file is mended.
                    follow_gate(last.as_ref().unwrap_or(first), runtime);
                }
            }
        }
    }
}

/// Lets policies and rules be those of the configuration. Policies that are wrong deny everything; rules
/// that are wrong stay as they were, since without them less might be denied.
fn follow_gate(loaded: &Loaded, runtime: &Runtime) {
    runtime.set_policy(wire::brought::gate(loaded, runtime.registry()));
    match crate::config::rules::places(loaded) {
        Ok(places) => places.sets.into_iter().for_each(|(place, set)| runtime.set_permissions(place, set)),
        Err(failure) => {
            say(&format!("the rules stay as they were: {failure}: {}", failure.details.join("; ")));
        }
    }
}

/// Lets the hooks be those of the configuration, unless a hook says no: then everything stays.
async fn follow_hooks(loaded: &Loaded, runtime: &Runtime) {
    let set = match wire::hooks::set(loaded) {
        Ok(set) => set,
        Err(failure) => {
            say(&format!("the hooks stay as they were: {failure}: {}", failure.details.join("; ")));
            return;
        }
    };
    let file = loaded.project_file.as_ref().or(loaded.user_file.as_ref());
    let source = if loaded.project_file.is_some() { "project_settings" } else { "user_settings" };
    let mut input = HookInput::new(HookEvent::ConfigChange).with("source", source);
    if let Some(file) = file {
        input = input.with("file_path", file.to_string_lossy().as_ref());
    }
    let fired = runtime.fire(input).await;
    match fired.refusal() {
        Some(why) => say(&format!("the hooks stay as they were; a hook says no: {why}")),
        None => runtime.hooks().replace(set),
    }
}

fn say_set(set: &SetServers) {
    for (what, names) in [("added", &set.added), ("removed", &set.removed)] {
        if !names.is_empty() {
            say(&format!("MCP servers {what}: {}", names.join(", ")));
        }
    }
    for (name, reason) in &set.errors {
        say(&format!("MCP server `{name}` cannot be used: {reason}"));
    }
}

/// Says something while everything else waits for Ctrl-C.
fn say(text: &str) {
    // Standard error may be closed; there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{}", escape::one_line(text, 1_000));
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
    let header = format!("Authorization: Bearer $(cat {file})");
    let claude = format!("claude mcp add --transport http helve {url} --header \"{header}\"");
    let inspector =
        format!("npx @modelcontextprotocol/inspector --cli {url} --method tools/list --header \"{header}\"");
    let older = format!("{url}/sse (server-sent events), {}/ws (WebSocket)", url.replace("http:", "ws:"));
    let decide = match sign_in {
        Some(link) => format!("{link} (once, for 10 minutes; `{SIGN_IN}` makes another)"),
        None => format!("`{SIGN_IN}` makes a link, for whoever decides"),
    };
    let mut table = Table::bare().indented();
    for (name, what) in [
        ("address", url),
        ("HTTP API", format!("http://{address}/v1, described in http://{address}/v1/openapi.json")),
        ("decide", decide),
        ("token", format!("in {file}")),
        ("Claude Code", claude),
        ("inspector", inspector),
        ("older clients", older),
        ("over stdio", "command `helve`, arguments `mcp serve`".to_owned()),
    ] {
        table.row([Cell::new(name, Tone::Dim), Cell::new(what, Tone::Strong)]);
    }
    app.ui.table(table)?;
    app.ui.flush()?;
    Ok(())
}
