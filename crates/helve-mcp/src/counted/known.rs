//! The best-known public servers, and what their tools count as: `known.json`.
//!
//! A server is recognised by what the operator wrote, never by what it says of itself: the package that a
//! runner fetches, the image, an installed program, or the host of its address. A program that lies in the
//! folder that the server starts in is not recognised: the author of that folder could call it anything.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use helve::Facet;
use helve::pattern::matches;
use serde::Deserialize;
use url::Url;

use crate::config::{Place, ServerConfig};

/// A well-known server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownServer {
    /// What it is called here.
    pub name: String,
    /// Its packages in npm's registry.
    #[serde(default)]
    npm: Vec<String>,
    /// Its packages in PyPI.
    #[serde(default)]
    pypi: Vec<String>,
    /// The programs that installing it brings.
    #[serde(default)]
    programs: Vec<String>,
    /// The container images it is shipped in.
    #[serde(default)]
    images: Vec<String>,
    /// Where its maker serves it.
    #[serde(default)]
    hosts: Vec<String>,
    /// Its tools, by pattern; the first that fits counts.
    tools: Vec<Group>,
}

/// Tools that count as the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    names: Vec<String>,
    facets: BTreeSet<Facet>,
}

impl KnownServer {
    /// What a tool of it counts as, if the table names it.
    pub fn facets_of(&self, tool: &str) -> Option<BTreeSet<Facet>> {
        let fits = |group: &&Group| group.names.iter().any(|name| matches(name, tool));
        self.tools.iter().find(fits).map(|group| group.facets.clone())
    }
}

static TABLE: LazyLock<Vec<KnownServer>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("known.json")).expect("the table is checked by a test")
});

/// The well-known server that a configuration names, if it does.
pub fn known(config: &ServerConfig) -> Option<&'static KnownServer> {
    let named = Named::of(config)?;
    TABLE.iter().find(|known| {
        let (list, name) = match &named {
            Named::Npm(name) => (&known.npm, *name),
            Named::Pypi(name) => (&known.pypi, name.as_str()),
            Named::Program(name) => (&known.programs, *name),
            Named::Image(name) => (&known.images, *name),
            Named::Host(name) => (&known.hosts, name.as_str()),
        };
        list.iter().any(|one| one == name)
    })
}

/// How a configuration names a server.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    Npm(&'a str),
    Pypi(String),
    Program(&'a str),
    Image(&'a str),
    Host(String),
}

impl<'a> Named<'a> {
    fn of(config: &'a ServerConfig) -> Option<Self> {
        let command = match config.place()? {
            Place::Url(url) => return host(url),
            Place::Command(command) => command,
        };
        let words: Vec<&str> = config.args.iter().map(String::as_str).collect();
        let folder = config.cwd.as_deref();
        if is_of_the_folder(command, folder) || config.env.keys().any(|name| steers(name)) {
            return None;
        }
        match (command.file_name()?.to_str()?, words.as_slice()) {
            ("npx" | "bunx" | "pnpx", rest)
            | ("npm", ["exec", rest @ ..])
            | ("bun", ["x", rest @ ..])
            | ("pnpm" | "yarn", ["dlx", rest @ ..]) => package(rest).map(|name| Self::Npm(versionless(name))),
            ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) | ("pipx", ["run", rest @ ..]) => {
                package(rest).map(|name| Self::Pypi(project(name)))
            }
            ("docker" | "podman", ["run", rest @ ..]) => image(rest),
            ("node" | "bun" | "deno", [script, ..]) => of_modules(script, folder),
            (python, ["-m", module, ..]) if python.starts_with("python") => {
                let shadows = |name: String| folder.is_some_and(|folder| folder.join(name).exists());
                let is_shadowed = shadows((*module).to_owned()) || shadows(format!("{module}.py"));
                (!is_shadowed).then(|| Self::Pypi(module.replace('_', "-")))
            }
            (python, [script, ..]) if python.starts_with("python") && script.contains('/') => {
                let script: &'a str = script;
                let script = Path::new(script);
                let name = script.file_name()?.to_str()?;
                (script.is_absolute() && !is_of_the_folder(script, folder)).then_some(Self::Program(name))
            }
            (program, _) => Some(Self::Program(program)),
        }
    }
}

/// Whether a program is a file of the folder that the server starts in, or of one that a path without a
/// beginning leads to from there.
fn is_of_the_folder(program: &Path, folder: Option<&Path>) -> bool {
    let is_file = program.components().count() > 1;
    is_file && (!program.is_absolute() || folder.is_none_or(|folder| program.starts_with(folder)))
}

/// Whether a variable says where a runner or an interpreter takes its code from.
fn steers(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    let starts =
        ["UV_", "PIP_", "PIPX_", "NPM_", "NODE_", "PYTHON", "BUN_", "DENO_", "YARN_", "DOCKER_", "LD_"];
    name == "PATH" || starts.iter().any(|start| name.starts_with(start))
}

/// Whether a folder is given to a container where data belongs. Elsewhere it could take the place of the
/// image's own code.
fn is_data(mount: &str) -> bool {
    let folders = ["/projects", "/data", "/workspace", "/mnt"];
    let ways = [":", "dst=", "target=", "destination="];
    ways.iter().any(|way| folders.iter().any(|folder| mount.contains(&format!("{way}{folder}"))))
}

fn host<'a>(url: &str) -> Option<Named<'a>> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https" && url.port().is_none())?;
    Some(Named::Host(url.host_str()?.to_owned()))
}

/// The package that a runner is told to run. Told anything else as well, it could be another one.
fn package<'a>(words: &[&'a str]) -> Option<&'a str> {
    let harmless = ["-y", "--yes", "-q", "--quiet", "--prefer-offline", "--no-install", "--"];
    words.iter().find(|word| !harmless.contains(word)).filter(|word| !word.starts_with('-')).copied()
}

/// `@scope/name@1.2` without its version.
fn versionless(name: &str) -> &str {
    match name.rfind('@') {
        Some(at) if at > 0 => &name[..at],
        Some(_) | None => name,
    }
}

/// `Mcp_Server-Time[extra]==1.0` as PyPI calls it. What names a place instead of a version is no package of PyPI.
fn project(name: &str) -> String {
    let is_place = name.contains("://") || name.contains(" @ ") || name.contains('/');
    let end = name.find(['@', '=', '<', '>', '~', '!', '[', ';', ' ']).unwrap_or(name.len());
    if is_place { String::new() } else { name[..end].to_lowercase().replace(['_', '.'], "-") }
}

/// The image that is run, without its tag.
fn image<'a>(words: &[&'a str]) -> Option<Named<'a>> {
    let alone = ["-i", "-t", "-it", "-ti", "--rm", "--init", "--interactive", "--tty"];
    let with_value = ["-e", "--env", "--name", "-u", "--user"];
    let mounts = ["-v", "--volume", "--mount"];
    let mut words = words.iter().copied();
    let image = loop {
        let word = words.next()?;
        if with_value.contains(&word) {
            words.next()?;
        } else if mounts.contains(&word) {
            words.next().filter(|mount| is_data(mount))?;
        } else if word.starts_with("--env=") || word.starts_with("-e=") || alone.contains(&word) {
        } else if word.starts_with('-') {
            return None;
        } else {
            break word;
        }
    };
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    // A colon before the last slash is a port.
    let tag = image.rfind(':').filter(|colon| image.rfind('/').is_none_or(|slash| slash < *colon));
    Some(Named::Image(&image[..tag.unwrap_or(image.len())]))
}

/// The package whose file is run.
fn of_modules<'a>(script: &'a str, folder: Option<&Path>) -> Option<Named<'a>> {
    if is_of_the_folder(Path::new(script), folder) || !Path::new(script).is_absolute() {
        return None;
    }
    let (_, inside) = script.rsplit_once("/node_modules/")?;
    let mut parts = inside.splitn(3, '/');
    let first = parts.next()?;
    match first.starts_with('@') {
        true => {
            let second = parts.next()?;
            Some(Named::Npm(&inside[..first.len() + 1 + second.len()]))
        }
        false => Some(Named::Npm(first)),
    }
}

#[cfg(test)]
pub(super) fn table() -> &'static [KnownServer] {
    &TABLE
}

#[cfg(test)]
impl KnownServer {
    /// Every pattern and every way in which it is named.
    pub(super) fn parts(&self) -> (Vec<&str>, Vec<&str>) {
        let patterns = self.tools.iter().flat_map(|group| &group.names).map(String::as_str).collect();
        let ways = [&self.npm, &self.pypi, &self.programs, &self.images, &self.hosts];
        (patterns, ways.into_iter().flatten().map(String::as_str).collect())
    }
}
