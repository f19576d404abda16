//! Why a host refuses a step, and which setting changes that.
//!
//! A step that was refused is the evidence; settings only explain it. Each row is a known restriction: where
//! it shows, how it is recognised, what to do (docs/HOSTS.md).
//!
//! Runs in: host, client (reads settings in /proc and /sys when a step has failed).

use std::fs;

use sandbox_sys::Errno;

use super::error::SessionError;

/// Says why this host refused, and what to do about it, when it is known.
pub(crate) fn explain(error: &SessionError) -> Option<String> {
    let failure = error.failure()?;
    let errno = Errno::from_raw(failure.errno);
    match error {
        SessionError::Zygote(_) => namespaces(errno),
        SessionError::Setup(_) | SessionError::Init(_) | SessionError::Supervisor(_) => {
            inside(&failure.step, errno)
        }
        SessionError::Host(_) | SessionError::Launch(_) | SessionError::Silent(_) => None,
    }
}

/// The first step: clone3 with all namespaces.
fn namespaces(errno: Errno) -> Option<String> {
    if errno == Errno::ENOSPC {
        return Some(exhausted());
    }
    if errno == Errno::ENOSYS {
        return Some(container(
            "clone3 is not there: a seccomp filter around sandboxd hides it, or the kernel is older than 5.15",
        ));
    }
    if errno != Errno::EPERM {
        return None;
    }
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return Some(sysctl(
            "this host forbids user namespaces to ordinary users (kernel.unprivileged_userns_clone=0)",
            "kernel.unprivileged_userns_clone=1",
        ));
    }
    Some(container("a seccomp filter or a security module around sandboxd refuses new namespaces"))
}

/// A limit of namespaces, by name.
fn exhausted() -> String {
    let kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    let zero = kinds.iter().find(|kind| is(&format!("/proc/sys/user/max_{kind}_namespaces"), "0"));
    match zero {
        Some(kind) => sysctl(
            &format!("this host allows no {kind} namespaces (user.max_{kind}_namespaces=0)"),
            &format!("user.max_{kind}_namespaces=15000"),
        ),
        None => "the limit of namespaces is reached (user.max_*_namespaces), or they are nested more than \
                 32 deep; end some sessions"
            .to_owned(),
    }
}

/// A step inside the new namespaces.
fn inside(step: &str, errno: Errno) -> Option<String> {
    let refused = matches!(errno, Errno::EPERM | Errno::EACCES);
    if refused && step.contains("/proc") {
        return Some(masked_proc());
    }
    if refused && is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return Some(apparmor());
    }
    if refused && is("/sys/fs/selinux/enforce", "1") {
        return Some(
            "SELinux may refuse this: `sudo ausearch -m avc -ts recent` shows what; in a container, run it \
             with --security-opt label=disable"
                .to_owned(),
        );
    }
    if step.contains("landlock") || step.contains("Landlock") {
        return Some(
            "Landlock is whole from Linux 6.12 on; where the kernel has it and it is off, add landlock to \
             the lsm= boot parameter"
                .to_owned(),
        );
    }
    None
}

/// Ubuntu's restriction: the namespace is made, and then worth nothing.
fn apparmor() -> String {
    let program = fs::read_link("/proc/self/exe").unwrap_or_else(|_| "/usr/bin/sandboxd".into());
    let program = program.display();
    format!(
        "AppArmor restricts user namespaces for this program \
         (kernel.apparmor_restrict_unprivileged_userns=1). Give it a profile that allows them:\n\
         sudo tee /etc/apparmor.d/sandboxd >/dev/null <<'END'\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile sandboxd {program} flags=(unconfined) {{\n  userns,\n}}\n\
         END\n\
         sudo apparmor_parser -r /etc/apparmor.d/sandboxd"
    )
}

/// Anything mounted over a part of /proc: the kernel then allows no new one.
fn masked_proc() -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let over: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|path| path.starts_with("/proc/") && *path != "/proc/sys/fs/binfmt_misc")
        .collect();
    if over.is_empty() {
        return container("the kernel allows no new /proc here");
    }
    container(&format!(
        "something is mounted over a part of /proc ({}), and then the kernel allows no new one",
        over.join(", ")
    ))
}

/// The ways out of a container that is too narrow.
fn container(what: &str) -> String {
    format!(
        "{what}. In Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
         --security-opt systempaths=unconfined. In Podman: --security-opt seccomp=unconfined \
         --security-opt unmask=ALL. In Kubernetes: hostUsers: false with procMount: Unmasked. Under \
         systemd: without RestrictNamespaces=, SystemCallFilter= and ProtectKernelTunables="
    )
}

fn sysctl(what: &str, setting: &str) -> String {
    format!(
        "{what}. To allow them: echo {setting} | sudo tee /etc/sysctl.d/90-sandboxd.conf && sudo sysctl --system"
    )
}

fn is(path: &str, value: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_sys::Failure;

    #[test]
    fn a_refused_proc_is_explained_by_what_covers_it() {
        let failure = Failure::new("make a /proc", "", Errno::EPERM);
        let text = explain(&SessionError::Setup(failure)).unwrap();
        assert!(text.contains("systempaths=unconfined"), "{text}");
    }

    #[test]
    fn a_fault_of_the_command_is_not_blamed_on_the_host() {
        let failure = Failure::new("execute", "x", Errno::EACCES);
        assert_eq!(explain(&SessionError::Launch(failure)), None);
    }
}
