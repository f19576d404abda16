//! Every path that a path leads over: itself, each directory's link, each link's target.
//!
//! The end of the way is not enough: who can replace a link in the middle decides where it ends.
//!
//! Runs in: host (reads links).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows (path_resolution(7)).
const LIMIT: usize = 40;

/// Returns the absolute paths of all links on the way and of its end; what does not exist ends the way.
pub(super) fn hops(path: &Path) -> Vec<PathBuf> {
    let mut rest: VecDeque<OsString> = names(path);
    let mut here = PathBuf::from("/");
    let mut passed = Vec::new();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        match fs::read_link(&next) {
            Ok(target) if links < LIMIT => {
                links += 1;
                passed.push(next);
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                for name in names(&target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
            Ok(_) | Err(_) => here = next,
        }
    }
    passed.push(here);
    passed
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_in_the_middle_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        for directory in ["ws", "home", "end"] {
            fs::create_dir(base.join(directory)).unwrap();
        }
        fs::write(base.join("end/tool"), "").unwrap();
        symlink("../end", base.join("ws/link")).unwrap();
        symlink(base.join("ws/link"), base.join("home/way")).unwrap();
        let passed = hops(&base.join("home/way/tool"));
        assert_eq!(passed, [base.join("home/way"), base.join("ws/link"), base.join("end/tool")]);
    }
}
