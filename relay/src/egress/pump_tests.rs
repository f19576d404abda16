//! How bytes are carried.
//!
//! Runs in: host (tests).

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::harness::pair;
use super::*;

/// A client and a server with a pump between them.
struct Line {
    client: TcpStream,
    server: TcpStream,
    counters: Arc<Counters>,
    pump: JoinHandle<Result<(), Broken>>,
}

async fn line() -> Line {
    let (client, mut near) = pair().await;
    let (mut far, server) = pair().await;
    for stream in [&client, &near, &far, &server] {
        // Small queues in the kernel, so that what is queued here would show.
        setsockopt(stream, sockopt::SndBuf, &65_536).unwrap();
        setsockopt(stream, sockopt::RcvBuf, &65_536).unwrap();
    }
    prepare(&near).unwrap();
    prepare(&far).unwrap();
    let counters = Arc::new(Counters::default());
    let counted = counters.clone();
    let pump =
        tokio::spawn(async move { pump(&mut near, &mut far, &counted, &Buffers::default()).await });
    Line { client, server, counters, pump }
}

async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(5), stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn a_client_may_end_its_side_and_still_read_the_answer() {
    let mut line = line().await;
    line.client.write_all(b"question").await.unwrap();
    line.client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut line.server).await, b"question");
    line.server.write_all(b"a late answer").await.unwrap();
    line.server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut line.client).await, b"a late answer");
    assert_eq!(line.pump.await.unwrap(), Ok(()));
    assert_eq!(line.counters.up.load(Ordering::Relaxed), 8);
    assert_eq!(line.counters.down.load(Ordering::Relaxed), 13);
}

#[tokio::test]
async fn a_server_may_end_its_side_and_still_read_the_rest() {
    let mut line = line().await;
    line.server.write_all(b"banner").await.unwrap();
    line.server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut line.client).await, b"banner");
    line.client.write_all(b"the rest").await.unwrap();
    line.client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut line.server).await, b"the rest");
    assert_eq!(line.pump.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_told_as_broken_to_the_other_side() {
    let Line { client, mut server, pump, .. } = line().await;
    abort_on_close(&client).unwrap();
    drop(client);
    assert_eq!(pump.await.unwrap(), Err(Broken::Client));
    let error = server.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let Line { mut client, server, pump, .. } = line().await;
    abort_on_close(&server).unwrap();
    drop(server);
    assert_eq!(pump.await.unwrap(), Err(Broken::Server));
    let error = client.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_pump_that_is_ended_leaves_neither_side_with_a_false_end() {
    let Line { mut client, mut server, pump, .. } = line().await;
    pump.abort();
    for stream in [&mut client, &mut server] {
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn what_is_under_way_when_both_have_ended_still_arrives() {
    let Line { mut client, mut server, pump, .. } = line().await;
    client.shutdown().await.unwrap();
    let bytes = vec![7; 200_000];
    let writing = tokio::spawn(async move {
        server.write_all(&bytes).await.unwrap();
        server.shutdown().await.unwrap();
        read_all(&mut server).await
    });
    assert_eq!(read_all(&mut client).await.len(), 200_000);
    assert!(writing.await.unwrap().is_empty());
    assert_eq!(pump.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_slow_reader_holds_up_its_writer_and_nothing_is_queued_here() {
    let mut line = line().await;
    let chunk = vec![9; 65_536];
    let mut written = 0;
    while let Ok(result) = timeout(Duration::from_millis(300), line.server.write(&chunk)).await {
        written += result.unwrap();
        assert!(written < 4 << 20, "{written}");
    }
    // Other things still go the other way.
    line.client.write_all(b"stop").await.unwrap();
    let mut word = [0; 4];
    timeout(Duration::from_secs(5), line.server.read_exact(&mut word)).await.unwrap().unwrap();
    // And all of it arrives once it is read.
    let Line { mut client, mut server, .. } = line;
    let reading = tokio::spawn(async move { read_all(&mut client).await.len() });
    server.shutdown().await.unwrap();
    assert_eq!(reading.await.unwrap(), written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_never_pauses_is_carried_and_lets_others_run() {
    const TOTAL: usize = 64 << 20;
    let (client, mut near) = pair().await;
    let (mut far, server) = pair().await;
    let carried = tokio::spawn(async move {
        pump(&mut near, &mut far, &Counters::default(), &Buffers::default()).await
    });
    // Threads, so that there is always more to read and always room to write.
    let (mut client, mut server) = (client.into_std().unwrap(), server.into_std().unwrap());
    client.set_nonblocking(false).unwrap();
    server.set_nonblocking(false).unwrap();
    let writing = std::thread::spawn(move || {
        let chunk = vec![3; 1 << 20];
        (0..TOTAL >> 20).for_each(|_| std::io::Write::write_all(&mut server, &chunk).unwrap());
    });
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut client, &mut bytes).unwrap();
        bytes.len()
    });
    assert_eq!(timeout(Duration::from_secs(60), reading).await.unwrap().unwrap(), TOTAL);
    writing.join().unwrap();
    assert_eq!(carried.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_byte_goes_there_and_back_without_waiting_for_more() {
    let mut line = line().await;
    let mut slowest = Duration::ZERO;
    let mut byte = [0];
    for _ in 0..200 {
        let start = Instant::now();
        line.client.write_all(b"x").await.unwrap();
        line.server.read_exact(&mut byte).await.unwrap();
        line.server.write_all(b"y").await.unwrap();
        line.client.read_exact(&mut byte).await.unwrap();
        slowest = slowest.max(start.elapsed());
    }
    // A delayed acknowledgement would show as 40 ms each.
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[tokio::test]
async fn a_direction_that_waits_holds_no_buffer() {
    let buffers = Arc::new(Buffers::default());
    let (mut client, mut near) = pair().await;
    let (mut far, mut server) = pair().await;
    let lent = buffers.clone();
    let pump = tokio::spawn(async move {
        let counters = Counters::default();
        pump(&mut near, &mut far, &counters, &lent).await
    });
    client.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
    super::super::harness::until("the buffer is back", || buffers.0.lock().unwrap().len() == 1)
        .await;
    pump.abort();
}
