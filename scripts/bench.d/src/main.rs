//! Measures sandboxd: `bench start|exec|relay --sandboxd FILE --stage DIR [--rounds N] [--json] [--also NAME=FILE]...`
//!
//! Contenders take turns in rounds, each round in an order of its own. scripts/bench builds all of it, chooses a
//! user without privileges and a quiet scheduling class, and is what a person calls.
//!
//! Runs in: bench (one thread; the user's privileges).

mod copy;
mod daemon;
mod exec;
mod process;
mod relay;
mod start;
mod tally;

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use tally::Tally;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// The builds to measure, by name; `sandboxd` is the first.
    pub builds: Vec<(String, String)>,
    /// A directory of ours with the programs in it; it becomes the workspace.
    pub stage: PathBuf,
    /// How often every contender has its turn.
    pub rounds: usize,
    json: bool,
    /// /dev/null.
    pub null: File,
}

/// What may go wrong: all of it is told in words and ends the bench.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

impl Options {
    fn read(mut words: impl Iterator<Item = String>, rounds: usize) -> Outcome<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut options =
            Self { builds: Vec::new(), stage: PathBuf::new(), rounds, json: false, null };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("expected a value after {word}"));
            match word.as_str() {
                "--sandboxd" => options.builds.insert(0, ("sandboxd".to_owned(), value()?)),
                "--also" => {
                    let value = value()?;
                    let (name, file) = value.split_once('=').ok_or("expected NAME=FILE")?;
                    options.builds.push((name.to_owned(), file.to_owned()));
                }
                "--stage" => options.stage = value()?.into(),
                "--rounds" => options.rounds = value()?.parse()?,
                "--json" => options.json = true,
                _ => return Err(format!("unknown word {word:?}").into()),
            }
        }
        Ok(options)
    }

    /// Returns the path of a staged program.
    pub fn staged(&self, name: &str) -> String {
        self.stage.join(name).display().to_string()
    }
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let tallies: Vec<Tally>;
    let options;
    match what.as_str() {
        "start" => {
            options = Options::read(words, 200)?;
            tallies = vec![start::measure(&options)?];
        }
        "exec" => {
            options = Options::read(words, 300)?;
            tallies = vec![exec::measure(&options)?];
        }
        "relay" => {
            options = Options::read(words, 60)?;
            tallies = relay::measure(&options)?;
        }
        // The two processes of plain copying; see copy.rs.
        "copy-stub" => return copy::stub(&words.next().ok_or("expected a socket")?),
        "copy-daemon" => {
            let (socket, server) = (words.next(), words.next());
            return copy::daemon(
                &socket.ok_or("expected a socket")?,
                &server.ok_or("expected a server")?,
            );
        }
        _ => return Err("expected start, exec or relay".into()),
    }
    if options.json {
        let all: Vec<String> = tallies.iter().map(Tally::json).collect();
        println!("{{\"bench\":\"{what}\",\"tables\":[{}]}}", all.join(","));
    } else {
        let all: Vec<String> = tallies.iter().map(Tally::text).collect();
        print!("{}", all.join("\n"));
    }
    Ok(())
}
