//! DNS messages: reads a question from hostile bytes, writes an answer to it.
//!
//! Runs in: host (pure; any thread).

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, HINFO, PTR, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record};

/// How long an address may be kept, in seconds. It never changes, so this only bounds how long a name that
/// was allowed once is dialled without asking.
const TTL: u32 = 60;
/// How long "there is none of this type" may be kept: it holds as long as the rules do.
const EMPTY_TTL: u32 = 60;
/// How long "there is no such name" may be kept: short, since a rule may be added.
const NO_NAME_TTL: u32 = 5;
/// The size of a header, RFC 1035 section 4.1.1.
const HEADER: usize = 12;
/// What fits in a UDP answer to a client without EDNS, RFC 1035 section 4.2.1.
const PLAIN_SIZE: u16 = 512;
/// What fits in a UDP answer at most: no fragment on any path, RFC 9715 section 3.1.
const EDNS_SIZE: u16 = 1_232;

/// What a message turned out to be.
#[derive(Debug)]
pub(super) enum Received {
    /// Nothing that can be answered.
    Nothing,
    /// Not a question that this server takes; the answer to send.
    Refused(Vec<u8>),
    /// A question of class IN.
    Question(Box<Question>),
}

/// One question.
#[derive(Debug)]
pub(super) struct Question {
    metadata: Metadata,
    query: Query,
    edns: Option<Edns>,
}

/// How an answer travels, which bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// What to say to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name has this address.
    V4(Ipv4Addr),
    /// The name has this address.
    V6(Ipv6Addr),
    /// The address has this name.
    Pointer(Name),
    /// "Some of the types" for a question about all of them, RFC 8482 section 4.2.
    Any,
    /// The name is there and has nothing of this type, RFC 2308 section 2.2.
    Empty,
    /// There is no such name, RFC 2308 section 2.1.
    NoName,
    /// A transfer of a zone, which is no question about a name.
    NoTransfer,
}

/// Reads one message. Any bytes are welcome.
pub(super) fn read(bytes: &[u8]) -> Received {
    let Some(header) = bytes.get(..HEADER) else { return Received::Nothing };
    let id = u16::from_be_bytes([header[0], header[1]]);
    // An answer that comes to a server is never answered: two servers would talk for ever.
    if header[2] & 0x80 != 0 {
        return Received::Nothing;
    }
    let op_code = OpCode::from_u8(header[2] >> 3 & 0x0f);
    let refuse = |code| {
        let answer = Message::error_msg(id, op_code, code).to_vec();
        answer.map_or(Received::Nothing, Received::Refused)
    };
    if op_code != OpCode::Query {
        return refuse(ResponseCode::NotImp);
    }
    // RFC 9619: a query has exactly one question.
    if header[4..6] != [0, 1] {
        return refuse(ResponseCode::FormErr);
    }
    let Ok(message) = Message::from_vec(bytes) else { return refuse(ResponseCode::FormErr) };
    let Message { metadata, queries, edns, .. } = message;
    let Some(query) = queries.into_iter().next() else { return refuse(ResponseCode::FormErr) };
    let question = Question { metadata, query, edns };
    match question.check() {
        Ok(()) => Received::Question(Box::new(question)),
        Err(code) => question.refuse(code).map_or(Received::Nothing, Received::Refused),
    }
}

impl Question {
    /// Returns the name that is asked for, in the case that it came in.
    pub(super) fn name(&self) -> &Name {
        &self.query.name
    }

    /// Returns the type that is asked for.
    pub(super) fn kind(&self) -> hickory_proto::rr::RecordType {
        self.query.query_type
    }

    /// Returns the bytes of the answer, or nothing when it cannot be written.
    pub(super) fn answer(&self, answer: Answer, transport: Transport) -> Option<Vec<u8>> {
        let mut message = self.response();
        let data = match answer {
            Answer::V4(address) => Some(RData::A(A(address))),
            Answer::V6(address) => Some(RData::AAAA(AAAA(address))),
            Answer::Pointer(name) => Some(RData::PTR(PTR(name))),
            Answer::Any => Some(RData::HINFO(HINFO::new("RFC8482".to_owned(), String::new()))),
            Answer::Empty => {
                message.add_authority(authority(EMPTY_TTL));
                None
            }
            Answer::NoName => {
                message.metadata.response_code = ResponseCode::NXDomain;
                message.add_authority(authority(NO_NAME_TTL));
                None
            }
            Answer::NoTransfer => {
                message.metadata.response_code = ResponseCode::Refused;
                None
            }
        };
        if let Some(data) = data {
            message.add_answer(Record::from_rdata(self.query.name.clone(), TTL, data));
        }
        let bytes = message.to_vec().ok()?;
        if bytes.len() <= self.most(transport) {
            Some(bytes)
        } else {
            message.truncate().to_vec().ok()
        }
    }

    fn check(&self) -> Result<(), ResponseCode> {
        // RFC 6891 section 6.1.3.
        if self.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
            return Err(ResponseCode::BADVERS);
        }
        if self.query.query_class != DNSClass::IN {
            return Err(ResponseCode::Refused);
        }
        Ok(())
    }

    fn refuse(&self, code: ResponseCode) -> Option<Vec<u8>> {
        let mut message = self.response();
        message.metadata.response_code = code;
        message.to_vec().ok()
    }

    /// Returns an answer with the question in it, letter by letter as it came: a client may have mixed
    /// upper and lower case and look for exactly that.
    fn response(&self) -> Message {
        let mut message = Message::response(self.metadata.id, OpCode::Query);
        message.metadata.message_type = MessageType::Response;
        message.metadata.recursion_desired = self.metadata.recursion_desired;
        message.metadata.checking_disabled = self.metadata.checking_disabled;
        // Without it glibc takes an empty answer for one of a lame server and asks the next.
        message.metadata.recursion_available = true;
        message.add_query(self.query.clone());
        if let Some(asked) = &self.edns {
            let mut edns = Edns::new();
            edns.set_max_payload(EDNS_SIZE).set_dnssec_ok(asked.flags().dnssec_ok);
            message.set_edns(edns);
        }
        message
    }

    fn most(&self, transport: Transport) -> usize {
        match (transport, &self.edns) {
            (Transport::Tcp, _) => usize::from(u16::MAX),
            (Transport::Udp, None) => usize::from(PLAIN_SIZE),
            (Transport::Udp, Some(edns)) => {
                usize::from(edns.max_payload().clamp(PLAIN_SIZE, EDNS_SIZE))
            }
        }
    }
}

/// Returns the record that says how long a negative answer may be kept, RFC 2308 section 3. Its zone is the
/// root, which encloses every name.
fn authority(ttl: u32) -> Record {
    let soa = SOA::new(Name::root(), Name::root(), 1, 3_600, 600, 86_400, ttl);
    Record::from_rdata(Name::root(), ttl, RData::SOA(soa))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
