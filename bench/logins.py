"""Soak: a thousand refreshes at a real authorization server, with calls in parallel and restarts of the hub in between.

Refresh tokens rotate, and a spent one that is used again ends the login: every failure shows. Prints what happened, and
ends with 1 if a call failed or a person was needed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from hub.running_hub import RawClient, running_hub
from hub.test_server_logins import go
from interlock.config.settings import ServerSettings
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.oauth.tokens import Tokens
from real_authorization_server import agree, authorization_server

PARALLEL = 10
RESTARTS = 10


async def soak(refreshes: int, age_s: float) -> int:
    calls = failed = 0
    Tokens.due = lambda tokens, now: now > tokens.received_at + age_s  # type: ignore[method-assign]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        async with authorization_server(5, 30) as resource:
            docs = {"docs": ServerSettings(url=resource.url)}
            for run in range(RESTARTS):
                async with running_hub(Path(home), docs, wait=False) as hub:
                    if not run:
                        await hub.state("docs", ServerState.ERROR)
                        page = await hub.operate("logins.begin", server="docs")
                        await go(await agree(page["url"]))
                    await hub.state("docs", ServerState.CONNECTED)
                    client = RawClient(f"{hub.url}/mcp")
                    while len({*resource.authorized}) < refreshes * (run + 1) / RESTARTS:
                        asked = {"name": "docs__whoami", "arguments": {}}
                        answers = await asyncio.gather(*(client.modern("tools/call", asked) for _ in range(PARALLEL)))
                        calls += len(answers)
                        failed += sum("you are alice" not in str(answer) for answer in answers)
            tokens = len({*resource.authorized} - {""})
    took = time.monotonic() - began
    print(f"{tokens} tokens, {calls} calls, {failed} failed, {RESTARTS} runs of the hub, {took:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refreshes", type=int, default=1_000)
    parser.add_argument("--age", type=float, default=0.01, help="seconds after which a token is renewed")
    options = parser.parse_args()
    sys.exit(asyncio.run(soak(options.refreshes, options.age)))
