//! Rules as users write them.
//!
//! Runs in: any (pure data).

use super::*;

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn name(text: &str) -> HostName {
    HostName::from_wire(text.as_bytes()).unwrap()
}

#[track_caller]
fn refused(text: &str, error: &str) -> Option<&'static str> {
    let found = text.parse::<Rule>().expect_err(text);
    assert_eq!(found.to_string(), error, "{text}");
    found.hint()
}

#[test]
fn a_rule_is_shown_as_a_user_would_write_it() {
    for (text, shown) in [
        ("github.com", "github.com"),
        ("github.com:443", "github.com"),
        ("GitHub.com.:443,22", "github.com:22,443"),
        ("a.test:22,22,80-82,81,443", "a.test:22,80-82,443"),
        ("a.test:80-81", "a.test:80,81"),
        ("a.test:8000-8010", "a.test:8000-8010"),
        ("a.test:1", "a.test:1"),
        ("a.test:65535", "a.test:65535"),
        ("*.pkg.example", "*.pkg.example"),
        ("*.Pkg.example:80", "*.pkg.example:80"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("intranet:80", "intranet:80"),
        ("1.1.1.1", "1.1.1.1"),
        ("1.1.1.1/32:80", "1.1.1.1:80"),
        ("1.1.1.0/24", "1.1.1.0/24"),
        ("8.0.0.0/7:22", "8.0.0.0/7:22"),
        ("[2606:4700:4700::1111]", "[2606:4700:4700::1111]"),
        ("[2606:4700:4700:0::1111]:80", "[2606:4700:4700::1111]:80"),
        ("[2606:4700::/32]:22,443", "[2606:4700::/32]:22,443"),
    ] {
        let rule = rule(text);
        assert_eq!(rule.to_string(), shown, "{text}");
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(json, format!("{shown:?}"));
        assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
    }
    assert!(serde_json::from_str::<Rule>("\"10.0.0.1\"").is_err());
}

#[test]
fn a_name_allows_itself_alone() {
    let rule = rule("allowed.test");
    for (text, is_named) in [
        ("allowed.test", true),
        ("ALLOWED.test.", true),
        ("evilallowed.test", false),
        ("allowed.test.evil.test", false),
        ("x.allowed.test", false),
        ("allowed.tes", false),
        ("test", false),
    ] {
        assert_eq!(rule.names(&name(text)), is_named, "{text}");
    }
}

#[test]
fn a_wildcard_allows_the_names_below_and_not_the_apex() {
    let rule = rule("*.allowed.test");
    for (text, is_named) in [
        ("x.allowed.test", true),
        ("X.Y.allowed.test.", true),
        ("1.1.1.1.allowed.test", true),
        ("allowed.test", false),
        ("xallowed.test", false),
        ("evilallowed.test", false),
        ("allowed.test.evil.test", false),
        ("x.allowed.test.evil.test", false),
        ("x.test", false),
    ] {
        assert_eq!(rule.names(&name(text)), is_named, "{text}");
    }
}

#[test]
fn a_wildcard_reaches_four_labels_and_100_characters_down() {
    let rule = rule("*.allowed.test");
    let [long, too_long] = [49, 50].map(|rest| format!("{}.{}", "a".repeat(50), "b".repeat(rest)));
    for (below, is_named) in
        [("a.b.c.d", true), ("a.b.c.d.e", false), (&long, true), (&too_long, false)]
    {
        let name = name(&format!("{below}.allowed.test"));
        assert_eq!(rule.names(&name), is_named, "{below}");
        assert_eq!(rule.falls_short_of(&name), !is_named, "{below}");
    }
    assert!(!rule.falls_short_of(&name("a.b.c.d.e.evilallowed.test")));
}

#[test]
fn a_star_stands_in_front_of_a_dot_alone() {
    rule("*.a.test");
    for target in ["*", "*.", "*a.test", "a*.test", "a.*.test", "*.*.test", "**.a.test", "a.test*"]
    {
        let error =
            format!("expected \"*\" in front of a dot and a name alone, found \"{target}\"");
        assert!(refused(target, &error).is_some());
        refused(&format!("{target}:22"), &error);
    }
}

#[test]
fn a_wildcard_stands_below_one_owners_domain() {
    for parent in [
        "com",
        "test",
        "co.uk",
        "anything.ck",
        "kawasaki.jp",
        "compute.amazonaws.com",
        "s3.amazonaws.com",
        "blob.core.windows.net",
        "github.io",
        "workers.dev",
        "ngrok.io",
        "xn--p1ai",
        "個人.hk",
    ] {
        let name = HostName::from_rule(parent).unwrap();
        let error = format!(
            "expected a wildcard below a domain of one owner, found \"*.{name}\": it is a public suffix, below which anybody may have names"
        );
        assert!(refused(&format!("*.{parent}:22"), &error).is_some());
        rule(&format!("mine.{parent}"));
    }
    for parent in ["amazonaws.com", "core.windows.net"] {
        let error = format!(
            "expected a wildcard below a domain of one owner, found \"*.{parent}\": names below it belong to the customers of a cloud as well"
        );
        refused(&format!("*.{parent}"), &error);
    }
    for parent in ["a.test", "example.co.uk", "bucket.s3.amazonaws.com", "www.ck", "npmjs.org"] {
        rule(&format!("*.{parent}"));
    }
    rule(&format!("*.{}.test", "a.".repeat(123).trim_end_matches('.')));
}

#[test]
fn the_boxs_own_names_have_no_rule() {
    for name in ["localhost", "x.localhost"] {
        let error =
            format!("expected a name outside of the box, found \"{name}\", which is the box's own");
        refused(name, &error);
        refused(&format!("*.{name}:80"), &error);
    }
    rule("localhost.test");
}

#[test]
fn what_is_no_name_is_no_rule() {
    for (text, error) in [
        ("", "expected a name of 1 to 253 characters, found 0"),
        (":443", "expected a name of 1 to 253 characters, found 0"),
        ("a..test", "expected 1 to 63 characters before and after each dot, found \"a..test\""),
        ("a b.test", "expected a name of a-z, 0-9, -, _ and dots, found \"a b.test\""),
        (
            "evil.test\0.a.test",
            "expected a name of a-z, 0-9, -, _ and dots, found \"evil.test\\0.a.test\"",
        ),
        (
            "https://github.com/a",
            "expected a name and perhaps ports, found \"https://github.com/a\"",
        ),
        ("github.com/a", "expected a name and perhaps ports, found \"github.com/a\""),
        ("xn--a.test", "expected a name that IDNA allows, found \"xn--a.test\""),
        (
            "ｅxample.test",
            "expected the name as it is looked up, example.test, found \"ｅxample.test\"",
        ),
    ] {
        refused(text, error);
    }
    let hint =
        refused("https://a.test", "expected a name and perhaps ports, found \"https://a.test\"");
    assert_eq!(hint, Some("such as github.com:443, without scheme and path"));
}

#[test]
fn an_address_is_written_in_one_way() {
    rule("169.253.169.254");
    for text in ["0251.254.169.254", "2852039166", "0xa9fea9fe", "1.1", "1.1.1.1.", "01.1.1.1"] {
        let error =
            format!("expected a name, found {text:?}, which some programs read as an address");
        assert!(refused(text, &error).is_some());
    }
    for text in [
        "2606:4700::1111",
        "2606:4700::1111:443",
        "[2606:4700::1111",
        "[2606:4700::1111]443",
        "[2606:4700::1111%eth0]",
        "[1.1.1.1]",
        "[allowed.test]",
        "[]:443",
    ] {
        let error = format!("expected an IPv6 address in brackets, found {text:?}");
        assert_eq!(refused(text, &error), Some("such as [2606:4700:4700::1111]:443"));
    }
    for text in ["1.1.1.0/33", "1.1.1.0/", "1.1.1.0/+24", "1.1.1.0/a", "1.1.1.0/24/1"] {
        let error = format!("expected an address or a range such as 192.0.2.0/24, found {text:?}");
        refused(text, &error);
    }
    refused(
        "1.1.1.1/24",
        "expected the first address of the range, 1.1.1.0/24, found \"1.1.1.1/24\"",
    );
    refused(
        "[2606:4700::1/32]",
        "expected the first address of the range, 2606:4700::/32, found \"2606:4700::1/32\"",
    );
}

#[test]
fn only_public_addresses_have_rules() {
    for (text, network, why) in [
        ("10.0.0.1", "10.0.0.1", "10.0.0.0/8 is a private network"),
        ("127.0.0.1:80", "127.0.0.1", "127.0.0.0/8 is loopback"),
        ("169.254.169.254", "169.254.169.254", "169.254.169.254 is a cloud's metadata service"),
        ("169.254.0.0/16", "169.254.0.0/16", "169.254.169.254 is a cloud's metadata service"),
        ("168.63.0.0/16", "168.63.0.0/16", "168.63.129.16 is a cloud's metadata service"),
        ("169.254.1.1", "169.254.1.1", "169.254.0.0/16 is link-local"),
        ("192.0.2.0/24", "192.0.2.0/24", "192.0.2.0/24 is kept for documentation"),
        (
            "198.18.0.11",
            "198.18.0.11",
            "198.18.0.0/15 is kept for benchmarks and for sandboxd's own addresses",
        ),
        ("0.0.0.0", "0.0.0.0", "0.0.0.0/8 is no address of another host"),
        ("172.0.0.0/8", "172.0.0.0/8", "172.16.0.0/12 is a private network"),
        ("192.168.7.0/24", "192.168.7.0/24", "192.168.0.0/16 is a private network"),
        ("[::1]", "::1", "::1 is loopback"),
        ("[fe80::1]", "fe80::1", "fe80::/10 is link-local"),
        ("[2001:db8::/48]", "2001:db8::/48", "2001:db8::/32 is kept for documentation"),
        (
            "[::ffff:8.8.8.8]",
            "::ffff:8.8.8.8",
            "::ffff:0.0.0.0/96 carries IPv4 addresses, which have rules of their own",
        ),
        (
            "[2002:808:808::/48]",
            "2002:808:808::/48",
            "2002::/16 carries IPv4 addresses, which have rules of their own",
        ),
        (
            "[2600::5efe:a01:203]",
            "2600::5efe:a01:203",
            "it carries an IPv4 address that is a private network",
        ),
        ("[200::/16]", "200::/16", "outside of 2000::/3 there is no public address"),
    ] {
        let error = format!("expected public addresses alone, found {network}: {why}");
        assert!(refused(text, &error).is_some(), "{text}");
    }
    for text in ["0.0.0.0/0", "128.0.0.0/1", "[::/0]", "[2000::/3]"] {
        assert!(matches!(text.parse::<Rule>(), Err(RuleError::Denied { .. })), "{text}");
    }
    for text in
        ["168.63.128.0/24", "172.32.0.0/11", "9.0.0.0/8", "[2a00::/12]", "[2600::5efe:901:203]"]
    {
        rule(text);
    }
}

#[test]
fn an_address_is_listed_by_its_range() {
    for (text, inside, outside) in [
        ("1.1.1.1", "1.1.1.1", "1.1.1.2"),
        ("1.1.1.0/24", "1.1.1.255", "1.1.2.0"),
        ("[2606:4700::/32]", "2606:4700:ffff::1", "2606:4701::"),
        ("[2606:4700::1]", "2606:4700::1", "1.1.1.1"),
    ] {
        let rule = rule(text);
        assert!(rule.lists(inside.parse().unwrap()), "{text}");
        assert!(!rule.lists(outside.parse().unwrap()), "{text}");
        assert!(!rule.names(&name("a.test")));
    }
    assert!(!rule("a.test").lists("1.1.1.1".parse().unwrap()));
}

#[test]
fn ports_are_numbers_and_ranges() {
    let what = "expected ports such as 22,443,8000-8010, found";
    for ports in [
        "", "0", "65536", "-1", "+22", "22,", ",22", "22, 443", "a", "https", "*", "80-", "-80",
        "81-80", "0-80", "80-82-84", "0x50",
    ] {
        refused(&format!("a.test:{ports}"), &format!("{what} {ports:?}"));
    }
    refused("a.test:22:80", "expected an IPv6 address in brackets, found \"a.test:22:80\"");
    for ports in ["53", "50-60", "22,53"] {
        let error = "expected another port than 53, where sandboxd answers names itself";
        refused(&format!("a.test:{ports}"), error);
    }
    assert_eq!(rule("a.test:54-117").ports().iter().count(), 64);
    refused(
        "a.test:54-118",
        "expected at most 64 ports in all rules of a session, found 65 in one rule",
    );
    refused(
        "a.test:100-65535",
        "expected at most 64 ports in all rules of a session, found 65436 in one rule",
    );
}

#[test]
fn the_union_of_ports_is_over_all_rules() {
    let rules = ["a.test", "b.test:22,443", "1.1.1.1:80-82"].map(rule);
    let union = super::super::ports(&rules);
    assert_eq!(union.into_iter().collect::<Vec<_>>(), [22, 80, 81, 82, 443]);
    assert!(super::super::ports(&[]).is_empty());
}
