//! Root is only a way to choose a user: who is not root is told so, and nothing ever runs as root.
//!
//! The tests run without privileges. The root that they can be is that of a user namespace of their own, which is
//! root to every check of ours and can become nobody else.
//!
//! Runs in: the test's own process.

use sandboxd_tests::{Daemon, Recipe, TestHost, needs};

#[test]
fn an_ordinary_user_cannot_choose_another() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let user = host.user();
    // Not even itself: the flag is root's, and scripts that need it should not work by chance.
    for name in ["root", "nobody", "no-such-user", user] {
        for words in [
            &["run", "--user", name, "--workspace", "none", "--", "true"][..],
            &["up", "--user", name, "--workspace", "none"],
            &["serve", "--user", name],
            &["ls", "--user", name],
            &["inspect", "--user", name, "shop"],
            &["exec", "--user", name, "shop", "--", "true"],
            &["logs", "--user", name, "shop"],
            &["rm", "--user", name, "shop"],
            &["mcp", "ls", "--user", name, "shop"],
            &["mcp", "call", "--user", name, "shop", "tracker"],
            &["doctor", "--user", name],
        ] {
            let done = daemon.does(words).expect(125);
            assert!(done.complaint().contains("client: --user is for root alone"), "{done:?}");
            assert!(done.complaint().contains("hint: leave it out"), "{done:?}");
            assert_eq!(done.text(), "");
        }
    }
    assert_eq!(daemon.list().len(), 1);
    // The twin: without it they work.
    daemon.exec("shop").command(["true"]).done();
}

/// Root of a user namespace, and of nothing else.
const ROOT: [&str; 3] = ["unshare", "--user", "--map-root-user"];

#[test]
fn no_box_runs_as_root() {
    let host = needs!(TestHost::start());
    let tree = host.project("work");
    let here = tree.path().display().to_string();
    let run = |words: &[&str]| {
        let order = host.sandboxd().started_by(ROOT).with(["run"]).with(words);
        order.command(["touch", "made"]).expect(125).complaint()
    };
    // The workspace's owner is root there.
    for words in [&["--workspace", here.as_str()][..], &["--user", "root", "--workspace", &here]] {
        let refused = run(words);
        assert!(refused.contains("no box runs as root"), "{refused}");
        assert!(refused.contains("--user NAME") && refused.contains("chown"), "{refused}");
    }
    let unknown = run(&["--user", "no-such-user", "--workspace", &here]);
    assert!(unknown.contains("--user \"no-such-user\": there is no such user"), "{unknown}");
    // Who cannot become that user does not go on as somebody else.
    let refused = run(&["--user", "nobody", "--workspace", &here]);
    assert!(refused.contains("cannot become the user nobody"), "{refused}");
    assert!(!tree.has("made"));
    for words in [&["up", "--workspace", "none"][..], &["serve"], &["ls"], &["doctor"]] {
        let order = host.sandboxd().from_directory(tree.path()).started_by(ROOT).with(words);
        let done = order.command([""; 0]).expect(125);
        assert!(done.complaint().contains("no box runs as root"), "{done:?}");
    }
    assert!(!host.path("state").exists());
    // The twin: the same command of an ordinary user.
    host.run_in(&tree).command(["touch", "made"]).done();
    assert!(tree.has("made"));
}

#[test]
fn a_user_whom_the_user_database_does_not_know_is_taken_for_what_its_environment_says() {
    let host = needs!(TestHost::start());
    let nobody = ["unshare", "--user", "--map-user=54321", "--map-group=54321"];
    let order = || host.sandboxd().started_by(nobody);
    let words = ["run", "--workspace", "none"];
    let done = order().with(words).shell("id -u; echo $HOME; id -un || echo nameless").expect(0);
    let home = host.home().display();
    let text = done.text();
    assert!(text.starts_with(&format!("54321\n{home}\n")), "{done:?}");
    order().with(["doctor"]).command([""; 0]).expect(0).done();
    // Nothing says where its home is: refused, and told why.
    for words in [&["run", "--workspace", "none", "--", "true"][..], &["ls"], &["doctor"]] {
        let done = order().started_by(["env", "-u", "HOME"]).with(words).command([""; 0]);
        assert!(done.complaint().contains("cannot find this user in /etc/passwd"), "{done:?}");
        assert_eq!(done.status, 125);
    }
}
