//! Where programs are started and confined. The only crate that may start a process.
//!
//! Today there is one launcher, [`PlainLauncher`], and it does not confine: what it runs can read
//! every file and reach every host that Helve itself can (level L0). It does bound a program in
//! time, output, environment and children. The box with namespaces, Landlock and seccomp comes
//! behind the same port, [`helve_core::ports::Launcher`].

mod plain;

mod find;
mod running;

pub use plain::{Options, PlainLauncher};
