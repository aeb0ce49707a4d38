"""Autobahn's cases for WebSocket servers, against the hub's own WebSocket with an echo in the place of a room.

    python bench/autobahn.py --wstest PATH [--cases 1.* 2.*] [--json FILE]

`wstest` is the program of PyPI's `autobahntestsuite`, which needs Python 2.7 in an environment of its own:

    virtualenv -p python2.7 .bench/autobahn && .bench/autobahn/bin/pip install autobahntestsuite

Sections 12 and 13 are left out: they are about compression, which the hub never agrees on. The bounds of a message are
raised to 32 MB, since section 9 echoes 16 MB. Ends with 1 where a case fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from websockets.frames import Frame, Opcode

from interlock.server import Server
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start
from interlock.transports.http.server.upgrades import UpgradeRequest
from interlock.transports.websocket import WebSocketBounds, WebSocketConnection, accept
from interlock.transports.websocket_frames import MessageOutcome
from interlock.wire.limits import DEFAULT

CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"]
BOUNDS = WebSocketBounds(message_bytes=32 * 1024 * 1024, unread_bytes=64 * 1024 * 1024)
GOOD = ("OK", "INFORMATIONAL", "NON-STRICT", "UNIMPLEMENTED")


class Echo:
    """Sends every message back (`websocket.MessageReceiver`)."""

    def __init__(self, answer: bytes) -> None:
        self.connection = WebSocketConnection(answer, self, BOUNDS)

    def on_open(self) -> None:
        pass

    def on_frame(self) -> bool:
        return True

    def on_message(self, data: bytes, binary: bool) -> MessageOutcome:
        self.connection.send(Frame(Opcode.BINARY if binary else Opcode.TEXT, data).serialize(mask=False))
        return MessageOutcome.ACCEPTED

    def on_unread(self) -> None:
        self.connection.close(1008, "too much is unread")

    def on_lost(self) -> None:
        pass


class EchoUpgrader:
    """Takes over the connections of `/ws` (`transports.http.server.upgrades.Upgrader`)."""

    path = "/ws"

    def admit(self, request: UpgradeRequest) -> WebSocketConnection:
        return Echo(accept(request.target, request.headers, None)).connection


async def nothing_else(scope: object, receive: object, send: object) -> None:
    """The application beside `/ws`: none."""


async def run(wstest: str, cases: list[str], folder: Path) -> dict[str, str]:
    """Run the cases. Returns the outcome of each."""
    server = Server("echo")
    http = await start(McpEndpoint(server, DEFAULT), nothing_else, upgrader=EchoUpgrader())
    spec = {
        "outdir": str(folder / "reports"),
        "servers": [{"agent": "interlock", "url": f"ws://127.0.0.1:{http.port}/ws"}],
        "cases": cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    }
    (folder / "fuzzingclient.json").write_text(json.dumps(spec))
    process = await asyncio.create_subprocess_exec(
        wstest, "-m", "fuzzingclient", "-s", str(folder / "fuzzingclient.json"), cwd=folder, stdout=sys.stderr
    )
    await process.wait()
    await http.stop(1)
    server.close()
    said = json.loads((folder / "reports" / "index.json").read_text())["interlock"]
    return {case: outcome["behavior"] for case, outcome in said.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wstest", required=True, help="the program of autobahntestsuite")
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--json", type=Path, help="write the outcome of each case to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = asyncio.run(run(str(Path(given.wstest).absolute()), given.cases, Path(folder)))
    if given.json is not None:
        given.json.write_text(json.dumps(outcomes, indent=1) + "\n")
    print(f"{len(outcomes)} cases:", ", ".join(f"{count} {name}" for name, count in Counter(outcomes.values()).items()))
    failed = sorted(case for case, outcome in outcomes.items() if outcome not in GOOD)
    for case in failed:
        print(f"{case}: {outcomes[case]}")
    sys.exit(1 if failed or not outcomes else 0)


if __name__ == "__main__":
    main()
