"""A client on the network: client.py "VERB WORD..." ... It prints one JSON array with what came of each, in order.

    greet HOST PORT               the line that a server says first
    echo HOST PORT COUNT          how many bytes came back after all were sent
    tls HOST PORT                 the version that was agreed upon, with whomever
    udp HOST PORT                 what a datagram is answered with
    ask SERVER udp|tcp NAME TYPE  a name server's code, and the addresses
    interfaces                    those of this network

Whatever fails is the name of its error. Nothing waits for more than a minute: that is "timeout".
"""
import errno
import json
import socket
import ssl
import struct
import sys

TYPES = {"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28, "HTTPS": 65}
CODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}
socket.setdefaulttimeout(60)


def greet(host, port):
    with socket.create_connection((host, int(port))) as stream, stream.makefile("r") as lines:
        return lines.readline().strip() or "EOF"


def echo(host, port, count):
    with socket.create_connection((host, int(port))) as stream:
        stream.sendall(bytes(int(count)))
        stream.shutdown(socket.SHUT_WR)
        return sum(map(len, iter(lambda: stream.recv(65536), b"")))


def tls(host, port):
    context = ssl._create_unverified_context()
    with socket.create_connection((host, int(port))) as stream, context.wrap_socket(stream) as secure:
        return secure.version()


def udp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect((host, int(port)))
        datagrams.send(b"x")
        return datagrams.recv(100).decode()


def ask(server, way, name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, TYPES[kind], 1)
    if way == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect((server, 53))
            datagrams.send(question)
            answer = datagrams.recv(4096)
    else:
        with socket.create_connection((server, 53)) as stream:
            stream.sendall(struct.pack("!H", len(question)) + question)
            data = stream.makefile("rb")
            answer = data.read(struct.unpack("!H", data.read(2))[0])
    code, count, at, found = answer[3] & 15, struct.unpack("!H", answer[6:8])[0], len(question), []
    for _ in range(count):
        # A pointer or a name, then type, class, time to live and length.
        while answer[at] and answer[at] < 0xC0:
            at += answer[at] + 1
        at += 2 if answer[at] else 1
        length = struct.unpack("!H", answer[at + 8:at + 10])[0]
        data, at = answer[at + 10:at + 10 + length], at + 10 + length
        found.append(socket.inet_ntop(socket.AF_INET if length == 4 else socket.AF_INET6, data))
    return " ".join([CODES.get(code, str(code))] + found)


def interfaces():
    return " ".join(sorted(name for _, name in socket.if_nameindex()))


VERBS = {"greet": greet, "echo": echo, "tls": tls, "udp": udp, "ask": ask, "interfaces": interfaces}


def attempt(line):
    verb, *words = line.split()
    try:
        return VERBS[verb](*words)
    except socket.gaierror as error:
        return {-2: "EAI_NONAME", -3: "EAI_AGAIN", -5: "EAI_NODATA"}.get(error.errno, str(error))
    except TimeoutError as error:
        return errno.errorcode.get(error.errno, "timeout")
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


print(json.dumps([attempt(line) for line in sys.argv[1:]]))
