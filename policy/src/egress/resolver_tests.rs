//! Addresses of DNS servers.
//!
//! Runs in: any (pure data).

use super::*;

#[test]
fn a_resolver_is_an_address_and_perhaps_a_port() {
    for (text, address, shown) in [
        ("1.1.1.1", "1.1.1.1:53", "1.1.1.1"),
        ("127.0.0.53", "127.0.0.53:53", "127.0.0.53"),
        ("10.0.0.1:5353", "10.0.0.1:5353", "10.0.0.1:5353"),
        ("10.0.0.1:53", "10.0.0.1:53", "10.0.0.1"),
        ("2606:4700::1111", "[2606:4700::1111]:53", "2606:4700::1111"),
        ("[2606:4700::1111]", "[2606:4700::1111]:53", "2606:4700::1111"),
        ("[::1]:5353", "[::1]:5353", "[::1]:5353"),
    ] {
        let resolver: Resolver = text.parse().unwrap();
        assert_eq!(resolver.address(), address.parse().unwrap(), "{text}");
        assert_eq!(resolver.to_string(), shown);
        let json = serde_json::to_string(&resolver).unwrap();
        assert_eq!(serde_json::from_str::<Resolver>(&json).unwrap(), resolver);
    }
}

#[test]
fn anything_else_is_no_resolver() {
    for text in [
        "",
        "dns.test",
        "dns.test:53",
        "1.1.1.1:0",
        "1.1.1.1:",
        "1.1.1.1:65536",
        "1.1.1",
        "[1.1.1.1]",
        "fe80::1%1",
        "[fe80::1%1]:53",
        "[2606:4700::1111]53",
        "01.1.1.1",
        "udp://1.1.1.1",
    ] {
        let error = text.parse::<Resolver>().unwrap_err();
        assert_eq!(error, ResolverError::Form { found: quote(text) }, "{text}");
    }
    for text in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "fe80::1"] {
        let error = ResolverError::Address { found: text.parse().unwrap() };
        assert_eq!(text.parse::<Resolver>(), Err(error), "{text}");
    }
}
