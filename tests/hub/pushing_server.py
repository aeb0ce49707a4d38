"""A server written with the library that pushes an event for each call of its tool."""

from __future__ import annotations

import sys

import msgspec

from interlock.server import Server

server = Server("pushing")
server.feature("builds.finished", "Tells when a build is finished")
server.feature("builds.started", "Tells when a build is started")
changes: list[list[str]] = []


@server.on_features
async def changed(enabled: frozenset[str]) -> None:
    changes.append(sorted(enabled))


@server.tool
async def build(number: int, feature: str = "builds.finished") -> str:
    """Build, and push that it is done."""
    answers = await server.push(feature, f"Build {number} is done.", event_id=f"build-{number}", origin={"n": number})
    return msgspec.json.encode(answers).decode()


@server.tool
async def seen() -> list[list[str]]:
    """The feature sets that were enabled, change by change."""
    return changes


@server.tool
async def late() -> bool:
    """Declare a feature set while a host is there."""
    server.feature("builds.late", "Declared late")
    return True


@server.tool
async def less() -> bool:
    """Withdraw that feature set."""
    server.remove_feature("builds.late")
    return True


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run_http(port=int(sys.argv[1]))
    else:
        server.run()
