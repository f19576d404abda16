//! The whole program: guard, tree, and the pieces that look at arguments.
//!
//! Runs in: init (pure data).

use std::collections::BTreeMap;

use policy::syscalls::{Answer, Profile, Verdict, groups};
use seccompiler::{BpfProgram, SeccompAction, sock_filter};

use super::FilterError;
use super::arguments;
use super::prune::prune;
use super::tree::{self, Leaf};

/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
const MOST: usize = 4096;

/// The kernel's name for the native architecture (`AUDIT_ARCH_X86_64`).
#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE: u32 = 0xC000_003E;
/// The kernel's name for the native architecture (`AUDIT_ARCH_AARCH64`).
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE: u32 = 0xC000_00B7;

/// Where `struct seccomp_data` holds the number of the call.
pub(super) const NUMBER: u32 = 0;
/// Where it holds the architecture.
const ARCHITECTURE: u32 = 4;

/// One instruction, or a place for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An instruction.
    Plain(sock_filter),
    /// A jump to the beginning of a piece, whose place is known only at the end.
    Enter(usize),
}

/// Assembles the program for one kind of compartment.
pub(super) fn assemble(profile: Profile) -> Result<BpfProgram, FilterError> {
    let (leaves, pieces) = read_table(profile)?;
    let unknown = Leaf::Return(answer(Verdict::Errno(libc::ENOSYS)));
    let mut steps: Vec<Step> = guard().into_iter().map(Step::Plain).collect();
    steps.push(Step::Plain(load(NUMBER)));
    steps.extend(tree::build(&tree::divide(&leaves, unknown)));
    let program = prune(&link(&steps, &pieces)?);
    if program.len() > MOST {
        return Err(FilterError::Length { limit: MOST });
    }
    Ok(program)
}

/// Returns where each number of the table leads, and the pieces that some lead to.
fn read_table(profile: Profile) -> Result<(BTreeMap<u32, Leaf>, Vec<BpfProgram>), FilterError> {
    let mut leaves = BTreeMap::new();
    let mut pieces = Vec::new();
    for group in groups() {
        let leaf = match (group.answer, group.answer.verdict(profile)) {
            (_, Some(verdict)) => Leaf::Return(answer(verdict)),
            (Answer::Rules(rules), None) => {
                pieces.push(arguments::compile(rules)?);
                Leaf::Piece(pieces.len() - 1)
            }
            (Answer::Allow | Answer::AgentOnly | Answer::Refuse(_), None) => {
                unreachable!("only rules need the arguments")
            }
        };
        leaves.extend(group.rows.iter().map(|row| (row.number, leaf)));
    }
    Ok((leaves, pieces))
}

/// Lays the pieces behind the steps and turns each [`Step::Enter`] into a jump to its piece.
fn link(steps: &[Step], pieces: &[BpfProgram]) -> Result<BpfProgram, FilterError> {
    let begin = pieces.iter().scan(steps.len(), |next, piece| {
        let begin = *next;
        *next += piece.len();
        Some(begin)
    });
    let begin: Vec<usize> = begin.collect();
    let place = |(position, step): (usize, &Step)| match step {
        Step::Plain(instruction) => Ok(instruction.clone()),
        Step::Enter(index) => distance(position, begin[*index]).map(jump),
    };
    let mut program: BpfProgram = steps.iter().enumerate().map(place).collect::<Result<_, _>>()?;
    program.extend(pieces.iter().flatten().cloned());
    Ok(program)
}

/// Ends the process for every call that does not come through the native door.
pub(super) fn guard() -> [sock_filter; 3] {
    [load(ARCHITECTURE), jump_if_equal(NATIVE, 1, 0), ret(answer(Verdict::Kill))]
}

/// Returns what a jump at `from` has to skip to arrive at `to`.
pub(super) fn distance(from: usize, to: usize) -> Result<u32, FilterError> {
    let skipped = to.checked_sub(from + 1).and_then(|skipped| u32::try_from(skipped).ok());
    skipped.ok_or(FilterError::Length { limit: MOST })
}

/// Returns a verdict in the compiler's words.
pub(super) fn action(verdict: Verdict) -> SeccompAction {
    match verdict {
        Verdict::Allow => SeccompAction::Allow,
        Verdict::Errno(errno) => SeccompAction::Errno(errno.unsigned_abs()),
        Verdict::Kill => SeccompAction::KillProcess,
    }
}

/// Returns a verdict in the kernel's words.
pub(super) fn answer(verdict: Verdict) -> u32 {
    u32::from(action(verdict))
}

/// `BPF_LD | BPF_W | BPF_ABS`.
pub(super) const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JA`.
pub(super) const JUMP: u16 = 0x05;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
pub(super) const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGE | BPF_K`.
pub(super) const JUMP_IF_AT_LEAST: u16 = 0x35;
/// `BPF_RET | BPF_K`.
pub(super) const RETURN: u16 = 0x06;

fn instruction(code: u16, then: u8, otherwise: u8, k: u32) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k }
}

/// Loads 32 bits of `struct seccomp_data`.
pub(super) fn load(offset: u32) -> sock_filter {
    instruction(LOAD, 0, 0, offset)
}

/// Ends the program with an answer.
pub(super) fn ret(answer: u32) -> sock_filter {
    instruction(RETURN, 0, 0, answer)
}

/// Skips this many instructions.
pub(super) fn jump(distance: u32) -> sock_filter {
    instruction(JUMP, 0, 0, distance)
}

/// Skips `then` instructions if the loaded value is `value`, `otherwise` if it is another.
pub(super) fn jump_if_equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(JUMP_IF_EQUAL, then, otherwise, value)
}

/// Skips `then` instructions if the loaded value is `value` at least, `otherwise` if it is less.
pub(super) fn jump_if_at_least(value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(JUMP_IF_AT_LEAST, then, otherwise, value)
}
