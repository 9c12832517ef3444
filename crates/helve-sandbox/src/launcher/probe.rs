//! What a box looks like from within: real attempts, not return codes of its setup.
//!
//! The same executable, run as a program in a box. [`crate::probe`] asks, and judges how it ends.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;

use super::sys::{self, Fork};
use crate::policy::WORK_DIR;
use crate::report::Guard;

/// Which attempt to make.
pub(crate) const ATTEMPT: &str = "HELVE_PROBE";
/// A file of the host that must not be seen, and a port on which the host listens.
pub(crate) const SECRET: &str = "HELVE_PROBE_SECRET";
pub(crate) const PORT: &str = "HELVE_PROBE_PORT";
/// A folder that was granted.
pub(crate) const GRANTED: &str = "HELVE_PROBE_GRANTED";

/// Makes the attempt that the environment names.
pub(super) fn attempt() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    match variable(ATTEMPT).as_str() {
        "look" => look(&variable(SECRET), variable(PORT).parse().unwrap_or(0)),
        "memory" => take_memory(),
        "cpu" => loop {
            std::hint::spin_loop();
        },
        "wall" => std::thread::sleep(Duration::from_secs(60)),
        "output" => flood(),
        "children" => leave_a_child(&variable(GRANTED)),
        _ => {}
    }
}

/// Says what held, one guard a line.
fn look(secret: &str, port: u16) {
    let mut out = std::io::stdout();
    let mut say = |guard: Guard, held: bool| {
        if held {
            let _ = writeln!(out, "{guard}");
        }
    };
    say(Guard::Files, File::open(secret).is_err() && File::create("/usr/helve-probe").is_err());
    say(Guard::Processes, sees_only_itself());
    say(Guard::Network, TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    say(Guard::Privileges, has_no_rights());
    // Only Landlock stands between a process and its own name.
    say(Guard::Landlock, File::options().write(true).open("/proc/self/comm").is_err());
    say(
        Guard::Seccomp,
        rustix::process::pivot_root("/", "/") == Err(Errno::PERM) && sys::trace_me().is_err(),
    );
    say(Guard::WorkBytes, fills_up());
    say(Guard::Pids, runs_out_of_processes());
}

/// In its own box a process has a low number, and nobody with another one can be found.
fn sees_only_itself() -> bool {
    let own = rustix::process::getpid().as_raw_pid();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = numbers.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    own < 8 && processes.count() <= 3
}

fn has_no_rights() -> bool {
    let none = rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective.is_empty() && sets.permitted.is_empty() && sets.inheritable.is_empty()
    });
    none && rustix::thread::no_new_privs().unwrap_or(false)
}

/// The work directory was given 4 MiB.
fn fills_up() -> bool {
    let Ok(mut file) = File::create(format!("{WORK_DIR}/fill")) else { return false };
    let block = vec![1; 1 << 20];
    let full = (0..8).any(|_| file.write_all(&block).is_err());
    let _ = fs::remove_file(format!("{WORK_DIR}/fill"));
    full
}

/// It was given 16 processes.
fn runs_out_of_processes() -> bool {
    (0..32).any(|_| match sys::fork() {
        Ok(Fork::Parent(_)) => false,
        Ok(Fork::Child) => {
            std::thread::sleep(Duration::from_secs(60));
            sys::exit(0)
        }
        Err(_) => true,
    })
}

fn take_memory() {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    for _ in 0..512 {
        taken.push(vec![1; 1 << 20]);
        std::hint::black_box(&taken);
    }
}

fn flood() {
    let block = vec![b'x'; 1 << 16];
    while std::io::stdout().write_all(&block).is_ok() {}
}

/// A child that leaves its parent and would write a while later.
fn leave_a_child(granted: &str) {
    if let Ok(Fork::Child) = sys::fork() {
        let _ = rustix::process::setsid();
        std::thread::sleep(Duration::from_millis(300));
        let _ = File::create(format!("{granted}/lives"));
        sys::exit(0);
    }
}
