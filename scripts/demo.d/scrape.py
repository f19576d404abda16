"""Looks for tokens as malicious code does: by their form, wherever a process of this user may look.

    scrape.py SHA256 DIRECTORY...

The same program runs inside a box and on the host. It looks through the environment, command line and open
files of every process that it sees, through the files below the directories and, as long as the token with
this hash is not found, through every process's memory. It is not told the token, so it cannot find its own.
"""

import hashlib
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

TOKEN = re.compile(rb"demo-token-[0-9a-f]{32}")
CHUNK = 1 << 20

looked_at: Counter[str] = Counter()


def environments(process: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields what a process was started with."""
    for name in ("environ", "cmdline"):
        try:
            content = (process / name).read_bytes()
        except OSError:
            continue
        looked_at["environments" if name == "environ" else "command lines"] += 1
        yield process / name, content


def regular(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields the beginning of a file; pipes, sockets and devices are left alone."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                looked_at["files"] += 1
                yield path, file.read(CHUNK)
    except OSError:
        pass


def files(processes: list[Path], directories: list[str]) -> Iterator[tuple[Path, bytes]]:
    """Yields the kernel's keys, the files that processes hold open, and those below the directories."""
    yield from regular(Path("/proc/keys"))
    for process in processes:
        try:
            descriptors = list((process / "fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            yield from regular(descriptor)
    for directory in directories:
        for below, _, names in os.walk(directory):
            for name in names:
                yield from regular(Path(below, name))


def pieces(memory: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yields a stretch of memory, each piece with the end of the one before."""
    tail = b""
    for at in range(start, end, CHUNK):
        try:
            memory.seek(at)
            piece = memory.read(min(CHUNK, end - at))
        except (OSError, ValueError):
            return
        looked_at["KiB of memory"] += len(piece) // 1024
        yield tail + piece
        tail = piece[-64:]


def memory(process: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields what a process may write to in its memory: there its secrets are."""
    try:
        maps = (process / "maps").read_text().splitlines()
        with (process / "mem").open("rb", buffering=0) as file:
            for line in maps:
                span, rights = line.split()[:2]
                if "w" in rights:
                    start, end = (int(address, 16) for address in span.split("-"))
                    for piece in pieces(file, start, end):
                        yield process / "mem", piece
    except OSError:
        pass


def places(processes: list[Path], directories: list[str]) -> Iterator[tuple[Path, bytes]]:
    """Yields everything there is to look through, from the easy to the laborious."""
    for process in processes:
        yield from environments(process)
    yield from files(processes, directories)
    for process in processes:
        # Its own memory holds what it has just read elsewhere.
        if process.name != str(os.getpid()):
            yield from memory(process)


def owner(place: Path) -> str:
    """Returns the name of the process that a place below /proc belongs to."""
    try:
        return Path(*place.parts[:3], "comm").read_text().strip()
    except OSError:
        return "-"


def main(wanted: str, directories: list[str]) -> None:
    """Prints a line for each find, then what was looked through."""
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    seen: set[tuple[Path, bytes]] = set()
    found = False
    for place, content in places(processes, directories):
        if found and place.name == "mem":
            break
        for token in set(TOKEN.findall(content)):
            if (place, token) not in seen:
                seen.add((place, token))
                is_wanted = hashlib.sha256(token).hexdigest() == wanted
                found = found or is_wanted
                print("token" if is_wanted else "decoy", place, owner(place))
    print("looked through", ", ".join(f"{count} {what}" for what, count in looked_at.items()))


main(sys.argv[1], sys.argv[2:])
