//! The sandbox: starts programs in boxes.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve_core::BoxFuture;
use tokio::net::unix::pipe;

use crate::find::find;
use crate::link::Link;
use crate::own::{Unwritable, Way};
use crate::policy::{Job, Limits, PATH, WORK_DIR};
use crate::report::Level;
use crate::running::{RunningBox, Talk, heads};
use crate::wire::{self, Ask, DESCRIPTORS_MAX, FromBox, Grant, Order};
use crate::{PROXY_PORT, SandboxError};

/// How long a box may take to start.
const START_MAX: Duration = Duration::from_secs(10);
/// Most grants of one box; with each may come a descriptor.
const GRANTS_MAX: usize = DESCRIPTORS_MAX - 8;

/// What every box shows without being asked.
const ALWAYS_VISIBLE: [&str; 3] = ["/usr", "/bin", "/lib"];
/// What can never be granted: the box has its own.
const NEVER_GRANTED: [&str; 4] = ["/proc", "/sys", "/dev", WORK_DIR];

/// Lets the programs of a box out, to granted hosts alone.
pub trait Egress: Send + Sync + 'static {
    /// Whether these can be granted, or what is wrong with them.
    fn check(&self, grants: &[String]) -> Result<(), String>;

    /// Serves as a proxy on `listener`, which is inside the box, until it is dropped.
    fn serve(&self, listener: TcpListener, grants: Vec<String>) -> BoxFuture<'static, ()>;
}

/// What holds for every box.
#[derive(Clone)]
pub struct SandboxOptions {
    /// Folders in which a bare command name is looked up, in order. The `PATH` of Helve itself
    /// plays no part: it differs between a terminal and a service, and can hold folders that
    /// others may write to.
    pub path: Vec<PathBuf>,
    /// How much a program may use whose job does not say.
    pub limits: Limits,
    /// The least confinement that will do.
    pub min_level: Level,
    /// Files and folders that no program is to see, whatever else it was granted: Helve's own.
    pub hidden: Vec<PathBuf>,
    /// What no program is to change, whatever else it was granted.
    pub unwritable: Unwritable,
    /// The way out of boxes that are granted a network. Without it none is granted.
    pub egress: Option<Arc<dyn Egress>>,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            path: PATH.split(':').map(PathBuf::from).collect(),
            limits: Limits::default(),
            min_level: Level::default(),
            hidden: Vec::new(),
            unwritable: Unwritable::default(),
            egress: None,
        }
    }
}

/// Starts programs in boxes. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), helve_sandbox::SandboxError> {
/// use helve_sandbox::{End, Job, Sandbox};
/// let job = Job::new("sh").args(["-c", "echo hello; cat /etc/shadow"]);
/// let finished = Sandbox::default().run(job, Vec::new(), Default::default()).await?;
/// assert_eq!(finished.stdout, b"hello\n");
/// assert_ne!(finished.end, End::Exited { code: 0 });
/// println!("confined at level {}", finished.confinement.level);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Sandbox {
    pub(crate) options: SandboxOptions,
    link: Arc<Link>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("path", &self.options.path).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox with these options. Nothing is started yet.
    pub fn new(options: SandboxOptions) -> Self {
        Self { options, link: Arc::default() }
    }

    /// The same with another way out. Both share what starts their boxes.
    pub fn with_egress(&self, egress: Arc<dyn Egress>) -> Self {
        let options = SandboxOptions { egress: Some(egress), ..self.options.clone() };
        Self { options, link: Arc::clone(&self.link) }
    }

    /// The least confinement that will do.
    pub fn min_level(&self) -> Level {
        self.options.min_level
    }

    /// Starts a program in its own box, or without one where its policy says so.
    pub async fn start(&self, job: Job) -> Result<RunningBox, SandboxError> {
        let refuse = |reason: String| SandboxError { command: job.command.clone(), reason };
        let (ask, order) = if job.policy.unconfined {
            let program = find(&job.command, &self.path_of_unconfined(&job))?;
            (Ask::Unconfined, unconfined_order(&job, program).map_err(refuse)?)
        } else {
            let program = find(&job.command, &self.options.path)?;
            (Ask::Box, self.order(&job, &program).map_err(refuse)?)
        };
        let started = tokio::time::timeout(START_MAX, self.carry_out(&job, ask, order)).await;
        match started {
            Ok(started) => started.map_err(|error| refuse(error.to_string())),
            Err(_) => Err(refuse("its box did not start in time; the machine is too busy".to_owned())),
        }
    }

    /// The folders of its own `PATH` come first: programs of one user are in places that the machine does
    /// not know of.
    fn path_of_unconfined(&self, job: &Job) -> Vec<PathBuf> {
        let own = job.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
        // Relative to what? Where Helve was started differs.
        let own = std::env::split_paths(own).filter(|folder| folder.is_absolute());
        own.chain(self.options.path.iter().cloned()).collect()
    }

    async fn carry_out(&self, job: &Job, ask: Ask, order: Order) -> io::Result<RunningBox> {
        let sheet = wire::sheet(&order, job.files.iter().map(|file| file.content.as_slice()))?;
        let (stdin, from_us) = pipe::pipe()?;
        let (to_us, stdout) = pipe::pipe()?;
        let (errors_to_us, stderr) = pipe::pipe()?;
        let theirs: [OwnedFd; 3] =
            [from_us.into_blocking_fd()?, to_us.into_blocking_fd()?, errors_to_us.into_blocking_fd()?];
        let (ours, boxed) = wire::pair()?;
        let talk = Talk::new(ours)?;
        let [a, b, c] = &theirs;
        self.link.send(ask, &[sheet.as_fd(), a.as_fd(), b.as_fd(), c.as_fd(), boxed.as_fd()])?;
        drop((theirs, boxed, sheet));
        let mut handle = None;
        loop {
            match talk.hear().await? {
                Some((FromBox::Started, mut descriptors)) => handle = descriptors.pop(),
                Some((FromBox::Refused(reason), _)) => return Err(io::Error::other(reason)),
                Some((FromBox::Running(confinement), descriptors)) => {
                    let mut descriptors = descriptors.into_iter();
                    let missing = || io::Error::other("the box did not hand over what it must");
                    if confinement.level > Level::L1 && handle.is_none() {
                        return Err(missing());
                    }
                    return Ok(RunningBox {
                        stdin: Some(stdin),
                        stdout: Some(stdout),
                        stderr: Some(stderr),
                        talk,
                        handle,
                        work_dir: descriptors.next().ok_or_else(missing)?,
                        confinement,
                        proxy: match job.policy.unconfined || job.policy.network.is_empty() {
                            true => None,
                            false => Some(self.open_way_out(descriptors.next().ok_or_else(missing)?, job)),
                        },
                        listeners: descriptors.map(TcpListener::from).collect(),
                        ended: None,
                    });
                }
                Some(_) => {}
                None => return Err(io::Error::other("its box died while it was set up")),
            }
        }
    }

    fn open_way_out(&self, listener: OwnedFd, job: &Job) -> tokio::task::AbortHandle {
        let serving = self
            .options
            .egress
            .as_ref()
            .map(|egress| egress.serve(TcpListener::from(listener), job.policy.network.clone()));
        tokio::spawn(async move {
            if let Some(serving) = serving {
                serving.await;
            }
        })
        .abort_handle()
    }

    fn order(&self, job: &Job, program: &Path) -> Result<Order, String> {
        let policy = &job.policy;
        if !policy.network.is_empty() {
            let none = || "it asks for a network, and this sandbox has no way out".to_owned();
            self.options.egress.as_ref().ok_or_else(none)?.check(&policy.network)?;
        }
        let real = fs::canonicalize(program).map_err(|error| error.to_string())?;
        let mut grants = Vec::new();
        for path in &policy.write {
            add(&mut grants, path, true)?;
        }
        for path in &policy.read {
            add(&mut grants, path, false)?;
        }
        if let Some(within) = &policy.within {
            check_within(within, &grants, &real)?;
        }
        // Both ends of a link: a virtual environment of Python is the link, its library next to it.
        for path in installation(program).into_iter().chain(installation(&real)) {
            add(&mut grants, &path, false)?;
        }
        let Kept { hidden, only_boxed } = self.keep_own(&mut grants)?;
        if grants.len() > GRANTS_MAX {
            return Err(format!("more than {GRANTS_MAX} files and folders cannot be granted"));
        }
        let proxy_port = (!policy.network.is_empty()).then_some(PROXY_PORT);
        let mut env = job.env.clone();
        if !policy.network.is_empty() {
            env.extend(proxy_variables(&policy.network));
        }
        Ok(Order {
            name: job.command.to_string_lossy().into_owned(),
            program: program.to_owned(),
            args: job.args.clone(),
            env,
            work_dir: job.work_dir.clone().unwrap_or_else(|| WORK_DIR.into()),
            grants,
            hidden,
            only_boxed,
            listen: proxy_port.into_iter().chain(job.listen.iter().copied()).collect(),
            limits: policy.limits.clone(),
            min_level: policy.min_level,
            files: heads(&job.files),
        })
    }
}

/// What is Helve's own and lies in a grant.
struct Kept {
    hidden: Vec<PathBuf>,
    only_boxed: Option<PathBuf>,
}

impl Sandbox {
    /// Takes what is Helve's own out of grants.
    fn keep_own(&self, grants: &mut Vec<Grant>) -> Result<Kept, String> {
        let hidden: Vec<_> = self.options.hidden.iter().map(|path| Way::to(path)).collect();
        let is_own = |grant: &&Grant| hidden.iter().any(|own| grant.path.starts_with(&own.end));
        if let Some(grant) = grants.iter().find(is_own) {
            return Err(format!("`{}` cannot be granted: it is Helve's own", grant.path.display()));
        }
        let unwritable = self.options.unwritable.ways();
        let links = hidden.iter().flat_map(|way| &way.links).map(PathBuf::as_path);
        // A place where nothing is cannot be kept free.
        let is_there = |name: &&Path| fs::symlink_metadata(name).is_ok();
        let names: Vec<_> = unwritable.iter().flat_map(Way::names).chain(links).filter(is_there).collect();
        names.iter().for_each(|name| pin(grants, name));
        hidden.iter().for_each(|way| hold_above(grants, &way.end));
        // Without a box a grant opens all that lies in it, whatever another one says of a part.
        let is_open =
            |name: &&Path| grants.iter().any(|grant| grant.writable && name.starts_with(&grant.path));
        let is_within = |own: &PathBuf| grants.iter().any(|grant| own.starts_with(&grant.path));
        let open = names.into_iter().find(is_open).map(Path::to_owned);
        let hidden: Vec<_> = hidden.into_iter().map(|own| own.end).filter(is_within).collect();
        Ok(Kept { only_boxed: hidden.first().cloned().or(open), hidden })
    }
}

/// Lets a name stay what it is, though it lies in a folder that may be changed: what is mounted by itself
/// can be neither removed nor replaced. A link is mounted on itself.
fn pin(grants: &mut Vec<Grant>, name: &Path) {
    hold_above(grants, name);
    grants.iter_mut().filter(|grant| grant.path.starts_with(name)).for_each(|grant| grant.writable = false);
    let is_granted = grants.iter().any(|grant| grant.path == name);
    if !is_granted && is_writable(grants, name) {
        grants.push(Grant { path: name.to_owned(), link: None, writable: false });
    }
}

/// Mounts each folder above by itself that could be moved away and another put in its place: also those
/// between two grants.
fn hold_above(grants: &mut Vec<Grant>, name: &Path) {
    for above in name.ancestors().skip(1) {
        let is_granted = grants.iter().any(|grant| grant.path == above);
        if !is_granted && is_writable(grants, above) && above.is_dir() {
            grants.push(Grant { path: above.to_owned(), link: None, writable: true });
        }
    }
}

/// Whether the folder that a name is in may be changed: the nearest grant above says so.
fn is_writable(grants: &[Grant], name: &Path) -> bool {
    let above = grants.iter().filter(|grant| name != grant.path && name.starts_with(&grant.path));
    above.max_by_key(|grant| grant.path.components().count()).is_some_and(|grant| grant.writable)
}

/// What nobody confines needs no grants. What only a box can have is refused, not left out.
fn unconfined_order(job: &Job, program: PathBuf) -> Result<Order, String> {
    if !job.files.is_empty() || !job.listen.is_empty() {
        return Err("it is not confined, so it has no work directory for files and no ports of its own; \
            leave them out, or confine it"
            .to_owned());
    }
    let work_dir = job.work_dir.clone().unwrap_or_else(|| "/".into());
    if !work_dir.is_absolute() {
        let shown = work_dir.display();
        return Err(format!(
            "its folder `{shown}` cannot be entered: the path is relative; give the full path"
        ));
    }
    Ok(Order {
        name: job.command.to_string_lossy().into_owned(),
        program,
        args: job.args.clone(),
        env: job.env.clone(),
        work_dir,
        grants: Vec::new(),
        hidden: Vec::new(),
        only_boxed: None,
        listen: Vec::new(),
        limits: job.policy.limits.clone(),
        min_level: Level::L0,
        files: Vec::new(),
    })
}

/// Adds a grant, unless one that reaches further is there.
fn add(grants: &mut Vec<Grant>, path: &Path, writable: bool) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("`{shown}` cannot be granted: the path is relative; give the full path"));
    }
    let real = fs::canonicalize(path)
        .map_err(|error| format!("`{shown}` cannot be granted: {error}; create it, or take it out"))?;
    if real == Path::new("/") {
        return Err("`/` cannot be granted: name the folders that the program needs".to_owned());
    }
    if let Some(own) = NEVER_GRANTED.iter().find(|own| real.starts_with(own)) {
        return Err(format!("`{shown}` cannot be granted: a box has a `{own}` of its own"));
    }
    let covered = |grant: &Grant| grant.path == real && (grant.writable || !writable);
    let visible = !writable && ALWAYS_VISIBLE.iter().any(|always| real.starts_with(always));
    if !visible && !grants.iter().any(covered) {
        let link = (real != path).then(|| path.to_owned());
        grants.push(Grant { path: real, link, writable });
    }
    Ok(())
}

/// Refuses grants, and a program, that do not lie where a person agreed to. Asked of the paths that are
/// mounted, and those are opened without following links: nobody changes one in between.
fn check_within(within: &[PathBuf], grants: &[Grant], program: &Path) -> Result<(), String> {
    let is_agreed = |path: &Path| within.iter().any(|agreed| path.starts_with(agreed));
    let of_system = |path: &Path| ALWAYS_VISIBLE.iter().any(|always| path.starts_with(always));
    let grants = grants.iter().map(|grant| grant.path.as_path());
    let programs = std::iter::once(program).filter(|program| !of_system(program));
    match grants.chain(programs).find(|path| !is_agreed(path)) {
        Some(path) => Err(format!("it would reach `{}`, which was not agreed to", path.display())),
        None => Ok(()),
    }
}

/// What a program needs to run that is not among the system's: itself, and where it is one of
/// several in its own place (`PREFIX/bin`, `PREFIX/lib`), that place.
fn installation(program: &Path) -> Vec<PathBuf> {
    if ALWAYS_VISIBLE.iter().any(|always| program.starts_with(always)) {
        return Vec::new();
    }
    let folder = program.parent().unwrap_or(program);
    let prefix = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bin"));
    match prefix {
        // Short ones are a user's home.
        // In `~/.local` there is more than programs: logins, histories, what other programs keep.
        Some(prefix)
            if prefix.components().count() > 3
                && prefix.join("lib").is_dir()
                && prefix.file_name().is_some_and(|name| name != ".local") =>
        {
            vec![prefix.to_owned()]
        }
        _ => vec![program.to_owned()],
    }
}

/// How programs learn of the proxy; there is no rule, only custom. What listens inside the box is not
/// behind it, unless this machine itself was granted: then its name means the machine.
fn proxy_variables(grants: &[String]) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let is_here =
        |grant: &String| ["localhost", "127.", "[::1]", "::1"].iter().any(|here| grant.starts_with(here));
    let directly = if grants.iter().any(is_here) { "" } else { "localhost,127.0.0.1,::1" };
    let to_proxy = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let others = [("NO_PROXY", directly), ("no_proxy", directly), ("NODE_USE_ENV_PROXY", "1")];
    let to_proxy = to_proxy.map(|name| (name.to_owned(), proxy.clone()));
    to_proxy.into_iter().chain(others.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}
