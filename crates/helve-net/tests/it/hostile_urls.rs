//! URLs that must not be fetched under the default policy, in every notation that has got past a
//! check somewhere, and ordinary ones that must be. Each goes the whole way: parser, lookup, table.

use std::sync::Arc;

use helve_net::{Lookup, NetPolicy, Report, Verdict, check};

const PUBLIC: &str = "93.184.215.14";

/// Denied although every name in it has a public address.
const HOSTILE: &[&str] = &[
    "http://127.0.0.1/",
    "http://127.0.0.1./",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7F000001/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0177.00.00.01/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0x0000007f.0x00000000.0x00000000.0x00000001/",
    "http://0177.0x0.1/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://169.254.169.254/",
    "http://169.254.169.254./",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xA9FEA9FE/",
    "http://025177524776/",
    "http://169.16689662/",
    "http://169.254.43518/",
    "http://0251.0376.0251.0376/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0x000000a9.0x000000fe.0x000000a9.0x000000fe/",
    "http://0251.0xfe.43518/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[::169.254.169.254]/",
    "http://[::ffff:0:169.254.169.254]/",
    "http://10.0.0.1/",
    "http://10.0.0.1./",
    "http://167772161/",
    "http://0xa000001/",
    "http://0xA000001/",
    "http://01200000001/",
    "http://10.1/",
    "http://10.0.1/",
    "http://012.00.00.01/",
    "http://0xa.0x0.0x0.0x1/",
    "http://0x0000000a.0x00000000.0x00000000.0x00000001/",
    "http://012.0x0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:a00:1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[2002:a00:1::]/",
    "http://[::10.0.0.1]/",
    "http://[::ffff:0:10.0.0.1]/",
    "http://192.168.1.1/",
    "http://192.168.1.1./",
    "http://3232235777/",
    "http://0xc0a80101/",
    "http://0xC0A80101/",
    "http://030052000401/",
    "http://192.11010305/",
    "http://192.168.257/",
    "http://0300.0250.01.01/",
    "http://0xc0.0xa8.0x1.0x1/",
    "http://0x000000c0.0x000000a8.0x00000001.0x00000001/",
    "http://0300.0xa8.257/",
    "http://[::ffff:192.168.1.1]/",
    "http://[::ffff:c0a8:101]/",
    "http://[64:ff9b::192.168.1.1]/",
    "http://[2002:c0a8:101::]/",
    "http://[::192.168.1.1]/",
    "http://[::ffff:0:192.168.1.1]/",
    "http://172.31.255.254/",
    "http://172.31.255.254./",
    "http://2887778302/",
    "http://0xac1ffffe/",
    "http://0xAC1FFFFE/",
    "http://025407777776/",
    "http://172.2097150/",
    "http://172.31.65534/",
    "http://0254.037.0377.0376/",
    "http://0xac.0x1f.0xff.0xfe/",
    "http://0x000000ac.0x0000001f.0x000000ff.0x000000fe/",
    "http://0254.0x1f.65534/",
    "http://[::ffff:172.31.255.254]/",
    "http://[::ffff:ac1f:fffe]/",
    "http://[64:ff9b::172.31.255.254]/",
    "http://[2002:ac1f:fffe::]/",
    "http://[::172.31.255.254]/",
    "http://[::ffff:0:172.31.255.254]/",
    "http://100.100.100.200/",
    "http://100.100.100.200./",
    "http://1684301000/",
    "http://0x646464c8/",
    "http://0x646464C8/",
    "http://014431062310/",
    "http://100.6579400/",
    "http://100.100.25800/",
    "http://0144.0144.0144.0310/",
    "http://0x64.0x64.0x64.0xc8/",
    "http://0x00000064.0x00000064.0x00000064.0x000000c8/",
    "http://0144.0x64.25800/",
    "http://[::ffff:100.100.100.200]/",
    "http://[::ffff:6464:64c8]/",
    "http://[64:ff9b::100.100.100.200]/",
    "http://[2002:6464:64c8::]/",
    "http://[::100.100.100.200]/",
    "http://[::ffff:0:100.100.100.200]/",
    "http://127.0.0.1:80/",
    "https://127.0.0.1:443/",
    "http://127.127.127.127/",
    "http://127.255.255.254/",
    "http://0177.0000.0000.0001/",
    "http://127.0x0.0.01/",
    "http://0x7f.0x1/",
    "http://0X7F.1/",
    "http://0x7f000001:8080/",
    "http://00000000000000000000000000000177.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0x0/",
    "http://0x/",
    "http://00000.0/",
    "http://0.0.0.0:8080/",
    "http://0.1.2.3/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://%30x7f.1/",
    "http://２１３０７０６４３３/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
    "http://⑯⑨。②⑤④。⑯⑨｡②⑤④/",
    "http://0ｘ7f.1/",
    "http://127.0.0.1\u{ad}/",
    "http://1\u{200b}27.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http:\\/127.0.0.1/",
    "http:////127.0.0.1/",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "HTTP://127.0.0.1/",
    "hTTpS://127.0.0.1/",
    "  http://127.0.0.1/  ",
    "\thttp://127.0.0.1/",
    "ht\ntp://127.0.0.1/",
    "http://\t127.0.0.1/",
    "http://127.0\t.0.1/",
    "http://127.0.0.1\n/",
    "http://127.0.0.1\r\n:80/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://127.0.0.1\\@example.com/",
    "http://127.0.0.1:80\\@example.com:80/",
    "http://127.0.0.1/@example.com",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://100.64.0.1/",
    "http://168.63.129.16/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://4294967295/",
    "http://[::1]/",
    "http://[::1]:8080/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "http://[0::0:1]/",
    "http://[::0.0.0.1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:0]/",
    "http://[::FFFF:127.0.0.1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[::ffff:0.0.0.0]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:0:0:0:0:7f00:1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001::1]/",
    "http://[2001:10::1]/",
    "http://[2001:20::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[100::1]/",
    "http://[100:0:0:1::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[fd12:3456:789a:1::1]/",
    "http://[fe80::1]/",
    "http://[FE80::A9FE:A9FE]/",
    "http://[febf:ffff::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[ff0e::1]/",
    "https://[::1]/",
    "http://[%3a%3a1]/",
    "http://[::1%25lo]/",
    "http://[::1%lo]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1]./",
    "http://[::1",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://[::ffff:127.1]/",
    "http://[::ffff:0x7f.0.0.1]/",
    "http://[v1.fe80]/",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
    "http://127.0.0.256/",
    "http://0x100000000/",
    "http://4294967296/",
    "http://0xfffffffff7f000001/",
    "http://1.2.3.08/",
    "http://127.0.0.1.1/",
    "http://example.com.127.0.0.0x1/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://LocalHost:3000/",
    "http://localhost./",
    "http://localhost../",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://ⓛocalhost/",
    "http://l%6fcalhost/",
    "http://local\u{ad}host/",
    "http://%6c%6f%63%61%6c%68%6f%73%74/",
    "http://foo.localhost/",
    "http://FOO.LOCALHOST./",
    "http://a.b.c.localhost:8080/",
    "http://127.0.0.1.localhost/",
    "http://example.com.localhost/",
    "https://localhost:443/",
    "http://expyuzz4wqqyqhjn.onion/",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://example.com%40127.0.0.1/",
    "http://127.0.0.1@example.com/",
    "http://127.0.0.1:80@example.com/",
    "http://a:b:c@127.0.0.1/",
    "http://example.com%2f@127.0.0.1/",
    "http://%00@127.0.0.1/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://example.com:８０/",
    "http://exa mple.com/",
    "http://example.com%00.evil/",
    "http://example.com%0a/",
    "http://exa%23mple.com/",
    "http://exa|mple.com/",
    "http://exa^mple.com/",
    "http://<example>.com/",
    "http://xn--/",
    "http://xn--a/",
    "http://",
    "http:///",
    "http://./",
    "http://../",
    "http://:80/",
    "http://?",
    "https://#",
    "",
    " ",
    "/",
    "//127.0.0.1/",
    "127.0.0.1",
    "localhost:8080",
    "not a url",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "FILE:///etc/passwd",
    "ftp://example.com/",
    "gopher://example.com:70/_",
    "dict://example.com:11211/stat",
    "ldap://example.com/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "blob:https://example.com/1",
    "about:blank",
    "unix:/var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "ws://example.com/",
    "wss://example.com/",
    "view-source:http://127.0.0.1/",
    "jar:http://127.0.0.1!/",
    "url:http://127.0.0.1/",
    "http://[::1]:80:80/",
    "http://example.com\u{0}/",
];

/// Names that lead where they must not.
const HOSTILE_NAMES: &[(&str, &str)] = &[
    ("http://localtest.me/", "127.0.0.1"),
    ("http://127.0.0.1.nip.io/", "127.0.0.1"),
    ("http://evil.example/", "::1"),
    ("https://evil.example./x", "10.0.0.5"),
    ("http://EVIL.example/", "::ffff:10.0.0.5"),
    ("http://metadata.google.internal/computeMetadata/v1/", "169.254.169.254"),
    ("http://instance-data.ec2.internal/latest/", "169.254.169.254"),
    ("http://metadata/", "169.254.169.254"),
    ("http://printer.local/", "192.168.1.20"),
    ("http://router.home.arpa/", "192.168.1.1"),
    ("http://db.internal:5432/", "10.9.8.7"),
    ("http://kubernetes.default.svc.cluster.local/", "10.96.0.1"),
    ("http://host.docker.internal/", "172.17.0.1"),
    ("http://intranet/", "10.0.0.8"),
    ("http://nat64.example/", "64:ff9b::7f00:1"),
    ("http://compat.example/", "::7f00:1"),
    ("http://sixtofour.example/", "2002:7f00:1::"),
    ("http://ula.example/", "fd00::1"),
    ("http://linklocal.example/", "fe80::1"),
    ("http://zero.example/", "0.0.0.0"),
    ("http://broadcast.example/", "255.255.255.255"),
    ("http://multicast.example/", "ff02::1"),
    ("http://cgnat.example/", "100.64.0.1"),
    ("http://alibaba.example/", "100.100.100.200"),
    ("http://azure.example/", "168.63.129.16"),
    ("http://oracle.example/", "192.0.0.192"),
    ("http://aws6.example/", "fd00:ec2::254"),
    ("http://bücher.example/", "10.0.0.1"),
];

/// URLs and the address of the name in them, if there is one.
const ORDINARY: &[(&str, &str)] = &[
    ("http://example.com/", "93.184.215.14"),
    ("https://example.com/", "93.184.215.14"),
    ("https://example.com:8443/path?q=1#f", "93.184.215.14"),
    ("HTTPS://EXAMPLE.COM/", "93.184.215.14"),
    ("https://example.com./", "93.184.215.14"),
    ("https://example.com/", "2606:4700::1111"),
    ("https://sub.domain.example.co.uk/a/b", "8.8.8.8"),
    ("https://bücher.example/", "93.184.215.14"),
    ("https://xn--bcher-kva.example/", "93.184.215.14"),
    ("https://例え.jp/", "93.184.215.14"),
    ("https://under_score.example/", "93.184.215.14"),
    ("https://localhost.example.com/", "93.184.215.14"),
    ("https://mylocalhost/", "93.184.215.14"),
    ("https://127-0-0-1.example.com/", "93.184.215.14"),
    ("https://example.com/@127.0.0.1", "93.184.215.14"),
    ("https://example.com/?u=http://127.0.0.1/", "93.184.215.14"),
    ("https://example.com/#http://127.0.0.1/", "93.184.215.14"),
    ("http:example.com/", "93.184.215.14"),
    ("https://example.com\\path", "93.184.215.14"),
    ("https://1.1.1.1/", "93.184.215.14"),
    ("https://16843009/", "93.184.215.14"),
    ("https://[2606:4700::1111]/", "93.184.215.14"),
    ("https://[2606:4700::1111]:8443/", "93.184.215.14"),
    ("https://[::ffff:8.8.8.8]/", "93.184.215.14"),
    ("https://[64:ff9b::8.8.8.8]/", "93.184.215.14"),
    ("https://11.0.0.1/", "93.184.215.14"),
    ("https://172.32.0.1/", "93.184.215.14"),
    ("https://100.128.0.1/", "93.184.215.14"),
    ("https://192.169.0.1/", "93.184.215.14"),
    ("https://a.internal/", "93.184.215.14"),
    ("https://a.local/", "93.184.215.14"),
    ("https://1and1.example/", "93.184.215.14"),
    ("https://0x.example/", "93.184.215.14"),
    ("https://a.1a/", "93.184.215.14"),
];

/// Every name has this address.
fn lookup(address: &str) -> Lookup {
    let address = address.parse().unwrap();
    Arc::new(move |_| Box::pin(async move { Ok(vec![address]) }))
}

async fn report(url: &str, address: &str) -> Report {
    check(&NetPolicy::default(), url, &lookup(address)).await
}

#[tokio::test]
async fn no_notation_gets_through() {
    assert!(HOSTILE.len() > 150);
    let mut passed = Vec::new();
    for url in HOSTILE {
        let report = report(url, PUBLIC).await;
        assert!(!report.reason.is_empty(), "{url:?}");
        if report.verdict != Verdict::Deny {
            passed.push((url, report.host));
        }
    }
    assert!(passed.is_empty(), "{passed:?}");
}

#[tokio::test]
async fn no_name_leads_inside() {
    for (url, address) in HOSTILE_NAMES {
        let report = report(url, address).await;
        assert_eq!(report.verdict, Verdict::Deny, "{url}");
        assert_eq!(report.addresses.len(), 1, "{url}");
        assert!(report.reason.contains("not on the public internet"), "{url}: {}", report.reason);
    }
}

#[tokio::test]
async fn ordinary_urls_pass() {
    for (url, address) in ORDINARY {
        let report = report(url, address).await;
        assert_eq!(report.verdict, Verdict::Allow, "{url}: {}", report.reason);
    }
}

#[tokio::test]
async fn localhost_is_never_looked_up() {
    let asked: Lookup = Arc::new(|name| panic!("`{name}` was looked up"));
    for url in ["http://localhost/", "http://LOCALHOST./", "http://a.localhost:1/", "http://x.onion/"] {
        assert_eq!(check(&NetPolicy::default(), url, &asked).await.verdict, Verdict::Deny, "{url}");
    }
    let policy = NetPolicy::allowing(["localhost:8080"]).unwrap();
    let report = check(&policy, "http://localhost:8080/", &asked).await;
    assert_eq!((report.verdict, report.addresses.len()), (Verdict::Allow, 2));
}

/// An address in one of the ways the URL standard reads: one to four numbers, each decimal, octal or
/// hexadecimal, with characters that mean the same as others.
fn spelled(address: std::net::Ipv4Addr, parts: usize, bases: [u8; 4], disguise: u8) -> String {
    let octets = address.octets();
    let (heads, tail) = octets.split_at(parts - 1);
    let tail = tail.iter().fold(0_u32, |sum, octet| sum << 8 | u32::from(*octet));
    let numbers = heads.iter().map(|octet| u32::from(*octet)).chain([tail]);
    let written: Vec<_> = numbers
        .zip(bases)
        .map(|(number, base)| match base % 4 {
            0 => format!("{number}"),
            1 => format!("0{number:o}"),
            2 => format!("0x{number:x}"),
            _ => format!("0X000{number:X}"),
        })
        .collect();
    let text = written.join(".");
    match disguise % 5 {
        0 => text,
        1 => text.replace('.', "。") + ".",
        2 => text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        3 => text.chars().map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap()).collect(),
        _ => text.chars().flat_map(|c| [c, '\t']).collect(),
    }
}

proptest::proptest! {
    #[test]
    fn however_an_address_is_spelled_it_is_the_same(
        bits: u32, parts in 1..=4_usize, bases: [u8; 4], disguise: u8,
    ) {
        let address = std::net::Ipv4Addr::from_bits(bits);
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("http://{}/", spelled(address, parts, bases, disguise));
        let report = tokio.block_on(report(&url, PUBLIC));
        let is_special = helve_net::address::special(address.into()).is_some();
        proptest::prop_assert_eq!(report.host, Some(address.to_string()), "{}", url);
        proptest::prop_assert_eq!(report.verdict == Verdict::Deny, is_special, "{}", url);
    }
}
