//! What the caller has in its environment, arguments and memory is in nobody's reach inside.
//!
//! References: bubblewrap #725 (the launcher's environment in /proc/1/environ), CVE-2019-5736 (the launcher's
//! program), "Comment and Control" (reading every process's environment).
//!
//! Runs in: the test's own process.

use sandboxd_tests::{PROBE, Process, Running, TestHost, descendants, eventually, needs};
use serde_json::Value;

/// Two halves, so that no command line that searches for it contains it.
const HALVES: [&str; 2] = ["canary-2f6d41", "-of-the-caller-90b7"];

fn canary() -> String {
    HALVES.concat()
}

/// The processes of one run by their roles: the client's own children and theirs.
struct Family {
    client: Process,
    zygote: Process,
    supervisor: Process,
    init: Process,
    payload: Process,
}

fn family(running: &Running) -> Family {
    let client = running.pid();
    let mut found = None;
    eventually("the whole family is there", || {
        let all = descendants(client);
        let child = |parent: i32| all.iter().find(|process| process.parent == parent).cloned();
        let own = descendants(std::process::id().cast_signed());
        found = own.into_iter().find(|process| process.pid == client).and_then(|client| {
            let zygote = child(client.pid)?;
            let supervisor = child(zygote.pid)?;
            let init = child(supervisor.pid)?;
            let payload = child(init.pid)?;
            (payload.name == "sleep").then_some(Family {
                client,
                zygote,
                supervisor,
                init,
                payload,
            })
        });
        found.is_some()
    });
    let Some(found) = found else { unreachable!("it was waited for") };
    found
}

#[test]
fn the_processes_of_a_box_have_the_names_of_their_roles() {
    let host = needs!(TestHost::start());
    let running = host.run().start(["sleep", "100000"]);
    let family = family(&running);
    let names = [&family.client, &family.zygote, &family.supervisor, &family.init, &family.payload];
    let names = names.map(|process| process.name.as_str());
    assert_eq!(names, ["sandboxd", "zygote", "supervisor", "init", "sleep"]);
}

#[test]
fn a_canary_of_the_caller_s_is_in_the_client_and_in_no_other_process() {
    let host = needs!(TestHost::start());
    let canary = canary();
    // In the environment, and in an argument that is the client's alone.
    let tree = host.project(&format!("tree-{canary}"));
    tree.write("sandbox.toml", "[workspace]\nmode = \"none\"\n");
    let file = tree.at("sandbox.toml").display().to_string();
    let order =
        host.sandboxd().with(["run", "-f", &file]).caller_variable("CALLERS_SECRET", &canary);
    let running = order.start(["sleep", "100000"]);
    let family = family(&running);
    let places = family.client.places_of(&canary);
    assert!(
        ["environ", "cmdline"].iter().all(|place| places.iter().any(|found| found == place)),
        "{places:?}"
    );
    for process in [&family.zygote, &family.supervisor, &family.init, &family.payload] {
        assert_eq!(process.places_of(&canary), Vec::<String>::new(), "{process:?}");
    }
    // These are bare: nothing was wiped, nothing was ever there.
    for process in [&family.zygote, &family.supervisor, &family.init] {
        assert_eq!(process.file("environ"), b"", "{process:?}");
        assert_eq!(process.file("cmdline"), b"sandboxd-zygote\0", "{process:?}");
    }
}

#[test]
fn an_argument_of_the_command_s_is_in_the_command_and_not_on_its_way_there() {
    let host = needs!(TestHost::start());
    let canary = canary();
    let variable = format!("DECLARED={canary}");
    let text = format!("exec sleep 100000 # {canary}");
    let running = host.run().with(["--env", &variable]).start(["sh", "-c", &text]);
    let family = family(&running);
    assert_eq!(family.payload.places_of(&canary).first().map(String::as_str), Some("environ"));
    for process in [&family.zygote, &family.supervisor, &family.init] {
        assert_eq!(process.places_of(&canary), Vec::<String>::new(), "{process:?}");
    }
}

#[test]
fn a_search_of_everything_inside_does_not_find_it() {
    let host = needs!(TestHost::start());
    let answers = host
        .run()
        .caller_variable("CALLERS_SECRET", canary())
        .probe(["scan", HALVES[0], HALVES[1]]);
    assert_eq!(answers["found"], serde_json::json!([]), "{answers}");
    assert!(answers["looked"].as_u64() > Some(20), "{answers}");
    assert_eq!(answers["keys"], serde_json::json!(vec!["EPERM"; 5]));
}

#[test]
fn the_same_search_finds_what_lies_inside() {
    let host = needs!(TestHost::start());
    let variable = format!("DECLARED={}", canary());
    let text = format!(
        "echo $DECLARED > /tmp/a-file; sleep 100000 & unset DECLARED; until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; exec {PROBE} scan {} {}",
        HALVES[0], HALVES[1]
    );
    let order = host.run().with_probe().with(["--env", &variable]);
    let answers = order.command(["bash", "-c", &text]).expect(0).json();
    let found: Vec<&str> =
        answers["found"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for place in ["/tmp/a-file", "/environ", "memory of "] {
        assert!(found.iter().any(|found| found.contains(place)), "{place}: {answers}");
    }
}

#[test]
fn there_is_no_way_into_the_first_process_and_every_way_into_a_child() {
    let host = needs!(TestHost::start());
    let first = host.run().probe(["reach", "1"]);
    for (way, answer) in first.as_object().unwrap() {
        let allowed: &[&str] = match way.as_str() {
            "ptrace" | "process_vm_readv" | "process_vm_writev" | "pidfd_getfd" => &["EPERM"],
            // A signal is accepted, and has no effect (escape_signals.rs).
            "kill 0" => &["OK"],
            _ => &["ENOENT"],
        };
        assert!(allowed.contains(&answer.as_str().unwrap()), "{way}: {answer}");
    }
    let text = format!(
        "sleep 100000 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; {PROBE} reach $!"
    );
    let child = host.run().with_probe().command(["bash", "-c", &text]).expect(0).json();
    for way in ["environ", "cmdline", "maps", "mem", "fd", "root", "cwd", "exe", "ptrace", "kill 0"]
    {
        assert_eq!(child[way], "OK", "{way}: {child}");
    }
    // Taking a descriptor out of another process is nobody's business, not even here.
    assert_eq!(child["pidfd_getfd"], "EPERM");
}

#[test]
fn nobody_is_in_sight_but_the_box_s_own_processes() {
    let host = needs!(TestHost::start());
    let answers = host.run().probe(["processes"]);
    assert_eq!(answers["listed"], serde_json::json!([answers["own"]]));
    let found: Vec<&String> = answers["found"].as_object().unwrap().keys().collect();
    assert_eq!(found, ["1"]);
}

#[test]
fn the_host_s_program_is_not_in_sight_and_stays_as_it_is() {
    let host = needs!(TestHost::start());
    let before = std::fs::metadata(host.program()).unwrap();
    let answers = host.run().probe([
        "try",
        "read",
        "/proc/1/exe",
        ",",
        "write",
        "/proc/1/exe",
        ",",
        "write",
        "/proc/self/exe",
    ]);
    assert_eq!((&answers[0], &answers[1]), (&"ENOENT".into(), &"ENOENT".into()));
    // What the user's rights, the mount and the running program each refuse.
    assert!(["EACCES", "EROFS", "ETXTBSY"].contains(&answers[2].as_str().unwrap()), "{answers}");
    let after = std::fs::metadata(host.program()).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}
