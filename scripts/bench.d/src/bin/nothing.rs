//! The program that every contender runs: static, it does nothing and answers 0. Rust's own start-up is left out.
//!
//! Runs in: bench (the payload of all contenders).

#![no_main]

/// What C's start-up calls.
#[unsafe(no_mangle)]
extern "C" fn main() -> libc::c_int {
    0
}
