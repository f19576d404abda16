//! How name servers are asked.
//!
//! Runs in: host (tests).

use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::*;

/// A name server on loopback that answers by what is asked: the first label says what it is like.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

async fn server() -> Server {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind(address).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let count = asked.clone();
    tasks.spawn(async move {
        let mut bytes = [0; 1_024];
        loop {
            let (length, client) = udp.recv_from(&mut bytes).await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            if let Some(answer) = reply(&bytes[..length], true) {
                udp.send_to(&answer, client).await.unwrap();
            }
        }
    });
    tasks.spawn(async move {
        loop {
            let (stream, _) = tcp.accept().await.unwrap();
            // A resolver may ask for both families at once, over a connection each.
            tokio::spawn(serve(stream));
        }
    });
    Server { address, asked, _tasks: tasks }
}

async fn serve(mut stream: TcpStream) {
    while let Ok(length) = stream.read_u16().await {
        let mut bytes = vec![0; length.into()];
        stream.read_exact(&mut bytes).await.unwrap();
        let answer = reply(&bytes, false).unwrap();
        stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
        stream.write_all(&answer).await.unwrap();
    }
}

fn reply(bytes: &[u8], is_udp: bool) -> Option<Vec<u8>> {
    let question = Message::from_vec(bytes).unwrap();
    let query = question.queries[0].clone();
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let name = query.name().to_ascii();
    let mut add = |data| {
        answer.add_answer(Record::from_rdata(query.name().clone(), 3_600, data));
    };
    match (name.split('.').next()?, query.query_type()) {
        ("both", RecordType::AAAA) => add(RData::AAAA("2606:2800::1".parse().unwrap())),
        ("both" | "v4" | "lame", RecordType::A) => add(RData::A("93.184.216.34".parse().unwrap())),
        ("lame", _) | ("silent", _) => return None,
        ("cut", _) if is_udp => answer.metadata.truncation = true,
        ("cut", RecordType::A) => add(RData::A("93.184.216.35".parse().unwrap())),
        ("many", RecordType::A) => {
            (0..60)
                .for_each(|last| add(RData::A(std::net::Ipv4Addr::new(93, 184, 216, last).into())));
        }
        ("none", _) => {
            answer.metadata.response_code = hickory_resolver::proto::op::ResponseCode::NXDomain
        }
        ("broken", _) => {
            answer.metadata.response_code = hickory_resolver::proto::op::ResponseCode::ServFail
        }
        _ => {}
    }
    answer.to_vec().ok()
}

async fn resolve(outside: &Outside, name: &str) -> Vec<String> {
    let name = HostName::from_wire(name.as_bytes()).unwrap();
    let mut found: Vec<_> = outside.resolve(&name).await.iter().map(IpAddr::to_string).collect();
    found.sort();
    found
}

#[tokio::test]
async fn both_families_are_asked_and_the_answers_are_kept() {
    let server = server().await;
    let outside = Outside::new(&Upstream::from_servers([server.address])).unwrap();
    for _ in 0..3 {
        assert_eq!(resolve(&outside, "both.example").await, ["2606:2800::1", "93.184.216.34"]);
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 2);
    assert_eq!(resolve(&outside, "v4.example").await, ["93.184.216.34"]);
    assert_eq!(resolve(&outside, "many.example").await.len(), MAX_ADDRESSES / 2);
    assert_eq!(resolve(&outside, "cut.example").await, ["93.184.216.35"], "asked again by TCP");
}

#[tokio::test]
async fn a_server_that_is_silent_about_one_family_holds_up_the_other_for_a_moment_only() {
    let server = server().await;
    let outside = Outside::new(&Upstream::from_servers([server.address])).unwrap();
    let start = Instant::now();
    assert_eq!(resolve(&outside, "lame.example").await, ["93.184.216.34"]);
    assert!(start.elapsed() < RESOLVE / 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn no_answer_is_no_address_and_takes_a_bounded_time() {
    let server = server().await;
    let outside = Outside::new(&Upstream::from_servers([server.address])).unwrap();
    for name in ["none.example", "broken.example", "empty.example"] {
        assert!(resolve(&outside, name).await.is_empty(), "{name}");
    }
    let dialler = Dialler::of(outside);
    let start = Instant::now();
    let silent = Host::Name(HostName::from_wire(b"silent.example").unwrap());
    let failure = dialler.dial(&silent, 443).await.unwrap_err();
    assert_eq!(failure, Failure { reason: Reason::ResolveFailed, address: None });
    assert!(start.elapsed() < RESOLVE * 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_next_server_is_asked_when_the_first_is_dead_and_no_file_of_the_host_is_read() {
    let server = server().await;
    let dead = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let servers = [dead.local_addr().unwrap(), server.address];
    let outside = Outside::new(&Upstream::from_servers(servers)).unwrap();
    assert_eq!(resolve(&outside, "v4.example").await, ["93.184.216.34"]);
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names = hosts.lines().filter(|line| !line.starts_with('#'));
    let names = names.flat_map(|line| line.split_whitespace().skip(1).map(str::to_owned));
    for name in names.filter_map(|name| HostName::from_wire(name.as_bytes()).ok()) {
        if !name.is_local() {
            assert!(outside.resolve(&name).await.is_empty(), "{name} stands in the hosts file");
        }
    }
}
