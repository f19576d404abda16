//! try

use sandboxd_tests::{TestHost, needs, visitor};

#[test]
fn look() {
    let host = needs!(TestHost::online());
    let visits = [
        "interfaces",
        "greet open.example.com 5432",
        "echo open.example.com 7007 200000",
        "greet denied.example.com 5432",
        "greet open.example.com 22",
        "greet 93.184.216.34 5432",
        "greet 1572395042 5432",
        "greet 0x5db8d822 5432",
        "greet ::ffff:93.184.216.34 5432",
        "greet 93.184.216.34 22",
        "ask 8.8.8.8 udp open.example.com A",
        "ask 8.8.8.8 tcp open.example.com A",
        "ask 8.8.8.8 udp open.example.com AAAA",
        "ask 8.8.8.8 udp open.example.com HTTPS",
        "ask 8.8.8.8 udp denied.example.com A",
        "ask 8.8.8.8 tcp denied.example.com A",
        "udp 8.8.8.8 123",
        "udp open.example.com 443",
        "greet loopback.example.com 5432",
        "greet private.example.com 5432",
        "greet metadata.example.com 5432",
        "greet host.example.com 5432",
        "greet flips.example.com 5432",
        "greet flips.example.com 5432",
        "greet 10.0.0.1 5432",
        "greet 169.254.169.254 22",
        "greet 127.0.0.1 5432",
        "greet absent.example.com 5432",
    ];
    let names = ["open", "loopback", "private", "metadata", "host", "flips", "absent"];
    let mut order = host.run();
    for n in names {
        order = order.with(["--allow", &format!("{n}.example.com:5432,7007")]);
    }
    let done = order.command(visitor(&visits));
    println!("{done:?}");
    let a = done.json();
    for (v, a) in visits.iter().zip(a.as_array().unwrap()) {
        println!("{v} => {a}");
    }
    println!("{}", host.on_host(host.path("").as_path(), visitor(&visits[1..])).text());
    println!(
        "{}",
        host.on_host(
            host.path("").as_path(),
            ["sh", "-c", "grep Cap /proc/self/status; id; cat /etc/resolv.conf"]
        )
        .text()
    );
    println!("{:#?}", host.internet().log());
    println!("{:?}", host.run().command(visitor(&visits[..2])));
}
