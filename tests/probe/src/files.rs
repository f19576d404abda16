//! Single operations on files and sockets, as told on the command line.
//!
//! Runs in: probe.

use std::fs::{self, File};
use std::io::{Error, Read, Result, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};

use serde_json::{Value, json};

use crate::kernel::io_outcome;

/// Carries out operations that are parted by commas; the answers come in their order.
pub(crate) fn attempt_all(words: &[&str]) -> Value {
    let answers: Vec<Value> = words
        .split(|word| *word == ",")
        .map(|operation| json!(io_outcome(attempt(operation))))
        .collect();
    json!(answers)
}

fn attempt(operation: &[&str]) -> Result<()> {
    match operation {
        ["read", path] => File::open(path)?.read(&mut [0]).map(drop),
        ["write", path] => File::options().write(true).open(path).map(drop),
        ["append", path] => File::options().append(true).open(path)?.write_all(b"x"),
        ["create", path] => File::options().write(true).create_new(true).open(path).map(drop),
        ["list", path] => fs::read_dir(path).map(drop),
        ["stat", path] => fs::symlink_metadata(path).map(drop),
        ["mkdir", path] => fs::create_dir(path),
        ["rmdir", path] => fs::remove_dir(path),
        ["unlink", path] => fs::remove_file(path),
        ["rename", from, to] => fs::rename(from, to),
        ["link", from, to] => fs::hard_link(from, to),
        ["symlink", target, path] => symlink(target, path),
        ["truncate", path] => File::options().write(true).truncate(true).open(path).map(drop),
        ["chmod", mode, path] => {
            let mode = u32::from_str_radix(mode, 8).unwrap_or(0o644);
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        }
        ["connect-unix", path] => connect(path),
        _ => Err(Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// A path, or `@` and an abstract name.
fn connect(name: &str) -> Result<()> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixStream::connect_addr(&address).map(drop)
}
