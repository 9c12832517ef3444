//! Files that may have been meant.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

use cap_std::fs::Dir;
use helve::ToolError;

use super::root::readable;

const NEAR_MAX: usize = 3;
const LIKENESS_MIN: f64 = 0.75;
/// Most names that are looked at: this is a courtesy, not a search.
const NAMES_MAX: usize = 2_000;

/// There is no such file, but perhaps a similar one next to it.
pub(super) fn no_file(folder: impl AsFd, name: &OsStr, shown: &str) -> ToolError {
    let error = ToolError::failed(format!("there is no file `{shown}`"));
    let near = names_like(folder, name);
    match near.is_empty() {
        true => error.suggest("use `file-list` or `file-search` to find it"),
        false => error.suggest(format!("similar names in the same folder: {}", near.join(", "))),
    }
}

/// There is no such folder; the first one on the way that is not there is named.
pub(super) fn no_folder(root: &Dir, path: &Path, shown: &str) -> ToolError {
    let missing = path.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    let missing = missing.take_while(|folder| root.symlink_metadata(folder).is_err()).last().unwrap_or(path);
    let error =
        ToolError::failed(format!("there is no folder `{}` on the way to `{shown}`", missing.display()));
    let above = missing.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let near = match (root.open_dir(above), missing.file_name()) {
        (Ok(above), Some(name)) => names_like(&above, name),
        (Ok(_) | Err(_), _) => Vec::new(),
    };
    match near.is_empty() {
        true => error.suggest("use `file-list` to see which folders there are"),
        false => error.suggest(format!("similar names in the same folder: {}", near.join(", "))),
    }
}

fn names_like(folder: impl AsFd, wanted: &OsStr) -> Vec<String> {
    let wanted = wanted.to_string_lossy().to_lowercase();
    let Ok(entries) = readable(folder).and_then(rustix::fs::Dir::new) else { return Vec::new() };
    let names =
        entries.take(NAMES_MAX).filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    let like = |name: String| {
        let likeness = strsim::jaro_winkler(&wanted, &name.to_lowercase());
        (likeness >= LIKENESS_MIN && !matches!(name.as_str(), "." | "..")).then_some((likeness, name))
    };
    let mut near: Vec<_> = names.filter_map(like).collect();
    near.sort_by(|(a, a_name), (b, b_name)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    near.into_iter().take(NEAR_MAX).map(|(_, name)| format!("`{name}`")).collect()
}
