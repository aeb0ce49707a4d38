"""The shared base of a hub's parts: the current configuration, the store, the audit log and the hub's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from interlock.config.settings import Config
from interlock.events import Bus
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.passphrase import ATTEMPTS, PASSPHRASES
from interlock.hub.approvals.permission_entries import ENTRIES as PERMISSIONS
from interlock.hub.approvals.pins import PINS
from interlock.hub.approvals.policy_version import PolicyVersion
from interlock.hub.approvals.rules import RULES
from interlock.hub.approvals.sealed_views import VIEWS
from interlock.hub.audit.commit_publisher import CommitPublisher
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.heads import UNSHARED, head_path, node_name
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEY_USES, KEYS
from interlock.hub.auth.sealed_with import SEALED_WITH
from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.catalog.clean_definitions import CLEAN
from interlock.hub.catalog.remembered_audiences import FOR_SOME
from interlock.hub.conversation_documents import CONVERSATIONS, INFERENCES, TURN_LEASES, TURNS
from interlock.hub.journal import Journal
from interlock.hub.live.channels import CHANNEL_CONVERSATIONS
from interlock.hub.live.events.documents import LIVE_PENDING, LIVE_SEEN, LIVE_WAKES, UNSENT_WAKES
from interlock.hub.live.events.touches import LIVE_TOUCHED
from interlock.hub.live.feature_entry import FEATURES
from interlock.hub.live.server_states import STATE_TREES
from interlock.hub.node_id import node_id
from interlock.hub.room_documents import HISTORY_HEADS, HISTORY_SEGMENTS, ROOM_CAPABILITIES
from interlock.hub.sealing_key import claim_store
from interlock.hub.taints import TAINTS
from interlock.hub.tasks.ledger import TASKS
from interlock.hub.tool_search.creations import CREATIONS
from interlock.hub.tool_search.embeddings import EMBEDDINGS
from interlock.hub.tool_search.learning import LEARNED
from interlock.hub.upstreams.audit_receivers import CURSORS
from interlock.hub.upstreams.login_records import LOGINS
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.registration.registration import REGISTRATIONS
from interlock.judge.secrets import redact
from interlock.store import Collection, Store, StoreError
from interlock.transports.resolving import Resolver
from interlock.wire.ids import Worker

COLLECTIONS: Final[tuple[Collection[Any], ...]] = (
    KEYS,
    KEY_USES,
    SEALED_WITH,
    GRANTS,
    DECISIONS,
    VIEWS,
    RULES,
    PASSPHRASES,
    ATTEMPTS,
    PINS,
    CLEAN,
    FOR_SOME,
    CURSORS,
    TASKS,
    PERMISSIONS,
    EMBEDDINGS,
    LEARNED,
    ROOM_CAPABILITIES,
    REGISTRATIONS,
    CREATIONS,
    HISTORY_HEADS,
    HISTORY_SEGMENTS,
    FEATURES,
    LIVE_SEEN,
    LIVE_PENDING,
    LIVE_WAKES,
    UNSENT_WAKES,
    LIVE_TOUCHED,
    TAINTS,
    LOGINS,
    CONVERSATIONS,
    TURNS,
    TURN_LEASES,
    INFERENCES,
    STATE_TREES,
    CHANNEL_CONVERSATIONS,
)
"""Every collection in the hub's store."""


class Foundation:
    """The shared base of one hub's parts. `open` opens store and recorder."""

    def __init__(self, config: Config, home: Path) -> None:
        self.config = config
        self.home = home
        self.worker = Worker(node_id(home))
        """The node and worker that ids of sessions, parked calls and tasks name."""
        self.plan_generation = PlanGeneration()
        self.bus = Bus()
        self.counts = Counts()
        self.logs = Logs(self.bus)
        self.policy_version = PolicyVersion(self.bus)
        self.resolver = Resolver()
        self.store: Store
        self.recorder: Recorder
        self.node = UNSHARED
        """The name of this hub's audit chain."""
        self.journal = Journal(lambda: self.recorder)

    async def open(self) -> Path:
        """Open the store and the audit log. Returns the path of the head file."""
        where = store_of(self.config, self.home)
        self.node = node_name(self.config.hub.node, self.home, where)
        # In its own home the hub holds the lock of the home already.
        held = None if self.config.hub.store is None else self.node
        self.store = await Store.open(where, COLLECTIONS, backups=self.home / "backups", node=held)
        try:
            await claim_store(self.store, self.config, self.home)
        except StoreError:
            await self.store.close()
            raise
        if (upgrade := self.store.upgrade) is not None:
            self.log(
                "hub",
                f"the store was upgraded from schema {upgrade.before} to {upgrade.after}; backup in {upgrade.backup}",
            )
        head = head_path(self.home, self.node)
        publisher = CommitPublisher(self.bus, None if self.config.hub.metrics == "off" else self.counts)
        self.recorder = await Recorder.open(self.store, self.node, head, redact=redact, publisher=publisher)
        self.recorder.show_arguments(self.config.audit.arguments == "redacted")
        await self.policy_version.start(self.store)
        return head

    def log(self, server: str, text: str) -> None:
        """Add a line to the log of a server, or of `hub`."""
        self.logs.add(server, "hub", text)


def store_of(config: Config, home: Path) -> str:
    """The address of the hub's store."""
    return config.hub.store or str(home / "hub.db")
