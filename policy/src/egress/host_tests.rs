//! Names in their one form.
//!
//! Runs in: any (pure data).

use super::*;

fn rule(text: &str) -> Result<String, HostError> {
    HostName::from_rule(text).map(String::from)
}

fn wire(bytes: impl AsRef<[u8]>) -> Result<String, HostError> {
    HostName::from_wire(bytes.as_ref()).map(String::from)
}

#[test]
fn a_name_has_one_form_however_it_is_written() {
    for (text, name) in [
        ("allowed.test", "allowed.test"),
        ("aLLoweD.TEST", "allowed.test"),
        ("allowed.test.", "allowed.test"),
        ("localhost", "localhost"),
        ("_dmarc.a-b.c_d.test", "_dmarc.a-b.c_d.test"),
        ("1.1.1.1.allowed.test", "1.1.1.1.allowed.test"),
        ("127.1.test", "127.1.test"),
        ("0x7f.test", "0x7f.test"),
        ("a.1b", "a.1b"),
        ("r3---sn-x.video.test", "r3---sn-x.video.test"),
        ("metadata.google.internal", "metadata.google.internal"),
        ("XN--BCHER-KVA.test", "xn--bcher-kva.test"),
    ] {
        assert_eq!(rule(text).as_deref(), Ok(name), "{text}");
        assert_eq!(wire(text).as_deref(), Ok(name), "{text}");
    }
}

#[test]
fn a_name_at_its_longest_is_one_and_a_character_more_is_none() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(longest.len(), 253);
    for name in [longest.clone(), format!("{label}.test")] {
        assert_eq!(wire(&name).as_deref(), Ok(name.as_str()));
        assert_eq!(wire(format!("{name}.")).as_deref(), Ok(name.as_str()));
        assert_eq!(rule(&name).as_deref(), Ok(name.as_str()));
    }
    assert_eq!(wire(format!("{longest}b")), Err(HostError::Length { found: 254 }));
    assert_eq!(rule(&"ü.".repeat(10_000)), Err(HostError::Length { found: 20_000 }));
    let long = format!("a{label}.test");
    assert_eq!(wire(&long), Err(HostError::Label { found: quote(&long) }));
}

#[test]
fn what_is_no_name_is_refused_in_a_rule_and_from_the_wire() {
    for text in [
        "evil.test\0.allowed.test",
        "evil.test%00.allowed.test",
        "allowed.test:443",
        "[allowed.test]",
        "allowed .test",
        " allowed.test",
        "allowed.test\n",
        "a/b.test",
        "a@allowed.test",
        "*.allowed.test",
        "allowed.test\u{7f}",
    ] {
        assert!(matches!(wire(text), Err(HostError::Character { .. })), "{text:?}");
        assert!(matches!(rule(text), Err(HostError::Character { .. })), "{text:?}");
    }
    for text in ["allowed.test..", ".allowed.test", "a..test", ".."] {
        assert!(matches!(wire(text), Err(HostError::Label { .. })), "{text:?}");
        assert!(matches!(rule(text), Err(HostError::Label { .. })), "{text:?}");
    }
    for text in ["", "."] {
        assert_eq!(wire(text), Err(HostError::Length { found: 0 }));
        assert_eq!(rule(text), Err(HostError::Length { found: 0 }));
    }
}

#[test]
fn a_name_that_some_program_reads_as_an_address_is_none() {
    for text in [
        "127.1",
        "1.1.1.1",
        "1.1.1.1.",
        "0251.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0XA9.0xfe.0xa9.0xfe",
        "allowed.test.0x",
        "allowed.1",
        "4294967296",
    ] {
        assert!(matches!(wire(text), Err(HostError::Number { .. })), "{text}");
        assert!(matches!(rule(text), Err(HostError::Number { .. })), "{text}");
    }
    assert!(wire("1.1.1.1x").is_ok());
}

#[test]
fn a_rule_may_hold_letters_beyond_ascii() {
    for (text, name) in [
        ("bücher.test", "xn--bcher-kva.test"),
        ("BÜCHER.Test.", "xn--bcher-kva.test"),
        ("faß.test", "xn--fa-hia.test"),
        ("xn--bcher-kva.bücher.test", "xn--bcher-kva.xn--bcher-kva.test"),
        ("例え.test", "xn--r8jz45g.test"),
        // A look-alike in another script is another name, and shows as one.
        ("аllowed.test", "xn--llowed-2nf.test"),
    ] {
        assert_eq!(rule(text).as_deref(), Ok(name), "{text}");
    }
}

#[test]
fn a_name_from_the_wire_is_never_folded() {
    assert_eq!(wire("K.test").as_deref(), Ok("k.test"));
    for text in ["bücher.test", "ｅxample.test", "\u{212a}elvin.test", "allowed。test"] {
        assert!(matches!(wire(text), Err(HostError::Character { .. })), "{text}");
    }
    assert!(matches!(wire(b"a\xff.test"), Err(HostError::Character { .. })));
}

#[test]
fn another_spelling_of_a_name_is_refused_with_the_name() {
    for (text, canonical) in [
        ("ｅxample.test", "example.test"),
        ("\u{212a}elvin.test", "kelvin.test"),
        ("allowed。test", "allowed.test"),
        ("allow\u{ad}ed.test", "allowed.test"),
        ("bu\u{308}cher.test", "xn--bcher-kva.test"),
    ] {
        let spelling = HostError::Spelling { found: quote(text), canonical: canonical.into() };
        assert_eq!(rule(text), Err(spelling), "{text}");
        assert_eq!(rule(canonical).as_deref(), Ok(canonical));
    }
    for text in ["xn--a.test", "xn--.test", "xn--bcher-kva\u{308}.test", "a\u{200d}b.test"] {
        assert!(matches!(rule(text), Err(HostError::Idna { .. })), "{text}");
    }
}

#[test]
fn a_label_of_a_message_that_holds_a_dot_is_no_label() {
    let labels = |labels: &[&[u8]]| HostName::from_labels(labels.iter().copied()).map(String::from);
    assert_eq!(labels(&[b"Allowed", b"test"]).as_deref(), Ok("allowed.test"));
    assert!(matches!(labels(&[b"evil.allowed", b"test"]), Err(HostError::Character { .. })));
    assert!(matches!(labels(&[b"allowed", b"test."]), Err(HostError::Character { .. })));
    assert!(matches!(labels(&[b"allowed", b""]), Err(HostError::Label { .. })));
    assert!(matches!(labels(&[b"", b"test"]), Err(HostError::Label { .. })));
    assert_eq!(labels(&[]), Err(HostError::Length { found: 0 }));
}

#[test]
fn a_local_name_is_localhost_or_below_it() {
    for (name, is_local) in [
        ("localhost.", true),
        ("x.LOCALHOST", true),
        ("notlocalhost", false),
        ("localhost.test", false),
    ] {
        assert_eq!(HostName::from_wire(name.as_bytes()).unwrap().is_local(), is_local, "{name}");
    }
}

#[test]
fn json_holds_a_name_to_the_same_rules() {
    let read = |json: &str| serde_json::from_str::<HostName>(json);
    assert_eq!(read("\"A.test.\"").unwrap().as_str(), "a.test");
    assert!(read("\"a b.test\"").is_err());
}

#[test]
fn a_hostile_name_is_quoted_and_cut_in_the_message() {
    let error = wire("\u{1b}[31m.test").unwrap_err().to_string();
    assert!(error.ends_with("found \"\\u{1b}[31m.test\""), "{error}");
    assert!(wire([b'('; 253]).unwrap_err().to_string().len() < 300);
}
