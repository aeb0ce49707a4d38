"""Operations on taints: who was given results of untrusted servers, and ending that.

Only a person ends it: over the control socket one at a terminal, over the API the holder of a key.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from interlock.hub.admin.operation import ControlFlag, Nothing, Secret, Text
from interlock.hub.admin.people import need_person
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.taints import Taint


class TaintOperations:
    """The operations on the taints of one hub's principals."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def list(self, by: Principal, params: Nothing, trace: str) -> TaintRows:
        """Every principal whose tools may ask, with the calls that its context holds text of."""
        return TaintRows([self._row(taint) for taint in self._hub_app.taints.all()])

    async def clear(self, by: Principal, params: ClearTaint, trace: str) -> TaintRow:
        """End the taint of a principal, whose context holds no such text any more."""
        hint = "run `interlock taints clear` in a terminal"
        present = params.terminal or params.console
        await need_person(self._hub_app, by, "clearing a taint", hint, present=present, passphrase=params.passphrase)
        principal_name = params.agent if ":" in params.agent else f"agent:{params.agent}"
        return self._row(await self._hub_app.taints.clear(by, principal_name, params.because, trace))

    def _row(self, taint: Taint) -> TaintRow:
        kind, _, agent = taint.principal_name.partition(":")
        ends = self._hub_app.taints.ends(taint)
        until = None if ends is None else datetime.fromtimestamp(ends, UTC)
        sources = [TaintSource(each.server, each.name, datetime.fromtimestamp(each.at, UTC)) for each in taint.sources]
        return TaintRow(agent, kind, sources, until, taint.asking)


class ClearTaint(msgspec.Struct):
    """The agent, or a principal with its kind such as `service:ci`."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    because: Text = ""
    passphrase: Secret = ""
    """Where the hub has one."""
    terminal: ControlFlag = False
    console: ControlFlag = False
    """A person in the console, which admits nobody else."""


class TaintSource(msgspec.Struct):
    """A call whose answer the principal was given."""

    server: str
    name: str
    at: datetime


class TaintRow(msgspec.Struct):
    """A principal that was given results of untrusted servers."""

    agent: str
    kind: str
    sources: list[TaintSource]
    """The last ones, the newest first."""
    until: datetime | None
    """None where its stored entry cannot be read: then it counts until a backup is restored."""
    asks: bool
    """Whether its tools ask at every address; otherwise only in profiles with `taint = "ask"`."""


class TaintRows(msgspec.Struct):
    """Tainted principals, the newest first."""

    taints: list[TaintRow]
