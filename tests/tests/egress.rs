//! The door out goes where the rules say and nowhere else; whoever is refused learns it at once, the user learns why,
//! and the world learns nothing.
//!
//! Each test has an internet of its own, which sees every packet that leaves the host (`src/internet.py`).
//!
//! Runs in: the test's own process.

use std::fs;

use nix::sys::signal::Signal;
use sandboxd_tests::{
    Daemon, HELLO, Order, Recipe, TestHost, answers, eventually, needs, visit, visitor,
};

/// The address of the host on the internet.
const HOST: &str = "93.184.216.200";

/// Goes to places from the host itself: nobody of ours stands in between.
#[track_caller]
fn visit_from_host(host: &TestHost, visits: &[&str]) -> Vec<String> {
    answers(&host.on_host(&host.path(""), visitor(visits)).expect(0).json())
}

/// Begins a run that allows these.
fn allowing<'a>(host: &'a TestHost, rules: &[&str]) -> Order<'a> {
    rules.iter().fold(host.run(), |order, rule| order.with(["--allow", rule]))
}

/// Connects once more to where it is allowed, and wants that nothing but that has left the host, ever.
#[track_caller]
fn wants_only_open(host: &TestHost, order: Order<'_>) {
    let (answers, _) = visit(order, &["greet open.example.com 5432"]);
    assert_eq!(answers, [HELLO]);
    let internet = host.internet();
    internet.sees("close world 5432");
    internet.sees("packet tcp 93.184.216.34:5432");
    let log = internet.log();
    let expected = [
        "dns 93.184.216.1 open.example.com A",
        "dns 93.184.216.1 open.example.com AAAA",
        "packet udp 93.184.216.1:53",
        "packet tcp 93.184.216.34:5432",
        "open world 93.184.216.34:5432 93.184.216.200",
        "close world 5432",
    ];
    let more: Vec<&String> = log.iter().filter(|line| !expected.contains(&line.as_str())).collect();
    assert!(more.is_empty(), "the world saw {more:#?}");
}

#[test]
fn an_allowed_name_works_whoever_speaks_first() {
    let host = needs!(TestHost::online());
    let order = allowing(&host, &["open.example.com:5432,7007"]);
    let visits =
        ["greet open.example.com 5432", "echo open.example.com 7007 3000000", "interfaces"];
    let (answers, done) = visit(order, &visits);
    assert_eq!(answers, [HELLO, "3000000", "eth0 lo"]);
    assert_eq!(done.complaint(), "");
    // The host is who came.
    host.internet().sees(&format!("open world 93.184.216.34:5432 {HOST}"));
    host.internet().sees(&format!("open world 93.184.216.34:7007 {HOST}"));
    host.internet().sees("got world 7007 3000000");
}

#[test]
fn a_wildcard_allows_the_names_below_it_and_not_itself() {
    let host = needs!(TestHost::online());
    let order = allowing(&host, &["*.wild.example.com:5432"]);
    let visits = [
        "greet a.wild.example.com 5432",
        "greet a.b.wild.example.com 5432",
        "greet wild.example.com 5432",
        "greet a.b.c.d.e.wild.example.com 5432",
    ];
    let (answers, done) = visit(order, &visits);
    assert_eq!(answers, [HELLO, HELLO, "EAI_NONAME", "EAI_NONAME"]);
    assert!(done.complaint().contains("further below than a wildcard reaches"), "{done:?}");
    assert_eq!(host.internet().count("dns 93.184.216.1 a.b.c.d.e.wild.example.com A"), 0);
}

#[test]
fn curl_git_and_node_need_no_proxy_variable() {
    let host = needs!(TestHost::online());
    for name in ["curl", "git", "node"] {
        needs!(host.command(name));
    }
    let internet = host.internet();
    fs::write(internet.www().join("hello"), "hello from the web\n").unwrap();
    let bare = internet.www().join("project.git").display().to_string();
    let tree = host.project("upstream");
    tree.write("file", "from upstream\n");
    for words in [
        vec!["git", "init", "--quiet", "."],
        vec!["git", "add", "."],
        vec!["git", "commit", "--quiet", "-m", "one"],
        vec!["git", "clone", "--quiet", "--bare", ".", &bare],
        vec!["git", "-C", &bare, "update-server-info"],
    ] {
        host.on_host(tree.path(), words).done();
    }
    let certificate = internet.certificate().display().to_string();
    let online = || {
        let order = allowing(&host, &["open.example.com"]);
        let order = order.mount(format!("{certificate}:/mnt/ca.pem"));
        ["CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"]
            .iter()
            .fold(order, |order, name| order.with(["--env", &format!("{name}=/mnt/ca.pem")]))
    };
    let done = online().shell("env | grep -i _proxy; curl -sS https://open.example.com/hello");
    assert_eq!(done.expect(0).text(), "hello from the web\n");
    let clone = "git clone --quiet https://open.example.com/project.git /tmp/p && cat /tmp/p/file";
    assert_eq!(online().shell(clone).expect(0).text(), "from upstream\n");
    let fetch = "fetch('https://open.example.com/hello').then(r => r.text()).then(console.log)";
    assert_eq!(online().command(["node", "-e", fetch]).expect(0).text(), "hello from the web\n\n");
    // curl's own words: 6 is a name that is not there, 7 a connection that was refused.
    online().shell("curl -sS https://denied.example.com/hello").expect(6);
    online().shell("curl -sS http://open.example.com/hello").expect(7);
    assert_eq!(internet.count(&format!("open world 93.184.216.34:80 {HOST}")), 0);
    assert_eq!(internet.count("dns 93.184.216.1 denied.example.com A"), 0);
}

#[test]
fn a_denied_name_is_unknown_and_the_world_hears_nothing_of_it() {
    let host = needs!(TestHost::online());
    let allowed = || allowing(&host, &["open.example.com:5432"]);
    let visits = [
        "greet denied.example.com 5432",
        "ask 93.184.216.1 udp denied.example.com A",
        "ask 93.184.216.1 udp what-the-box-knows.denied.example.com TXT",
        "ask 93.184.216.1 tcp what-the-box-knows.open.example.com A",
    ];
    let (answers, done) = visit(allowed(), &visits);
    assert_eq!(answers, ["EAI_NONAME", "NXDOMAIN", "NXDOMAIN", "NXDOMAIN"]);
    let told = "egress: denied.example.com refused: no rule for this name";
    assert!(done.complaint().contains(told), "{done:?}");
    wants_only_open(&host, allowed());
    // It is there: the same visits from beside the box, and from a box that may.
    assert_eq!(visit_from_host(&host, &visits)[..2], [HELLO, "NOERROR 93.184.216.34"]);
    host.internet().sees("dns 93.184.216.1 what-the-box-knows.denied.example.com 16");
    let (answers, _) = visit(allowing(&host, &["denied.example.com:5432"]), &visits[..1]);
    assert_eq!(answers, [HELLO]);
}

#[test]
fn a_port_without_a_rule_is_refused_and_told_with_the_name() {
    let host = needs!(TestHost::online());
    let visits = ["greet open.example.com 22", "greet open.example.com 853"];
    let (answers, done) = visit(allowing(&host, &["open.example.com:5432"]), &visits);
    assert_eq!(answers, ["ECONNREFUSED", "ECONNREFUSED"]);
    for port in [22, 853] {
        let told = format!(
            "egress: open.example.com:{port} refused: the rule for this name does not have this port; \
             to allow it: --allow open.example.com:{port}\n"
        );
        assert!(done.complaint().contains(&told), "{done:?}");
    }
    // A port that another name has: the gateway listens on it.
    let rules = ["open.example.com:5432", "other.example.com:22"];
    let (answers, done) = visit(allowing(&host, &rules), &visits[..1]);
    assert_eq!(answers, ["ECONNRESET"]);
    assert!(done.complaint().contains("open.example.com:22 refused"), "{done:?}");
    wants_only_open(&host, allowing(&host, &rules));
    let (answers, done) = visit(allowing(&host, &["open.example.com:22,853,5432"]), &visits);
    assert_eq!((answers, done.complaint().as_str()), (vec![HELLO.into(), HELLO.into()], ""));
}

#[test]
fn an_address_is_refused_in_every_spelling_unless_it_is_listed() {
    let host = needs!(TestHost::online());
    let visits = [
        "greet 93.184.216.34 5432",
        "greet 1572395042 5432",
        "greet 0x5db8d822 5432",
        "greet 0135.0270.0330.042 5432",
        "greet ::ffff:93.184.216.34 5432",
    ];
    let closed = ["greet 93.184.216.34 22", "greet ::ffff:93.184.216.34 853"];
    let (answers, done) = visit(allowing(&host, &["open.example.com:5432"]), &visits);
    assert_eq!(answers, ["ECONNRESET"; 5]);
    let told = "egress: 93.184.216.34:5432 refused: no rule for this address (5 times); \
                to allow it: --allow 93.184.216.34:5432\n";
    assert!(done.complaint().contains(told), "{done:?}");
    let (answers, done) = visit(allowing(&host, &["open.example.com:5432"]), &closed);
    assert_eq!(answers, ["ECONNREFUSED"; 2]);
    for port in [22, 853] {
        let told = format!("egress: 93.184.216.34:{port} refused: no rule for this address");
        assert!(done.complaint().contains(&told), "{done:?}");
    }
    wants_only_open(&host, allowing(&host, &["open.example.com:5432"]));
    let (answers, done) = visit(allowing(&host, &["93.184.216.34:5432"]), &visits);
    assert_eq!((answers, done.complaint().as_str()), (vec![HELLO.to_owned(); 5], ""));
}

#[test]
fn an_address_of_ipv6_is_refused_like_any_other() {
    let host = needs!(TestHost::online());
    if !fs::exists("/proc/net/if_inet6").unwrap_or(false) {
        return sandboxd_tests::Missing::new("IPv6").skip();
    }
    let visits =
        ["greet 2606:4700:4700::1111 5432", "greet fd00::1 5432", "greet 64:ff9b::a00:1 5432"];
    let (answers, done) = visit(allowing(&host, &["open.example.com:5432"]), &visits);
    assert_eq!(answers, ["ECONNRESET"; 3]);
    let told = done.complaint();
    assert!(told.contains("--allow '[2606:4700:4700::1111]:5432'\n"), "{told}");
    assert!(told.contains("a private or special address, which no rule opens"), "{told}");
    wants_only_open(&host, allowing(&host, &["open.example.com:5432"]));
}

#[test]
fn whatever_name_server_is_asked_the_answer_is_the_host_s() {
    let host = needs!(TestHost::online());
    let allowed = || allowing(&host, &["open.example.com:5432", "other.example.com:5432"]);
    let mut visits = Vec::new();
    for server in ["8.8.8.8", "93.184.216.1", "192.0.2.53", "10.0.0.1"] {
        for way in ["udp", "tcp"] {
            for question in ["open.example.com A", "denied.example.com A"] {
                visits.push(format!("ask {server} {way} {question}"));
            }
        }
    }
    let visits: Vec<&str> = visits.iter().map(String::as_str).collect();
    let (answers, _) = visit(allowed(), &visits);
    let address = answers[0].strip_prefix("NOERROR 198.1").expect("an address that stands for it");
    for pair in answers.chunks(2) {
        assert_eq!(pair, [format!("NOERROR 198.1{address}"), "NXDOMAIN".to_owned()]);
    }
    // An allowed name has no address of the other family, which is not to say that there is no such name.
    let visits = [
        "ask 8.8.8.8 udp open.example.com AAAA",
        "ask 8.8.8.8 udp open.example.com HTTPS",
        "ask 8.8.8.8 udp denied.example.com AAAA",
        "ask 8.8.8.8 udp OTHER.Example.COM A",
        "ask 8.8.8.8 udp other.example.com A",
    ];
    let (answers, _) = visit(allowed(), &visits);
    assert_eq!(answers[..3], ["NOERROR", "NOERROR", "NXDOMAIN"]);
    assert_eq!(answers[3], answers[4]);
    assert!(answers[3].starts_with("NOERROR 198."), "{answers:?}");
    // Nobody was asked, until somebody connects.
    assert_eq!(host.internet().log(), [""; 0]);
    wants_only_open(&host, allowed());
    // That server would have answered.
    let visits = ["ask 8.8.8.8 udp denied.example.com A", "ask 8.8.8.8 tcp denied.example.com A"];
    assert_eq!(visit_from_host(&host, &visits), ["NOERROR 93.184.216.34"; 2]);
    host.internet().sees("packet udp 8.8.8.8:53");
    host.internet().sees("packet tcp 8.8.8.8:53");
}

#[test]
fn a_datagram_goes_nowhere_and_its_sender_learns_it() {
    let host = needs!(TestHost::online());
    let visits = ["udp 8.8.8.8 123", "udp open.example.com 5432", "udp 93.184.216.34 443"];
    let (answers, done) = visit(allowing(&host, &["open.example.com:5432"]), &visits);
    assert_eq!(answers, ["ECONNREFUSED"; 3]);
    for place in ["8.8.8.8:123", "open.example.com:5432", "93.184.216.34:443"] {
        let told = format!("egress: {place} refused: only TCP goes out\n");
        assert!(done.complaint().contains(&told), "{done:?}");
    }
    wants_only_open(&host, allowing(&host, &["open.example.com:5432"]));
    // From the host it gets to the world, which has nobody there.
    assert_eq!(visit_from_host(&host, &visits[..1]), ["ECONNREFUSED"]);
    host.internet().sees("packet udp 8.8.8.8:123");
}

#[test]
fn an_allowed_name_with_a_private_address_is_refused_with_the_reason() {
    let host = needs!(TestHost::online());
    let private = [
        ("loopback.example.com", "hello from decoy"),
        ("private.example.com", HELLO),
        ("metadata.example.com", HELLO),
        ("host.example.com", "hello from decoy"),
    ];
    let rules = private.map(|(name, _)| format!("{name}:5432"));
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let visits = private.map(|(name, _)| format!("greet {name} 5432"));
    let mut visits: Vec<&str> = visits.iter().map(String::as_str).collect();
    let order = allowing(&host, &rules).with(["--allow", "open.example.com:5432"]);
    visits.push("greet open.example.com 5432");
    let (answers, done) = visit(order, &visits);
    assert_eq!(answers[..4], ["ECONNRESET"; 4]);
    assert_eq!(answers[4], HELLO);
    for rule in &rules {
        let told = format!("egress: {rule} refused: the name has a private or special address\n");
        assert!(done.complaint().contains(&told), "{done:?}");
    }
    let opened = || -> Vec<String> {
        let log = host.internet().log();
        log.into_iter()
            .filter(|line| ["open", "pack"].contains(&&line[..4]) && !line.contains(" udp "))
            .collect()
    };
    let (open, packet) = (
        format!("open world 93.184.216.34:5432 {HOST}"),
        "packet tcp 93.184.216.34:5432".to_owned(),
    );
    host.internet().sees(&open);
    host.internet().sees(&packet);
    assert!(opened().iter().all(|line| *line == open || *line == packet), "{:?}", opened());
    // Somebody is there to be reached, whom the host itself does reach.
    assert_eq!(visit_from_host(&host, &visits[..4]), private.map(|(_, hello)| hello));
    host.internet().sees("packet tcp 169.254.169.254:5432");
    let decoys = || opened().iter().filter(|line| line.starts_with("open decoy")).count();
    eventually("the decoys tell of the host's visits", || decoys() >= 2);
    assert_eq!(decoys(), 2);
}

#[test]
fn a_name_that_changes_its_address_to_a_private_one_is_refused_from_then_on() {
    let host = needs!(TestHost::online());
    let visits = ["greet flips.example.com 5432", "greet flips.example.com 5432"];
    let (answers, done) = visit(allowing(&host, &["flips.example.com:5432"]), &visits);
    assert_eq!(answers, [HELLO, "ECONNRESET"]);
    assert!(done.complaint().contains("the name has a private or special address"), "{done:?}");
    let opened = host.internet().log().into_iter().filter(|line| line.starts_with("open "));
    assert_eq!(opened.collect::<Vec<_>>(), [format!("open world 93.184.216.34:5432 {HOST}")]);
}

#[test]
fn what_the_world_refuses_is_told_as_such_and_proposes_no_flag() {
    let host = needs!(TestHost::online());
    let rules = ["absent.example.com:5432", "open.example.com:5432,8080"];
    let visits = [
        "greet absent.example.com 5432",
        "greet open.example.com 8080",
        "greet open.example.com 5432",
    ];
    let (answers, done) = visit(allowing(&host, &rules), &visits);
    assert_eq!(answers, ["ECONNRESET", "ECONNRESET", HELLO]);
    let complaint = done.complaint();
    for told in [
        "absent.example.com:5432 failed: the name servers gave no address\n",
        "open.example.com:8080 failed: the other side refused the connection\n",
    ] {
        assert!(complaint.contains(told), "{complaint}");
    }
    assert_eq!(complaint.lines().count(), 2, "{complaint}");
    host.internet().sees("dns 93.184.216.1 absent.example.com A");
    host.internet().sees("packet tcp 93.184.216.34:8080");
}

#[test]
fn the_host_asks_the_name_server_that_it_is_told_to() {
    let host = needs!(TestHost::online());
    let order = || allowing(&host, &["open.example.com:5432"]);
    let visits = ["greet open.example.com 5432"];
    let (answers, _) = visit(order().with(["--resolver", "8.8.8.8"]), &visits);
    assert_eq!(answers, [HELLO]);
    host.internet().sees("dns 8.8.8.8 open.example.com A");
    assert_eq!(host.internet().count("dns 93.184.216.1 open.example.com A"), 0);
    let (answers, _) = visit(order(), &visits);
    assert_eq!(answers, [HELLO]);
    host.internet().sees("dns 93.184.216.1 open.example.com A");
}

#[test]
fn without_a_rule_there_is_no_interface_but_loopback() {
    let host = needs!(TestHost::online());
    let visits = ["interfaces", "greet 93.184.216.34 5432", "ask 8.8.8.8 udp open.example.com A"];
    let (answers, done) = visit(host.run(), &visits);
    assert_eq!(answers, ["lo", "ENETUNREACH", "ENETUNREACH"]);
    assert_eq!(done.complaint(), "");
    assert_eq!(host.internet().log(), [""; 0]);
    let (answers, _) = visit(allowing(&host, &["93.184.216.34:5432"]), &visits[..2]);
    assert_eq!(answers, ["eth0 lo", HELLO]);
}

#[test]
fn the_end_of_a_run_names_the_flags_that_then_work() {
    let host = needs!(TestHost::online());
    let visits = [
        "tls denied.example.com 443",
        "greet 93.184.216.35 853",
        // The last thing that the box does: its record must not come too late.
        "greet open.example.com 22",
    ];
    let rules = ["open.example.com:5432"];
    let (answers, done) = visit(allowing(&host, &rules), &visits);
    assert_eq!(answers, ["EAI_NONAME", "ECONNREFUSED", "ECONNREFUSED"]);
    let complaint = done.complaint();
    let flags: Vec<&str> = complaint
        .lines()
        .filter_map(|line| Some(line.split_once("to allow it: --allow ")?.1))
        .collect();
    assert_eq!(
        flags,
        ["denied.example.com:443", "93.184.216.35:853", "open.example.com:22"],
        "{complaint}"
    );
    assert_eq!(complaint.lines().count(), 3, "{complaint}");
    let rules: Vec<&str> = rules.into_iter().chain(flags).collect();
    let (answers, done) = visit(allowing(&host, &rules), &visits);
    assert_eq!(answers, ["TLSv1.3", HELLO, HELLO]);
    assert_eq!(done.complaint(), "");
}

#[test]
fn a_rule_that_promises_too_much_is_refused_with_the_reason() {
    let host = needs!(TestHost::start());
    for (rule, reason) in [
        ("*", "expected \"*\" in front of a dot and a name"),
        ("*.com", "it is a public suffix, below which anybody may have names"),
        ("open.*.com", "expected \"*\" in front of a dot and a name"),
        ("open.example.com:53", "expected another port than 53"),
        ("open.example.com:0", "a port is a number from 1 to 65535"),
        ("open.example.com:100-164", "expected at most 64 ports"),
        ("10.0.0.1", "10.0.0.0/8 is a private network"),
        ("169.254.169.254:80", "expected public addresses alone"),
        ("127.0.0.1", "expected public addresses alone"),
        ("0.0.0.0/0", "expected public addresses alone"),
        ("[::ffff:10.0.0.1]", "expected public addresses alone"),
        ("0x5db8d822", "an address is written as four decimal numbers"),
        ("https://open.example.com/x", "expected a name and perhaps ports"),
        ("localhost", "which is the box's own"),
    ] {
        let done = allowing(&host, &[rule]).shell("echo started").expect(125);
        assert_eq!(done.text(), "", "{rule}");
        let told = done.complaint();
        assert!(told.contains(reason) && told.contains("allow"), "{rule}: {told}");
    }
    let daemon = Daemon::of(&host);
    for (table, reason) in [
        ("mode = \"ask\"", "\"ask\" is not enforced"),
        ("mode = \"audit\"", "\"audit\" is not enforced"),
        ("mode = \"off\"", "expected \"none\" or \"filter\""),
        ("allow = [\"*\"]", "expected \"*\" in front of a dot and a name"),
        ("allow = [\"a.example.com:53\"]", "expected another port than 53"),
        ("allow = [\"10.0.0.1\"]", "10.0.0.0/8 is a private network"),
        ("mode = \"none\"\nallow = [\"a.example.com\"]", "expected no rules beside mode"),
    ] {
        let text = Recipe::bare().with(&format!("[egress]\n{table}")).text();
        let done = daemon.order_up("bad", &text).command([""; 0]).expect(125);
        assert!(done.complaint().contains(reason), "{table}: {done:?}");
    }
    assert!(daemon.find().is_none() || daemon.list().is_empty());
    // The twins: rules of each kind that say what they mean.
    let rules =
        ["*.example.com", "a.example.com:22,443,8000-8010", "1.1.1.0/24:853", "[2606:4700::]"];
    assert_eq!(allowing(&host, &rules).shell("echo started").expect(0).text(), "started\n");
}

/// Greets a server and stays connected without a word.
const STAY: &str = "import socket
stream = socket.create_connection(('open.example.com', 5432))
print(stream.makefile().readline(), flush=True)
print('ended', stream.recv(1), flush=True)
";

#[test]
fn a_killed_run_leaves_no_connection() {
    let host = needs!(TestHost::online());
    let order = allowing(&host, &["open.example.com:5432"]);
    let mut running = order.start(["python3", "-S", "-E", "-c", STAY]);
    running.answers(HELLO);
    assert_eq!(host.internet().count("close world 5432"), 0);
    running.signal(Signal::SIGKILL);
    host.internet().sees("close world 5432");
    assert_eq!(running.wait().status, 128 + 9);
}
