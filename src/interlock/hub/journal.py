"""Everything in the record that is not a call: grants, keys, decisions, rules, servers, the configuration.

One method for each kind of thing that happens. What changes something that the hub keeps is recorded in the same
commit: those methods give the record, for the transaction that makes the change. The others write what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.rules import Rule
from interlock.hub.approvals.states import DecisionState as DecisionState
from interlock.hub.audit.entries import event_record
from interlock.hub.audit.record import (
    ACCESS_DENIED,
    CONFIGURED,
    DECISION,
    KEY_CREATED,
    KEY_REVOKED,
    KEY_ROTATED,
    RULE_MADE,
    RULE_REVOKED,
    SERVER_STATE,
    Record,
)
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.grants import Grant
from interlock.hub.auth.keys import Key
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

MOST_NAMED: Final = 50
"""Of a long list, so many are named in one record."""

PermissionEvent: TypeAlias = Literal["PERMISSION_GRANTED", "PERMISSION_DENIED", "PERMISSION_REVOKED"]
_FORBIDDEN: Final = frozenset({"PERMISSION_DENIED", "ACCESS_DENIED", "INSUFFICIENT_SCOPE"})
_AWAY: Final = (ServerState.ERROR, ServerState.DISCONNECTED, ServerState.DRAINING)


class Journal:
    """Writes to the one record."""

    def __init__(self, recorder: Callable[[], Recorder]) -> None:
        self._recorder = recorder

    def granted(self, by: Principal, grant: Grant, trace: str = "") -> Record:
        """An agent is allowed something, or denied it."""
        event = "ACCESS_GRANTED" if grant.permission == "allow" else ACCESS_DENIED
        return _access(event, by, grant, trace)

    def revoked(self, by: Principal, grant: Grant, trace: str = "") -> Record:
        """What was said of an agent's access is taken back."""
        return _access("ACCESS_REVOKED", by, grant, trace)

    def permission(
        self, event: PermissionEvent, by: Principal, server: str, permission: str, rule: str, trace: str = ""
    ) -> Record:
        """What a server may do is decided, or taken back."""
        return event_record(event, by, Target("server", server, ""), trace, rule, details={"permission": permission})

    def settled(self, event: PermissionEvent, by: Principal, server: str, permission: str, rule: str) -> None:
        """What a server may do follows from the configuration, a policy, or what was said before."""
        self._recorder().add(self.permission(event, by, server, permission, rule))

    def key_created(self, by: Principal, key: Key, trace: str = "") -> Record:
        """There is a new key."""
        return _key(KEY_CREATED, by, key.principal, [key], trace)

    def keys_revoked(self, by: Principal, principal: str, keys: Sequence[Key], trace: str = "") -> Record:
        """A principal's keys are worth nothing any more."""
        return _key(KEY_REVOKED, by, principal, keys, trace)

    def key_rotated(self, by: Principal, fresh: Key, gone: Sequence[Key], trace: str = "") -> Record:
        """One new key takes the place of all those of a principal."""
        return _key(KEY_ROTATED, by, fresh.principal, [fresh], trace, [key.shown for key in gone])

    def decided(self, decision: Decision, by: Principal) -> Record:
        """A question is opened, answered, used up, or over."""
        asked, state = decision.question, decision.state
        event = DECISION + ("opened" if state is DecisionState.OPEN else state.value)
        told: dict[str, object] = {"decision": decision.id, "kind": asked.kind, "asked_by": asked.asker}
        if asked.risk:
            told["risk_level"] = asked.risk
        if asked.arguments_hash:
            told["judged_arguments_sha256"] = asked.arguments_hash
        if asked.fingerprint:
            told["definition_sha256"] = asked.fingerprint
        if decision.answer:
            told |= {"answer": decision.answer, "answered_by": decision.answered_by, "where": decision.answered_in}
        target = Target("tool" if asked.name else "server", asked.server, asked.name)
        return event_record(event, by, target, asked.trace, rule=asked.rule, reason=asked.text, details=told)

    def rule(self, rule: Rule, by: Principal, made: bool) -> Record:
        """From now on a call is allowed without asking, or it is asked again."""
        told = {"rule": rule.id, "agent_id": rule.asker, "decisions": list(rule.decisions[:MOST_NAMED])}
        event, target = RULE_MADE if made else RULE_REVOKED, Target("tool", rule.server, rule.name)
        return event_record(event, by, target, rule=f"rule {rule.id}", reason=rule.explain(), details=told)

    def refused(self, by: Principal, what: str, fault: Fault, trace: str = "") -> None:
        """Someone who is known tried what runs the hub, and may not. What was merely wrong is not recorded."""
        if fault.name in _FORBIDDEN:
            target = Target("admin", "", what)
            self._recorder().refusal(by, target, trace, "admin", f"{what}: {fault.name}", fault.message)

    def server_stepped(
        self, server: str, before: ServerState, after: ServerState, problem: Fault | None, *, given_up: bool = False
    ) -> None:
        """A server's state changed; `given_up`: it failed once more than its restart policy allows."""
        event = SERVER_STATE
        if after is ServerState.CONNECTED:
            event = "SERVER_CONNECTED"
        elif after in _AWAY and before in (ServerState.CONNECTED, ServerState.CONNECTING, ServerState.RESTARTING):
            event = "SERVER_DISCONNECTED"
        reason = "" if problem is None or after is not ServerState.ERROR else f"{problem.name}: {problem.message}"
        told: dict[str, object] = {"from": before.value, "to": after.value}
        if given_up and after is ServerState.ERROR:
            told["restart_limit_exceeded"] = True  # MGP, Restart Policies
        self._recorder().event(event, target=Target("server", server, ""), reason=reason, details=told)

    def configured(self, by: Principal, *, applied: bool, changed: Sequence[str], problems: Sequence[str]) -> None:
        """The configuration was read again."""
        told = {"applied": applied, "changed": list(changed[:MOST_NAMED]), "problems": list(problems[:MOST_NAMED])}
        self._recorder().event(CONFIGURED, by, details=told)


def _access(event: str, by: Principal, grant: Grant, trace: str) -> Record:
    target = Target("tool" if grant.tool_name else "server", grant.server_id, grant.tool_name or "")
    told: dict[str, object] = {"agent_id": grant.agent_id, "permission": grant.permission}
    if grant.expires_at is not None:
        told["expires_at"] = grant.expires_at.isoformat()
    return event_record(event, by, target, trace, rule=grant.entry_type, reason=grant.justification, details=told)


def _key(
    event: str, by: Principal, principal: str, keys: Sequence[Key], trace: str, replaced: Sequence[str] = ()
) -> Record:
    """Keys are told by the few characters that may be shown of them."""
    first = keys[0]
    told: dict[str, object] = {
        "principal": principal,
        "kind": first.kind,
        "shown": [key.shown for key in keys[:MOST_NAMED]],
        "count": len(keys),
    }
    if replaced:
        told["replaced"] = list(replaced[:MOST_NAMED])
    if first.permissions is not None:
        told["permissions"] = list(first.permissions)
    if first.expires_at is not None:
        told["expires_at"] = first.expires_at.isoformat()
    return event_record(event, by, trace=trace, details=told)
