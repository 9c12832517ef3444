//! The servers that other tests rely on: they start, and say where they are.

use helve_testkit::OfficeServers;

#[test]
fn both_sets_of_servers_start() {
    let (servers, jmap) = (OfficeServers::start(), OfficeServers::start_jmap());
    assert!(servers.port("/imap/port") > 0);
    assert!(jmap.text("/jmap/session").starts_with("http://127.0.0.1"));
    assert_eq!(servers.sent().len(), 0);
}
