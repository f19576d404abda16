//! The open descriptors, and every way out by one of them.
//!
//! Runs in: probe.

use std::fs::{self, File};

use serde_json::{Map, Value, json};

use crate::kernel::{address, call, io_outcome, outcome, text};

/// Numbers that are tried; beyond them the list in /proc is believed.
const BLIND: usize = 65_536;

/// Which numbers are open, and on what. The kernel is asked for each number, not only /proc.
pub(crate) fn list() -> Value {
    let open = |number: &usize| call(libc::SYS_fcntl, &[*number, libc::F_GETFD as usize]).is_ok();
    let mut all = Map::new();
    for number in (0..BLIND).filter(open) {
        let target = fs::read_link(format!("/proc/self/fd/{number}"));
        let target =
            target.map_or_else(|error| error.to_string(), |path| path.display().to_string());
        all.insert(number.to_string(), target.into());
    }
    Value::Object(all)
}

/// Tries to leave the box by a descriptor: as a directory, as a socket, as a file to open again.
pub(crate) fn through(number: usize) -> Value {
    let dot = text("../../../../../../..");
    let passwd = text("../../../../../../../etc/shadow");
    let list = call(libc::SYS_openat, &[number, address(dot.as_c_str()), 0]);
    let shadow = call(libc::SYS_openat, &[number, address(passwd.as_c_str()), 0]);
    // sockaddr_in: family 2, port 9, 127.0.0.1.
    let peer: [u8; 16] = [2, 0, 0, 9, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let name = [0_u8; 128];
    let length = 128_u32;
    let path = format!("/proc/self/fd/{number}");
    json!({
        "kind": kind(&path),
        "openat above": outcome(list),
        "openat shadow": outcome(shadow),
        "fchdir": crate::kernel::in_child(|| call(libc::SYS_fchdir, &[number])),
        "connect": outcome(call(libc::SYS_connect, &[number, address(&peer), 16])),
        "getsockname": outcome(call(libc::SYS_getsockname, &[number, address(&name), address(&length)])),
        "send": outcome(call(libc::SYS_sendto, &[number, address(&name), 4])),
        "listen": outcome(call(libc::SYS_listen, &[number, 1])),
        "open again for reading": reopened(File::options().read(true), &path),
        "open again for writing": reopened(File::options().write(true), &path),
    })
}

/// O_NONBLOCK, or opening a pipe that nobody else holds would wait for ever.
fn reopened(options: &mut fs::OpenOptions, path: &str) -> String {
    use std::os::unix::fs::OpenOptionsExt;
    io_outcome(options.custom_flags(libc::O_NONBLOCK).open(path))
}

fn kind(path: &str) -> String {
    use std::os::unix::fs::FileTypeExt;
    let Ok(data) = fs::metadata(path) else { return "none".to_owned() };
    let kind = data.file_type();
    let names = [
        (kind.is_dir(), "directory"),
        (kind.is_file(), "file"),
        (kind.is_socket(), "socket"),
        (kind.is_fifo(), "pipe"),
        (kind.is_char_device(), "device"),
    ];
    names.iter().find(|(is, _)| *is).map_or("other", |(_, name)| name).to_owned()
}
