"""The taint gate: after a result of an untrusted server, tools that change something ask a person (`taint = "ask"`).

It needs no detection of injected text. A server is untrusted unless the operator wrote `trust = "trusted"` for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from interlock.config.settings import ProfileSettings
from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check, Deliver, FleetingCheck, ResultProcessor
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.calls.delivery_rounds import settle
from interlock.hub.calls.gates.would_ask import Note, WouldAsk
from interlock.hub.calls.unchanged_results import UNCHANGED
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import SENT_KINDS, Target
from interlock.hub.sessions.session import Exchange, SessionCaller
from interlock.hub.taints import Taint, Taints
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Trust
from interlock.wire.errors import ErrorObject, Fault

RULE: Final = "taint: after a result of an untrusted server, tools that change something need approval"


class TaintPolicy:
    """Which profiles ask, and which servers are untrusted, by the configuration in force."""

    def __init__(
        self,
        profiles: Mapping[str, ProfileSettings],
        taints: Taints,
        trust_of: Callable[[str], Trust],
        risk_of: Callable[[Tool], Risk],
    ) -> None:
        self._asking = frozenset(name for name, profile in profiles.items() if profile.taint == "ask")
        self.taints = taints
        self._trust_of = trust_of
        self._risk_of = risk_of

    @property
    def on(self) -> bool:
        """Whether any profile asks. Then every principal's results count: it may use an asking profile later."""
        return bool(self._asking)

    def asks(self, caller: SessionCaller) -> bool:
        """Whether the profile of a caller asks."""
        return caller.view.profile in self._asking

    def trusts(self, server: str) -> bool:
        """Whether the results of a server taint nobody."""
        return self._trust_of(server) is Trust.TRUSTED

    def changes(self, target: Target) -> bool:
        """Whether a call may write, send or spend: every tool whose risk is not `safe`."""
        if target.tool is None:
            return target.kind in SENT_KINDS
        return self._risk_of(target.tool) is not Risk.SAFE

    def processor(self, caller: SessionCaller, target: Target, inner: ResultProcessor | None) -> ResultProcessor | None:
        """The processor that notes what a caller is given."""
        if not self.on or caller.principal.kind == "person" or not target.server:
            return inner
        return TaintingProcessor(caller, target, inner or UNCHANGED, self)

    def note_text(
        self,
        caller: SessionCaller,
        server: str,
        method: str,
        then: Callable[[], None] | None = None,
        request: Exchange | Call | None = None,
    ) -> None:
        """A client is about to be given text of a server that answers no call: a request or a notification.

        It counts at once; `then` follows once that is stored. `request` is answered if that fails.
        """
        if self.on and caller.principal.kind != "person" and not self.trusts(server):
            target = Target("server", server, method)
            self.taints.add(caller, target, asking=self.asks(caller), then=then, request=request)
        elif then is not None:
            then()

    async def note_delivery(
        self, principal: Principal, servers: Iterable[str], method: str, profile: str | None = None
    ) -> None:
        """A principal is about to be given text of servers that answers no call. Returns once that is stored. Raises a
        `Fault`.

        `profile` is that of the address; an inference has none, and the principal's own counts.
        """
        if not self.on or principal.kind == "person":
            return
        recipient, asking = _Recipient(principal), (profile or principal.profile) in self._asking
        loop, waiting = asyncio.get_running_loop(), []
        for server in sorted({server for server in servers if not self.trusts(server)}):
            waiting.append(stored := loop.create_future())
            settled, target = partial(settle, stored), Target("server", server, method)
            self.taints.add(recipient, target, asking=asking, then=settled, failed=settled)
        await asyncio.gather(*waiting)


class _Recipient(msgspec.Struct, frozen=True):
    """A principal without a call: in an inference, or with a subscription to events."""

    principal: Principal

    @property
    def principal_name(self) -> str:
        return self.principal.name


class TaintGate:
    """Asks before tools that change something, while the context of their caller is tainted."""

    name = "taint"

    def __init__(self, policy: TaintPolicy, mode: Mode, note: Note) -> None:
        self._policy = policy
        self._mode = mode
        self._note = note

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """No verdict: the address of the caller and its last results decide."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """The check for tools that change something, where a profile asks. A taint makes no plan old."""
        if not self._policy.on or not self._policy.changes(target):
            return None
        if self._mode == "observe":
            return WouldAsk(self._note, lambda call: RULE if self._taint_of(call) is not None else "")
        return FleetingCheck(self._check)

    def _check(self, call: Call) -> Verdict:
        taint = self._taint_of(call)
        if taint is None:
            return PASS
        principal = call.caller.principal
        return Ask(f"{call.target.shown} needs a person's approval: {_why(taint, principal)}", RULE, every_time=True)

    def _taint_of(self, call: Call) -> Taint | None:
        """The taint because of which a call is asked about."""
        caller = call.caller
        taint = self._policy.taints.of(caller.principal_name)
        if taint is None or caller.principal.kind == "person":
            return None
        return taint if taint.asking or self._policy.asks(caller) else None


def _why(taint: Taint, principal: Principal) -> str:
    if not taint.sources:
        return f"a stored taint cannot be read, and it may be of {principal.id}."
    # In a fixed order, so that the text of an approval request stays the same.
    sources = ", ".join(sorted({source.shown for source in taint.sources}))
    return f"{principal.id} was given results of servers that are not trusted ({sources})."


class TaintingProcessor:
    """Notes that a caller is given text of an untrusted server, before the caller has it."""

    def __init__(self, caller: SessionCaller, target: Target, inner: ResultProcessor, policy: TaintPolicy) -> None:
        self._caller = caller
        self._target = target
        self._inner = inner
        self._policy = policy

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        """Deliver a result once the taint is stored, so that other nodes and a later run know it."""
        self._taint(call, partial(self._inner.finish, call, result, deliver, on_unwanted))

    def chunks(self, call: Call) -> ChunkFilter:
        self._taint()
        return self._inner.chunks(call)

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        self._taint(call, partial(self._inner.error, call, error, deliver))

    def params(self, params: bytes) -> bytes:
        self._taint()
        return self._inner.params(params)

    def _taint(self, call: Call | None = None, then: Callable[[], None] | None = None) -> None:
        policy = self._policy
        if not policy.trusts(self._target.server):
            failed = None if call is None else partial(_withhold, call)
            policy.taints.add(
                self._caller, self._target, asking=policy.asks(self._caller), then=then, failed=failed, request=call
            )
        elif then is not None:
            then()


def _withhold(call: Call, fault: Fault) -> None:
    """Answer a call that was made, in place of its result: the next run and other nodes would not know of its text."""
    shown = call.target.shown
    message = f"{shown} was called and answered, but the answer is withheld: its taint could not be stored, since "
    call.exchange.fail(
        Fault(
            "OUTCOME_UNKNOWN",
            message + fault.message,
            hint="the operator has to repair the store; look what the call did before you repeat it",
            operator_text=fault.operator_text,
        )
    )
