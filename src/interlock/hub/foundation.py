"""What every part of a hub stands on: the configuration as it is now, what survives, and where things are noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from interlock.config.settings import Config
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.pins import PINS
from interlock.hub.approvals.rules import RULES
from interlock.hub.audit.heads import ALONE, head_path, node_name
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEY_USES, KEYS
from interlock.hub.calls.plan import PolicyVersion
from interlock.hub.catalog.clean_definitions import CLEAN
from interlock.hub.discovery_tools.learning import LEARNED
from interlock.hub.journal import Journal
from interlock.hub.permissions.entries import ENTRIES as PERMISSIONS
from interlock.hub.tasks.ledger import TASKS
from interlock.hub.tool_search.embeddings import EMBEDDINGS
from interlock.hub.upstreams.audit_receivers import CURSORS
from interlock.hub.upstreams.logs import Logs
from interlock.judge.secrets import redact
from interlock.store import Collection, Store
from interlock.transports.resolving import Resolver

COLLECTIONS: Final[tuple[Collection[Any], ...]] = (
    KEYS,
    KEY_USES,
    GRANTS,
    DECISIONS,
    RULES,
    PINS,
    CLEAN,
    CURSORS,
    TASKS,
    PERMISSIONS,
    EMBEDDINGS,
    LEARNED,
)
"""Every collection that the hub keeps in its store."""


class Foundation:
    """The ground of one hub."""

    def __init__(self, config: Config, home: Path) -> None:
        self.config = config
        self.home = home
        self.policy_version = PolicyVersion()
        self.logs = Logs()
        self.resolver = Resolver()
        self.store: Store
        """What survives. Opened by `begin`."""
        self.recorder: Recorder
        """What happened. Opened by `begin`."""
        self.node = ALONE
        """What this hub's chain of records is called."""
        self.journal = Journal(lambda: self.recorder)

    async def begin(self) -> Path:
        """Open the store and the record. Gives where the head of the record is kept beside it."""
        where = store_of(self.config, self.home)
        self.store = await Store.open(where, COLLECTIONS, backups=self.home / "backups")
        self.node = node_name(self.config.hub.node, self.home, where)
        head = head_path(self.home, self.node)
        self.recorder = await Recorder.open(self.store, self.node, head, redact_with=redact)
        return head

    def note(self, server: str, text: str) -> None:
        """A line for the operator."""
        self.logs.add(server, "hub", text)


def store_of(config: Config, home: Path) -> str:
    """Where a hub keeps what must survive."""
    return config.hub.store or str(home / "hub.db")
