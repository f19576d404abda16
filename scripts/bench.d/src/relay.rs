//! One `tools/call` there and back: through `sandboxd mcp stub`, through plain copying over as many hops, and
//! without any hop.
//!
//! Runs in: bench.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, SESSION};
use crate::process::{Child, Command};
use crate::tally::{Row, Shuffle, Tally};
use crate::{Options, Outcome};

/// The lengths of the text that goes there and comes back.
const SIZES: [(usize, &str); 3] = [(16, "16 B"), (1024, "1 KiB"), (64 * 1024, "64 KiB")];

/// How many calls one turn has.
const CALLS: usize = 20;

/// An MCP server by its standard input and output.
struct Server {
    child: Child,
    input: File,
    output: File,
    number: u64,
    buffer: Vec<u8>,
}

impl Server {
    fn start(command: &Command) -> Outcome<Self> {
        let (theirs_in, input) = std::io::pipe()?;
        let (output, theirs_out) = std::io::pipe()?;
        let stderr = std::io::stderr();
        let child = command.start([theirs_in.as_fd(), theirs_out.as_fd(), stderr.as_fd()])?;
        let (input, output) = (OwnedFd::from(input).into(), OwnedFd::from(output).into());
        let mut server = Self { child, input, output, number: 0, buffer: vec![0; 256 * 1024] };
        let params = "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\
                      \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}";
        server.ask("initialize", params, 0)?;
        server
            .input
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// Sends a request, waits for the line that answers it, longer than this, and says how long that took.
    fn ask(&mut self, method: &str, params: &str, length: usize) -> Outcome<Duration> {
        self.number += 1;
        let id = self.number;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        let start = Instant::now();
        self.input.write_all(line.as_bytes())?;
        let mut filled = 0;
        while filled == 0 || self.buffer[filled - 1] != b'\n' {
            match self.output.read(&mut self.buffer[filled..])? {
                0 => return Err(format!("no answer to {method}").into()),
                count => filled += count,
            }
        }
        let taken = start.elapsed();
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
        let answer = &self.buffer[..filled];
        if answer.starts_with(expected.as_bytes()) && filled > length {
            Ok(taken)
        } else {
            Err(String::from_utf8_lossy(&answer[..answer.len().min(300)]).into())
        }
    }

    fn call(&mut self, text: &str) -> Outcome<Duration> {
        let params = format!("{{\"name\":\"echo\",\"arguments\":{{\"text\":\"{text}\"}}}}");
        self.ask("tools/call", &params, text.len())
    }

    fn end(self) -> Outcome<()> {
        drop((self.input, self.output));
        self.child.wait()?;
        Ok(())
    }
}

/// Measures every build.
pub fn measure(options: &Options) -> Outcome<Vec<Tally>> {
    let file = options.staged("sandbox.toml");
    std::fs::write(&file, format!("[mcp.echo]\ncommand = [{:?}]\n", options.staged("mcp")))?;
    let daemons: Vec<Daemon> = options
        .builds
        .iter()
        .map(|(name, program)| Daemon::start(options, name, program, &["-f", &file]))
        .collect::<Outcome<_>>()?;
    let socket = options.stage.with_file_name("copy.sock").display().to_string();
    let null = options.null.as_fd();
    let own = std::env::current_exe()?.display().to_string();
    let stderr = std::io::stderr();
    let copying = Command::new(&[&own, "copy-daemon", &socket, &options.staged("mcp")]).start([
        null,
        null,
        stderr.as_fd(),
    ])?;
    while std::fs::metadata(&socket).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut servers = vec![
        ("direct".to_owned(), Server::start(&Command::new(&[options.staged("mcp")]))?),
        ("copying".to_owned(), Server::start(&Command::new(&[&own, "copy-stub", &socket]))?),
    ];
    for (daemon, (name, program)) in daemons.iter().zip(&options.builds) {
        let words = [program, "mcp", "stub", "--dir", &daemon.directory, SESSION, "echo"];
        servers.push((name.clone(), Server::start(&Command::new(&words))?));
    }
    let tallies = rounds(options, &mut servers)?;
    for (_, server) in servers {
        server.end()?;
    }
    copying.wait()?;
    Ok(tallies)
}

fn rounds(options: &Options, servers: &mut [(String, Server)]) -> Outcome<Vec<Tally>> {
    let rows: Vec<Row> = servers.iter().map(|(name, _)| Row::new(name)).collect();
    let mut tallies: Vec<Tally> = SIZES
        .iter()
        .map(|(_, name)| Tally {
            title: format!("tools/call with {name} there and back, {} x {CALLS}", options.rounds),
            rows: rows.clone(),
            bases: vec!["copying".to_owned(), "direct".to_owned()],
        })
        .collect();
    let texts: Vec<String> = SIZES.iter().map(|(size, _)| "x".repeat(*size)).collect();
    let mut shuffle = Shuffle::new();
    for round in 0..options.rounds + 2 {
        for turn in shuffle.order(servers.len() * SIZES.len()) {
            let (size, server) = (turn / servers.len(), turn % servers.len());
            let calls: Vec<Duration> =
                (0..CALLS).map(|_| servers[server].1.call(&texts[size])).collect::<Outcome<_>>()?;
            // The first rounds warm what a living server has warm.
            if round >= 2 {
                tallies[size].rows[server].take(calls);
            }
        }
    }
    Ok(tallies)
}
