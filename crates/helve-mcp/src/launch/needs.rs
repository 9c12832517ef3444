//! The folders of code that a program is made of: its virtual environment, its interpreter, its packages.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Machine, Plan};

/// What every box has.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/alternatives", "/etc/ssl"];
/// How many interpreters of interpreters are followed.
const DEPTH_MAX: usize = 4;
/// How much of a file is looked at for the line that names its interpreter.
const HEAD_BYTES: u64 = 1_024;

/// Adds to a plan what its program and the files among its arguments need.
pub(super) fn add(plan: &mut Plan, program: &Path, machine: &Machine) {
    let mut needs = BTreeSet::new();
    match by_name_of_interpreter(program, machine) {
        // `#!/usr/bin/env node` finds nothing in a box that has no Node on its PATH.
        Some(interpreter) => {
            let script = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
            plan.config.args.insert(0, script.display().to_string());
            plan.config.command = Some(interpreter.clone());
            of_program(&script, machine, DEPTH_MAX, &mut needs);
            of_program(&interpreter, machine, DEPTH_MAX, &mut needs);
        }
        None => of_program(program, machine, DEPTH_MAX, &mut needs),
    }
    for arg in &plan.config.args {
        of_argument(Path::new(arg), machine, &mut needs);
    }
    let config = &mut plan.config;
    let given: Vec<PathBuf> = config.read.iter().chain(&config.write).chain(&config.cwd).cloned().collect();
    let is_given = |path: &Path| given.iter().any(|folder| path.starts_with(folder));
    let all = needs.clone();
    let is_inside = |path: &Path| all.iter().any(|other| other != path && path.starts_with(other));
    plan.worked_out = needs.into_iter().filter(|path| !is_given(path) && !is_inside(path)).collect();
    config.read.extend(plan.worked_out.iter().cloned());
}

/// The interpreter that a script names by its bare name, where boxes do not have it.
fn by_name_of_interpreter(program: &Path, machine: &Machine) -> Option<PathBuf> {
    let line = first_lines(program)?;
    let line = line.lines().next()?.strip_prefix("#!")?.trim();
    let name = line.strip_prefix("/usr/bin/env ")?.trim_start_matches("-S ").split_whitespace().next()?;
    // The one that lies next to the script is the one that it was installed with.
    let beside = program.parent().map(|folder| folder.join(name)).filter(|file| super::is_program(file));
    let found = beside.or_else(|| machine.find(name))?;
    (!super::is_of_the_system(&found)).then_some(found)
}

fn of_program(program: &Path, machine: &Machine, depth: usize, needs: &mut BTreeSet<PathBuf>) {
    if depth == 0 {
        return;
    }
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    for file in [program, &real] {
        of_place(file, machine, needs);
    }
    for interpreter in interpreters(&real) {
        of_program(&interpreter, machine, depth - 1, needs);
    }
}

/// What belongs to a program because of where it is.
fn of_place(file: &Path, machine: &Machine, needs: &mut BTreeSet<PathBuf>) {
    if is_of_the_system(file) {
        return;
    }
    if let Some(modules) = modules(file) {
        needs.insert(modules);
        return;
    }
    let folder = file.parent().unwrap_or(file);
    let prefix = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bin"));
    let home = machine.home();
    match prefix {
        Some(prefix) if prefix.join("pyvenv.cfg").is_file() => {
            needs.insert(prefix.to_owned());
            // The environment's Python is a link into the one that it was made with.
            needs.extend(base_of(prefix).filter(|base| !is_of_the_system(base)));
        }
        // `pip install --user` puts packages below the home folder, among much that is no program.
        Some(prefix) if home.is_some_and(|home| prefix == home.join(".local")) => {
            needs.insert(file.to_owned());
            needs.extend(site_packages(prefix));
        }
        Some(prefix) if prefix.join("lib").is_dir() && home.is_none_or(|home| !home.starts_with(prefix)) => {
            needs.insert(prefix.to_owned());
        }
        Some(_) | None => drop(needs.insert(file.to_owned())),
    }
}

/// The folder of packages that a script of npm belongs to: the outermost, where packages share theirs.
fn modules(file: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = file.components().collect();
    let at = parts.iter().position(|part| part.as_os_str() == "node_modules")?;
    Some(parts[..=at].iter().collect())
}

/// Where the Python is that a virtual environment was made with.
fn base_of(environment: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(environment.join("pyvenv.cfg")).ok()?;
    let line = text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
    let bin = PathBuf::from(line?.1.trim());
    let bin = fs::canonicalize(&bin).unwrap_or(bin);
    bin.parent().filter(|base| base.components().count() > 2).map(Path::to_owned)
}

/// Folders of packages below `PREFIX/lib`.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_python = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"))
    };
    folders.filter(is_python).collect()
}

/// The interpreters that a script names by path: in its first line, or in the second where installers write
/// `'''exec' "/long path/python" "$0" "$@"` for paths that are too long for the first.
fn interpreters(script: &Path) -> Vec<PathBuf> {
    let Some(text) = first_lines(script) else { return Vec::new() };
    let mut lines = text.lines();
    let first = lines.next().and_then(|line| line.strip_prefix("#!")).map(str::trim).unwrap_or_default();
    let first = first.split_whitespace().next().filter(|path| *path != "/usr/bin/env");
    let second = lines.next().and_then(|line| line.strip_prefix("'''exec' ")).map(str::trim);
    let second = second.and_then(|rest| match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split_whitespace().next(),
    });
    let paths = first.into_iter().chain(second).map(PathBuf::from);
    paths.filter(|path| path.is_absolute() && path.exists()).collect()
}

/// The head of a file that begins as a script does.
fn first_lines(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    fs::File::open(file).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    head.starts_with(b"#!").then(|| String::from_utf8_lossy(&head).into_owned())
}

/// A file or folder that an argument names: the person typed it for the server to read.
fn of_argument(arg: &Path, machine: &Machine, needs: &mut BTreeSet<PathBuf>) {
    if !arg.is_absolute() || !arg.exists() || is_of_the_system(arg) {
        return;
    }
    if let Some(modules) = modules(arg) {
        needs.insert(modules);
        return;
    }
    let is_script =
        arg.extension().is_some_and(|end| ["py", "js", "mjs", "cjs", "ts"].iter().any(|one| end == *one));
    let folder = arg.parent().filter(|folder| folder.components().count() > 3);
    let folder = folder.filter(|folder| machine.home().is_none_or(|home| !home.starts_with(folder)));
    match folder {
        // A script imports what lies next to it.
        Some(folder) if is_script && arg.is_file() => needs.insert(folder.to_owned()),
        Some(_) | None => needs.insert(arg.to_owned()),
    };
}

fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}
