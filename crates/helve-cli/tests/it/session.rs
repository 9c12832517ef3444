//! Ending sessions at the terminal.

use crate::home::Home;

fn adds(home: &Home, session: &str) -> i32 {
    home.run(&["call", "math-eval", "expression=1+1", "--session", session]).code
}

#[test]
fn a_session_that_was_ended_runs_nothing_and_is_listed_so() {
    let home = Home::new();
    assert_eq!(adds(&home, "s-1"), 0);
    let ran = home.run(&["session", "end", "s-1"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let refused = home.run(&["call", "math-eval", "expression=1+1", "--session", "s-1"]);
    assert_ne!(refused.code, 0);
    assert!(refused.all().contains("this session was ended"), "{}", refused.all());
    assert_eq!(adds(&home, "s-2"), 0, "another goes on");
    let listed = home.run(&["session", "list"]);
    assert!(listed.all().contains("ended"), "{}", listed.all());
    let shown = home.run(&["session", "show", "s-1"]);
    assert!(shown.all().contains("nothing runs in it any more"), "{}", shown.all());
    let told = home.run(&["audit", "list", "--tool", "session end"]);
    assert!(told.all().contains("session end"), "{}", told.all());
    let verified = home.run(&["audit", "verify"]);
    assert_eq!(verified.code, 0, "{}", verified.all());
}

#[test]
fn ending_says_what_was_ended_and_whose() {
    let home = Home::new();
    assert_eq!(adds(&home, "s-0"), 0);
    // An id can be closed before anything is known of it, and that is what is said.
    let closed = home.run(&["session", "end", "s-1", "--as", "rev"]);
    assert_eq!(closed.code, 0, "{}", closed.all());
    let words = "closed: nothing was known of a session `s-1` of `rev`";
    assert!(closed.all().contains(words), "{}", closed.all());
    let wrong = home.run(&["session", "end", "s-1"]);
    assert_eq!(wrong.code, 2, "{}", wrong.all());
    assert!(wrong.all().contains("no such session of `local`: `s-1`; `rev` has one"), "{}", wrong.all());
    assert!(wrong.all().contains("--as"), "{}", wrong.all());
    assert_eq!(adds(&home, "s-1"), 0, "nothing was ended");
    let ended = home.run(&["session", "end", "s-1", "--as", "rev"]);
    assert_eq!(ended.code, 0, "{}", ended.all());
    assert!(ended.all().contains("ended: "), "{}", ended.all());
    // A caller that names the owner means that session.
    let own = home.run(&["session", "end", "s-1", "--as", "local"]);
    assert!(own.code == 0 && own.all().contains("closed: "), "{}", own.all());
    assert_ne!(adds(&home, "s-1"), 0);
}
