//! Measures what the relay adds to a call: the same client and the same child, once with plain copying
//! between them and once with the relay. `cargo run --release -p relay --example overhead`.
//!
//! Runs in: tests (threads; the relay on tokio).
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement by hand fails by panicking and prints its figures"
)]

use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use relay::host::{
    Child, Ending, LogSink, LogStream, Process, Server, ServerSettings, SpawnError, Spawner,
};
use tokio::net::unix::pipe;

struct Quiet;

impl LogSink for Quiet {
    fn line(&mut self, _: u64, _: LogStream, _: &[u8]) {}
}

struct Threads;

impl Spawner for Threads {
    fn spawn(&self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + '_>> {
        Box::pin(async {
            let (stdin, input) = pipe::pipe().unwrap();
            let (output, stdout) = pipe::pipe().unwrap();
            let (_, stderr) = pipe::pipe().unwrap();
            let input = File::from(input.into_blocking_fd().unwrap());
            let output = File::from(output.into_blocking_fd().unwrap());
            thread::spawn(move || echo(input, output));
            Ok(Child { stdin, stdout, stderr, pid: 1, process: Box::new(Endless) })
        })
    }
}

struct Endless;

impl Process for Endless {
    fn exited(&mut self) -> Pin<Box<dyn Future<Output = Ending> + Send + '_>> {
        Box::pin(std::future::pending())
    }
    fn terminate(&mut self) {}
    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

/// The child: answers every request with its own line as the result.
fn echo(input: impl Read, mut output: impl Write) {
    for line in BufReader::with_capacity(1 << 16, input).lines() {
        let Ok(line) = line else { return };
        let Some((_, id)) = line.split_once("\"id\":") else { continue };
        let id = id.split(',').next().unwrap();
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{line}}}\n");
        output.write_all(answer.as_bytes()).unwrap();
    }
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        to.write_all(&buffer[..count]).unwrap();
    }
}

/// Returns a connection to a child with two copying threads between them.
fn plain() -> UnixStream {
    let (near, far) = UnixStream::pair().unwrap();
    let (input, to_child) = std::io::pipe().unwrap();
    let (from_child, output) = std::io::pipe().unwrap();
    let reader = far.try_clone().unwrap();
    thread::spawn(move || copy(reader, to_child));
    thread::spawn(move || copy(from_child, far));
    thread::spawn(move || echo(input, output));
    near
}

/// Returns p50 and p99 in microseconds.
fn measure(connection: &UnixStream, payload: usize, rounds: usize) -> (f64, f64) {
    let mut reader = BufReader::with_capacity(1 << 16, connection);
    let (mut writer, mut answer) = (connection, String::new());
    let text = "x".repeat(payload);
    let mut times = Vec::with_capacity(rounds);
    for id in 0..rounds {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"t\":\"{text}\"}}}}\n"
        );
        let begun = Instant::now();
        writer.write_all(line.as_bytes()).unwrap();
        answer.clear();
        reader.read_line(&mut answer).unwrap();
        times.push(begun.elapsed());
        assert!(answer.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")), "{answer}");
    }
    times.sort();
    let micro = |at: Duration| at.as_secs_f64() * 1e6;
    (micro(times[rounds / 2]), micro(times[rounds * 99 / 100]))
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let settings = ServerSettings::new("bench".parse().unwrap());
    let server =
        runtime.block_on(async { Server::start(settings, Arc::new(Threads), Box::new(Quiet)) });
    let (relayed, far) = UnixStream::pair().unwrap();
    far.set_nonblocking(true).unwrap();
    runtime.spawn(async move {
        let far = tokio::net::UnixStream::from_std(far).unwrap();
        server.serve(far).await
    });
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n";
    (&relayed).write_all(hello.as_bytes()).unwrap();
    BufReader::new(&relayed).read_line(&mut String::new()).unwrap();
    let copied = plain();
    for payload in [16, 1 << 10, 1 << 16] {
        for round in 0..3 {
            let (plain, plain_tail) = measure(&copied, payload, 3_000);
            let (relay, relay_tail) = measure(&relayed, payload, 3_000);
            println!(
                "{payload:>6} B, round {round}: plain {plain:.1} us (p99 {plain_tail:.0}), \
                 relay {relay:.1} us (p99 {relay_tail:.0}), ratio {:.2}",
                relay / plain
            );
        }
    }
}
