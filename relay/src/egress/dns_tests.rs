//! The name server over real sockets.
//!
//! Runs in: host (tests).

use std::time::Instant;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use std::net::Ipv4Addr;
use std::str::FromStr;
use tokio::net::UdpSocket;

use super::super::harness::{Fake, connect_from, door};
use super::*;

fn query(name: &str) -> Vec<u8> {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_str(name).unwrap(), RecordType::A));
    message.to_vec().unwrap()
}

struct Server {
    _folder: tempfile::TempDir,
    udp: SocketAddr,
    tcp: SocketAddr,
    _tasks: JoinSet<()>,
}

async fn server(udp_address: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let door = Arc::new(door(folder.path(), Fake::default(), &["a.example"], &[]));
    let udp = std::net::UdpSocket::bind(udp_address).unwrap();
    udp.set_nonblocking(true).unwrap();
    let udp_address = udp.local_addr().unwrap();
    let udp = OwnedFd::from(udp);
    prepare(&udp).unwrap();
    let tcp = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let tcp_address = tcp.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve_udp(door.clone(), super::super::handle::watched(udp).unwrap()));
    tasks.spawn(serve_tcp(door, tcp));
    Server { _folder: folder, udp: udp_address, tcp: tcp_address, _tasks: tasks }
}

async fn exchange(socket: &UdpSocket, bytes: &[u8]) -> Option<Message> {
    socket.send(bytes).await.unwrap();
    let mut answer = [0; 2_048];
    let length = timeout(Duration::from_millis(500), socket.recv(&mut answer)).await.ok()?.unwrap();
    Some(Message::from_vec(&answer[..length]).unwrap())
}

async fn read_framed(stream: &mut TcpStream) -> Message {
    let mut bytes = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut bytes).await.unwrap();
    Message::from_vec(&bytes).unwrap()
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

#[tokio::test]
async fn an_answer_leaves_from_the_address_that_was_asked() {
    let server = server("0.0.0.0:0").await;
    for asked in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 8, 8, 8)] {
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        // A connected socket takes datagrams from that address alone.
        client.connect((asked, server.udp.port())).await.unwrap();
        let answer = exchange(&client, &query("a.example.")).await.unwrap();
        assert_eq!(answer.answers[0].data.ip_addr().unwrap().to_string(), "198.18.1.0");
    }
}

#[tokio::test]
async fn ipv6_is_answered_too() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let server = server("[::]:0").await;
    let client = UdpSocket::bind("[::1]:0").await.unwrap();
    client.connect((Ipv6Addr::LOCALHOST, server.udp.port())).await.unwrap();
    let answer = exchange(&client, &query("b.example.")).await.unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn bad_datagrams_do_not_stop_the_server_and_strangers_get_nothing() {
    let server = server("0.0.0.0:0").await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect((Ipv4Addr::LOCALHOST, server.udp.port())).await.unwrap();
    for bytes in [vec![], vec![0; 11], vec![0xff; 3_000], vec![0; 12]] {
        client.send(&bytes).await.unwrap();
    }
    let mut answer = [0; 64];
    let length = client.recv(&mut answer).await.unwrap();
    let refused = Message::from_vec(&answer[..length]).unwrap();
    assert_eq!(refused.metadata.response_code, ResponseCode::FormErr);
    assert!(exchange(&client, &query("a.example.")).await.is_some());
    let stranger = UdpSocket::bind("127.0.0.77:0").await.unwrap();
    stranger.connect((Ipv4Addr::LOCALHOST, server.udp.port())).await.unwrap();
    assert!(exchange(&stranger, &query("a.example.")).await.is_none());
}

#[tokio::test]
async fn questions_on_one_connection_may_come_together_and_in_pieces() {
    let server = server("0.0.0.0:0").await;
    let to = SocketAddr::from(([127, 8, 8, 8], server.tcp.port()));
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let both = [framed(&query("a.example.")), framed(&query("b.example."))].concat();
    stream.write_all(&both).await.unwrap();
    assert_eq!(read_framed(&mut stream).await.answers.len(), 1);
    assert_eq!(read_framed(&mut stream).await.metadata.response_code, ResponseCode::NXDomain);
    for byte in framed(&query("a.example.")) {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(read_framed(&mut stream).await.answers.len(), 1);
    // A length that no question has ends the connection.
    stream.write_all(&[0xff, 0xff, 0, 0]).await.unwrap();
    let mut rest = Vec::new();
    assert!(matches!(stream.read_to_end(&mut rest).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn connections_are_bounded_and_a_flood_of_questions_is_cut() {
    let server = server("0.0.0.0:0").await;
    let to = SocketAddr::from(([127, 0, 0, 1], server.tcp.port()));
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(connect_from(Ipv4Addr::LOCALHOST, to).await.unwrap());
    }
    let mut extra = connect_from(Ipv4Addr::LOCALHOST, to).await.unwrap();
    let ended = timeout(Duration::from_secs(5), extra.read(&mut [0])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)));
    let mut first = held.swap_remove(0);
    first.write_all(&framed(&query("a.example."))).await.unwrap();
    assert_eq!(read_framed(&mut first).await.answers.len(), 1);

    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect((Ipv4Addr::LOCALHOST, server.udp.port())).await.unwrap();
    let (bytes, start) = (query("b.example."), Instant::now());
    let mut answered = 0;
    for _ in 0..20_000 {
        // Ignored: the queue of the socket may be full, which is what a flood does.
        let _ = client.try_send(&bytes);
        while client.try_recv(&mut [0; 512]).is_ok() {
            answered += 1;
        }
        tokio::task::yield_now().await;
    }
    let most = 4_000.0 * (1.1 + start.elapsed().as_secs_f64());
    assert!(f64::from(answered) <= most, "{answered} of {most}");
}
