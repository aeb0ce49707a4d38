"""The forms of a list of tools for some clients: of older revisions, and with MGP's `security`.

Each tool is changed by itself, in short turns of the loop. The last few lists are kept.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.catalog.views import View
from interlock.hub.tool_search.security_listing import SecurityListing
from interlock.process.turns import in_turns
from interlock.protocols.mcp.older_revisions import OUTPUT_SCHEMA, older_tool
from interlock.protocols.mcp.revisions import Revision
from interlock.wire.large import JoinedArray
from interlock.wire.names import may_spell

MAX_KEPT: Final = 8
"""The number of lists. A list may have megabytes."""


class ListForm(msgspec.Struct, frozen=True):
    """How a client's list differs from the definitions of servers."""

    revision: Revision
    secured: View | None = None
    """The view, if the client gets `security`."""


class ListForms:
    """The forms of the lists of one hub."""

    def __init__(self, secured: SecurityListing, generation: PlanGeneration) -> None:
        self._secured = secured
        self._generation = generation
        self._cache: dict[tuple[JoinedArray, ListForm, int], JoinedArray] = {}

    def at_hand(self, form: ListForm, listed: JoinedArray) -> JoinedArray | None:
        """A list in a form, if it is known."""
        return self._cache.get(self._key(form, listed)) if _differs(form, listed) else listed

    async def make(self, form: ListForm, listed: JoinedArray) -> JoinedArray:
        """A list in a form, made in turns of the loop and kept."""
        known = self.at_hand(form, listed)
        if known is not None:
            return known
        key = self._key(form, listed)
        made = JoinedArray.of([self._changed(form, each) async for each in in_turns(listed.items())])
        if len(self._cache) >= MAX_KEPT:
            self._cache.clear()
        self._cache[key] = made
        return made

    def at_once(self, form: ListForm, listed: JoinedArray) -> JoinedArray:
        """The same in one turn, for a list that must not change before it is sent."""
        if not _differs(form, listed):
            return listed
        return JoinedArray.of([self._changed(form, each) for each in listed.items()])

    def _key(self, form: ListForm, listed: JoinedArray) -> tuple[JoinedArray, ListForm, int]:
        return (listed, form, 0 if form.secured is None else self._generation.number)

    def _changed(self, form: ListForm, definition: bytes) -> bytes:
        if form.secured is not None:
            definition = self._secured.with_security(form.secured, definition)
        return older_tool(form.revision, definition)


def _differs(form: ListForm, listed: JoinedArray) -> bool:
    return form.secured is not None or (not form.revision.modern and may_spell(listed.octets, OUTPUT_SCHEMA))
