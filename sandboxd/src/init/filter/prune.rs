//! Takes out of a program what it never does.
//!
//! Runs in: init (pure data).
//!
//! The kernel checks, translates and keeps every instruction, so what is left out makes installing
//! cheaper. Two kinds are: instructions that nothing leads to, such as the way around a check that
//! the tree has made already, and jumps to what comes next anyway.

use seccompiler::{BpfProgram, sock_filter};

use super::program::{JUMP, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, RETURN};

/// Returns the program without its idle instructions.
pub(super) fn prune(program: &[sock_filter]) -> BpfProgram {
    let kept = keep_working(program, &reach(program));
    // Where each instruction stands afterwards. One that is left out stands where the next kept
    // one does, so jumps to it arrive where it led.
    let mut places = Vec::with_capacity(program.len() + 1);
    let mut place = 0;
    for &keep in &kept {
        places.push(place);
        place += usize::from(keep);
    }
    places.push(place);
    let placed = program.iter().enumerate().filter(|&(position, _)| kept[position]);
    placed.map(|(position, instruction)| aim(position, instruction, &places)).collect()
}

/// Returns where the program can go on after an instruction: nowhere, in one place, or in two.
fn follow(position: usize, instruction: &sock_filter) -> [Option<usize>; 2] {
    let next = position + 1;
    match instruction.code {
        RETURN => [None, None],
        JUMP => [Some(next + instruction.k as usize), None],
        JUMP_IF_EQUAL | JUMP_IF_AT_LEAST => {
            [instruction.jt, instruction.jf].map(|skipped| Some(next + usize::from(skipped)))
        }
        _ => [Some(next), None],
    }
}

/// Marks what the beginning leads to. All jumps go forward, so one pass sees everything.
fn reach(program: &[sock_filter]) -> Vec<bool> {
    let mut reached = vec![false; program.len()];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for (position, instruction) in program.iter().enumerate() {
        if reached[position] {
            for next in follow(position, instruction).into_iter().flatten() {
                reached[next] = true;
            }
        }
    }
    reached
}

/// Marks what is reached and does something. From the end, so that a jump is seen to skip nothing
/// once everything that it skips is out.
fn keep_working(program: &[sock_filter], reached: &[bool]) -> Vec<bool> {
    let mut kept = reached.to_vec();
    for (position, instruction) in program.iter().enumerate().rev() {
        if instruction.code == JUMP {
            let skipped = position + 1..position + 1 + instruction.k as usize;
            kept[position] &= kept[skipped].contains(&true);
        }
    }
    kept
}

/// Aims an instruction's jumps at the new places. They only become shorter.
fn aim(position: usize, instruction: &sock_filter, places: &[usize]) -> sock_filter {
    let from = places[position] + 1;
    let distance = |target| places[target] - from;
    let mut aimed = instruction.clone();
    match (instruction.code, follow(position, instruction)) {
        (JUMP, [Some(target), _]) => {
            aimed.k = u32::try_from(distance(target)).unwrap_or(instruction.k);
        }
        (JUMP_IF_EQUAL | JUMP_IF_AT_LEAST, [Some(then), Some(otherwise)]) => {
            aimed.jt = u8::try_from(distance(then)).unwrap_or(instruction.jt);
            aimed.jf = u8::try_from(distance(otherwise)).unwrap_or(instruction.jf);
        }
        _ => {}
    }
    aimed
}
