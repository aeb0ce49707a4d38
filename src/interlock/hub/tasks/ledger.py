"""Which tasks there are: whose, of which server, under which id there, and until when. In the store, read from memory.

An id of ours says nothing about the server's, and is good for its owner alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from interlock.protocols.mcp.tasks import Status, TaskState
from interlock.store import Collection, Mirror, Store
from interlock.wire.errors import Fault


class KeptTask(msgspec.Struct, frozen=True):
    """One task. What changes while it runs is kept only when it is over."""

    id: str
    owner: str
    server: str
    tool: str
    """With the server, the identity of the tool that was called."""
    theirs: str
    """Its id at the server."""
    modern: bool
    """Which of the two forms of tasks it was begun in."""
    expires: int
    """When it is forgotten, in milliseconds since 1970."""
    ttl_ms: int
    created_at: str
    updated_at: str
    status: Status = "working"
    poll_ms: int | None = None
    message: str | None = None
    trace: str = ""
    intent: int = 0
    """The place of the call's intent in the record."""
    lost: bool = False
    """Whether its server does not know it any more, so that its outcome is unknown."""

    @property
    def state(self) -> TaskState:
        """What its owner is told."""
        return TaskState(
            self.id, self.status, self.created_at, self.updated_at, self.ttl_ms, self.poll_ms, self.message
        )

    def now(self, state: TaskState) -> KeptTask:
        """The same in another state."""
        return msgspec.structs.replace(
            self,
            status=state.status,
            updated_at=state.updated_at,
            poll_ms=state.poll_ms,
            message=state.message,
        )


TASKS: Final = Collection("tasks", KeptTask, key="id", columns=("owner",))


def now_ms() -> int:
    """The time tasks go by: it must mean the same after a restart and on another node."""
    return int(time.time() * 1000)


class Ledger:
    """Every task of a hub. Used on the loop's thread, after `begin`."""

    def __init__(self, most: Callable[[], tuple[int, int]], clock: Callable[[], int] = now_ms) -> None:
        self._most = most
        self.clock = clock
        self._store: Store
        self._mirror: Mirror[KeptTask]
        self._known: dict[str, KeptTask] = {}
        self._owners: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._known)

    async def begin(self, store: Store) -> None:
        """Take up what the store holds."""
        self._store = store
        self._mirror = await store.mirror(TASKS)
        for task in self._mirror.values():
            self._follow(task.id, task)
        self._mirror.on_change(self._follow)

    # Looking

    def get(self, id: str) -> KeptTask | None:
        """A task by our id, while its time is not over."""
        task = self._known.get(id)
        return None if task is None or task.expires <= self.clock() else task

    def at_id(self, id: str) -> KeptTask | None:
        """The same, even if its time is over."""
        return self._known.get(id)

    def of(self, owner: str) -> list[KeptTask]:
        """An owner's tasks, the oldest first."""
        now = self.clock()
        mine = (task for task in self._known.values() if task.owner == owner and task.expires > now)
        return sorted(mine, key=lambda task: (task.created_at, task.id))

    def expired(self) -> list[KeptTask]:
        """Those whose time is over."""
        now = self.clock()
        return [task for task in self._known.values() if task.expires <= now]

    # Room

    def reserve(self, owner: str) -> bool:
        """Take room for a task that a call may become. False when everything is taken."""
        most, most_of_one = self._most()
        taken = len(self._known) + self._reserved.total()
        if taken >= most or self._owners[owner] + self._reserved[owner] >= most_of_one:
            return False
        self._reserved[owner] += 1
        return True

    def release(self, owner: str) -> None:
        """Give back room that was reserved: it is used now, or not needed."""
        self._reserved[owner] -= 1
        if self._reserved[owner] <= 0:
            del self._reserved[owner]

    # Changing

    async def add(self, task: KeptTask) -> None:
        """Keep a new task. It is in the store when this returns. Raises StoreError."""
        async with self._store.transaction() as change:
            change.insert(TASKS, task)

    async def put(self, task: KeptTask) -> None:
        """Keep what became of one."""
        if task.id in self._known:
            async with self._store.transaction() as change:
                change.put(TASKS, task)

    async def drop(self, tasks: Iterable[KeptTask]) -> None:
        """Forget them."""
        async with self._store.transaction() as change:
            for task in tasks:
                change.delete(TASKS, task.id)

    def _follow(self, id: str, task: KeptTask | None) -> None:
        before = self._known.pop(id, None)
        if before is not None:
            self._owners[before.owner] -= 1
            if not self._owners[before.owner]:
                del self._owners[before.owner]
        if task is not None:
            self._known[id] = task
            self._owners[task.owner] += 1


def full() -> Fault:
    """The answer where no more tasks are kept."""
    return Fault(
        "RESOURCE_EXHAUSTED",
        "too many tasks are kept",
        hint="wait until some have expired, or raise [hub.limits] tasks and tasks_per_agent",
        retry_after_ms=5000,
    )
