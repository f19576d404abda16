//! The walls of a compartment, taken once and in one place.
//!
//! The order is forced: capabilities first, while the calls that drop them are still allowed; no_new_privs
//! before Landlock and seccomp, which want it from an unprivileged process; seccomp last, for it forbids the
//! calls that made the others.
//!
//! Runs in: init (its last privileged moments).

use std::os::fd::AsFd;

use caps::CapSet;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::sys::stat::{SFlag, fstat};
use rootfs::{MountPlan, Rights, Rule};
use sandbox_sys::{Errno, Failing, Failure, process};

use super::filter;
use crate::wire::{CompartmentOrder, Walls};

/// The first ABI that has all that we ask for: file rights with ioctl, abstract sockets, signals.
const WHOLE: u32 = 6;

/// The newest ABI whose rights this version names.
const NEWEST: u32 = 6;

/// The oldest ABI that is of use: 1 forbids every rename between directories.
const OLDEST: u32 = 2;

/// Takes all walls and says which stand. They are inherited for good.
///
/// Must: every mount of the compartment is done.
///
/// # Errors
/// When one cannot be taken; then the compartment is not used.
pub(super) fn take(order: CompartmentOrder, plan: &MountPlan) -> Result<Walls, Failure> {
    let filter = filter::compiled(order.profile).map_err(|error| {
        Failure::new("compile the system call filter", error.to_string(), Errno::EINVAL)
    })?;
    drop_capabilities()?;
    process::set_no_new_privs().failing("give up new privileges")?;
    process::set_dumpable(false).failing("close this process to others")?;
    let landlock = take_landlock(order, &plan.rules)?;
    filter.install().map_err(|error| {
        Failure::new("install the system call filter", error.to_string(), Errno::EINVAL)
    })?;
    Ok(Walls { landlock, seccomp: filter.instructions() })
}

fn drop_capabilities() -> Result<(), Failure> {
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set)
            .map_err(|_| Failure::new("give up capabilities", "", Errno::EPERM))?;
    }
    Ok(())
}

/// Asks the kernel which ABI it offers (landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION).
pub(crate) fn landlock_abi() -> u32 {
    sandbox_sys::process::landlock_abi().unwrap_or(0)
}

/// Restricts this process and all its children to the plan's paths, as far as the kernel goes.
fn take_landlock(order: CompartmentOrder, rules: &[Rule]) -> Result<u32, Failure> {
    let offered = landlock_abi();
    if offered < WHOLE && order.landlock_required {
        return Err(Failure::new(
            "enforce walls.landlock = \"required\": this kernel offers less than ABI 6, namely",
            offered.to_string(),
            Errno::EOPNOTSUPP,
        ));
    }
    if offered < OLDEST {
        return Ok(0);
    }
    let abi = offered.min(NEWEST);
    restrict(abi, rules).map_err(|error| {
        Failure::new("take the Landlock wall", error.to_string(), Errno::EINVAL)
    })?;
    Ok(abi)
}

fn restrict(number: u32, rules: &[Rule]) -> Result<(), RulesetError> {
    let abi = ABI::from(i32::try_from(number).unwrap_or(0));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if number >= WHOLE {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut ruleset = ruleset.create()?;
    for rule in rules {
        // What the plan names was mounted a moment ago; what is missing grants nothing.
        let Ok(path) = PathFd::new(&rule.path) else { continue };
        let access = rights(abi, rule.rights);
        let access = if is_directory(&path) { access } else { access & AccessFs::from_file(abi) };
        ruleset = ruleset.add_rule(PathBeneath::new(path, access))?;
    }
    ruleset.restrict_self().map(drop)
}

fn is_directory(path: &PathFd) -> bool {
    let kind = fstat(path.as_fd()).map(|data| data.st_mode & SFlag::S_IFMT.bits());
    kind.is_ok_and(|kind| kind == SFlag::S_IFDIR.bits())
}

/// What the words of the plan mean in Landlock's rights.
fn rights(abi: ABI, rights: Rights) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(abi);
    all & match rights {
        Rights::List => AccessFs::ReadDir.into(),
        Rights::Read => AccessFs::from_read(abi),
        Rights::Update => AccessFs::ReadDir | AccessFs::ReadFile | AccessFs::WriteFile,
        Rights::Device => {
            AccessFs::ReadDir | AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev
        }
        // Device nodes cannot be made in a box, and none on these mounts can be opened.
        Rights::Write => all,
    }
}
