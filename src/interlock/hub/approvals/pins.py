"""Pins: every tool is held to the whole definition it was approved with (rug pull).

A server of the operator's configuration is approved, and its tools are pinned when first seen. A tool whose definition
is another one later is neither listed nor called until a person has seen the difference; key order is no difference.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from interlock.config.settings import Mode
from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.catalog.offer import Offer, Tool
from interlock.protocols.mgp.permissions import Risk
from interlock.store import Collection, Store

MOST_PINS_PER_SERVER: Final = 200_000
"""A server that shows ever new names fills the store no further; what is new beyond that is left out."""
WRITTEN_AT_ONCE: Final = 1000
LONGEST_DIFF: Final = 20_000
LARGEST_KEPT: Final = 256 * 1024
"""A definition larger than this is pinned all the same, and only its difference cannot be shown."""
MOST_ASKED_AT_ONCE: Final = 200


class Pin(msgspec.Struct, frozen=True):
    """One tool as it was approved."""

    id: str
    server: str
    name: str
    fingerprint: str
    definition: str


PINS: Final = Collection("pins", Pin, key="id", columns=("server",))

Log = Callable[[str, str], None]


class Pins:
    """Takes in what servers offer, and hands on what is as it was approved."""

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
        self._pinned: dict[str, dict[str, str]] = {}
        """Fingerprints by server and tool name, as far as they were needed."""
        self._busy: dict[str, asyncio.Lock] = {}

    def begin(self, store: Store) -> None:
        """Keep pins here, and follow what is decided about changes."""
        self._store = store
        self._inbox.on_change(self._heard)

    async def take(self, offer: Offer) -> None:
        """Compare an offer with what is pinned, and show what may be shown of it."""
        async with self._busy.setdefault(offer.server, asyncio.Lock()):
            pinned = await self._known(offer.server)
            new = [tool for tool in offer.tools.values() if tool.name not in pinned]
            changed = [tool for tool in offer.tools.values() if tool.fingerprint() != pinned.get(tool.name, "")]
            changed = [tool for tool in changed if tool.name in pinned]
            room = MOST_PINS_PER_SERVER - len(pinned)
            for tool in new[max(room, 0) :]:
                offer.leave_out(tool, f"{tool.name}: more than {MOST_PINS_PER_SERVER} tools were seen of this server")
            await self._write(new[: max(room, 0)], pinned)
            await self._void_stale(offer)
            changed = await self._unless_approved(changed, pinned)
            if changed and self._mode() == "observe":
                for tool in changed[:MOST_ASKED_AT_ONCE]:
                    self._log(offer.server, f"would withhold {tool.name}: its definition is not the approved one")
            else:
                await self._withhold(offer, changed)
            await self._put(offer)

    async def _known(self, server: str) -> dict[str, str]:
        known = self._pinned.get(server)
        if known is None:
            found = await self._store.find(PINS, server=server)
            known = self._pinned[server] = {row.value.name: row.value.fingerprint for row in found}
        return known

    async def _write(self, tools: list[Tool], pinned: dict[str, str]) -> None:
        for start in range(0, len(tools), WRITTEN_AT_ONCE):
            part = tools[start : start + WRITTEN_AT_ONCE]
            pins = await asyncio.to_thread(_pins, part)
            async with self._store.transaction() as change:
                for pin in pins:
                    change.put(PINS, pin)
            pinned |= {pin.name: pin.fingerprint for pin in pins}

    async def _void_stale(self, offer: Offer) -> None:
        """Questions, approvals and tickets for a definition that is not offered any more hold for nothing."""
        now = {tool.name: tool.fingerprint() for tool in offer.tools.values()}
        for kind in ("changed_tool", "tool_call"):
            live = self._inbox.about(kind, offer.server)
            await self._inbox.void(old for old in live if now.get(old.question.name) != old.question.fingerprint)

    async def _unless_approved(self, changed: list[Tool], pinned: dict[str, str]) -> list[Tool]:
        """Pin anew what a person has approved; the approval is used up by that."""
        left: list[Tool] = []
        for tool in changed:
            decision = self._inbox.standing(self._question(tool, ""))
            if (
                decision is None
                or decision.state is not DecisionState.APPROVED
                or not await self._inbox.use(decision.id)
            ):
                left.append(tool)
                continue
            await self._write([tool], pinned)
            self._log(tool.server, f"{tool.name} was approved anew by {decision.answered_by}")
        return left

    async def _withhold(self, offer: Offer, changed: list[Tool]) -> None:
        questions = [self._question(tool, await self._difference(tool)) for tool in changed[:MOST_ASKED_AT_ONCE]]
        decisions = {found.question.name: found.id for found in await self._inbox.ask_all(questions)}
        for tool in changed:
            offer.withhold(tool, decisions.get(tool.name, ""))
            self._log(offer.server, f"{tool.name} is withheld: its definition is not the approved one")

    async def _difference(self, tool: Tool) -> str:
        known = await self._store.get(PINS, _key(tool))
        before = "" if known is None else known.value.definition
        return await asyncio.to_thread(difference, before, tool.definition.decode("utf-8", "replace"))

    def _question(self, tool: Tool, diff: str) -> Question:
        return Question(
            kind="changed_tool",
            asker=tool.server,
            asker_kind="server",
            server=tool.server,
            name=tool.name,
            shown=tool.exposed,
            text=f"{tool.exposed} is not the tool that was approved: its definition has changed.",
            rule="a tool is held to the definition it was approved with",
            fingerprint=tool.fingerprint(),
            summary=diff,
            risk=self._risk_of(tool).word,
        )

    def _heard(self, decision: Decision) -> None:
        """Look at the server's tools again when something was decided about one of them, or not decided in time."""
        if decision.question.kind == "changed_tool" and decision.state in (
            DecisionState.APPROVED,
            DecisionState.EXPIRED,
        ):
            self._relist(decision.question.server)


def difference(before: str, after: str) -> str:
    """Two definitions' difference, to be read by a person: what was there with `-`, what is there now with `+`."""
    if not before:
        return "The definition was too large to keep; only its fingerprint is known."
    import difflib  # rarely: only where a person is shown what changed

    lines = difflib.unified_diff(_lines(before), _lines(after), "approved", "now", lineterm="", n=1)
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_DIFF else f"{text[:LONGEST_DIFF]}\n[cut: {len(text)} characters]"


def _lines(definition: str) -> list[str]:
    value = msgspec.json.decode(definition)
    ordered = msgspec.json.encode(value, order="deterministic")
    return msgspec.json.format(ordered, indent=2).decode().splitlines()


def _pins(tools: list[Tool]) -> list[Pin]:
    return [_pin(tool) for tool in tools]


def _pin(tool: Tool) -> Pin:
    kept = tool.definition if len(tool.definition) <= LARGEST_KEPT else b""
    return Pin(_key(tool), tool.server, tool.name, tool.fingerprint(), kept.decode("utf-8", "replace"))


def _key(tool: Tool) -> str:
    return hashlib.sha256(msgspec.json.encode((tool.server, tool.name))).hexdigest()
