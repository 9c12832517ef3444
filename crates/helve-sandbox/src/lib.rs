//! Where programs are started and confined.
