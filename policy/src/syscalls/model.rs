//! The plain model: the answer to one call, read straight from the table.
//!
//! Runs in: any (pure data).

use super::table::{Answer, Rules, Test, rows};

/// Whom the filter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Profile {
    /// The agent's compartment: programs are built, run and debugged there.
    Agent,
    /// An MCP server's compartment: nothing is debugged there.
    Server,
}

/// Through which door of the kernel a call comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// The one of the architecture this was compiled for.
    Native,
    /// The x32 numbers of an `x86_64` kernel: native in all but bit 30 of the number.
    X32,
    /// Any other: `int 0x80` on `x86_64`, 32-bit programs on `aarch64`.
    Foreign,
}

/// One system call as the kernel shows it to a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The door it came through.
    pub arch: Arch,
    /// Its number there.
    pub number: u32,
    /// The six registers, used or not.
    pub args: [u64; 6],
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The kernel makes it.
    Allow,
    /// It is not made; the caller gets this errno.
    Errno(i32),
    /// It is not made; the process ends with `SIGSYS`.
    Kill,
}

/// Decides one call.
#[must_use]
pub fn decide(call: &Call, profile: Profile) -> Verdict {
    match call.arch {
        Arch::Foreign => Verdict::Kill,
        Arch::X32 => Verdict::Errno(libc::ENOSYS),
        Arch::Native => decide_native(call, profile),
    }
}

fn decide_native(call: &Call, profile: Profile) -> Verdict {
    let Some((_, group)) = rows().find(|(row, _)| row.number == call.number) else {
        return Verdict::Errno(libc::ENOSYS);
    };
    match group.answer {
        Answer::Allow => Verdict::Allow,
        Answer::AgentOnly if profile == Profile::Agent => Verdict::Allow,
        Answer::AgentOnly => Verdict::Errno(libc::EPERM),
        Answer::Refuse(errno) => Verdict::Errno(errno),
        Answer::Rules(rules) => decide_by_arguments(rules, &call.args),
    }
}

fn decide_by_arguments(rules: &Rules, args: &[u64; 6]) -> Verdict {
    let holds = |test: &Test| {
        let whole = args[usize::from(test.argument)];
        whole & u64::from(test.mask) == u64::from(test.value)
    };
    rules
        .clauses
        .iter()
        .find(|clause| clause.when.iter().all(holds))
        .map_or(rules.otherwise, |clause| clause.then)
}
