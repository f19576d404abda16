"""A small internet for one test: internet.py DIRECTORY. It needs `ip` and `openssl`, and capabilities over the user,
network and mount namespaces that it was started in; those are the "host", and get a route to a "world".

    host (this namespace)  93.184.216.200 --veth-- 93.184.216.1, .34, .35, and 8.8.8.8, 10.0.0.1, 169.254.169.254

Everything that anybody can reach says so on the standard output, a line for each:
    packet PROTO ADDRESS:PORT       the world got the first packet of something, whatever it is
    dns SERVER NAME TYPE            a name server of the world was asked
    open WHERE ADDRESS:PORT PEER    somebody connected; WHERE is world or decoy (the host's own addresses)
    got WHERE PORT TEXT             somebody said something
    close WHERE PORT                that connection has ended
"""
import ctypes
import functools
import http.server
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading

DIRECTORY = sys.argv[1]
NEWNET, BIND, PDEATHSIG = 0x40000000, 4096, 1
RESOLVER, HOST = "93.184.216.1", "93.184.216.200"
WORLD = [RESOLVER + "/24", "93.184.216.34/24", "93.184.216.35/24", "8.8.8.8/32", "10.0.0.1/32", "169.254.169.254/32"]
NAMES = {
    "open.example.com": ["93.184.216.34"],
    "other.example.com": ["93.184.216.35"],
    # Nothing but sandboxd stands in the way of this one.
    "denied.example.com": ["93.184.216.34"],
    "loopback.example.com": ["127.0.0.1"],
    "private.example.com": ["10.0.0.1"],
    "metadata.example.com": ["169.254.169.254"],
    "host.example.com": [HOST],
    # One address more for each question, the last for good.
    "flips.example.com": ["93.184.216.34", "127.0.0.1"],
}
# What every name below wild.example.com has.
WILD = ["93.184.216.35"]
ASKED = {}
LIBC = ctypes.CDLL(None, use_errno=True)
LOCK = threading.Lock()


def say(*words):
    with LOCK:
        os.write(1, (" ".join(map(str, words)) + "\n").encode())


def call(name, *arguments):
    if getattr(LIBC, name)(*arguments) != 0:
        sys.exit("internet.py: %s: %s" % (name, os.strerror(ctypes.get_errno())))


def ip(line):
    subprocess.run(["ip"] + line.split(), check=True)


def start(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def packets():
    """Tells of all that comes from the host but what belongs to a connection that stands."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    sniffer.bind(("w0", 3))
    while True:
        data, (_, kind, way, *_) = sniffer.recvfrom(65536)
        if way == 4 or kind == 0x0806:
            continue
        if kind == 0x0800:
            at = (data[0] & 15) * 4
            to = socket.inet_ntoa(data[16:20])
            port = struct.unpack("!H", data[at + 2:at + 4])[0]
            if data[9] == 6 and data[at + 13] & 0x12 == 2:
                say("packet tcp %s:%d" % (to, port))
            elif data[9] == 17:
                say("packet udp %s:%d" % (to, port))
            elif data[9] not in (6, 17):
                say("packet %d %s:0" % (data[9], to))
        # Neighbours are discovered and groups are joined by ICMPv6 alone.
        elif kind != 0x86DD or data[6] not in (0, 58):
            say("packet %#x" % kind)


def reply(server, question):
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode("latin1"))
        at += question[at] + 1
    name, kind = ".".join(labels).lower(), struct.unpack("!H", question[at + 1:at + 3])[0]
    say("dns", server, name, {1: "A", 28: "AAAA"}.get(kind, kind))
    known, answer = NAMES.get(name, WILD if name.endswith(".wild.example.com") else None), b""
    if known and kind == 1:
        ASKED[name] = ASKED.get(name, -1) + 1
        address = known[min(ASKED[name], len(known) - 1)]
        answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
    head = struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, 1 if answer else 0, 0, 0)
    return question[:2] + head + question[12:at + 5] + answer


def names(server):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((server, 53))
    while True:
        question, peer = udp.recvfrom(4096)
        udp.sendto(reply(server, question), peer)


def names_by_tcp(where, port, client, peer):
    with client.makefile("rb") as data:
        question = data.read(struct.unpack("!H", data.read(2))[0])
    answer = reply(client.getsockname()[0], question)
    client.sendall(struct.pack("!H", len(answer)) + answer)


def serve(where, port, handle):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(64)
    start(accept, where, port, handle, listener)


def accept(where, port, handle, listener):
    while True:
        client, peer = listener.accept()
        say("open", where, "%s:%d" % (client.getsockname()[0], port), peer[0])
        start(speak, where, port, handle, client, peer)


def speak(where, port, handle, client, peer):
    try:
        handle(where, port, client, peer)
    except OSError:
        pass
    client.close()
    say("close", where, port)


def greet(where, port, client, peer):
    """A server that speaks first, and then answers every line."""
    client.sendall(b"hello from %s\n" % where.encode())
    with client.makefile("rb") as lines:
        for line in lines:
            say("got", where, port, line.decode().strip())
            client.sendall(b"got " + line)


def echo(where, port, client, peer):
    """A server that is silent until its client has said all."""
    data = b"".join(iter(lambda: client.recv(65536), b""))
    say("got", where, port, len(data))
    client.sendall(data)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def web(where, port, client, peer):
    Files(client, peer, None, directory=DIRECTORY + "/www")


def secure_web(context, where, port, client, peer):
    with context.wrap_socket(client, server_side=True) as secure:
        web(where, port, secure, peer)


def tls():
    key, certificate = DIRECTORY + "/key.pem", DIRECTORY + "/ca.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=The tests' internet", "-addext", "subjectAltName=DNS:open.example.com,DNS:other.example.com",
                    "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def world(inside, outside):
    call("prctl", PDEATHSIG, signal.SIGKILL)
    call("unshare", NEWNET)
    os.write(outside, b"x")
    os.read(inside, 1)
    ip("link set lo up")
    for address in WORLD:
        ip("address add %s dev w0" % address)
    ip("link set w0 up")
    start(packets)
    for server in (RESOLVER, "8.8.8.8"):
        start(names, server)
    secure = functools.partial(secure_web, tls())
    for port, handle in ((22, greet), (53, names_by_tcp), (80, web), (443, secure), (853, greet), (5432, greet), (7007, echo)):
        serve("world", port, handle)
    os.write(outside, b"x")
    signal.pause()


def main():
    os.makedirs(DIRECTORY + "/www", exist_ok=True)
    from_host, to_world = os.pipe()
    from_world, to_host = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(to_world)
        world(from_host, to_host)
    os.close(to_host)
    os.read(from_world, 1)
    ip("link set lo up")
    ip("link add up0 type veth peer name w0 netns %d" % child)
    ip("address add %s/24 dev up0" % HOST)
    ip("link set up0 up")
    ip("route add default via %s" % RESOLVER)
    with open(DIRECTORY + "/resolv.conf", "w") as file:
        file.write("nameserver %s\n" % RESOLVER)
    call("mount", (DIRECTORY + "/resolv.conf").encode(), b"/etc/resolv.conf", None, BIND, None)
    for port in (22, 443, 5432):
        serve("decoy", port, greet)
    os.write(to_world, b"x")
    if os.read(from_world, 1) != b"x":
        sys.exit("internet.py: the world has ended")
    say("ready")
    # Until whoever started this is gone.
    sys.stdin.read()


main()
