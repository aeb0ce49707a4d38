"""A hub without servers that makes one change of what it keeps, and kills itself at the first commit of that change.

Arguments: where the database is, the hub's home, and what to change.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from interlock.config.settings import Config, HubSettings, PermissionSettings, ServerSettings
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.people import ControlPeer
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.auth.principals import Principal
from interlock.store.writer import Done, Work, Writer

from .people import read_and_answer

ADA = Principal("person:ada", "person")
QUESTION = ApprovalRequest(
    "tool_call", "careful", "agent", "s", "echo", "s__echo", "May it?", "a rule", arguments_hash="x"
)
GRANT = {"entry_type": "tool_grant", "agent_id": "ci", "server_id": "s", "tool_name": "echo"}
SHELL = {"server": "s", "permissions": ["shell.execute"]}


async def change(where: str, home: Path, what: str) -> None:
    server = ServerSettings(
        command=("/nonexistent",), enabled=False, permissions=PermissionSettings(policy="interactive")
    )
    hub = HubApp(Config(hub=HubSettings(store=where), servers={"s": server}), home)
    await hub.start()
    before, act = deeds(hub)[what]
    await before()
    await hub.recorder.flushed()
    Writer.submit = killed  # type: ignore[method-assign]
    await act()
    await asyncio.sleep(30)


def deeds(hub: HubApp) -> dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]]:
    """By its name, what must be there first, and the change."""
    ask = lambda: hub.inbox.ask(QUESTION)  # noqa: E731
    operations = Operations(hub, lambda: None)

    def do(name: str, **params: object) -> Awaitable[object]:
        return operations.perform(ADA, name, msgspec.json.encode(params), peer=ControlPeer(terminal=True))

    grant = lambda: do("grants.grant", **GRANT, permission="allow")  # noqa: E731
    create = lambda: do("keys.create", agent="ci")  # noqa: E731
    approve = lambda: do("permissions.approve", **SHELL, terminal=True)  # noqa: E731

    async def answered() -> Decision:
        return await read_and_answer(hub.inbox, (await ask()).id, "once", ADA)

    async def ruled() -> None:
        await hub.inbox.make_rule((await answered()).id, ADA)

    last = lambda: list(hub.inbox.all(only_open=False))[-1].id  # noqa: E731
    return {
        "grant": (nothing, grant),
        "revoke": (grant, lambda: do("grants.revoke", **GRANT)),
        "create_key": (nothing, create),
        "rotate_key": (create, lambda: do("keys.rotate", agent="ci")),
        "revoke_key": (create, lambda: do("keys.revoke", agent="ci")),
        "approve": (nothing, approve),
        "revoke_permission": (approve, lambda: do("permissions.revoke", **SHELL)),
        "ask": (nothing, ask),
        "answer": (ask, lambda: read_and_answer(hub.inbox, last(), "always", ADA)),
        "use": (answered, lambda: hub.inbox.use(last())),
        "make_rule": (answered, lambda: hub.inbox.make_rule(last(), ADA)),
        "revoke_rule": (ruled, lambda: hub.inbox.revoke_rule(hub.inbox.rules()[0].id, ADA)),
    }


async def nothing() -> None:
    """Nothing has to be there first."""


submit = Writer.submit


def killed(writer: Writer, work: Work, done: Done) -> None:
    """Submit work after whose commit the process ends, before anything can follow it."""
    submit(writer, work, lambda result, error: os.kill(os.getpid(), signal.SIGKILL))


if __name__ == "__main__":
    asyncio.run(change(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
