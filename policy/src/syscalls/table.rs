//! The types of the table, and all its rows in one sequence.
//!
//! Runs in: any (pure data).

use super::model::{Profile, Verdict};
use super::{allowed, arguments, legacy, refused};

/// One system call of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The name in the manual.
    pub name: &'static str,
    /// The number on the architecture this was compiled for.
    pub number: u32,
}

/// Calls that serve one purpose, and the answer that all of them get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// What the calls are for, in a word or two.
    pub name: &'static str,
    /// Why they get this answer.
    pub reason: &'static str,
    /// The answer.
    pub answer: Answer,
    /// The calls.
    pub rows: &'static [Row],
}

/// What a group of calls is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Allowed whatever the arguments.
    Allow,
    /// Allowed to the agent's own processes, `EPERM` for a server.
    AgentOnly,
    /// Never made: the caller gets this errno.
    Refuse(i32),
    /// The arguments decide.
    Rules(&'static Rules),
}

/// Clauses over the arguments of a call: the first whose tests all hold decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The clauses, in the order in which they are tried.
    pub clauses: &'static [Clause],
    /// The answer when no clause holds.
    pub otherwise: Verdict,
}

/// One clause of [`Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause {
    /// What has to hold, all of it.
    pub when: &'static [Test],
    /// The answer then.
    pub then: Verdict,
}

/// One look at one argument.
///
/// Only the low 32 bits are looked at: every argument named in the table is an `int`, an `unsigned`
/// or narrower in the kernel, which drops the rest. A comparison of all 64 bits could be evaded by
/// setting one of those that are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// The bits of it that count.
    pub mask: u32,
    /// What they have to be.
    pub value: u32,
}

impl Test {
    /// Looks at a whole argument.
    pub(super) const fn is(argument: u8, value: u32) -> Self {
        Self { argument, mask: u32::MAX, value }
    }

    /// Looks at some bits of an argument.
    pub(super) const fn bits(argument: u8, mask: u32, value: u32) -> Self {
        Self { argument, mask, value }
    }
}

impl Answer {
    /// Returns the verdict that needs no look at the arguments, if there is one.
    #[must_use]
    pub const fn verdict(self, profile: Profile) -> Option<Verdict> {
        match (self, profile) {
            (Self::Allow, _) | (Self::AgentOnly, Profile::Agent) => Some(Verdict::Allow),
            (Self::AgentOnly, Profile::Server) => Some(Verdict::Errno(libc::EPERM)),
            (Self::Refuse(errno), _) => Some(Verdict::Errno(errno)),
            (Self::Rules(_), _) => None,
        }
    }
}

/// Returns all groups of the table.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    [allowed::GROUPS, legacy::GROUPS, arguments::GROUPS, refused::GROUPS].into_iter().flatten()
}

/// Returns all rows of the table, each with its group. No call has two rows.
pub fn rows() -> impl Iterator<Item = (Row, &'static Group)> {
    groups().flat_map(|group| group.rows.iter().map(move |row| (*row, group)))
}

/// Makes a row of libc's constant: `SYS_read` is `read`, with its number.
pub(super) const fn row(constant: &'static str, number: libc::c_long) -> Row {
    const PREFIX: usize = "SYS_".len();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the numbers of system calls are small and not negative; `try_from` is not const"
    )]
    Row { name: constant.split_at(PREFIX).1, number: number as u32 }
}

/// Writes rows: `calls! { SYS_read SYS_write }`.
macro_rules! calls {
    ($($constant:ident)*) => {
        &[$($crate::syscalls::table::row(stringify!($constant), $constant)),*]
    };
}
pub(super) use calls;
