//! The pieces of program that look at arguments, as `seccompiler` compiles them.
//!
//! Runs in: init (pure data).

use std::collections::BTreeMap;

use policy::syscalls::{Clause, Rules, Test, Verdict};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::FilterError;
use super::program::{NUMBER, action, answer, distance, guard, jump, jump_if_equal, load, ret};

/// Stands in a piece for "no clause so far holds, go on behind me". Programs of ours never trace.
const GO_ON: SeccompAction = SeccompAction::Trace(u32::from_be_bytes(*b"\0\0go"));

/// The compiler wants to know which call it compiles for, and checks for it at the beginning. The
/// tree has done that already, so one piece serves all calls of a group and the check comes off.
const ANY_CALL: u32 = 0;

/// Compiles the rules of one group of calls.
///
/// The compiler knows one answer when a clause holds and one when none does. So clauses in a row
/// that give the same answer make one piece, and a piece goes on in the next one.
pub(super) fn compile(rules: &Rules) -> Result<BpfProgram, FilterError> {
    let mut runs = rules.clauses.chunk_by(|one, next| one.then == next.then).peekable();
    let mut program = BpfProgram::new();
    while let Some(run) = runs.next() {
        let otherwise = match runs.peek() {
            Some(_) => GO_ON,
            None => action(rules.otherwise),
        };
        program.extend(compile_run(run, otherwise)?);
    }
    if program.is_empty() {
        program.push(ret(answer(rules.otherwise)));
    }
    Ok(program)
}

/// Compiles clauses that give the same answer.
fn compile_run(run: &[Clause], otherwise: SeccompAction) -> Result<BpfProgram, FilterError> {
    let then = run.first().map_or(Verdict::Allow, |clause| clause.then);
    let compile = || -> Result<BpfProgram, BackendError> {
        let chain = run.iter().map(compile_clause).collect::<Result<Vec<_>, _>>()?;
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let rules = BTreeMap::from([(i64::from(ANY_CALL), chain)]);
        SeccompFilter::new(rules, otherwise, action(then), architecture)?.try_into()
    };
    open_end(strip(&compile().map_err(FilterError::Rule)?)?)
}

fn compile_clause(clause: &Clause) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(clause.when.iter().map(compile_test).collect::<Result<_, _>>()?)
}

fn compile_test(test: &Test) -> Result<SeccompCondition, BackendError> {
    let comparison = match test.mask {
        u32::MAX => SeccompCmpOp::Eq,
        mask => SeccompCmpOp::MaskedEq(u64::from(mask)),
    };
    let value = u64::from(test.value);
    SeccompCondition::new(test.argument, SeccompCmpArgLen::Dword, comparison, value)
}

/// Takes off the checks that the compiler begins with. They have to be the known ones: what is
/// taken off unseen could be a part of the rule.
fn strip(piece: &[sock_filter]) -> Result<BpfProgram, FilterError> {
    let [architecture, equal, kill] = guard();
    let known = [architecture, equal, kill, load(NUMBER), jump_if_equal(ANY_CALL, 0, 1)];
    piece.strip_prefix(&known).map(<[_]>::to_vec).ok_or(FilterError::Shape)
}

/// Turns every [`GO_ON`] into a jump behind the piece.
fn open_end(mut piece: BpfProgram) -> Result<BpfProgram, FilterError> {
    let end = piece.len();
    for (position, instruction) in piece.iter_mut().enumerate() {
        if *instruction == ret(u32::from(GO_ON)) {
            *instruction = jump(distance(position, end)?);
        }
    }
    Ok(piece)
}
