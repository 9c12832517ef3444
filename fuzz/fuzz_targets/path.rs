//! Paths of a model: what is taken has plain names only, and is what a simple second reading makes of the text.
#![no_main]

use std::path::{Component, PathBuf};

use helve_tools::files::read_path;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some(path) = read_path(text) else {
        let is_refused = text.is_empty()
            || text.contains('\0')
            || text.split('/').any(|name| name == ".." || name.len() > 255)
            || text.len() > 4_095
            || text.split('/').filter(|name| !matches!(*name, "" | ".")).count() >= 128;
        return assert!(is_refused, "a good path was refused");
    };
    assert!(path.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir)));
    let mut second = PathBuf::from(if text.starts_with('/') { "/" } else { "" });
    second.extend(text.split('/').filter(|name| !matches!(*name, "" | ".")));
    assert_eq!(path, second);
    assert_eq!(read_path(path.to_str().filter(|text| !text.is_empty()).unwrap_or(".")), Some(path.clone()));
});
