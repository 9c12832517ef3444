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
fn patterns_survive_being_written_down() {
    for text in
        ["localhost", "*.corp.example:8443", "10.0.0.0/8", "10.0.0.1:80", "[::1]:8080", "[fd00::]/8:1"]
    {
        assert_eq!(text.parse::<helve_net::HostPattern>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "*",
        "a b",
        "http://x",
        "x:y",
        "10.0.0.0/33",
        "*.*.x",
        "[::1",
        "x/8",
        "*.",
        ":80",
        "localhost:0",
        "[::1]:0",
    ] {
        assert!(text.parse::<helve_net::HostPattern>().is_err(), "{text}");
    }
    let policy: Result<NetPolicy, _> = serde_json::from_value(serde_json::json!({ "alow": [] }));
    assert!(policy.is_err());
}
