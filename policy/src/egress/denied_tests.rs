//! The deny set: an example inside of each range, and the nearest address outside.
//!
//! Runs in: any (pure data).

use super::*;

fn denied(text: &str) -> Option<&'static str> {
    denied_address(text.parse().unwrap())
}

/// The first and last address of a range, and the nearest ones outside that are no other range's.
const EDGES: &[(&str, &str, &[&str])] = &[
    ("0.0.0.0", "0.255.255.255", &["1.0.0.0"]),
    ("10.0.0.0", "10.255.255.255", &["9.255.255.255", "11.0.0.0"]),
    ("100.64.0.0", "100.127.255.255", &["100.63.255.255", "100.128.0.0"]),
    ("127.0.0.0", "127.255.255.255", &["126.255.255.255", "128.0.0.0"]),
    ("169.254.0.0", "169.254.255.255", &["169.253.255.255", "169.255.0.0"]),
    ("172.16.0.0", "172.31.255.255", &["172.15.255.255", "172.32.0.0"]),
    ("192.0.0.0", "192.0.0.255", &["191.255.255.255", "192.0.1.0"]),
    ("192.0.2.0", "192.0.2.255", &["192.0.1.255", "192.0.3.0"]),
    ("192.88.99.0", "192.88.99.255", &["192.88.98.255", "192.88.100.0"]),
    ("192.168.0.0", "192.168.255.255", &["192.167.255.255", "192.169.0.0"]),
    ("198.18.0.0", "198.19.255.255", &["198.17.255.255", "198.20.0.0"]),
    ("198.51.100.0", "198.51.100.255", &["198.51.99.255", "198.51.101.0"]),
    ("203.0.113.0", "203.0.113.255", &["203.0.112.255", "203.0.114.0"]),
    ("224.0.0.0", "255.255.255.255", &["223.255.255.255"]),
    ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", &["2001:1:ffff::1", "2001:2:1::"]),
    ("2001:10::", "2001:1f:ffff::1", &["2001:f:ffff::1", "2001:20::"]),
    ("2001:db8::", "2001:db8:ffff::1", &["2001:db7:ffff::1", "2001:db9::"]),
    ("3fff::", "3fff:fff:ffff::1", &["3ffe:ffff::1", "3fff:1000::"]),
    ("fc00::", "fdff:ffff::1", &[]),
    ("fe80::", "febf:ffff::1", &[]),
    ("fec0::", "feff:ffff::1", &[]),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &[]),
    ("100::", "100::ffff:ffff:ffff:ffff", &[]),
    ("5f00::", "5f00:ffff::1", &[]),
    ("::", "::1", &[]),
];

#[test]
fn each_range_is_denied_to_its_edges_and_no_further() {
    for (first, last, outside) in EDGES {
        assert!(denied(first).is_some(), "{first}");
        assert!(denied(last).is_some(), "{last}");
        for near in *outside {
            assert_eq!(denied(near), None, "{near}");
        }
    }
}

#[test]
fn each_row_of_the_table_has_an_example() {
    for row in DENIED_RANGES {
        let first = row.network.address();
        let is_shown = EDGES.iter().any(|(edge, last, _)| {
            [edge, last].iter().any(|text| text.parse::<IpAddr>().unwrap() == first)
        });
        assert!(is_shown, "{}", row.network);
        assert_eq!(Network::around(first, row.network.prefix()), Some(row.network));
    }
}

#[test]
fn public_addresses_may_be_dialled() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "140.82.121.3",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "2000::",
    ] {
        assert_eq!(denied(text), None, "{text}");
    }
}

#[test]
fn the_metadata_services_are_named_as_such() {
    for (text, near) in [
        ("169.254.169.254", "169.253.169.254"),
        ("169.254.170.2", "169.255.170.2"),
        ("169.254.170.23", "169.255.170.23"),
        ("168.63.129.16", "168.63.129.17"),
        ("100.100.100.200", "100.128.100.200"),
        ("192.0.0.192", "192.0.1.192"),
        ("fd00:ec2::254", "2600:ec2::254"),
        ("fd00:ec2::23", "2600:ec2::23"),
        ("fd20:ce::254", "2620:ce::254"),
        ("::ffff:a9fe:a9fe", "::ffff:1.1.1.1"),
        ("64:ff9b::a9fe:a9fe", "64:ff9b::1.1.1.1"),
    ] {
        assert_eq!(denied(text), Some("a cloud's metadata service"), "{text}");
        assert_eq!(denied(near), None, "{near}");
    }
    assert_eq!(METADATA_ADDRESSES.len(), 9);
}

/// Forms that carry an IPv4 address: what they are of 10.1.2.3, and of 9.1.2.3.
const CARRYING: &[(&str, &str, &str)] = &[
    ("v4-mapped", "::ffff:10.1.2.3", "::ffff:9.1.2.3"),
    ("v4-compatible", "::10.1.2.3", "::9.1.2.3"),
    ("NAT64", "64:ff9b::10.1.2.3", "64:ff9b::9.1.2.3"),
    ("local NAT64, /96", "64:ff9b:1::10.1.2.3", "64:ff9b:1::9.1.2.3"),
    ("local NAT64, /48", "64:ff9b:1:a01:2:300::", "64:ff9b:1:901:2:300::"),
    ("local NAT64, /56", "64:ff9b:1:a:1:203::", "64:ff9b:1:9:1:203::"),
    ("local NAT64, /64", "64:ff9b:1:0:a:102:300:0", "64:ff9b:1:0:9:102:300:0"),
    ("6to4", "2002:a01:203::1", "2002:901:203::1"),
    ("Teredo, server", "2001:0:a01:203::f6fe:fdfc", "2001:0:901:203::f6fe:fdfc"),
    ("Teredo, client", "2001:0:901:203::f5fe:fdfc", "2001:0:901:203::f6fe:fdfc"),
    ("ISATAP", "2600::5efe:a01:203", "2600::5efe:901:203"),
    ("ISATAP, global", "2600::200:5efe:a01:203", "2600::200:5efe:901:203"),
];

#[test]
fn an_address_that_carries_another_is_judged_by_that() {
    for (what, private, public) in CARRYING {
        assert_eq!(denied(private), Some("a private network"), "{what}: {private}");
        assert_eq!(denied(public), None, "{what}: {public}");
    }
    assert_eq!(denied("64:ff9b:1::"), Some("no address of another host"));
    assert_eq!(denied("64:ff9b:1::0.0.0.1"), Some("no address of another host"));
    assert_eq!(denied("2002:a9fe:a9fe::5efe:a01:203"), Some("a cloud's metadata service"));
}

#[test]
fn ipv6_outside_of_the_global_range_is_no_public_address() {
    for text in ["200::1", "400::1", "1fff::1", "4000::1", "::ffff:0:9.1.2.3", "64:ff9b:2::1"] {
        assert_eq!(denied(text), Some("no public address"), "{text}");
    }
    assert_eq!(denied("2000::1"), None);
    assert_eq!(denied("3ffe::1"), None);
    assert_eq!(denied("e000::1"), Some("no public address"));
}
