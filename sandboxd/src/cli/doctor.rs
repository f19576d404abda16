//! `sandboxd doctor`: does on this host every step that a session takes, and says what is missing.
//!
//! It makes a real session and runs a real command in it; what it says is what happened.
//!
//! Runs in: client and host (the user's privileges).

use std::fs;
use std::os::fd::OwnedFd;

use clap::Args;
use policy::SessionFile;
use policy::egress::EgressMode;
use policy::syscalls::Profile;
use serde::Serialize;

use super::client::block_on;
use super::flags::{self, become_user};
use super::session::{print, print_json};
use crate::api::place::Place;
use crate::fault::Fault;
use crate::host::{self, Prepared, Session, SessionError, Streams, Zygote, cause};
use crate::wire::{CompartmentOrder, Ending};

/// Try every step of a session on this host and name what is missing.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// As root: the user to try it as.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

/// One finding.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It works.
    Ok,
    /// Sessions work; something is weaker than it could be.
    Degraded,
    /// No session can be made.
    Fail,
}

/// The oldest kernel that is supported.
const OLDEST: (u32, u32) = (5, 15);

impl Doctor {
    pub(super) fn run(self) -> Result<i32, Fault> {
        become_user(self.user.as_deref(), Some("."))?;
        let mut checks = vec![kernel()];
        checks.extend(session()?);
        if checks.iter().all(|check| check.status != Status::Fail) {
            checks.push(egress()?);
        }
        checks.extend([landlock(), groups(), limits()]);
        let failed = checks.iter().any(|check| check.status == Status::Fail);
        if self.json {
            print_json(&serde_json::json!({ "ok": !failed, "checks": checks }))?;
        } else {
            print(&text(&checks, failed))?;
        }
        Ok(i32::from(failed))
    }
}

fn text(checks: &[Check], failed: bool) -> String {
    let mut text = String::new();
    for check in checks {
        let word = match check.status {
            Status::Ok => "ok",
            Status::Degraded => "degraded",
            Status::Fail => "FAIL",
        };
        text.push_str(&format!("{word:<9} {:<12} {}\n", check.name, check.detail));
        for line in check.fix.iter().flat_map(|fix| fix.lines()) {
            text.push_str(&format!("{:23}{line}\n", ""));
        }
    }
    let end = if failed {
        "no session can be made on this host\n"
    } else {
        "sessions work on this host\n"
    };
    text.push_str(end);
    text
}

fn kernel() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (status, fix) = if found >= OLDEST {
        (Status::Ok, None)
    } else {
        (Status::Fail, Some(format!("Linux {}.{} or newer is needed", OLDEST.0, OLDEST.1)))
    };
    Check { name: "kernel", status, detail: release.trim().to_owned(), fix }
}

/// The steps of a session, in their order; one that fails is the last.
fn session() -> Result<Vec<Check>, Fault> {
    const STEPS: [(&str, &str); 4] = [
        ("zygote", "user, mount, pid, net, ipc, uts and cgroup namespaces in one clone3"),
        (
            "setup",
            "uid map, loopback, read-only view of the host, own /proc, pivot_root, capabilities",
        ),
        ("init", "compartment with its own /proc, terminals and files; Landlock; seccomp"),
        ("launch", "a command ran inside and ended with status 0"),
    ];
    let tried = try_with(EgressMode::None)?;
    let failed = match &tried {
        Ok(()) => STEPS.len(),
        Err(SessionError::Zygote(_) | SessionError::Host(_) | SessionError::Silent(_)) => 0,
        Err(SessionError::Setup(_)) => 1,
        Err(SessionError::Supervisor(_) | SessionError::Init(_)) => 2,
        Err(SessionError::Launch(_)) => 3,
    };
    let mut checks: Vec<Check> = STEPS
        .into_iter()
        .take(failed)
        .map(|(name, detail)| Check {
            name,
            status: Status::Ok,
            detail: detail.to_owned(),
            fix: None,
        })
        .collect();
    if let (Err(error), Some((name, _))) = (tried, STEPS.get(failed)) {
        let fix = cause::explain(&error);
        checks.push(Check { name, status: Status::Fail, detail: error.to_string(), fix });
    }
    Ok(checks)
}

/// The same session with a door out: what it needs besides.
fn egress() -> Result<Check, Fault> {
    let (name, fine) = ("egress", "gateway, veth, routes and rules by netlink, packet socket");
    Ok(match try_with(EgressMode::Filter)? {
        Ok(()) => Check { name, status: Status::Ok, detail: fine.to_owned(), fix: None },
        Err(error) => Check {
            name,
            status: Status::Degraded,
            detail: format!("{error}; boxes without egress work"),
            fix: Some("sudo modprobe veth, where the kernel has it as a module".to_owned()),
        },
    })
}

/// Makes a session without a workspace and runs a command in it.
fn try_with(mode: EgressMode) -> Result<Result<(), SessionError>, Fault> {
    let caller = flags::caller(std::env::temp_dir(), &flags::home()?)?;
    let mut file =
        SessionFile { workspace: policy::WorkspaceChoice::None, ..SessionFile::default() };
    file.egress.mode = mode;
    let place = Place::named(None, &caller.home);
    let prepared = host::prepare(&file, &caller, "doctor", &place)?;
    block_on(async { Ok(attempt(&prepared).await) })
}

async fn attempt(prepared: &Prepared) -> Result<(), SessionError> {
    let zygote = Zygote::start()?;
    let (session, _) = Session::start(&zygote, &prepared.order).await?;
    let order =
        CompartmentOrder { profile: Profile::Agent, landlock_required: false, network: None };
    let compartment = session.compartment(order).await?;
    let spec = prepared.command(vec![b"true".to_vec()], &prepared.base, &prepared.home);
    let null = || -> Result<OwnedFd, SessionError> {
        let file = fs::File::options().read(true).write(true).open("/dev/null");
        let lost = |_| SessionError::Silent("/dev/null");
        file.map(OwnedFd::from).map_err(lost)
    };
    let streams = Streams::Pipes([null()?, null()?, null()?]);
    let mut job = compartment.launch(&spec, streams).await?;
    let ending = job.wait().await;
    session.end().await;
    match ending {
        Ending::Status(0) => Ok(()),
        Ending::Status(_) | Ending::Signal(_) => Err(SessionError::Silent("command")),
    }
}

fn landlock() -> Check {
    let abi = crate::init::landlock_abi();
    let (status, detail) = match abi {
        0..=1 => {
            (Status::Degraded, format!("ABI {abi}: the file system is guarded by the mounts alone"))
        }
        2..=5 => {
            (Status::Degraded, format!("ABI {abi}: files, without abstract sockets and signals"))
        }
        _ => (Status::Ok, format!("ABI {abi}: files, abstract sockets, signals")),
    };
    let fix = (status != Status::Ok).then(|| {
        "Linux 6.12 has all of it; where the kernel has it and it is off, add landlock to lsm="
            .to_owned()
    });
    Check { name: "landlock", status, detail, fix }
}

/// Supplementary groups cannot be dropped without root: what they may open, a box may.
fn groups() -> Check {
    const DOORS: [&str; 9] =
        ["docker", "podman", "lxd", "incus-admin", "libvirt", "disk", "kvm", "adm", "shadow"];
    let numbers = nix::unistd::getgroups().unwrap_or_default();
    let held: Vec<String> =
        group_names(&numbers.iter().map(|gid| gid.as_raw()).collect::<Vec<_>>())
            .into_iter()
            .filter(|name| DOORS.contains(&name.as_str()))
            .collect();
    if held.is_empty() {
        let detail = "no supplementary group that opens a door".to_owned();
        return Check { name: "groups", status: Status::Ok, detail, fix: None };
    }
    Check {
        name: "groups",
        status: Status::Degraded,
        detail: format!(
            "{} cannot be dropped: only mounts and Landlock guard what they open",
            held.join(", ")
        ),
        fix: Some("run sandboxd as a user outside these groups, or as root with --user".to_owned()),
    }
}

/// The names of groups, from /etc/group (group(5)): a static program can ask no other service.
fn group_names(numbers: &[u32]) -> Vec<String> {
    let text = fs::read_to_string("/etc/group").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
            numbers.contains(&number).then(|| name.to_owned())
        })
        .collect()
}

fn limits() -> Check {
    let detail =
        "rlimits: processes of each session; memory is not limited by this version".to_owned();
    Check { name: "limits", status: Status::Ok, detail, fix: None }
}
