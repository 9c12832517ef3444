//! Which addresses are not the public internet: IANA's special-purpose registries as a table.
//!
//! The standard library's `is_global` is unstable, and a check by a few hand-picked ranges is how
//! most servers got hit. Ranges that a tunnel or a translator would turn into an IPv4 address are
//! here too, so that `64:ff9b::127.0.0.1` is no way around.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address range with its own purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    /// What the range is for, for messages.
    pub name: &'static str,
    /// What it takes to reach it.
    pub reach: Reach,
}

/// What it takes to reach a special range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A private network: allowed by host name or by address.
    Private,
    /// Hosts a service that gives out credentials, or cannot be a server: allowed only by address.
    ByAddress,
}

use Reach::{ByAddress, Private};

/// First matching row wins, so single addresses stand before the range around them.
const V4: &[(Ipv4Addr, u8, &str, Reach)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network", ByAddress),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private use", Private),
    (Ipv4Addr::new(100, 100, 100, 200), 32, "cloud metadata", ByAddress),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared address space", Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback", Private),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "cloud metadata", ByAddress),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local", ByAddress),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private use", Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments", ByAddress),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation", ByAddress),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "AS112", ByAddress),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "multicast tunnelling", ByAddress),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay", ByAddress),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private use", Private),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "AS112", ByAddress),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking", ByAddress),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation", ByAddress),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation", ByAddress),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast", ByAddress),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved", ByAddress),
];

const fn v6(a: u16, b: u16, c: u16, d: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)
}

/// IPv4 in IPv6 that is still in use (mapped, NAT64) is unwrapped before this table is asked; the
/// forms that were given up (compatible, 6to4, Teredo) are refused as a whole.
const V6: &[(Ipv6Addr, u8, &str, Reach)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified", ByAddress),
    (Ipv6Addr::LOCALHOST, 128, "loopback", Private),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible", ByAddress),
    (v6(0x64, 0xff9b, 1, 0), 48, "local-use NAT64", ByAddress),
    (v6(0x100, 0, 0, 0), 64, "discard", ByAddress),
    (v6(0x100, 0, 0, 1), 64, "dummy prefix", ByAddress),
    (v6(0x2001, 0, 0, 0), 32, "Teredo", ByAddress),
    (v6(0x2001, 0, 0, 0), 23, "protocol assignments", ByAddress),
    (v6(0x2001, 0xdb8, 0, 0), 32, "documentation", ByAddress),
    (v6(0x2002, 0, 0, 0), 16, "6to4", ByAddress),
    (v6(0x2620, 0x4f, 0x8000, 0), 48, "AS112", ByAddress),
    (v6(0x3fff, 0, 0, 0), 20, "documentation", ByAddress),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, "cloud metadata", ByAddress),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, "cloud metadata", ByAddress),
    (v6(0xfc00, 0, 0, 0), 7, "unique local", Private),
    (v6(0xfe80, 0, 0, 0), 10, "link-local", ByAddress),
    (v6(0xfec0, 0, 0, 0), 10, "site-local", ByAddress),
    (v6(0xff00, 0, 0, 0), 8, "multicast", ByAddress),
];

/// The special range that an address lies in; `None` for the public internet.
///
/// ```
/// use helve_net::address::special;
/// assert_eq!(special("127.0.0.1".parse().unwrap()).unwrap().name, "loopback");
/// assert_eq!(special("::ffff:10.0.0.1".parse().unwrap()).unwrap().name, "private use");
/// assert!(special("1.1.1.1".parse().unwrap()).is_none());
/// ```
pub fn special(address: IpAddr) -> Option<Special> {
    match unwrap_embedded(address) {
        IpAddr::V4(v4) => V4
            .iter()
            .find(|(net, length, ..)| in_v4(v4, *net, *length))
            .map(|&(_, _, name, reach)| Special { name, reach }),
        IpAddr::V6(v6) => V6
            .iter()
            .find(|(net, length, ..)| in_v6(v6, *net, *length))
            .map(|&(_, _, name, reach)| Special { name, reach })
            // What IANA has not handed out cannot be the public internet.
            .or_else(|| {
                (!in_v6(v6, self::v6(0x2000, 0, 0, 0), 3))
                    .then_some(Special { name: "unassigned", reach: ByAddress })
            }),
    }
}

/// The IPv4 address that a packet to this address ends up at, or the address itself.
pub fn unwrap_embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let nat64 = in_v6(v6, self::v6(0x64, 0xff9b, 0, 0), 96);
    match v6.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None if nat64 => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        None => address,
    }
}

/// Whether `address` lies in `network/length`. Addresses of the other family never do.
pub fn contains(network: IpAddr, length: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => in_v4(address, network, length),
        (IpAddr::V6(network), IpAddr::V6(address)) => in_v6(address, network, length),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

fn in_v4(address: Ipv4Addr, network: Ipv4Addr, length: u8) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    (address.to_bits() ^ network.to_bits()) & mask == 0
}

fn in_v6(address: Ipv6Addr, network: Ipv6Addr, length: u8) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    (address.to_bits() ^ network.to_bits()) & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(address: &str) -> &'static str {
        special(address.parse().unwrap()).map_or("public", |special| special.name)
    }

    #[test]
    fn every_special_range_is_known_to_its_edges() {
        let cases = [
            ("0.0.0.0", "this network"),
            ("0.255.255.255", "this network"),
            ("1.0.0.0", "public"),
            ("9.255.255.255", "public"),
            ("10.0.0.0", "private use"),
            ("10.255.255.255", "private use"),
            ("100.63.255.255", "public"),
            ("100.64.0.0", "shared address space"),
            ("100.100.100.200", "cloud metadata"),
            ("100.127.255.255", "shared address space"),
            ("100.128.0.0", "public"),
            ("127.255.255.255", "loopback"),
            ("168.63.129.16", "cloud metadata"),
            ("169.254.169.254", "link-local"),
            ("172.15.255.255", "public"),
            ("172.16.0.0", "private use"),
            ("172.31.255.255", "private use"),
            ("172.32.0.0", "public"),
            ("192.0.0.192", "protocol assignments"),
            ("192.0.1.0", "public"),
            ("192.0.2.1", "documentation"),
            ("192.168.255.255", "private use"),
            ("198.19.255.255", "benchmarking"),
            ("198.20.0.0", "public"),
            ("223.255.255.255", "public"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("8.8.8.8", "public"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::2", "IPv4-compatible"),
            ("::127.0.0.1", "IPv4-compatible"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:7f00:1", "loopback"),
            ("::ffff:8.8.8.8", "public"),
            ("64:ff9b::10.0.0.1", "private use"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b::8.8.8.8", "public"),
            ("64:ff9b:1::8.8.8.8", "local-use NAT64"),
            ("100::1", "discard"),
            ("2001::1", "Teredo"),
            ("2001:1ff::1", "protocol assignments"),
            ("2001:200::1", "public"),
            ("2001:4860:4860::8888", "public"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("2606:4700::1111", "public"),
            ("3fff:fff::1", "documentation"),
            ("4000::1", "unassigned"),
            ("5f00::1", "unassigned"),
            ("fc00::1", "unique local"),
            ("fd00:ec2::254", "cloud metadata"),
            ("fd12:3456::1", "unique local"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ];
        for (address, expected) in cases {
            assert_eq!(name(address), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_embedded_address_is_as_special_as_the_plain_one(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let nat64 = Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(bits));
            prop_assert_eq!(special(v4.into()), special(v4.to_ipv6_mapped().into()));
            prop_assert_eq!(special(v4.into()), special(nat64.into()));
        }
    }
}
