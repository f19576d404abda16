//! A program in a session that stands: by an open connection to the daemon, by the command line, and without
//! either.
//!
//! Runs in: bench.

use std::os::fd::AsFd;

use crate::daemon::{self, Daemon, SESSION};
use crate::process::Command;
use crate::tally::{Row, Shuffle, Tally};
use crate::{Options, Outcome};

enum Contender {
    Plain(Command),
    /// Over a connection that is open before the clock starts.
    Open(usize),
}

/// Measures every build.
pub fn measure(options: &Options) -> Outcome<Tally> {
    let program = options.staged("true");
    let daemons: Vec<Daemon> = options
        .builds
        .iter()
        .map(|(name, file)| Daemon::start(options, name, file, &[]))
        .collect::<Outcome<_>>()?;
    let plain = Command::new(&[&program]);
    let mut contenders = vec![("fork+exec".to_owned(), Contender::Plain(plain))];
    for (index, (daemon, (name, file))) in daemons.iter().zip(&options.builds).enumerate() {
        contenders.push((format!("{name} api"), Contender::Open(index)));
        let words = [file.as_str(), "exec", "--dir", &daemon.directory, SESSION, "--", &program];
        contenders.push((format!("{name} cli"), Contender::Plain(Command::new(&words))));
    }
    let mut rows: Vec<Row> = contenders.iter().map(|(name, _)| Row::new(name)).collect();
    let mut shuffle = Shuffle::new();
    let null = options.null.as_fd();
    for round in 0..options.rounds + 5 {
        for turn in shuffle.order(contenders.len()) {
            let taken = match &contenders[turn].1 {
                Contender::Plain(command) => command.time(null)?,
                Contender::Open(index) => {
                    let mut stream = daemons[*index].connect()?;
                    daemon::exec(&mut stream, &program, &options.null)?
                }
            };
            // The first rounds warm caches that a live session has warm.
            if round >= 5 {
                rows[turn].take(vec![taken]);
            }
        }
    }
    let title = format!(
        "a static program that does nothing in a live session, {} rounds, stdio /dev/null",
        options.rounds
    );
    Ok(Tally { title, rows, bases: vec!["fork+exec".to_owned()] })
}
