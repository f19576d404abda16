//! From nothing to the end of a program: a box of sandboxd's, of bubblewrap's, of unshare's, and no box.
//!
//! Runs in: bench.

use std::os::fd::AsFd;
use std::path::Path;

use crate::process::Command;
use crate::tally::{Row, Shuffle, Tally};
use crate::{Options, Outcome};

/// Measures all contenders that this host has.
pub fn measure(options: &Options) -> Outcome<Tally> {
    let mut contenders = vec![("fork+exec".to_owned(), Command::new(&[options.staged("true")]))];
    for (name, file) in &options.builds {
        let words = [file.as_str(), "run", "--", "./true"];
        contenders.push((name.clone(), Command::new(&words)));
    }
    contenders.extend(bubblewrap(options).map(|command| ("bwrap".to_owned(), command)));
    contenders.extend(unshare(options).map(|command| ("unshare".to_owned(), command)));
    let null = options.null.as_fd();
    std::env::set_current_dir(&options.stage)?;
    for (_, command) in &contenders {
        command.run(null)?;
    }
    let mut rows: Vec<Row> = contenders.iter().map(|(name, _)| Row::new(name)).collect();
    let mut shuffle = Shuffle::new();
    for _ in 0..options.rounds {
        for turn in shuffle.order(contenders.len()) {
            let taken = contenders[turn].1.time(null)?;
            rows[turn].take(vec![taken]);
        }
    }
    let title = format!(
        "start to end of a static program that does nothing, {} rounds, stdio /dev/null",
        options.rounds
    );
    Ok(Tally { title, rows, bases: vec!["bwrap".to_owned(), "fork+exec".to_owned()] })
}

fn find(name: &str) -> Option<String> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .map(|directory| format!("{directory}/{name}"))
        .find(|path| Path::new(path).exists())
}

/// `bwrap --unshare-all` with what sandboxd's box has at least: programs and /etc read-only, /proc, /dev, a private
/// /tmp, the workspace. No seccomp, no masks in /proc, no Landlock.
fn bubblewrap(options: &Options) -> Option<Command> {
    let stage = options.stage.display().to_string();
    let mut words: Vec<String> = vec![find("bwrap")?];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(&["--unshare-all", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for name in ["/bin", "/sbin", "/lib", "/lib64"] {
        match std::fs::read_link(name) {
            Ok(target) => add(&["--symlink", &target.display().to_string(), name]),
            Err(_) if Path::new(name).exists() => add(&["--ro-bind", name, name]),
            Err(_) => {}
        }
    }
    add(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    add(&["--bind", &stage, &stage, "--chdir", &stage, "./true"]);
    Some(Command::new(&words))
}

/// unshare(1): every namespace and a /proc, but the host's files.
fn unshare(options: &Options) -> Option<Command> {
    let mut words = vec![find("unshare")?];
    let flags =
        "--user --map-current-user --mount --mount-proc --pid --fork --net --ipc --uts --cgroup";
    words.extend(flags.split(' ').map(str::to_owned));
    words.push(options.staged("true"));
    Some(Command::new(&words))
}
