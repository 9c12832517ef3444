//! What the lists of the policy open and close.

use std::net::IpAddr;

use helve_net::{NetError, NetPolicy, Url};

/// What the policy makes of a URL whose host, where it is a name, has the address `dns`.
fn verdict(policy: &NetPolicy, url: &str, dns: &str) -> &'static str {
    let Ok(url) = Url::parse(url) else { return "not a url" };
    let address = match url.host() {
        Some(url::Host::Ipv4(v4)) => IpAddr::V4(v4),
        Some(url::Host::Ipv6(v6)) => IpAddr::V6(v6),
        Some(url::Host::Domain(_)) | None => dns.parse().unwrap(),
    };
    match policy.verdict(&url, &[address]) {
        Ok(()) => "ok",
        Err(NetError::Forbidden { .. }) => "forbidden",
        Err(NetError::Denied { .. }) => "denied",
        Err(NetError::BadUrl { .. }) => "bad",
        Err(other) => panic!("{other}"),
    }
}

const PUBLIC: &str = "93.184.215.14";

#[test]
fn a_name_is_judged_by_its_address() {
    let policy = NetPolicy::default();
    for address in ["127.0.0.1", "::1", "10.0.0.5", "::ffff:10.0.0.5", "169.254.169.254", "fd00::1"] {
        for url in ["http://localhost/", "http://localtest.me/", "https://evil.example./x"] {
            assert_eq!(verdict(&policy, url, address), "forbidden", "{url} at {address}");
        }
    }
    assert_eq!(verdict(&policy, "https://example.com/", PUBLIC), "ok");
    assert_eq!(verdict(&policy, "https://example.com/", "2606:4700::1111"), "ok");
    assert_eq!(verdict(&policy, "https://1.1.1.1/", PUBLIC), "ok");
}

#[test]
fn one_forbidden_address_refuses_the_name() {
    let url = Url::parse("https://mixed.example/").unwrap();
    let mixed = [PUBLIC.parse().unwrap(), "10.0.0.1".parse().unwrap()];
    assert!(matches!(NetPolicy::default().verdict(&url, &mixed), Err(NetError::Forbidden { .. })));
}

#[test]
fn the_allow_list_opens_exactly_what_it_says() {
    // Entry, URL, address of the name, verdict.
    let cases = [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/", PUBLIC, "ok"),
        ("127.0.0.1:8080", "http://0x7f000001:8080/", PUBLIC, "ok"),
        ("127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080/", PUBLIC, "ok"),
        ("127.0.0.1:8080", "http://127.0.0.1:8081/", PUBLIC, "forbidden"),
        ("127.0.0.1:8080", "http://127.0.0.2:8080/", PUBLIC, "forbidden"),
        ("[::1]:8080", "http://[::1]:8080/", PUBLIC, "ok"),
        ("::1", "http://[::1]:9/", PUBLIC, "ok"),
        ("127.0.0.1:443", "https://127.0.0.1/", PUBLIC, "ok"),
        ("localhost", "http://localhost:3000/", "127.0.0.1", "ok"),
        ("localhost", "http://LOCALHOST.:3000/", "::1", "ok"),
        ("localhost:3000", "http://localhost:3001/", "127.0.0.1", "forbidden"),
        ("localhost", "http://127.0.0.1:3000/", PUBLIC, "forbidden"),
        ("localhost", "http://evil.localhost/", "127.0.0.1", "forbidden"),
        ("*.corp.example", "https://wiki.corp.example/", "10.0.0.7", "ok"),
        ("*.corp.example", "https://a.b.corp.example/", "10.0.0.7", "ok"),
        ("*.corp.example", "https://corp.example/", "10.0.0.7", "forbidden"),
        ("*.corp.example", "https://evilcorp.example/", "10.0.0.7", "forbidden"),
        ("*.corp.example", "https://wiki.corp.example.evil.com/", "10.0.0.7", "forbidden"),
        // A name never opens where clouds keep credentials; an address does.
        ("*.corp.example", "https://wiki.corp.example/", "169.254.169.254", "forbidden"),
        ("localhost", "http://localhost/", "fd00:ec2::254", "forbidden"),
        ("169.254.169.254", "http://169.254.169.254/", PUBLIC, "ok"),
        ("10.0.0.0/8", "http://10.9.8.7/", PUBLIC, "ok"),
        ("10.0.0.0/8", "http://db.example/", "10.9.8.7", "ok"),
        ("10.0.0.0/8", "http://[64:ff9b::a09:807]/", PUBLIC, "ok"),
        ("10.0.0.0/8", "http://[2002:a09:807::]/", PUBLIC, "forbidden"),
        ("10.0.0.0/8", "http://11.0.0.1/", PUBLIC, "ok"),
        ("10.0.0.0/8", "http://192.168.0.1/", PUBLIC, "forbidden"),
        ("10.0.0.0/8:8080", "http://10.9.8.7/", PUBLIC, "forbidden"),
        ("[fd00::]/8:8080", "http://[fd12::1]:8080/", PUBLIC, "ok"),
        ("fd00::/8", "http://[fd12::1]/", PUBLIC, "ok"),
    ];
    for (entry, url, dns, expected) in cases {
        let policy = NetPolicy::allowing([entry]).unwrap();
        assert_eq!(verdict(&policy, url, dns), expected, "{entry} and {url} at {dns}");
    }
}

#[test]
fn deny_and_only_hold_for_names_and_for_where_they_lead() {
    // Allow, deny, only, URL, address of the name, verdict.
    type Lists = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);
    let cases: &[(Lists, &str, &str, &str)] = &[
        ((&[], &["evil.example"], &[]), "https://evil.example/", PUBLIC, "denied"),
        ((&[], &["evil.example"], &[]), "https://EVIL.example./", PUBLIC, "denied"),
        ((&[], &["evil.example"], &[]), "https://sub.evil.example/", PUBLIC, "ok"),
        ((&[], &["*.evil.example"], &[]), "https://sub.evil.example/", PUBLIC, "denied"),
        ((&[], &["bücher.example"], &[]), "https://xn--bcher-kva.example/", PUBLIC, "denied"),
        ((&[], &["evil.example:80"], &[]), "https://evil.example/", PUBLIC, "ok"),
        ((&[], &["evil.example:80"], &[]), "http://evil.example/", PUBLIC, "denied"),
        ((&[], &["93.184.215.14"], &[]), "https://a.example/", PUBLIC, "denied"),
        ((&[], &["93.184.215.14"], &[]), "https://93.184.55054/", PUBLIC, "denied"),
        ((&[], &["93.184.215.14"], &[]), "https://[::ffff:93.184.215.14]/", PUBLIC, "denied"),
        ((&[], &["93.184.215.14"], &[]), "https://[64:ff9b::5db8:d70e]/", PUBLIC, "denied"),
        ((&[], &["[::ffff:93.184.215.14]"], &[]), "https://93.184.215.14/", PUBLIC, "denied"),
        ((&[], &["::ffff:93.184.0.0/112"], &[]), "https://a.example/", PUBLIC, "denied"),
        ((&[], &["64:ff9b::/96"], &[]), "https://[64:ff9b::5db8:d70e]/", PUBLIC, "denied"),
        ((&[], &["64:ff9b::/96"], &[]), "https://93.184.215.14/", PUBLIC, "ok"),
        ((&[], &["93.184.0.0/16:443"], &[]), "https://a.example/", PUBLIC, "denied"),
        ((&[], &["93.184.0.0/16:443"], &[]), "http://a.example/", PUBLIC, "ok"),
        ((&[], &["0.0.0.0/0:25"], &[]), "http://a.example:25/", PUBLIC, "denied"),
        ((&[], &["2606:4700::/32"], &[]), "https://a.example/", "2606:4700::1111", "denied"),
        // What is denied is denied although it is allowed.
        ((&["10.0.0.0/8"], &["10.1.0.0/16"], &[]), "http://db.example/", "10.1.2.3", "denied"),
        ((&["10.0.0.0/8"], &["10.1.0.0/16"], &[]), "http://db.example/", "10.2.2.3", "ok"),
        ((&["localhost"], &["127.0.0.0/8"], &[]), "http://localhost/", "127.0.0.1", "denied"),
        ((&[], &[], &["api.example"]), "https://api.example/", PUBLIC, "ok"),
        ((&[], &[], &["api.example"]), "https://other.example/", PUBLIC, "denied"),
        ((&[], &[], &["api.example"]), "https://93.184.215.14/", PUBLIC, "denied"),
        ((&[], &[], &["api.example:443"]), "http://api.example/", PUBLIC, "denied"),
        ((&[], &[], &["*.example"]), "https://api.example/", PUBLIC, "ok"),
        ((&[], &[], &["93.184.0.0/16"]), "https://any.example/", PUBLIC, "ok"),
        ((&[], &[], &["93.184.0.0/16"]), "https://any.example/", "8.8.8.8", "denied"),
        ((&[], &[], &["93.184.0.0/16:443"]), "http://any.example/", PUBLIC, "denied"),
        // Being listed opens nothing that is private.
        ((&[], &[], &["db.example"]), "http://db.example/", "10.0.0.1", "forbidden"),
        ((&["10.0.0.0/8"], &[], &["db.example"]), "http://db.example/", "10.0.0.1", "ok"),
        ((&["10.0.0.0/8"], &[], &["db.example"]), "http://10.0.0.1/", PUBLIC, "denied"),
        ((&[], &["bad.example"], &["*.example"]), "http://bad.example/", PUBLIC, "denied"),
    ];
    let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for ((allow, deny, only), url, dns, expected) in cases {
        let policy =
            NetPolicy { allow: list(allow), deny: list(deny), only: list(only), ..NetPolicy::default() };
        assert_eq!(verdict(&policy, url, dns), *expected, "{allow:?} {deny:?} {only:?} {url} at {dns}");
    }
}

#[test]
fn patterns_survive_being_written_down() {
    for text in [
        "localhost",
        "*",
        "*:443",
        "*.corp.example:8443",
        "10.0.0.0/8",
        "10.0.0.1:80",
        "[::1]:8080",
        "[fd00::]/8:1",
    ] {
        assert_eq!(text.parse::<helve_net::HostPattern>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "**",
        "a b",
        "http://x",
        "x:y",
        "10.0.0.0/33",
        "*.*.x",
        "[::1",
        "x/8",
        "*.",
        "*..",
        "..",
        "0%2E..",
        ":80",
        "localhost:0",
        "[::1]:0",
    ] {
        assert!(text.parse::<helve_net::HostPattern>().is_err(), "{text}");
    }
    let policy: Result<NetPolicy, _> = serde_json::from_value(serde_json::json!({ "alow": [] }));
    assert!(policy.is_err());
}

#[test]
fn what_leads_inside_is_known_before_a_lookup_unless_an_entry_is_an_address() {
    let policy =
        NetPolicy::allowing(["127.0.0.1:8080", "wiki.corp.example", "10.1.0.0/16:443", "*"]).unwrap();
    for (url, expected) in [
        ("http://127.0.0.1:8080/", Some(true)),
        ("http://0x7f.1:8080/", Some(true)),
        ("http://localhost:8080/", Some(true)),
        ("http://a.localhost:8080/", Some(true)),
        ("http://wiki.corp.example/", Some(true)),
        ("https://10.1.2.3/", Some(true)),
        // Not opened, so it is refused whatever a call counts as.
        ("http://127.0.0.1:9/", Some(false)),
        ("http://localhost/", Some(false)),
        ("https://10.2.0.1/", Some(false)),
        // Public addresses, and names at ports that no address is opened at.
        ("https://203.0.114.7/", Some(false)),
        ("http://example.com/", Some(false)),
        // A name may lead to an address that is opened at this port.
        ("https://example.com/", None),
        ("http://example.com:8080/", None),
    ] {
        assert_eq!(policy.leads_inside(&Url::parse(url).unwrap()), expected, "{url}");
    }
}
