"""MCP Live's scoped access: a server that edits files only where its host allows it, and asks before it does more.

Run it behind a hub with `interlock add ./examples/scoped_server.py`, and enable it: `interlock features enable
scoped_server "files.*" --agent NAME`. `[servers.scoped_server.scopes."files.edit"]` says which paths pass without a
question.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock import Server
from interlock.server import Context

server = Server("scoped", "1.0.0")
server.feature("files.edit", "Edit files on the filesystem", uses=["tools"], scoped=True, scope_label="{path}")
server.feature("files.index", "Tells when the index is ready", uses=["pushEvents"])


def add_line(file: Path, text: str) -> None:
    """Add a line to the end of a file."""
    with file.open("a") as opened:
        opened.write(text + "\n")


@server.tool(meta={"dev.interlock/featureSet": "files.edit"})
async def append(path: str, text: str, ctx: Context) -> str:
    """Append a line to a file, and to its journal beside it, if the host allows that."""
    if ctx.scope is None or ctx.scope.label != path:
        return "The host did not allow this path."
    journal = f"{path}.journal"
    asked = await ctx.elevate("files.edit", journal, {"path": journal, "mode": "append"})
    for each in [path, *([journal] if asked.approved else [])]:
        await asyncio.to_thread(add_line, Path(each), text)
    return f"Appended, with journal {asked.payload}." if asked.approved else f"Appended, no journal: {asked.reason}."


@server.tool
def build_index() -> bool:
    """Build the index: from then on hosts may enable searching."""
    server.feature("files.search", "Search files (index now ready)", uses=["tools"])
    return True


@server.tool
def drop_index() -> bool:
    """Drop the index, and with it the feature set."""
    server.remove_feature("files.search")
    return True


@server.tool
async def announce() -> list[bool]:
    """Push that the index is ready; whether each host accepted it."""
    return [answer.accepted for answer in await server.push("files.index", "The index is ready.", event_id="index-1")]


if __name__ == "__main__":
    server.run()
