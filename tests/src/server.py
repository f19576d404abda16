"""An MCP server on stdio for the tests: server.py [MODE]. It needs nothing but Python.

Tools: each does one thing that a test wants to see; what a MODE changes stands at its place below. A tool that is
not listed answers with its name.
"""
import base64
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
COUNT = 0
GREETED = 0
CLIENT = ""


def write(data):
    while data:
        data = data[os.write(1, data):]


def send(text):
    write(text.encode() + (b"\r\n" if MODE == "crlf" else b"\n"))


def answer(ident, result):
    send('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(ident), result))


def say(ident, text, is_error=False):
    """Answers a call with a text."""
    result = {"content": [{"type": "text", "text": text}]}
    if is_error:
        result["isError"] = True
    answer(ident, json.dumps(result))


def raw_member(text, name):
    """The bytes of a member as they stand in the text: its first occurrence."""
    at = text.index('"%s":' % name) + len(name) + 3
    while text[at] in " \t":
        at += 1
    return text[at:json.JSONDecoder().raw_decode(text, at)[1]]


def linger(argument):
    """Leaves grandchildren behind, each in a kernel session of its own, deaf to what may be ignored."""
    code = ("import os, signal, time\n"
            "for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
            "print(os.getpid(), flush=True)\n"
            "while True: time.sleep(1000)\n")
    for _ in range(int(argument.get("count", 1))):
        child = subprocess.Popen([sys.executable, "-S", "-E", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()


def stale(ident):
    """Says half an answer; a child that nobody knows of answers whatever could be asked next, as soon as this
    process is dead."""
    word = re.sub(r"\d+", "%d", str(ident), count=str(ident).count("-") + 1)
    idents = [word % pair for pair in itertools.product((1, 2, 3), range(1, 40))] if word.count("%d") == 2 else range(1, 40)
    lines = "".join('\n{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"STALE"}]}}\n' % json.dumps(other)
                    for other in idents if other != ident)
    parent = os.getpid()
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == parent:
            pass
        while True:
            write(lines.encode())
    write(('{"jsonrpc":"2.0","id":%s,"res' % json.dumps(ident)).encode())
    os.write(2, ("half said for %s\n" % ident).encode())
    signal.pause()


def run(argument):
    """Runs a command beside the server, with its environment and none of its pipes."""
    done = subprocess.run(argument["command"], stdin=subprocess.DEVNULL, capture_output=True)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def call(ident, name, argument, line):
    global COUNT
    if name == "count":
        COUNT += 1
        say(ident, "%d %d" % (COUNT, os.getpid()))
    elif name == "hash":
        say(ident, hashlib.sha256(raw_member(line, "params").encode()).hexdigest())
    elif name == "raw":
        answer(ident, raw_member(raw_member(line, "arguments"), "result"))
    elif name == "environment":
        with open("/proc/self/environ", "rb") as file:
            pairs = file.read().decode().split("\0")
        say(ident, json.dumps(dict(pair.split("=", 1) for pair in pairs if pair)))
    elif name == "holds":
        # Says whether the token is there, without saying it.
        token = os.environ.get(argument.get("variable", "TOKEN"), "")
        say(ident, hashlib.sha256(token.encode()).hexdigest())
    elif name == "descriptors":
        say(ident, json.dumps({number: os.readlink("/proc/self/fd/" + number)
                               for number in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + number)}))
    elif name == "where":
        say(ident, os.getcwd())
    elif name == "run":
        say(ident, run(argument))
    elif name == "linger":
        linger(argument)
        say(ident, "OK")
    elif name == "fails":
        say(ident, "it did not work", True)
    elif name == "hang":
        os.write(2, b"rate limited\n")
    elif name == "blurt":
        # Every form in which a token may come out, and then the end.
        token = os.environ["TOKEN"]
        os.write(2, ("fatal: token is %s\n" % token).encode())
        os._exit(9)
    elif name == "mutter":
        token = os.environ["TOKEN"]
        os.write(2, ("Authorization: %s\n" % token).encode())
        forms = base64.b64encode(token.encode()).decode(), token.encode().hex(), urllib.parse.quote(token, safe="")
        os.write(2, ("forms: %s %s %s.\n" % forms).encode())
        write(("not JSON: %s\n" % token).encode())
        say(ident, "OK")
    elif name == "die":
        os.write(2, b"about to fail\n")
        os._exit(int(argument.get("status", 9)))
    elif name == "greeted":
        say(ident, "%d %s" % (GREETED, CLIENT))
    elif name == "stale":
        stale(ident)
    elif name == "go":
        go(ident)
    else:
        say(ident, name)


def go(ident):
    if MODE == "noise":
        write(b"[hooks] router initialized\n{\n[1,2]\nnull\n\x1b[32mINFO\x1b[0m\n")
    elif MODE == "stderr_flood":
        for _ in range(256):
            os.write(2, b"y" * 16384)
    if MODE == "big":
        say(ident, "B" * (1 << 20))
    elif MODE == "split":
        data = ('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"OK"}]}}\n' % json.dumps(ident)).encode()
        for at in range(0, len(data), 3):
            write(data[at:at + 3])
    else:
        say(ident, "OK")


def begin():
    if MODE == "noise":
        write(b"Starting v1.0 ...\n")
    elif MODE == "bom":
        write(b"\xef\xbb\xbf")
    elif MODE == "stderr_flood":
        os.write(2, b"x" * 300000 + b"\n")
    elif MODE == "deaf":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    elif MODE == "never":
        os.write(2, b"waiting for a database\n")
        signal.pause()
    elif MODE == "crash":
        os.write(2, b"no configuration found\n")
        sys.exit(3)


def main():
    global GREETED, CLIENT
    begin()
    for line in sys.stdin:
        message = json.loads(line)
        method, ident = message.get("method"), message.get("id")
        if method is None or ident is None:
            continue
        if method == "initialize":
            GREETED += 1
            CLIENT = message["params"]["clientInfo"]["name"]
            answer(ident, json.dumps({"protocolVersion": message["params"]["protocolVersion"],
                                      "capabilities": {"tools": {}},
                                      "serverInfo": {"name": "tests", "version": str(os.getpid())}}))
        elif method == "tools/list":
            answer(ident, '{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}')
        elif method == "tools/call":
            params = message["params"]
            call(ident, params["name"], params.get("arguments", {}), line)
        elif method == "ping":
            answer(ident, "{}")
        else:
            send('{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}' % json.dumps(ident))
    while MODE == "deaf":
        signal.pause()


sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
main()
