"""A thousand open approval requests are listed in parts over the API, and in short turns of the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from interlock.hub.admin.approvals import DEFAULT_MOST, ApprovalOperations, DecisionRows, ListDecisions
from interlock.hub.approvals.decision import DECISIONS, ApprovalRequest
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.passphrase import Passphrase
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.auth.principals import Principal
from interlock.process.turns import AT_ONCE
from interlock.store import Store
from turn_meter import metered

OWNER, ADMIN = Principal("owner", "person"), Principal("ops", "admin", key="a key")
OPEN = 1_000


class LongInbox:
    """An inbox that counts its looks at requests."""

    def __init__(self) -> None:
        self.looked = 0
        self.inbox = Inbox(lambda: 600, seal=ViewSeal(bytes(32)), still_allowed=self._still_allowed)
        self._operations = ApprovalOperations(self.inbox, Passphrase(lambda: "if-set"))

    async def list(self, by: Principal, **params: object) -> DecisionRows:
        return await self._operations.list(by, ListDecisions(**params), "")  # type: ignore[arg-type]

    def _still_allowed(self, question: ApprovalRequest) -> bool:
        self.looked += 1
        return True


@contextlib.asynccontextmanager
async def long_inbox(folder: Path) -> AsyncIterator[LongInbox]:
    store, made = await Store.open(folder / "hub.db", (DECISIONS, RULES)), LongInbox()
    await made.inbox.start(store)
    names = [f"p{number}" for number in range(OPEN)]
    await made.inbox.ask_all(ApprovalRequest("permission", "s", "server", "s", name, name, "", "") for name in names)
    try:
        yield made
    finally:
        await store.close()


async def test_the_api_lists_requests_in_parts_and_the_control_socket_all_in_short_turns(tmp_path: Path) -> None:
    async with long_inbox(tmp_path) as requests:
        for more in ({}, {"all": True}):
            seen: list[str] = []
            following: int | None = 0
            while following is not None:
                part = await requests.list(ADMIN, first=following, **more)
                assert (len(part.decisions), part.total) == (DEFAULT_MOST, OPEN)
                seen += [row.name for row in part.decisions]
                following = part.next
            assert sorted(seen) == sorted({*seen})
            assert len(seen) == OPEN
        with metered(lambda: requests.looked) as meter:
            assert len((await requests.list(OWNER)).decisions) == OPEN
            await asyncio.sleep(0)  # The meter looks at the last turn, too.
        assert meter.most <= AT_ONCE
