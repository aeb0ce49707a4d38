"""Pins every tool to the whole definition it was approved with, against rug pulls.

A configured server is approved, and its tools are pinned when first seen. A tool whose definition changes later is
neither listed nor called until a person approves the difference. The order of keys does not matter.
Every hub of a store compares with the stored pins: the first pin and a person's approval hold for all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import msgspec

from interlock.config.settings import ServerSettings
from interlock.config.value_types import Mode
from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.full_view import MAX_CHARS
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.pinned_fingerprints import PinnedFingerprint, PinnedFingerprints
from interlock.hub.approvals.states import DecisionState
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.offer import Offer
from interlock.hub.repeated_commits import commit
from interlock.protocols.mgp.permissions import Risk
from interlock.store import Collection, Store, Transaction, documents
from interlock.store.database import Database

MAX_FINDINGS: Final = 8
"""Findings about a new definition that a request shows."""
MAX_PINS_PER_SERVER: Final = 200_000
"""The hub leaves out further tools, so that a server that keeps inventing names cannot fill the store."""
PINS_PER_COMMIT: Final = 250
"""Pins that one commit adds, few enough for one turn of the loop."""
MAX_SUMMARY: Final = 4_000
"""Characters of a difference in the summary of a request. The full view has all of it."""
MAX_LINES: Final = 4_000
"""Lines of a definition that can be compared. A longer definition is shown whole: comparing it would take long."""
VIEWS_PER_COMMIT: Final = 4 * MAX_CHARS
MAX_KEPT_BYTES: Final = 256 * 1024
"""A larger definition is pinned by its fingerprint alone: its difference cannot be shown."""
MAX_REQUESTS_AT_ONCE: Final = 200


class Pin(msgspec.Struct, frozen=True):
    """One approved tool."""

    id: str
    server: str
    name: str
    fingerprint: str
    definition: str
    limited: bool = False
    """Whether the server offered the tool only to some clients when it was pinned."""


PINS: Final = Collection("pins", Pin, key="id", columns=("server",))
FINGERPRINTS: Final = Collection(PINS.name, PinnedFingerprint, key=PINS.key, columns=PINS.columns)
"""The same documents without their definitions. Only for reading."""

Log = Callable[[str, str], None]


class Pins:
    """Compares the offers of servers with the pins, and passes on what is approved."""

    def __init__(
        self,
        inbox: Inbox,
        mode: Callable[[], Mode],
        put: Callable[[Offer], Awaitable[None]],
        relist: Callable[[str], None],
        risk_of: Callable[[Tool], Risk],
        log: Log,
    ) -> None:
        self._inbox = inbox
        self._mode = mode
        self._put = put
        self._relist = relist
        self._risk_of = risk_of
        self._log = log
        self._store: Store
        self._fingerprints = PinnedFingerprints(FINGERPRINTS)
        self._locks: dict[str, asyncio.Lock] = {}
        self._using: set[str] = set()
        """The approvals that this hub is using up."""

    def start(self, store: Store) -> None:
        self._store = store
        self._inbox.on_change(self._on_decision)

    async def take(self, offer: Offer) -> None:
        """Compare an offer with the pins, and pass on its approved tools."""
        async with self._locks.setdefault(offer.server, asyncio.Lock()):
            pinned = await self._fingerprints.of(self._store, offer.server)
            new = [tool for tool in offer.tools.values() if tool.name not in pinned]
            free = max(MAX_PINS_PER_SERVER - len(pinned), 0)
            for tool in new[free:]:
                offer.leave_out(tool, f"{tool.name}: this server has shown more than {MAX_PINS_PER_SERVER} tools")
            added: dict[str, str] = {}
            for start in range(0, min(len(new), free), PINS_PER_COMMIT):
                added |= await self._pin(new[start : min(start + PINS_PER_COMMIT, free)])
            pinned = {**pinned, **added} if added else pinned
            await self._void_stale(offer, pinned)
            changed = [tool for tool in offer.tools.values() if tool.fingerprint() != pinned[tool.name]]
            changed = await self._unless_approved(changed)
            if changed and self._mode() == "observe":
                for tool in changed[:MAX_REQUESTS_AT_ONCE]:
                    self._log(offer.server, f"would withhold {tool.name}: its definition is not the approved one")
            else:
                await self._withhold(offer, changed)
            await self._put(offer)

    async def _pin(self, tools: list[Tool]) -> dict[str, str]:
        """Pin tools that had no pin. Returns the pinned fingerprints by name: another hub may have been first."""
        pins = await asyncio.to_thread(_pins, tools)
        keys = [pin.id for pin in pins]

        async def write(change: Transaction) -> dict[str, str]:
            pinned = await self._store.read(lambda database: _pinned_as(database, keys))
            for pin in pins:
                if pin.name not in pinned:
                    change.insert(PINS, pin)
            return pinned

        return {pin.name: pin.fingerprint for pin in pins} | await commit(self._store, write)

    async def _void_stale(self, offer: Offer, pinned: Mapping[str, str]) -> None:
        """End requests and approvals for definitions that are no longer offered, or are pinned by now."""
        for kind in ("changed_tool", "tool_call"):
            live = [*self._inbox.about(kind, offer.server)]
            asked = {old.request.name for old in live}
            now = {tool.name: tool.fingerprint() for tool in offer.tools.values() if tool.name in asked} if live else {}
            await self._inbox.void(
                old
                for old in live
                if now.get(old.request.name) != old.request.fingerprint
                or (kind == "changed_tool" and pinned.get(old.request.name) == old.request.fingerprint)
            )

    async def _unless_approved(self, changed: list[Tool]) -> list[Tool]:
        """Pin the tools whose change a person has approved, which uses up the approval. Returns the others."""
        unapproved: list[Tool] = []
        for tool in changed:
            decision = self._inbox.current(self._request_about(tool, ""))
            if decision is not None and decision.state is DecisionState.APPROVED and await self._use(decision, tool):
                self._log(tool.server, f"{tool.name} was approved again by {decision.answered_by}")
            else:
                unapproved.append(tool)
        # Another hub may have used an approval, and pinned the definition, meanwhile.
        keys = [_key(tool) for tool in unapproved]
        pinned = await self._store.read(lambda database: _pinned_as(database, keys)) if keys else {}
        return [tool for tool in unapproved if tool.fingerprint() != pinned.get(tool.name)]

    async def _use(self, decision: Decision, tool: Tool) -> bool:
        """Use up an approval and pin the definition in one commit, so that no hub sees the one without the other."""
        (pin,) = await asyncio.to_thread(_pins, [tool])

        async def put(change: Transaction) -> None:
            change.put(PINS, pin)

        self._using.add(decision.id)
        try:
            return await self._inbox.use(decision.id, put)
        finally:
            self._using.remove(decision.id)

    async def _withhold(self, offer: Offer, changed: list[Tool]) -> None:
        decisions: dict[str, str] = {}
        requests: list[ApprovalRequest] = []
        views: dict[str, str] = {}
        requested = changed[:MAX_REQUESTS_AT_ONCE]
        for tool in requested:
            change = await self._difference(tool)
            request = self._request_about(tool, change, await asyncio.to_thread(_findings, tool.definition))
            requests.append(request)
            if len(change) <= MAX_CHARS:
                views[request.matter] = change
            if tool is requested[-1] or sum(map(len, views.values())) > VIEWS_PER_COMMIT:
                decisions |= {found.request.name: found.id for found in await self._inbox.ask_all(requests, views)}
                requests, views = [], {}
        for tool in changed:
            offer.withhold(tool, decisions.get(tool.name, ""))
            self._log(offer.server, f"{tool.name} is withheld: its definition is not the approved one")

    async def _difference(self, tool: Tool) -> str:
        known = await self._store.get(PINS, _key(tool))
        before = "" if known is None else known.value.definition
        return await asyncio.to_thread(difference, before, tool.definition.decode("utf-8", "replace"))

    def _request_about(self, tool: Tool, diff: str, findings: tuple[str, ...] = ()) -> ApprovalRequest:
        return ApprovalRequest(
            kind="changed_tool",
            asker=tool.server,
            asker_kind="server",
            server=tool.server,
            name=tool.name,
            shown=tool.exposed,
            text=f"The definition of {tool.exposed} has changed since it was approved.",
            rule="a tool is pinned to its approved definition",
            fingerprint=tool.fingerprint(),
            summary=diff if len(diff) <= MAX_SUMMARY else f"{diff[:MAX_SUMMARY]}\n[cut: {len(diff)} characters]",
            risk=self._risk_of(tool).word,
            findings=findings,
        )

    def _on_decision(self, decision: Decision) -> None:
        """List the server's tools again after a decision about one of them, or after its deadline.

        Another hub that uses up an approval pins the definition for this one, too.
        """
        used_elsewhere = decision.state is DecisionState.USED and decision.id not in self._using
        ended = decision.state in (DecisionState.APPROVED, DecisionState.EXPIRED)
        if decision.request.kind == "changed_tool" and (ended or used_elsewhere):
            self._relist(decision.request.server)


async def pinned_offer(store: Store, server: str, settings: ServerSettings) -> Offer | None:
    """The offer made from a server's pins; None without any.

    With it a server that starts on demand is found, listed and called before it runs. Its own offer replaces it.
    """
    pins = sorted((found.value for found in await store.find(PINS, server=server)), key=lambda pin: pin.name)
    definitions = [pin.definition.encode() for pin in pins if pin.definition and not pin.limited]
    if not definitions:
        return None
    whole = settings.whole_results
    return await asyncio.to_thread(make_offer, server, definitions, rules=settings.tools, whole_results=whole)


def _findings(definition: bytes) -> tuple[str, ...]:
    """The findings about a new definition. Because of them it may be quarantined even when it is approved."""
    # Imported late: the judge takes time and memory, and few definitions change.
    from interlock.judge.definitions import judge_definition

    found = judge_definition(msgspec.json.decode(definition))
    return tuple(f"{finding.rule}: {finding.message}" for finding in found[:MAX_FINDINGS])


def difference(before: str, after: str) -> str:
    """The difference of two definitions for a person to read: `-` for the approved, `+` for the new.

    It leaves out nothing that has changed. Where the definitions cannot be compared, it has the whole new one.
    """
    new = _lines(after)
    if not before:
        return "\n".join(("The approved definition was too large to keep. The whole new one:", *new))
    old = _lines(before)
    if max(len(old), len(new)) > MAX_LINES:
        both = ("The approved definition:", *old, "The new definition:", *new)
        if sum(map(len, both)) + len(both) <= MAX_CHARS:
            return "\n".join(both)
        return "\n".join(("The definitions are too large to compare. The whole new one:", *new))
    import difflib  # Loaded only when a definition changes.

    return "\n".join(difflib.unified_diff(old, new, "approved", "now", lineterm="", n=1))


def _lines(definition: str) -> list[str]:
    value = msgspec.json.decode(definition)
    ordered = msgspec.json.encode(value, order="deterministic")
    # Not `splitlines`: a line separator inside a text would look like the end of a member.
    return msgspec.json.format(ordered, indent=2).decode().split("\n")


def _pinned_as(database: Database, keys: Iterable[str]) -> dict[str, str]:
    """The fingerprints of some pins by name."""
    found = (documents.get(database, FINGERPRINTS, key) for key in keys)
    return {each.value.name: each.value.fingerprint for each in found if each is not None}


def _pins(tools: list[Tool]) -> list[Pin]:
    def definition(tool: Tool) -> str:
        return tool.definition.decode("utf-8", "replace") if len(tool.definition) <= MAX_KEPT_BYTES else ""

    return [
        Pin(_key(tool), tool.server, tool.name, tool.fingerprint(), definition(tool), tool.only_for is not None)
        for tool in tools
    ]


def _key(tool: Tool) -> str:
    return hashlib.sha256(msgspec.json.encode((tool.server, tool.name))).hexdigest()
