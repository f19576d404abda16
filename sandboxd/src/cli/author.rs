//! The caller's git name and email address, from the two files in which git looks for them (git-config(1)).
//!
//! Only what a box needs to commit in the caller's name is taken: `user.name` and `user.email` as they stand
//! in the file. Includes are not followed, and nothing else of the file goes anywhere.
//!
//! Runs in: client (reads two small files of the caller's).

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the name and the email address, as far as they are there.
pub(super) fn read(home: &Path) -> (Option<String>, Option<String>) {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let mut author = (variable("GIT_AUTHOR_NAME"), variable("GIT_AUTHOR_EMAIL"));
    for file in files(home) {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let (name, email) = parse(&text);
        author = (author.0.or(name), author.1.or(email));
    }
    author
}

/// The user's own file comes before the one of XDG, which git reads first and lets the other override.
fn files(home: &Path) -> [PathBuf; 2] {
    let xdg =
        std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    [home.join(".gitconfig"), xdg.join("git/config")]
}

/// Reads the section `[user]`; the last value wins, as in git.
fn parse(text: &str) -> (Option<String>, Option<String>) {
    let (mut name, mut email) = (None, None);
    let mut in_user = false;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let section = header.split(']').next().unwrap_or_default().trim();
            in_user = section.eq_ignore_ascii_case("user");
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| in_user) else { continue };
        match key.trim().to_ascii_lowercase().as_str() {
            "name" => name = Some(unquote(value)),
            "email" => email = Some(unquote(value)),
            _ => {}
        }
    }
    (name, email)
}

/// Takes quotes, escapes and a comment off a value (git-config(1), "Syntax").
fn unquote(value: &str) -> String {
    let (mut text, mut quoted) = (String::new(), false);
    let mut letters = value.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => text.extend(letters.next()),
            '#' | ';' if !quoted => break,
            other => text.push(other),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_read_as_git_reads_it() {
        let text = "[core]\n\tname = no\n[User]\n\tName = \"Ann \\\"A\\\" #1\" ; comment\n\
                    email=ann@example.org # work\n[user \"other\"]\n name = no\n";
        let (name, email) = parse(text);
        assert_eq!(name.as_deref(), Some("Ann \"A\" #1"));
        assert_eq!(email.as_deref(), Some("ann@example.org"));
    }
}
