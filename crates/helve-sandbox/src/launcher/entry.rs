//! How the launcher starts: Helve's own executable, run again.
//!
//! A program that links this crate becomes the launcher when [`VARIABLE`] is set, before its `main`
//! and before it has any thread. So there is no second executable to ship and to find, and nothing
//! that a user of the library has to call.
#![expect(unsafe_code, reason = "a function in the list of those that run before `main`")]

use std::os::fd::{BorrowedFd, OwnedFd};

/// Set for the launcher alone; its value says what to become.
pub(crate) const VARIABLE: &str = "HELVE_LAUNCHER";

/// Runs before `main` in every program that links this crate.
#[used]
// SAFETY: the section holds addresses of such functions, and this is one.
#[unsafe(link_section = ".init_array")]
pub(crate) static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    match std::env::var_os(VARIABLE) {
        None => {}
        Some(role) if role == "serve" => {
            if let Ok(link) = take_link() {
                super::serve::serve(&link);
            }
            super::sys::exit(0);
        }
        Some(role) if role == "probe" => {
            super::probe::report();
            super::sys::exit(0);
        }
        Some(_) => {}
    }
}

/// The link with Helve came as our standard input: a descriptor that can be given without a fork.
/// It moves out of the way of the streams of boxes.
fn take_link() -> std::io::Result<OwnedFd> {
    // What Helve's own parent left open is nobody's business here.
    super::sys::close_from(3);
    // SAFETY: before `main`, nothing in this process has closed its standard input.
    let stdin = unsafe { BorrowedFd::borrow_raw(0) };
    let link = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    super::sys::put_at(std::os::fd::AsRawFd::as_raw_fd(&nothing), 0)?;
    Ok(link)
}
