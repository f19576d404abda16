//! The harness: a host of one's own for each test, boxes on it, and what came of them.
//!
//! ```no_run
//! use sandboxd_tests::{TestHost, needs};
//!
//! fn a_box_has_no_shadow_file() {
//!     let host = needs!(TestHost::start());
//!     let answers = host.run().probe(["try", "read", "/etc/shadow", ",", "read", "/etc/passwd"]);
//!     assert_eq!(answers, serde_json::json!(["ENOENT", "OK"]));
//! }
//! ```
//! The programs under test are found beside the test's own, or named by SANDBOXD_TEST_PROGRAM and
//! SANDBOXD_TEST_PROBE. Nothing needs root, the internet or a fixed port, and nothing but this crate waits: for
//! an event, with a deadline that no promise depends on.
//!
//! Runs in: the test's own process, on the host.

#![expect(clippy::expect_used, reason = "a harness that cannot go on fails the test")]

mod daemon;
mod deadline;
mod host;
mod internet;
mod missing;
mod order;
mod process;
mod running;
mod screen;
mod tree;

pub use daemon::{Brain, Daemon, Recipe, text};
pub use deadline::{DEADLINE, eventually, within};
pub use host::TestHost;
pub use internet::{HELLO, Internet, answers, visit, visitor};
pub use missing::Missing;
pub use order::{Order, PROBE};
pub use process::{Process, descendants, own_user};
pub use running::{Finished, Running};
pub use screen::Screen;
pub use tree::{Listing, Tree};
