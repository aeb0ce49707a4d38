"""Makes a hub's home with keys and grants in its store, as a platform's hub has them. Prints the key to call with."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from interlock.hub.auth.grants import GRANTS, Grant, grant_id
from interlock.hub.auth.keys import KEYS, Keys
from interlock.hub.foundation import COLLECTIONS
from interlock.store import Store

TOGETHER = 2_000
AGENT = "bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--servers", type=int, required=True)
    parser.add_argument("--others", type=int, default=0, help="keys of other agents, each with ten grants")
    options = parser.parse_args()
    print(asyncio.run(prepare(options.home, options.servers, options.others)))


async def prepare(home: Path, servers: int, others: int) -> str:
    """One key with a grant for each server, beside the keys and grants of others."""
    keys = Keys(home)
    text, own = keys.make(AGENT, "agent")
    agents = [own, *(keys.make(f"other{number}", "agent")[1] for number in range(others))]
    grants = [_grant(AGENT, f"s{server}") for server in range(servers)]
    grants += [_grant(key.principal, f"s{server}") for key in agents[1:] for server in range(10)]
    store = await Store.open(home / "hub.db", COLLECTIONS, backups=home / "backups")
    for start in range(0, len(agents), TOGETHER):
        async with store.transaction() as change:
            for key in agents[start : start + TOGETHER]:
                change.put(KEYS, key)
    for start in range(0, len(grants), TOGETHER):
        async with store.transaction() as change:
            for grant in grants[start : start + TOGETHER]:
                change.put(GRANTS, grant)
    await store.close()
    return text


def _grant(agent: str, server: str) -> Grant:
    return Grant("server_grant", agent, server, "allow", None, id=grant_id(agent, server, None, "allow"))


if __name__ == "__main__":
    main()
