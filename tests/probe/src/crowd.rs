//! Many processes: orphans that nobody waits for, and a bomb.
//!
//! Runs in: probe.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kernel::{ending, fork, leave};

/// How long the box has to reap what is left to it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes grandchildren whose parents end first, waits until they are gone, and says what is left.
pub(crate) fn orphans(count: usize) -> Value {
    let mut made = 0;
    for _ in 0..count {
        // The grandchild reads until its parent, which alone holds the other end, has ended.
        let Ok((mut read, write)) = std::io::pipe() else { break };
        match fork() {
            Err(_) => break,
            Ok(0) => match fork() {
                Err(errno) => leave(errno as i32),
                Ok(0) => {
                    drop(write);
                    // Ignored: the end of the file is what is waited for.
                    let _ = read.read(&mut [0]);
                    leave(0);
                }
                Ok(_) => leave(0),
            },
            Ok(child) => {
                drop((read, write));
                made += usize::from(ending(child) == "OK");
            }
        }
    }
    let begun = Instant::now();
    let mut left = others();
    while !left.is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        left = others();
    }
    json!({ "made": made, "left": left })
}

/// The processes in sight, except this one and the compartment's first; each with its state.
fn others() -> Vec<String> {
    let own = std::process::id().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return vec!["no /proc".to_owned()] };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.parse::<u32>().is_ok() && *name != own && name != "1")
        .filter_map(|name| {
            let stat = fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.get(..1)?.to_owned();
            Some(format!("{name} {state}"))
        })
        .collect()
}

/// Forks for as long as it is let, every child likewise; nobody ends by itself.
pub(crate) fn bomb() -> Value {
    loop {
        if fork().is_err() {
            nix::unistd::pause();
        }
    }
}
