//! `sandboxd doctor`: says what is so, on hosts that can and on hosts that cannot, and names the way out.
//!
//! A host that lacks something is a bed: namespaces in which a setting of the kernel's is what it is there.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use sandboxd_tests::{Daemon, Finished, Missing, TestHost, needs};
use serde_json::{Value, json};

/// Enters namespaces of this user's own, does what `$1` says with every capability there, and goes on without.
const BED: &str = "eval \"$1\" || exit 99; shift
    exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all \"$@\"";

/// Runs a command of sandboxd in a bed.
fn in_bed(host: &TestHost, setting: &str, words: &[&str]) -> Result<Finished, Missing> {
    host.command("setpriv")?;
    let uid = nix::unistd::Uid::current().to_string();
    let gid = nix::unistd::Gid::current().to_string();
    let (user, group) = (format!("--map-user={uid}"), format!("--map-group={gid}"));
    let enter = [
        "unshare",
        "-U",
        &user,
        &group,
        "-m",
        "-n",
        "--keep-caps",
        "sh",
        "-c",
        BED,
        "bed",
        setting,
    ];
    let done = host.sandboxd().started_by(enter).with(words).command([""; 0]);
    if done.status == 99 {
        return Err(Missing::new("such settings for users without privileges"));
    }
    Ok(done)
}

/// The findings of `--json`, by name.
fn checks(report: &Value) -> Vec<(String, String)> {
    let field = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().expect("there are findings");
    checks.iter().map(|check| (field(check, "name"), field(check, "status"))).collect()
}

#[test]
fn a_host_that_runs_boxes_is_told_so() {
    let host = needs!(TestHost::start());
    let done = host.sandboxd().with(["doctor"]).command([""; 0]).expect(0);
    assert!(done.text().ends_with("sessions work on this host\n"), "{done:?}");
    assert_eq!(done.complaint(), "");
    let report = host.sandboxd().with(["doctor", "--json"]).command([""; 0]).expect(0).json();
    assert_eq!(report["ok"], json!(true), "{report}");
    let found = checks(&report);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let expected =
        ["kernel", "zygote", "setup", "init", "launch", "egress", "landlock", "groups", "limits"];
    assert_eq!(names, expected);
    for (name, status) in &found {
        assert!(status == "ok" || status == "degraded", "{name}: {status}");
    }
    for check in report["checks"].as_array().unwrap() {
        assert!(!check["detail"].as_str().unwrap().is_empty(), "{check}");
        // What is not as it should be comes with a way out; what is, with none.
        assert_eq!(check["status"] == "ok", check.get("fix").is_none(), "{check}");
    }
    // It is true: a box runs.
    host.run().command(["true"]).done();
    // And it leaves nothing behind.
    assert!(!host.path("state").exists());
}

/// A host that cannot: what fails there, what is named as the cause, and what as the way out.
struct Bed {
    setting: &'static str,
    step: &'static str,
    cause: &'static str,
    fix: &'static str,
}

const BEDS: [Bed; 6] = [
    Bed {
        setting: "echo 0 > /proc/sys/user/max_user_namespaces",
        step: "zygote",
        cause: "user.max_user_namespaces=0",
        fix: "user.max_user_namespaces=15000",
    },
    Bed {
        setting: "echo 0 > /proc/sys/user/max_net_namespaces",
        step: "zygote",
        cause: "user.max_net_namespaces=0",
        fix: "user.max_net_namespaces=15000",
    },
    Bed {
        setting: "echo 0 > /proc/sys/user/max_pid_namespaces",
        step: "zygote",
        cause: "user.max_pid_namespaces=0",
        fix: "user.max_pid_namespaces=15000",
    },
    // As containers do it, and ProtectKernelTunables=.
    Bed {
        setting: "mount --bind /proc/sys /proc/sys",
        step: "setup",
        cause: "mounted over a part of /proc (/proc/sys)",
        fix: "systempaths=unconfined",
    },
    Bed {
        setting: "mount --bind /dev/null /proc/interrupts",
        step: "setup",
        cause: "mounted over a part of /proc (/proc/interrupts)",
        fix: "unmask=ALL",
    },
    Bed {
        setting: "mount -t tmpfs none /proc/fs",
        step: "setup",
        cause: "mounted over a part of /proc (/proc/fs)",
        fix: "ProtectKernelTunables=",
    },
];

#[test]
fn a_host_that_cannot_is_told_the_step_the_cause_and_the_way_out() {
    let host = needs!(TestHost::start());
    // The bed itself does no harm.
    let done = needs!(in_bed(&host, "true", &["doctor"]));
    done.expect(0).done();
    for bed in &BEDS {
        let done = needs!(in_bed(&host, bed.setting, &["doctor"])).expect(1);
        let text = done.text();
        let line = text.lines().find(|line| line.starts_with("FAIL")).unwrap_or_default();
        assert!(line.split_whitespace().nth(1) == Some(bed.step), "{}: {text}", bed.setting);
        let whole: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [bed.cause, bed.fix] {
            assert!(whole.contains(part), "{}: {part}: {text}", bed.setting);
        }
        assert!(text.ends_with("no session can be made on this host\n"), "{text}");
        let report = needs!(in_bed(&host, bed.setting, &["doctor", "--json"])).expect(1).json();
        assert_eq!(report["ok"], json!(false), "{report}");
        let failed: Vec<String> = checks(&report)
            .into_iter()
            .filter_map(|(name, status)| (status == "fail").then_some(name))
            .collect();
        assert_eq!(failed, [bed.step]);
    }
}

#[test]
fn run_and_up_say_what_doctor_says() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    for bed in BEDS.iter().step_by(3) {
        let report = needs!(in_bed(&host, bed.setting, &["doctor", "--json"])).expect(1).json();
        let failed = report["checks"].as_array().unwrap().iter();
        let failed = failed.clone().find(|check| check["status"] == "fail").unwrap().clone();
        let words = ["run", "--workspace", "none", "--", "true"];
        let run = needs!(in_bed(&host, bed.setting, &words)).expect(125).complaint();
        let expected = format!(
            "sandboxd: {}\n\nhint: {}\n",
            failed["detail"].as_str().unwrap(),
            failed["fix"].as_str().unwrap()
        );
        assert_eq!(run, expected);
        let words = ["up", "--workspace", "none"];
        let up = needs!(in_bed(&host, bed.setting, &words)).expect(125).complaint();
        assert_eq!(up, expected);
        // The daemon that was started for it is the bed's, and speaks to nobody else.
        assert!(daemon.named("supervisor").is_empty());
        daemon.kill();
    }
}

#[test]
fn a_kernel_without_landlock_is_degraded_and_still_works() {
    let host = needs!(TestHost::start());
    needs!(host.command("strace"));
    let inject = "inject=landlock_create_ruleset:error=EOPNOTSUPP";
    let without = [
        "strace",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-e",
        "trace=landlock_create_ruleset",
        "-e",
        inject,
    ];
    let done = host.sandboxd().started_by(without).with(["doctor"]).command([""; 0]).expect(0);
    let text = done.text();
    let line = text.lines().find(|line| line.starts_with("degraded") && line.contains("landlock"));
    assert!(line.is_some(), "{text}");
    assert!(text.contains("lsm=") && text.ends_with("sessions work on this host\n"), "{text}");
}

#[test]
fn every_command_and_flag_that_is_named_exists() {
    let host = needs!(TestHost::start());
    let mut texts = vec![host.sandboxd().with(["doctor"]).command([""; 0]).text()];
    for bed in &BEDS {
        texts.push(needs!(in_bed(&host, bed.setting, &["doctor"])).text());
    }
    for words in [
        &["inspect", "none"][..],
        &["doctor", "--user", "x"],
        &["run", "--workspace", "/", "--", "true"],
    ] {
        texts.push(host.sandboxd().with(words).command([""; 0]).complaint());
    }
    let help = |words: &[&str]| host.sandboxd().with(words).with(["--help"]).command([""; 0]);
    let all = texts.join("\n");
    let mut named = 0;
    for after in all.split("`sandboxd ").skip(1) {
        let text = after.split('`').next().unwrap_or_default();
        let words: Vec<&str> = text
            .split(' ')
            .take_while(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
            .collect();
        let words = &words[..words.len().min(if words.first() == Some(&"mcp") { 2 } else { 1 })];
        help(words).expect(0).done();
        named += 1;
    }
    assert!(named > 0, "{all}");
    // The flags of ours that are named.
    let known = [&["run"][..], &["up"], &["exec"]].map(|words| help(words).text()).concat();
    for flag in ["--user", "--workspace"] {
        assert!(!all.contains(flag) || known.contains(flag), "{flag}");
    }
}
