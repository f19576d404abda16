//! Real work in a box, by its effect on the host.
//!
//! Runs in: the test's own process.

use std::fs;
use std::os::unix::fs::MetadataExt;

use sandboxd_tests::{Missing, TestHost, Tree, needs};

fn repository(host: &TestHost, name: &str) -> Tree {
    let tree = host.project(name);
    tree.write("README", "a project\n");
    for words in [
        &["git", "init", "-q", "-b", "main"][..],
        &["git", "add", "."],
        &["git", "commit", "-qm", "first"],
    ] {
        host.on_host(tree.path(), words).done();
    }
    tree
}

#[test]
fn a_commit_made_in_a_box_is_the_caller_s_on_the_host() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "shop");
    host.run_in(&tree)
        .shell("echo more >> README && git commit -qam 'from the box' && git status --short")
        .done();
    let log = host
        .on_host(tree.path(), ["git", "log", "-1", "--format=%an <%ae> %cn <%ce> %s"])
        .expect(0);
    let caller = host.on_host(tree.path(), ["git", "var", "GIT_AUTHOR_IDENT"]).expect(0).text();
    let caller = caller.rsplitn(3, ' ').nth(2).unwrap().to_owned();
    assert_eq!(log.text(), format!("{caller} {caller} from the box\n"));
    assert_eq!(host.on_host(tree.path(), ["git", "status", "--short"]).expect(0).text(), "");
    host.on_host(tree.path(), ["git", "fsck", "--strict"]).done();
}

#[test]
fn a_repository_s_own_identity_wins() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "own");
    host.on_host(tree.path(), ["git", "config", "user.email", "own@example.org"]).done();
    host.run_in(&tree).shell("git commit -q --allow-empty -m second").done();
    let log = host.on_host(tree.path(), ["git", "log", "-1", "--format=%ae"]).expect(0);
    assert_eq!(log.text(), "own@example.org\n");
}

#[test]
fn branches_merges_stashes_and_clones_work_in_a_box() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "branches");
    let text = "set -e
        git switch -qc feature; echo x > x; git add x; git commit -qm x
        git switch -q main; echo y > y; git add y; git commit -qm y
        git merge -q -m merged feature
        echo z >> y; git stash -q; git stash pop -q; git checkout -q y
        git rebase -q feature; git gc -q; git clone -q . copy; git -C copy log --oneline | wc -l";
    let done = host.run_in(&tree).shell(text).expect(0);
    assert_eq!(done.text().trim(), "3", "{done:?}");
    host.on_host(tree.path(), ["git", "fsck", "--strict"]).done();
}

#[test]
fn a_linked_worktree_works_in_a_box() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "main-tree");
    host.on_host(tree.path(), ["git", "worktree", "add", "-q", "-b", "side", "../side-tree"])
        .done();
    let side = host.project("side-tree");
    let done = host
        .run_in(&side)
        .shell("echo s > s && git add s && git commit -qm side && git log --format=%s")
        .expect(0);
    assert_eq!(done.text(), "side\nfirst\n", "{done:?}");
    let log = host.on_host(tree.path(), ["git", "log", "-1", "--format=%s", "side"]).expect(0);
    assert_eq!(log.text(), "side\n");
    // What the worktree's repository trusts is protected too.
    let hook = tree.at(".git/hooks/pre-commit").display().to_string();
    let config = tree.at(".git/config").display().to_string();
    let answers = host
        .run_in(&side)
        .probe(["try", "create", &hook, ",", "write", &config, ",", "read", &config]);
    assert_eq!(answers, serde_json::json!(["EROFS", "EROFS", "OK"]));
}

#[test]
fn cargo_builds_with_the_toolchain_of_a_home() {
    let host = needs!(TestHost::start());
    let cargo = host.home().join(".cargo/bin/cargo");
    needs!(
        cargo
            .exists()
            .then_some(())
            .ok_or(Missing::new("Rust toolchain in the home of the test's user"))
    );
    let tree = host.project("crate");
    tree.write(
        "Cargo.toml",
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    tree.write(
        "src/main.rs",
        "fn main() { println!(\"built in a box\"); }\n#[test]\nfn it_works() {}\n",
    );
    // Without the flag there is no such program, and the message names the flag.
    let path = format!("{}:/usr/bin:/bin", host.home().join(".cargo/bin").display());
    let missing =
        host.run_in(&tree).caller_variable("PATH", path).command(["cargo", "build"]).expect(127);
    assert!(missing.complaint().contains("--tools rust"), "{missing:?}");
    let done =
        host.run_in(&tree).with(["--tools", "rust"]).command(["cargo", "build", "--offline"]);
    assert_eq!(done.status, 0, "{done:?}");
    let built = host.on_host(tree.path(), ["target/debug/hello"]).expect(0);
    assert_eq!(built.text(), "built in a box\n");
    let tested = host
        .run_in(&tree)
        .with(["--tools", "rust"])
        .command(["cargo", "test", "--offline", "-q"])
        .expect(0);
    assert!(tested.text().contains("1 passed"), "{tested:?}");
    // The credentials that lie beside the toolchain stay hidden, and it cannot be written.
    let credentials = host.home().join(".cargo/credentials.toml").display().to_string();
    let program = cargo.display().to_string();
    let answers = host.run_in(&tree).with(["--tools", "rust"]).probe([
        "try",
        "stat",
        &credentials,
        ",",
        "write",
        &program,
        ",",
        "read",
        &program,
    ]);
    assert_eq!(answers, serde_json::json!(["ENOENT", "EROFS", "OK"]));
}

#[test]
fn npm_installs_a_local_tarball_and_node_uses_it() {
    let host = needs!(TestHost::start());
    needs!(host.command("node"));
    needs!(host.command("npm"));
    let tree = host.project("web");
    tree.write("package/package.json", "{\"name\":\"greeter\",\"version\":\"1.0.0\",\"main\":\"index.js\",\"bin\":{\"greet\":\"bin.js\"}}");
    tree.write("package/index.js", "module.exports = () => 'hello from a package'\n");
    tree.write("package/bin.js", "#!/usr/bin/env node\nconsole.log(require('./index.js')())\n");
    tree.write("package.json", "{\"name\":\"web\",\"version\":\"1.0.0\"}");
    host.on_host(tree.path(), ["tar", "-czf", "greeter.tgz", "package"]).done();
    let done = host.run_in(&tree).command([
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--offline",
        "./greeter.tgz",
    ]);
    assert_eq!(done.status, 0, "{done:?}");
    let used = host.run_in(&tree).command(["npx", "--offline", "greet"]).expect(0);
    assert_eq!(used.text(), "hello from a package\n");
    // The host has it too.
    let used = host.on_host(tree.path(), ["node", "-p", "require('greeter')()"]).expect(0);
    assert_eq!(used.text(), "hello from a package\n");
}

#[test]
fn node_runs_workers_timers_and_children() {
    let host = needs!(TestHost::start());
    needs!(host.command("node"));
    let text = "const {Worker}=require('worker_threads');const os=require('os');
        const w=new Worker('require(\"worker_threads\").parentPort.postMessage(6*7)',{eval:true});
        w.on('message',m=>{const c=require('child_process').execFileSync('echo',['child']).toString().trim();
        console.log(m,c,Object.keys(os.networkInterfaces()).join(),os.userInfo().username)})";
    let done = host.run().command(["node", "-e", text]).expect(0);
    assert_eq!(done.text(), format!("42 child lo {}\n", host.user()));
}

#[test]
fn python_makes_a_virtual_environment_that_works_on_both_sides() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let has_venv =
        host.on_host(host.home(), ["python3", "-c", "import ensurepip, venv"]).status == 0;
    needs!(has_venv.then_some(()).ok_or(Missing::new("python3-venv")));
    let tree = host.project("py");
    tree.write(
        "mod/pyproject.toml",
        "[build-system]\nrequires=[]\nbuild-backend=\"backend\"\nbackend-path=[\".\"]\n",
    );
    host.run_in(&tree).command(["python3", "-m", "venv", "env"]).done();
    let inside = host
        .run_in(&tree)
        .shell("env/bin/pip --version && env/bin/python -c 'import sys; print(sys.prefix)'")
        .expect(0);
    assert!(inside.text().ends_with(&format!("{}\n", tree.at("env").display())), "{inside:?}");
    let outside = host
        .on_host(tree.path(), ["env/bin/python", "-c", "import sys; print(sys.prefix)"])
        .expect(0);
    assert_eq!(outside.text(), format!("{}\n", tree.at("env").display()));
}

#[test]
fn python_s_output_comes_line_by_line() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let mut talk = host.run().input("").start(["python3", "-c", "print('at once'); input()"]);
    talk.answers("at once");
    talk.says("\n");
    assert_eq!(talk.wait().status, 0);
}

#[test]
fn servers_on_a_unix_socket_and_on_the_loopback_serve_the_box() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("servers");
    tree.write("serve.py", "
import socket, threading
def answer(s):
    c, _ = s.accept(); c.sendall(c.recv(100).upper()); c.close()
u = socket.socket(socket.AF_UNIX); u.bind('/tmp/s'); u.listen()
w = socket.socket(socket.AF_UNIX); w.bind('in-workspace'); w.listen()
t = socket.socket(); t.bind(('127.0.0.1', 80)); t.listen()
six = socket.socket(socket.AF_INET6); six.bind(('::1', 0)); six.listen()
for s in (u, w, t, six): threading.Thread(target=answer, args=(s,)).start()
for f, a in ((socket.AF_UNIX, '/tmp/s'), (socket.AF_UNIX, 'in-workspace'), (socket.AF_INET, ('localhost', 80)), (socket.AF_INET6, ('::1', six.getsockname()[1]))):
    c = socket.socket(f); c.connect(a); c.sendall(b'asked'); print(c.recv(100).decode())
");
    let done = host.run_in(&tree).command(["python3", "serve.py"]).expect(0);
    assert_eq!(done.text(), "ASKED\nASKED\nASKED\nASKED\n");
    // Nothing else is there: no address of the host's, no name.
    let text = "
import socket
for a in ('192.0.2.1', '169.254.169.254', '10.0.0.1', '1.1.1.1'):
    try: socket.create_connection((a, 80), 5); print('out!')
    except OSError as e: print(e.errno)
try: socket.getaddrinfo('example.org', 80); print('resolved!')
except socket.gaierror: print('no name')
";
    let done = host.run().command(["python3", "-c", text]).expect(0);
    // ENETUNREACH.
    assert_eq!(done.text(), "101\n101\n101\n101\nno name\n");
}

#[test]
fn a_box_s_loopback_is_not_the_host_s() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 5); print('reached')\nexcept OSError as e: print(e.errno)"
    );
    assert_eq!(host.run().command(["python3", "-c", &text]).expect(0).text(), "111\n");
    // The twin, on the host.
    assert_eq!(host.on_host(host.home(), ["python3", "-c", &text]).expect(0).text(), "reached\n");
}

#[test]
fn files_are_renamed_and_linked_across_directories() {
    let host = needs!(TestHost::start());
    let tree = host.project("moves");
    tree.write("a/file", "content").directory("b").write("c/deep/er", "more");
    let inode = fs::metadata(tree.at("a/file")).unwrap().ino();
    host.run_in(&tree).shell("mv a/file b/moved && ln b/moved c/linked && mv c/deep b/ && ln -s ../b/moved c/soft && cp b/moved c/copied && rmdir a").done();
    assert_eq!(fs::metadata(tree.at("b/moved")).unwrap().ino(), inode);
    assert_eq!(fs::metadata(tree.at("c/linked")).unwrap().ino(), inode);
    assert_eq!(tree.read("b/deep/er"), "more");
    assert_eq!((tree.read("c/soft"), tree.read("c/copied")), ("content".into(), "content".into()));
    assert!(!tree.has("a"));
    // Below a workspace in /tmp, which the box has for itself otherwise, it is the same.
    let tree = host.project_in_tmp();
    tree.write("a/file", "content").directory("b");
    host.run_in(&tree).shell("ln a/file b/linked && mv a/file b/moved").done();
    assert_eq!(tree.read("b/moved"), "content");
}

#[test]
fn temporary_files_are_the_box_s_own_and_go_with_it() {
    let host = needs!(TestHost::start());
    let done = host.run().shell("f=$(mktemp) && d=$(mktemp -d) && echo x > $f && touch $d/y && ls -d $f $d && ls -A /tmp | wc -l && ls -Ad /var/tmp/. && touch /dev/shm/z ~/home-file && ls -A /dev/shm ~").expect(0);
    let text = done.text();
    assert!(
        text.contains("\n2\n") && text.contains("z\n") && text.contains("home-file\n"),
        "{text}"
    );
    for line in text.lines().take(2) {
        assert!(!std::path::Path::new(line).exists(), "{line} is on the host");
    }
    assert!(!host.home().join("home-file").exists());
}

#[test]
fn output_goes_through_tee_and_the_names_of_the_streams() {
    let host = needs!(TestHost::start());
    let done = host
        .run()
        .shell("echo both | tee /dev/stderr; echo out > /dev/stdout; echo fd > /dev/fd/2")
        .expect(0);
    assert_eq!((done.text().as_str(), done.complaint().as_str()), ("both\nout\n", "both\nfd\n"));
    let done =
        host.run().command(["bash", "-c", "diff <(echo a) <(echo a) && echo same"]).expect(0);
    assert_eq!(done.text(), "same\n");
}
