//! CSS selectors of a model on the first line, a page of a stranger below: a list finds what its parts find.
#![no_main]

use helve_tools::web::count_selected;
use libfuzzer_sys::fuzz_target;

const MAX: usize = 10_000;

fuzz_target!(|text: &str| {
    let Some((selector, page)) = text.split_once('\n') else { return };
    let found = match count_selected(selector, page, MAX) {
        Ok(found) => found,
        Err(problem) => return assert!(problem.len() < 4_000, "{problem}"),
    };
    let all = count_selected("*", page, MAX).expect("a selector");
    assert!(found <= all, "more than there is");
    assert_eq!(count_selected(selector, page, 1).expect("it was one"), found.min(1));
    if let Ok(both) = count_selected(&format!("{selector}, {selector}"), page, MAX) {
        assert_eq!(both, found, "nothing is found twice");
    }
    if let Ok(with_all) = count_selected(&format!("*, {selector}"), page, MAX) {
        assert_eq!(with_all, all);
    }
});
