//! Holds the compiled programs against the plain model, by brute force.
//!
//! Runs in: init (tests, which install nothing).

use std::collections::{BTreeMap, BTreeSet};

use policy::syscalls::{Answer, Arch, Call, Profile, Rules, Verdict, decide, groups, rows};
use seccompiler::sock_filter;

use super::program::{NATIVE, Step, answer};
use super::tree::{self, Leaf};
use super::{arguments, compile, prune};

const BOTH: [Profile; 2] = [Profile::Agent, Profile::Server];

/// `AUDIT_ARCH_I386`, `AUDIT_ARCH_ARM`, no architecture, the native one without its 64-bit flag.
const FOREIGN: [u32; 4] = [0x4000_0003, 0x4000_0028, 0, NATIVE & !0x8000_0000];

/// Bits that the kernel drops from a 32-bit argument.
const DIRTY: u64 = 0xDEAD_BEEF_0000_0000;

/// Which ways a run took at conditional jumps.
type Ways = BTreeSet<(usize, bool)>;

/// Interprets a program as the kernel does; the program may only use what is known here.
fn interpret(program: &[sock_filter], arch: u32, call: &Call, ways: &mut Ways) -> u32 {
    let mut position = 0;
    let mut loaded = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[position];
        let mut branch = |taken: bool| {
            ways.insert((position, taken));
            usize::from(if taken { jt } else { jf })
        };
        position += match code {
            0x20 => {
                loaded = field(arch, call, k);
                0
            }
            0x54 => {
                loaded &= k;
                0
            }
            0x05 => usize::try_from(k).unwrap(),
            0x15 => branch(loaded == k),
            0x35 => branch(loaded >= k),
            0x06 => return k,
            other => panic!("unknown instruction {other:#x} at {position}"),
        };
        position += 1;
    }
}

/// Reads 32 bits of `struct seccomp_data`, little end first.
fn field(arch: u32, call: &Call, offset: u32) -> u32 {
    let half =
        |value: u64, high: bool| (if high { value >> 32 } else { value } & 0xFFFF_FFFF) as u32;
    match offset {
        0 => call.number,
        4 => arch,
        16..64 if offset.is_multiple_of(4) => {
            let index = usize::try_from((offset - 16) / 8).unwrap();
            half(call.args[index], offset % 8 == 4)
        }
        _ => panic!("nothing is at offset {offset}"),
    }
}

fn call(arch: Arch, number: u32, args: [u64; 6]) -> Call {
    Call { arch, number, args }
}

fn rule_of(number: u32) -> Option<&'static Rules> {
    let (_, group) = rows().find(|(row, _)| row.number == number)?;
    match group.answer {
        Answer::Rules(rules) => Some(rules),
        Answer::Allow | Answer::AgentOnly | Answer::Refuse(_) => None,
    }
}

/// Values for one argument: what the rules name, its neighbours, and it with single bits turned.
fn values(rules: &Rules, argument: u8, turned: &[u32]) -> BTreeSet<u32> {
    let tests = rules.clauses.iter().flat_map(|clause| clause.when);
    let named = tests.filter(|test| test.argument == argument);
    let mut values = BTreeSet::from([0, 1, u32::MAX]);
    for test in named {
        values.extend([test.mask, !test.mask, test.value, test.value | !test.mask]);
        values.extend([test.value.wrapping_add(1), test.value.wrapping_sub(1)]);
        values.extend(turned.iter().map(|bit| test.value ^ (1 << bit)));
    }
    values
}

/// Every combination of the values of the arguments that the rules look at, clean and dirty.
fn matrix(rules: &Rules) -> Vec<[u64; 6]> {
    let tests = rules.clauses.iter().flat_map(|clause| clause.when);
    let looked_at: BTreeSet<u8> = tests.map(|test| test.argument).collect();
    let every_bit: Vec<u32> = (0..32).collect();
    let some_bits = [0, 1, 2, 3, 4, 8, 11, 16, 31];
    let turned: &[u32] = if looked_at.len() < 3 { &every_bit } else { &some_bits };
    let mut matrix = vec![[0x5555_5555_5555_5555; 6], [0; 6]];
    for &argument in &looked_at {
        let values = values(rules, argument, turned);
        let widen = |args: &[u64; 6]| {
            let args = *args;
            let with = move |value: u32| {
                let mut args = args;
                args[usize::from(argument)] = u64::from(value);
                args
            };
            values.clone().into_iter().map(with)
        };
        matrix = matrix.iter().flat_map(widen).collect();
    }
    let dirty = matrix.clone().into_iter().map(|args| args.map(|arg| arg | DIRTY));
    matrix.extend(dirty);
    matrix
}

/// Every call worth trying: all numbers, and many arguments where they count.
fn calls() -> impl Iterator<Item = Call> {
    let plain = (0..1024).chain([0x3FFF_FFFF, 0x8000_0000, u32::MAX]);
    let plain = plain.map(|number| call(Arch::Native, number, [0x5555_5555_5555_5555; 6]));
    let x32 = (0..1024).map(|number| call(Arch::X32, 0x4000_0000 | number, [0; 6]));
    let ruled = rows().filter_map(|(row, _)| Some((row.number, rule_of(row.number)?)));
    let ruled = ruled.flat_map(|(number, rules)| {
        matrix(rules).into_iter().map(move |args| call(Arch::Native, number, args))
    });
    plain.chain(x32).chain(ruled)
}

#[test]
fn the_program_and_the_model_agree_on_every_call() {
    for profile in BOTH {
        let program = compile(profile).unwrap().program;
        let mut ways = Ways::new();
        let mut tried = 0;
        for call in calls() {
            let found = interpret(&program, NATIVE, &call, &mut ways);
            assert_eq!(found, answer(decide(&call, profile)), "{profile:?} {call:x?}");
            tried += 1;
        }
        assert!(tried > 50_000, "{tried}");
        // Only the other architectures go the guard's other way.
        let conditional = |position: &usize| matches!(program[*position].code, 0x15 | 0x35);
        let both_ways = |position: usize| [true, false].map(|taken| (position, taken));
        let missed: Vec<_> = (0..program.len())
            .filter(conditional)
            .flat_map(both_ways)
            .filter(|way| !ways.contains(way) && *way != (1, false))
            .collect();
        assert!(missed.is_empty(), "no call went these ways: {missed:?}");
    }
}

#[test]
fn every_call_of_another_architecture_ends_the_process() {
    for profile in BOTH {
        let program = compile(profile).unwrap().program;
        for arch in FOREIGN {
            for number in (0..1024).chain(0x4000_0000..0x4000_0400) {
                let call = call(Arch::Foreign, number, [0; 6]);
                let found = interpret(&program, arch, &call, &mut Ways::new());
                assert_eq!(found, answer(decide(&call, profile)), "{arch:x} {number:x}");
                assert_eq!(found, 0x8000_0000);
            }
        }
    }
}

#[test]
fn the_kernel_knows_the_answers() {
    assert_eq!(answer(Verdict::Allow), 0x7FFF_0000);
    assert_eq!(answer(Verdict::Errno(libc::EPERM)), 0x0005_0001);
    assert_eq!(answer(Verdict::Kill), 0x8000_0000);
}

#[test]
fn every_jump_stays_inside_and_nothing_traces() {
    for profile in BOTH {
        let program = compile(profile).unwrap().program;
        for (position, instruction) in program.iter().enumerate() {
            let room = program.len() - position - 1;
            let jumps = match instruction.code {
                0x05 => [instruction.k as usize; 2],
                0x15 | 0x35 => [instruction.jt, instruction.jf].map(usize::from),
                _ => [0; 2],
            };
            assert!(instruction.code == 0x06 || jumps.iter().all(|&jump| jump < room));
            let traces = instruction.code == 0x06 && instruction.k >> 16 == 0x7FF0;
            assert!(!traces, "{position}");
        }
        assert_eq!(program.last().unwrap().code, 0x06);
    }
}

#[test]
fn a_program_stays_short() {
    // Each instruction costs a fifth of a microsecond at every installation.
    for profile in BOTH {
        let length = compile(profile).unwrap().program.len();
        assert!(length <= 500, "{profile:?}: {length} instructions");
    }
}

#[test]
fn no_way_to_a_number_is_long() {
    let (known, gap) = (Leaf::Return(1), Leaf::Return(0));
    for (count, most) in [(1, 2), (50, 7), (500, 10)] {
        let leaves: BTreeMap<u32, Leaf> = (0..count).map(|n| (2 * n + 1, known)).collect();
        let steps = tree::build(&tree::divide(&leaves, gap));
        for number in 0..2 * count + 2 {
            let (found, comparisons) = walk(&steps, number);
            assert_eq!(found, u32::from(leaves.contains_key(&number)));
            assert!(comparisons <= most, "{comparisons} comparisons to {number}");
        }
    }
}

/// Goes down a tree without pieces; returns the answer and how many comparisons it took.
fn walk(steps: &[Step], number: u32) -> (u32, u32) {
    let plain = |step: &Step| match step {
        Step::Plain(instruction) => instruction.clone(),
        Step::Enter(piece) => panic!("no piece {piece} was asked for"),
    };
    let load = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let program: Vec<sock_filter> = std::iter::once(load).chain(steps.iter().map(plain)).collect();
    let mut ways = Ways::new();
    let found = interpret(&program, NATIVE, &call(Arch::Native, number, [0; 6]), &mut ways);
    (found, u32::try_from(ways.len()).unwrap())
}

/// Writes a program down, an instruction a line.
fn listing(program: &[sock_filter]) -> String {
    let line = |i: &sock_filter| match i.code {
        0x20 => format!("load {}", i.k),
        0x54 => format!("and {:x}", i.k),
        0x05 => format!("jump {}", i.k),
        0x15 => format!("= {:x} {} {}", i.k, i.jt, i.jf),
        0x35 => format!(">= {:x} {} {}", i.k, i.jt, i.jf),
        0x06 => format!("ret {:x}", i.k),
        other => format!("? {other:x}"),
    };
    program.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_rule_is_its_comparisons_and_its_answers() {
    let piece = |name: &str| {
        let group = groups().find(|group| group.name == name).unwrap();
        let Answer::Rules(rules) = group.answer else { panic!("{name} has no rules") };
        listing(&prune::prune(&arguments::compile(rules).unwrap()))
    };
    assert_eq!(piece("clone"), "load 16\nand 7e020000\n= 0 0 1\nret 7fff0000\nret 50001");
    assert_eq!(piece("prctl"), "load 16\n= 23 0 1\nret 50001\nret 7fff0000");
    let open = "load 40\nand c00\n= 0 0 1\nret 7fff0000\n\
                load 32\nand 400040\n= 0 0 1\nret 7fff0000\nret 50001";
    assert_eq!(piece("openat"), open);
    let seccomp = "load 24\nand 8\n= 8 0 3\nload 16\n= 1 0 1\nret 50001\nret 7fff0000";
    assert_eq!(piece("seccomp"), seccomp);
}

#[test]
fn pruning_takes_out_what_does_nothing() {
    let program = |lines: &[(u16, u8, u8, u32)]| -> Vec<sock_filter> {
        lines.iter().map(|&(code, jt, jf, k)| sock_filter { code, jt, jf, k }).collect()
    };
    let long = program(&[
        (0x20, 0, 0, 0),
        (0x15, 0, 3, 7),
        (0x05, 0, 0, 1),
        (0x06, 0, 0, 9),
        (0x06, 0, 0, 1),
        (0x05, 0, 0, 0),
        (0x06, 0, 0, 2),
        (0x06, 0, 0, 3),
    ]);
    assert_eq!(listing(&prune::prune(&long)), "load 0\n= 7 0 1\nret 1\nret 2");
}
