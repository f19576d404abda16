//! Session ids: 128 random bits, never reused.
//!
//! Runs in: client, host.

use std::fs::File;
use std::io::Read;

/// Returns random bytes as hexadecimal digits.
///
/// A host without /dev/urandom cannot run this program's boxes either; then the answer is zeroes and the
/// session is refused later, when the device is missing from its plan.
pub(crate) fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0_u8; bytes];
    if let Ok(mut source) = File::open("/dev/urandom") {
        // Ignored: see above.
        let _ = source.read_exact(&mut buffer);
    }
    buffer.iter().map(|byte| format!("{byte:02x}")).collect()
}
