//! The balanced tree over system call numbers.
//!
//! Runs in: init (pure data).

use std::collections::BTreeMap;

use seccompiler::sock_filter;

use super::program::{Step, jump, jump_if_at_least, ret};

/// Where a number leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// To the end, with this answer for the kernel.
    Return(u32),
    /// To a piece of program that looks at the arguments.
    Piece(usize),
}

/// Neighbouring numbers that lead to the same place: from `first` up to the next range's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: u32,
    leaf: Leaf,
}

/// Divides all numbers into ranges. What `leaves` does not name leads to `default`.
pub(super) fn divide(leaves: &BTreeMap<u32, Leaf>, default: Leaf) -> Vec<Range> {
    let mut ranges = vec![Range { first: 0, leaf: default }];
    for (&number, &leaf) in leaves {
        begin(&mut ranges, number, leaf);
        begin(&mut ranges, number + 1, default);
    }
    ranges
}

/// Lets `leaf` hold from `first` on: the last range is cut there, or prolonged if it says the same.
fn begin(ranges: &mut Vec<Range>, first: u32, leaf: Leaf) {
    ranges.pop_if(|last| last.first == first);
    if ranges.last().is_none_or(|last| last.leaf != leaf) {
        ranges.push(Range { first, leaf });
    }
}

/// Builds the tree: with the number loaded, it finds the range in as few comparisons as there are
/// bits in the count of ranges.
pub(super) fn build(ranges: &[Range]) -> Vec<Step> {
    let (below, above) = ranges.split_at(ranges.len() / 2);
    match (below, above) {
        (_, []) => Vec::new(),
        ([], [range, ..]) => vec![reach(range.leaf)],
        ([..], [middle, ..]) => {
            let below = build(below);
            let mut steps = branch(middle.first, below.len());
            steps.extend(below);
            steps.extend(build(above));
            steps
        }
    }
}

fn reach(leaf: Leaf) -> Step {
    match leaf {
        Leaf::Return(answer) => Step::Plain(ret(answer)),
        Leaf::Piece(index) => Step::Enter(index),
    }
}

/// Skips the lower half for numbers from `first` on. A conditional jump spans 255 instructions, a
/// plain one any number.
fn branch(first: u32, below: usize) -> Vec<Step> {
    let near = |distance| jump_if_at_least(first, distance, 0);
    let far = |distance| [jump_if_at_least(first, 0, 1), jump(distance)];
    let branch: Vec<sock_filter> = match (u8::try_from(below), u32::try_from(below)) {
        (Ok(distance), _) => vec![near(distance)],
        (Err(_), Ok(distance)) => far(distance).to_vec(),
        (Err(_), Err(_)) => unreachable!("a tree has at most twice as many steps as ranges"),
    };
    branch.into_iter().map(Step::Plain).collect()
}
