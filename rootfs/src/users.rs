//! The users of this host, read from /etc/passwd (passwd(5)).
//!
//! Not by getpwnam(3): in a static program that would load the plug-ins of nsswitch.conf, made for another
//! libc, and die. A user whom another service knows (LDAP, systemd-homed) is taken for what its own environment
//! says: its number is the kernel's word in any case.
//!
//! Runs in: client, host (reads one file).

use std::fs;
use std::path::{Path, PathBuf};

/// One user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Its home directory.
    pub home: PathBuf,
    /// Its shell.
    pub shell: PathBuf,
}

impl Account {
    /// Finds a user by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        read().into_iter().find(|account| account.name == name)
    }

    /// Finds a user by its number.
    #[must_use]
    pub fn numbered(uid: u32) -> Option<Self> {
        read().into_iter().find(|account| account.uid == uid)
    }

    /// Finds who this process is.
    #[must_use]
    pub fn current() -> Option<Self> {
        let (uid, gid) = (nix::unistd::Uid::current(), nix::unistd::Gid::current());
        let listed = Self::numbered(uid.as_raw());
        listed.or_else(|| from_environment(uid.as_raw(), gid.as_raw()))
    }
}

fn read() -> Vec<Account> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, shell] = *fields.as_slice() else { return None };
    Some(Account {
        name: name.to_owned(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        home: home.into(),
        shell: shell.into(),
    })
}

fn from_environment(uid: u32, gid: u32) -> Option<Account> {
    let plain = |name: &String| {
        !name.is_empty()
            && name.len() <= 32
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let name = std::env::var("USER").ok().filter(plain).unwrap_or_else(|| format!("user{uid}"));
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let usable = home.is_absolute() && home != Path::new("/");
    usable.then(|| Account { name, uid, gid, home, shell: "/bin/sh".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_file_is_an_account() {
        let ann = parse("ann:x:1000:1001:Ann,,,:/home/ann:/bin/bash").unwrap();
        assert_eq!((ann.uid, ann.gid, ann.name.as_str()), (1000, 1001, "ann"));
        assert_eq!((ann.home, ann.shell), ("/home/ann".into(), "/bin/bash".into()));
        for wrong in ["", "# comment", "ann:x:no:1:::", "ann:x:1:1:/home/ann"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn root_is_known_and_nobody_else_of_an_unlikely_number() {
        assert_eq!(Account::named("root").map(|root| root.uid), Some(0));
        assert_eq!(Account::numbered(0).map(|root| root.name).as_deref(), Some("root"));
        assert_eq!(Account::numbered(3_999_999_999), None);
    }
}
