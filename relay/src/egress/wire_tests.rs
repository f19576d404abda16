//! What is made of good and of bad DNS messages.
//!
//! Runs in: host (tests).

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::RecordType;

use super::super::harness::Dice;
use super::*;

/// Builds a question by hand, so that nothing that wrote it also reads it.
fn message(flags: [u8; 2], labels: &[&[u8]], kind: u16, class: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label);
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes
}

fn with_edns(mut bytes: Vec<u8>, size: u16, version: u8, flags: [u8; 2]) -> Vec<u8> {
    bytes[11] += 1;
    bytes.extend([0, 0, 41]);
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, version, flags[0], flags[1], 0, 0]);
    bytes
}

fn question(bytes: &[u8]) -> Question {
    match read(bytes) {
        Received::Question(question) => *question,
        Received::Nothing | Received::Refused(_) => panic!("no question"),
    }
}

fn code(bytes: &[u8]) -> Option<ResponseCode> {
    match read(bytes) {
        Received::Refused(answer) => {
            let answer = Message::from_vec(&answer).unwrap();
            assert_eq!(
                (answer.metadata.id, answer.metadata.message_type),
                (0xabcd, MessageType::Response)
            );
            Some(answer.metadata.response_code)
        }
        Received::Nothing => None,
        Received::Question(_) => panic!("a question"),
    }
}

#[test]
fn a_question_comes_back_letter_by_letter_with_its_answer() {
    let bytes = message([1, 0x10], &[b"aPi", b"eXample", b"CoM"], 1, 1);
    let question = question(&bytes);
    assert_eq!(question.kind(), RecordType::A);
    let address = Ipv4Addr::new(198, 18, 1, 0);
    let answer = question.answer(Answer::V4(address), Transport::Udp).unwrap();
    assert_eq!(answer[12..bytes.len()], bytes[12..], "the question, with its case");
    let answer = Message::from_vec(&answer).unwrap();
    let meta = answer.metadata;
    assert_eq!(
        (meta.id, meta.op_code, meta.response_code),
        (0xabcd, OpCode::Query, ResponseCode::NoError)
    );
    assert!(meta.recursion_desired && meta.recursion_available && meta.checking_disabled);
    assert!(!meta.authoritative && !meta.truncation && !meta.authentic_data);
    let [record] = answer.answers.as_slice() else { panic!("one answer") };
    assert_eq!((record.ttl, record.data.ip_addr()), (60, Some(address.into())));
    assert!(answer.edns.is_none());
}

#[test]
fn an_answer_without_records_says_how_long_it_holds() {
    for (answer, code, ttl) in
        [(Answer::Empty, ResponseCode::NoError, 60), (Answer::NoName, ResponseCode::NXDomain, 5)]
    {
        let bytes = message([1, 0], &[b"a", b"example"], 28, 1);
        let answer = question(&bytes).answer(answer, Transport::Udp).unwrap();
        let answer = Message::from_vec(&answer).unwrap();
        assert_eq!(answer.metadata.response_code, code);
        assert!(answer.answers.is_empty());
        let [authority] = answer.authorities.as_slice() else { panic!("one authority") };
        assert_eq!((authority.record_type(), authority.ttl), (RecordType::SOA, ttl));
        let RData::SOA(soa) = &authority.data else { panic!("SOA") };
        assert_eq!(soa.minimum, ttl);
    }
}

#[test]
fn edns_is_answered_with_edns_and_without_its_options() {
    let bytes = with_edns(message([1, 0], &[b"a", b"example"], 1, 1), 4_096, 0, [0x80, 0]);
    let answer = question(&bytes).answer(Answer::Empty, Transport::Udp).unwrap();
    let edns = Message::from_vec(&answer).unwrap().edns.unwrap();
    assert_eq!((edns.max_payload(), edns.version(), edns.flags().dnssec_ok), (1_232, 0, true));
    assert!(edns.options().as_ref().is_empty());
    let newer = with_edns(message([1, 0], &[b"a", b"example"], 1, 1), 4_096, 1, [0, 0]);
    // 16, which has a second name.
    assert_eq!(code(&newer).map(u16::from), Some(u16::from(ResponseCode::BADVERS)));
}

#[test]
fn what_does_not_fit_is_cut_for_udp_and_whole_for_tcp() {
    let long = [b'x'; 62];
    let bytes = message([1, 0], &[&long, &long, &long, &long], 12, 1);
    let name = Name::from_labels([[b'y'; 62].as_slice(); 4]).unwrap();
    let plain = question(&bytes).answer(Answer::Pointer(name.clone()), Transport::Udp).unwrap();
    let cut = Message::from_vec(&plain).unwrap();
    assert!(cut.metadata.truncation && cut.answers.is_empty() && plain.len() <= 512);
    assert_eq!(cut.queries.len(), 1);
    let whole = question(&bytes).answer(Answer::Pointer(name.clone()), Transport::Tcp).unwrap();
    assert_eq!(Message::from_vec(&whole).unwrap().answers.len(), 1);
    let asked = with_edns(bytes, 65_000, 0, [0, 0]);
    let whole = question(&asked).answer(Answer::Pointer(name), Transport::Udp).unwrap();
    assert!(!Message::from_vec(&whole).unwrap().metadata.truncation);
}

#[test]
fn what_is_no_question_gets_the_code_that_says_so() {
    let good = message([1, 0], &[b"a", b"example"], 1, 1);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(code(&[]), None);
    assert_eq!(code(&good[..11]), None);
    assert_eq!(code(&with(2, 0x81)), None, "an answer is never answered");
    for op_code in [1, 2, 4, 5, 6, 15] {
        assert_eq!(code(&with(2, op_code << 3)), Some(ResponseCode::NotImp), "{op_code}");
    }
    assert_eq!(code(&with(5, 0)), Some(ResponseCode::FormErr));
    assert_eq!(code(&with(5, 2)), Some(ResponseCode::FormErr));
    assert_eq!(code(&with(4, 255)), Some(ResponseCode::FormErr));
    assert_eq!(code(&good[..12]), Some(ResponseCode::FormErr), "no question behind the header");
    assert_eq!(code(&good[..good.len() - 1]), Some(ResponseCode::FormErr));
    // A pointer to itself, one that looks ahead, a label of a length that is kept for later.
    for label in [[0xc0, 12], [0xc0, 40], [0x80, 0], [0x41, 0]] {
        let mut bytes = good[..12].to_vec();
        bytes.extend(label);
        bytes.extend([0, 1, 0, 1]);
        assert_eq!(code(&bytes), Some(ResponseCode::FormErr), "{label:?}");
    }
    let too_long = message([1, 0], &[&[b'x'; 63], &[b'x'; 63], &[b'x'; 63], &[b'x'; 63]], 1, 1);
    assert_eq!(code(&too_long), Some(ResponseCode::FormErr));
    for class in [3, 4, 254, 255] {
        let bytes = message([1, 0], &[b"a", b"example"], 1, class);
        assert_eq!(code(&bytes), Some(ResponseCode::Refused), "{class}");
    }
    let two_edns = with_edns(with_edns(good.clone(), 512, 0, [0, 0]), 512, 0, [0, 0]);
    assert_eq!(code(&two_edns), Some(ResponseCode::FormErr));
}

#[test]
fn no_bytes_break_the_reader() {
    let mut dice = Dice(7);
    let good = with_edns(message([1, 0], &[b"www", b"example", b"com"], 1, 1), 1_232, 0, [0, 0]);
    let mut answered = 0;
    for _ in 0..40_000 {
        let mut bytes = good.clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            match dice.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, dice.byte()),
                _ if bytes.is_empty() => {}
                _ => bytes[at] = dice.byte(),
            }
        }
        match read(&bytes) {
            Received::Nothing => {}
            Received::Refused(answer) => assert!(Message::from_vec(&answer).is_ok()),
            Received::Question(question) => {
                let answer = question.answer(Answer::NoName, Transport::Udp).unwrap();
                assert!(answer.len() <= 1_232);
                assert_eq!(answer[..2], bytes[..2]);
                answered += 1;
            }
        }
    }
    assert!(answered > 1_000, "{answered}");
}
