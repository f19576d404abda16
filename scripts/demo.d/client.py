"""An MCP client of the official Python SDK: all it knows of its servers is a client's usual configuration.

Adds a line to a file by one server's tools, asks the other for its own environment, and writes to REPORT what
this process and its children have in their command lines and environments, and which token the server has.
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent


@asynccontextmanager
async def connect(server: StdioServerParameters) -> AsyncIterator[ClientSession]:
    """Starts what the configuration names and shakes hands with it."""
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


def text_of(result: CallToolResult) -> str:
    """Returns a result's text; a tool that says it failed ends the client."""
    text = "".join(part.text for part in result.content if isinstance(part, TextContent))
    if result.isError:
        sys.exit(f"client: the tool refused: {text}")
    return text


async def print_tools(name: str, session: ClientSession) -> None:
    """Prints what a server offers."""
    names = [tool.name for tool in (await session.list_tools()).tools]
    print(f'"{name}" offers {len(names)} tools: {", ".join(names[:4])}, ...')


def known_here() -> str:
    """Returns the command line and environment of this process and of its children, as the kernel has them."""
    processes = ["self", *Path("/proc/thread-self/children").read_text().split()]
    files = [Path("/proc", process, name) for process in processes for name in ("cmdline", "environ")]
    return "\n".join(path.read_bytes().replace(b"\0", b" ").decode(errors="replace") for path in files)


async def main(config: str, report: str, file: str, line: str) -> None:
    """Talks to both servers."""
    entries = json.loads(Path(config).read_text())["mcpServers"]
    servers = {name: StdioServerParameters(**entry) for name, entry in entries.items()}

    async with connect(servers["files"]) as files, connect(servers["keeper"]) as keeper:
        await print_tools("files", files)
        before = text_of(await files.call_tool("read_text_file", {"path": file}))
        added = {"path": file, "content": before.removesuffix("\n") + f"\n{line}\n"}
        print(f'"files", write_file: {text_of(await files.call_tool("write_file", added))}')

        await print_tools("keeper", keeper)
        environment: dict[str, str] = json.loads(text_of(await keeper.call_tool("get-env", {})))
        print(f'"keeper", get-env: {", ".join(environment)}')

        fingerprint = hashlib.sha256(environment.get("DEMO_TOKEN", "").encode()).hexdigest()
        Path(report).write_text(f"token {fingerprint}\n{known_here()}\n")


asyncio.run(main(*sys.argv[1:]))
