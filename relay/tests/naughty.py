#!/usr/bin/env python3
"""naughty.py MODE [STATE]: an MCP server on stdio that misbehaves in one way, for the tests of the relay.

Tools: `go` does what MODE says, `count` counts its calls, `echo` answers with its arguments as text.
A mode that is not listed below behaves well. STATE is a file that outlives the process, for modes that
change from one start to the next.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

MODE = sys.argv[1]
STATE = sys.argv[2] if len(sys.argv) > 2 else None
LOCK = threading.Lock()
COUNT = 0


def raw(data):
    with LOCK:
        while data:
            data = data[os.write(1, data):]


def frame(message):
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def send(message):
    raw(frame(message) + (b"\r\n" if MODE == "crlf" else b"\n"))


def answer(ident, text="OK"):
    return {"jsonrpc": "2.0", "id": ident, "result": {"content": [{"type": "text", "text": text}]}}


def note(method, params=None):
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def starts():
    """Counts the starts of this server in the state file and returns how many there were before."""
    before = os.path.getsize(STATE) if os.path.exists(STATE) else 0
    with open(STATE, "ab") as file:
        file.write(b"x")
    return before


def begin():
    if MODE == "noise_start":
        raw(b'Starting v1.0 ...\n\x1b[32mINFO\x1b[0m ready\n\n{\n{"not":"jsonrpc"}\n[1,2]\nnull\n"{\\"a\\":1}"\n')
    elif MODE == "bom":
        raw(b"\xef\xbb\xbf")
    elif MODE == "note_before_initialize":
        send(note("notifications/tools/list_changed"))
        send(note("notifications/message", {"level": "info", "data": "early"}))
    elif MODE == "stderr_flood_start":
        os.write(2, b"x" * 300_000 + b"\n")
    elif MODE in ("ignore_everything", "ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif MODE == "crash_at_start":
        os.write(2, b"no configuration found\n")
        os._exit(3)
    elif MODE == "crash_at_start_twice" and starts() < 2:
        os.write(2, b"not yet\n")
        os._exit(1)
    elif MODE == "never_initializes":
        os.write(2, b"waiting for a database\n")
        time.sleep(600)
    elif MODE == "content_length":
        raw(b"Content-Length: 2\r\n\r\n{}\n")
        time.sleep(600)
    elif MODE == "changes" and starts() > 0:
        return {"tools": {"listChanged": True}, "prompts": {}}
    elif MODE == "changes":
        return {"tools": {"listChanged": True}}
    return {"tools": {}}


def go(message):
    i = message["id"]
    plain = frame(answer(i)) + b"\n"
    if MODE == "noise_mid":
        raw(b"[hooks] router initialized\n" + plain)
    elif MODE == "prefix":
        raw(b"progress 50%\rprogress {100}%\r" + plain)
    elif MODE == "suffix":
        raw(plain[:-1] + b" done\n")
    elif MODE == "two_in_a_line":
        raw(frame(note("notifications/message", {"data": "a"})) + plain)
    elif MODE == "stderr_flood":
        for _ in range(64):
            os.write(2, b"y" * 16_384)
        raw(plain)
    elif MODE.startswith("big:"):
        send(answer(i, "B" * int(MODE[4:])))
    elif MODE == "split":
        data = frame(answer(i, "OK\u00e9\u4e16\U0001F600")) + b"\n"
        for at in range(0, len(data), 3):
            raw(data[at:at + 3])
            time.sleep(0.001)
    elif MODE == "glued":
        info = frame(note("notifications/message", {"level": "info", "data": "a"})) + b"\n"
        raw(info + plain + info)
    elif MODE == "separators":
        send(answer(i, "OK\u2028x\u2029y\u0085z"))
    elif MODE == "nul":
        send(answer(i, "OK\x00end"))
    elif MODE == "surrogate":
        raw(plain.replace(b"OK", b"OK\\ud800"))
    elif MODE == "bad_utf8":
        raw(plain.replace(b"OK", b"OK\xff\xfe"))
    elif MODE == "bad_json":
        raw(plain.replace(b'"OK"', b'"OK'))
    elif MODE == "empty_answer":
        send({"jsonrpc": "2.0", "id": i})
    elif MODE == "unknown_id_first":
        for other in (987654, "987654", "g999-1", "g1-99999", None, 1.5):
            send(answer(other, "STALE"))
        raw(plain)
    elif MODE == "duplicate":
        raw(plain)
        send(answer(i, "SECOND"))
    elif MODE == "null_id":
        send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        send({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}})
        raw(plain)
    elif MODE == "batch":
        raw(b"[" + plain[:-1] + b"]\n" + plain)
    elif MODE == "die_mid":
        os.write(2, b"about to fail\nfatal: token is s3cr3t-value\n")
        os._exit(9)
    elif MODE == "die_half_line":
        raw(plain[:20])
        os._exit(9)
    elif MODE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE == "reply_then_die":
        raw(plain)
        os._exit(0)
    elif MODE == "reply_unended_then_die":
        raw(plain[:-1])
        os._exit(0)
    elif MODE == "close_stdout":
        os.close(1)
        time.sleep(600)
    elif MODE == "hang":
        os.write(2, b"rate limited\n")
    elif MODE == "unended":
        raw(plain[:-1])
    elif MODE == "asks":
        send({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        ROOTS.wait(5)
        send(answer(i, json.dumps(REPLY)))
    elif MODE == "grandchild":
        subprocess.Popen(["sleep", "8"], start_new_session=True)
        os._exit(0)
    elif MODE == "floods_first":
        line = frame(note("notifications/message", {"data": "n" * 1000})) + b"\n"
        for _ in range(5_000):
            raw(line)
        raw(plain)
    else:
        raw(plain)


ROOTS = threading.Event()
REPLY = {}


def take(message, capabilities):
    global COUNT
    method, i = message.get("method"), message.get("id")
    if method is None:
        REPLY.update(message)
        ROOTS.set()
    elif i is None:
        if MODE == "answers_notes":
            send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
        if MODE == "dies_of_cancel" and method == "notifications/cancelled":
            os._exit(4)
    elif method == "initialize":
        if MODE == "slow_start":
            time.sleep(0.7)
        if MODE == "floods_first":
            raw((frame(note("notifications/message", {"data": "n" * 1000})) + b"\n") * 5_000)
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "naughty", "version": "1"}}
        if MODE == "refuses_initialize":
            send({"jsonrpc": "2.0", "id": i, "error": {"code": -32602, "message": "not you"}})
        else:
            send({"jsonrpc": "2.0", "id": i, "result": result})
    elif method == "ping":
        send({"jsonrpc": "2.0", "id": i, "result": {}})
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": i, "result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call" and message["params"]["name"] == "count":
        COUNT += 1
        send(answer(i, str(COUNT)))
    elif method == "tools/call" and message["params"]["name"] == "go":
        threading.Thread(target=go, args=(message,), daemon=True).start()
    elif method == "tools/call":
        send(answer(i, json.dumps(message["params"].get("arguments"))))
    else:
        send({"jsonrpc": "2.0", "id": i, "error": {"code": -32601, "message": "Method not found"}})


CAPABILITIES = begin()
for LINE in sys.stdin.buffer:
    take(json.loads(LINE), CAPABILITIES)
if MODE in ("ignore_everything", "ignore_eof"):
    while True:
        time.sleep(600)
