//! URLs that have got past the checks of other software.

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
fn no_spelling_of_a_private_address_gets_through() {
    let policy = NetPolicy::default();
    let urls = [
        "http://127.0.0.1/",
        "http://127.0.0.1:80/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1./",
        "http://2130706433/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://0177.0000.0000.0001/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.0x0.0.01/",
        "http://0/",
        "http://0.0.0.0/",
        "http://0x0/",
        "http://00000.0/",
        "http://%31%32%37.0.0.1/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://①②⑦.⓪.⓪.①/",
        "http:\\\\127.0.0.1\\",
        "http:/127.0.0.1/",
        "http:127.0.0.1/",
        "HTTP://127.0.0.1/",
        "http://\t127.0.0.1/",
        "http://127.0.0.1\n/",
        "http://127.0.0.1#@example.com/",
        "http://127.0.0.1?@example.com/",
        "http://10.0.0.1/",
        "http://167772161/",
        "http://172.16.5.4/",
        "http://192.168.0.1/",
        "http://0xc0a80001/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://2852039166/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://168.63.129.16/",
        "http://192.0.0.192/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::1]:8080/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[0000::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::127.0.0.1]/",
        "http://[::7f00:1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[64:ff9b::a00:1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2002:a00:1::1]/",
        "http://[2001:0:7f00:1::]/",
        "http://[2001:db8::1]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "https://[::1]/",
    ];
    for url in urls {
        assert_eq!(verdict(&policy, url, PUBLIC), "forbidden", "{url}");
    }
}

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
fn other_schemes_and_user_names_are_refused() {
    let policy = NetPolicy::default();
    let urls = [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com:70/_",
        "data:text/plain,x",
        "javascript:alert(1)",
        "unix:/var/run/docker.sock",
        "ws://example.com/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://:secret@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
    ];
    for url in urls {
        assert_eq!(verdict(&policy, url, PUBLIC), "bad", "{url}");
    }
    for url in
        ["http://", "http://[::1", "http://[fe80::1%25eth0]/", "http://1.2.3.4.5/", "http://256.1.1.1/"]
    {
        assert_eq!(verdict(&policy, url, PUBLIC), "not a url", "{url}");
    }
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
