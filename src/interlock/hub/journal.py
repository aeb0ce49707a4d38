"""Audit records of everything but calls: grants, keys, decisions, rules, servers, the configuration.

One method for each event. For a stored change the method returns the record, which the transaction of the change
commits. The other methods write their records themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.permissions import PermissionEvent
from interlock.hub.approvals.rules import Rule
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit.entries import NOBODY, event_record
from interlock.hub.audit.record import (
    ACCESS_DENIED,
    CONFIGURED,
    DECISION,
    FEATURE_DISABLED,
    FEATURE_ENABLED,
    FEATURE_FORGOTTEN,
    KEY_CREATED,
    KEY_REVOKED,
    KEY_ROTATED,
    LIVE,
    OPERATED,
    ROOM,
    ROOM_CAPABILITIES,
    RULE_MADE,
    RULE_REVOKED,
    SERVER_STATE,
    SESSION_ENDED,
    TAINT_CLEARED,
    TAINTED,
    TURN,
    Record,
)
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.grants import Grant
from interlock.hub.auth.keys import Key
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.hub.conversation_documents import StoredInference, StoredTurn
from interlock.hub.upstreams.commands import StateChange, problem_name
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.permissions import request_id_of
from interlock.wire.errors import Fault

MAX_NAMED: Final = 50
"""How many items of a list one record names."""

_FORBIDDEN: Final = frozenset(
    {"PERMISSION_DENIED", "ACCESS_DENIED", "PERSON_REQUIRED", "INSUFFICIENT_SCOPE", "CODE_SAFETY_VIOLATION"}
)
_AWAY: Final = (ServerState.ERROR, ServerState.DISCONNECTED, ServerState.DRAINING)


class Journal:
    """Makes the audit records of one hub."""

    def __init__(self, recorder: Callable[[], Recorder]) -> None:
        self._recorder = recorder

    def granted(self, by: Principal, grant: Grant, trace: str = "") -> Record:
        """An agent is allowed or denied something."""
        event = "ACCESS_GRANTED" if grant.permission == "allow" else ACCESS_DENIED
        return _access(event, by, grant, trace)

    def revoked(self, by: Principal, grant: Grant, trace: str = "") -> Record:
        """A grant or denial is deleted."""
        return _access("ACCESS_REVOKED", by, grant, trace)

    def permission(
        self, event: PermissionEvent, by: Principal, server: str, permission: str, rule: str, trace: str = ""
    ) -> Record:
        """A permission of a server is decided or revoked."""
        details = {"permission": permission, "request_id": request_id_of(server)}
        return event_record(event, by, Target("server", server, ""), trace, rule, details=details)

    def settled(self, event: PermissionEvent, by: Principal, server: str, permission: str, rule: str) -> None:
        """Record a permission that the configuration, a policy or an earlier decision determines."""
        self._recorder().add(self.permission(event, by, server, permission, rule))

    def key_created(self, by: Principal, key: Key, trace: str = "") -> Record:
        """A key is created."""
        return _key(KEY_CREATED, by, key.principal, [key], trace)

    def keys_revoked(self, by: Principal, principal: str, keys: Sequence[Key], trace: str = "") -> Record:
        """A principal's keys are revoked."""
        return _key(KEY_REVOKED, by, principal, keys, trace)

    def key_rotated(self, by: Principal, new: Key, old: Sequence[Key], trace: str = "") -> Record:
        """One new key replaces all keys of a principal."""
        return _key(KEY_ROTATED, by, new.principal, [new], trace, [key.shown for key in old])

    def decided(self, decision: Decision, by: Principal) -> Record:
        """An approval request is opened, answered, used or ended."""
        request, state = decision.request, decision.state
        event = DECISION + ("opened" if state is DecisionState.OPEN else state.value)
        details: dict[str, object] = {"decision": decision.id, "kind": request.kind, "asked_by": request.asker}
        if request.risk:
            details["risk_level"] = request.risk
        if request.arguments_hash:
            details["judged_arguments_sha256"] = request.arguments_hash
        if request.fingerprint:
            details["definition_sha256"] = request.fingerprint
        if decision.answer:
            details |= {"answer": decision.answer, "answered_by": decision.answered_by, "where": decision.answered_in}
        if decision.reason:
            details["because"] = decision.reason
        target = Target("tool" if request.name else "server", request.server, request.name)
        if request.proposal:
            details["proposal"] = request.proposal
            target = Target("room", "", request.server.removeprefix("room:"))
        return event_record(event, by, target, request.trace, request.rule, request.text, details=details)

    def rule(self, rule: Rule, by: Principal, made: bool) -> Record:
        """A rule is made or revoked."""
        details = {"rule": rule.id, "agent_id": rule.asker, "decisions": list(rule.decisions[:MAX_NAMED])}
        event, target = RULE_MADE if made else RULE_REVOKED, Target("tool", rule.server, rule.name)
        return event_record(event, by, target, rule=f"rule {rule.id}", reason=rule.explain(), details=details)

    def refused(self, by: Principal, action: str, fault: Fault, trace: str = "") -> None:
        """Record that a known principal tried what it may not, or sent refused code. No other fault is recorded."""
        if fault.name in _FORBIDDEN:
            event = "CODE_REJECTED" if fault.name == "CODE_SAFETY_VIOLATION" else ""
            target, rule = Target("admin", "", action), f"{action}: {fault.name}"
            self._recorder().refusal(by, target, trace, "admin", rule, fault.message, event=event)

    def server_stepped(
        self, server: str, change: StateChange, problem: Fault | None, *, given_up: bool = False
    ) -> None:
        """Record a server's new state; `given_up`: it failed more often than its restart policy allows."""
        event, before, after, command = SERVER_STATE, change.before, change.after, change.command
        if after is ServerState.CONNECTED:
            event = "SERVER_CONNECTED"
        elif after in _AWAY and before in (ServerState.CONNECTED, ServerState.CONNECTING, ServerState.RESTARTING):
            event = "SERVER_DISCONNECTED"
        reason = ""
        if problem is not None and after is ServerState.ERROR:
            reason = f"{problem_name(problem)}: {problem.message}"
        details: dict[str, object] = {"from": before.value, "to": after.value, "reason": change.reason}
        if given_up and after is ServerState.ERROR:
            details["restart_limit_exceeded"] = True  # MGP, Restart Policies
        by = NOBODY
        if command is not None:
            by, reason = command.by, reason or command.because
        self._recorder().add(event_record(event, by, Target("server", server, ""), reason=reason, details=details))

    def session_ended(
        self, by: Principal, kind: str, id: str, principal_name: str, ended: Mapping[str, int], trace: str = ""
    ) -> None:
        """Record that an operator ended a session, or everything that a principal had open, and how much that was."""
        details = {kind: id, "owner": principal_name, **ended}
        self._recorder().add(event_record(SESSION_ENDED, by, trace=trace, details=details))

    def room(
        self, event: str, by: Principal, topic: str, *, rule: str = "", reason: str = "", details: Mapping[str, object]
    ) -> None:
        """Record what a participant did in a topic, or was refused there."""
        self._recorder().add(
            event_record(ROOM + event, by, Target("room", "", topic), rule=rule, reason=reason, details=details)
        )

    def room_capabilities(
        self, by: Principal, topic: str, participant: str, added: Sequence[str], removed: Sequence[str], trace: str = ""
    ) -> Record:
        """A participant's capabilities are changed."""
        details = {"participant": participant, "added": list(added), "removed": list(removed)}
        return event_record(ROOM_CAPABILITIES, by, Target("room", "", topic), trace, details=details)

    def feature(
        self,
        by: Principal,
        server: str,
        agent: str,
        feature: str,
        *,
        enabled: bool | None,
        because: str = "",
        trace: str = "",
    ) -> Record:
        """A feature set of a server is enabled or disabled for an agent, or no longer either (None)."""
        details = {"agent_id": agent, "featureSet": feature}
        event = FEATURE_FORGOTTEN if enabled is None else FEATURE_ENABLED if enabled else FEATURE_DISABLED
        return event_record(event, by, Target("server", server, ""), trace, reason=because, details=details)

    def live_event(
        self, server: str, feature_set: str, event: str, outcomes: Mapping[str, str], cause: str, inference: str
    ) -> Record:
        """A server pushed an event, which was accepted or dropped (MCPL, Audit Logging)."""
        details: dict[str, object] = {"featureSet": feature_set, "eventId": event, "outcome": dict(outcomes)}
        if inference:
            details["inferenceId"] = inference
        return _live("event", server, details, rule=cause)

    def live_refused(
        self, server: str, method: str, feature_set: str, event: str, fault: Fault, *, unrecorded: int = 0
    ) -> None:
        """Record that a message which a server sent by itself was refused."""
        details: dict[str, object] = {"method": method, "featureSet": feature_set[:200], "eventId": event[:256]}
        if unrecorded:
            details["unrecorded_before"] = unrecorded
        reason = f"{fault.name}: {fault.message}"
        self._recorder().add(_live("refused", server, details, reason, rule=fault.name))

    def live_scope(self, server: str, feature_set: str, label: str, *, approved: bool) -> None:
        """Record how a server's request for a scope was answered."""
        details = {"featureSet": feature_set, "label": label[:300], "approved": approved}
        self._recorder().add(_live("scope", server, details))

    def live_hook(
        self,
        server: str,
        inference: str,
        conversation: str,
        method: str,
        outcome: str,
        *,
        feature_set: str | None = None,
        reason: str = "",
        sizes: Mapping[str, int] | None = None,
        agent: str = "",
    ) -> None:
        """Record the part that a server had in an inference of an agent (MCPL, Audit Logging)."""
        details: dict[str, object] = {"method": method, "inferenceId": inference, "conversationId": conversation}
        details["agent"] = agent
        details |= {"featureSet": feature_set or "", "outcome": outcome}
        if sizes:
            details["sizes"] = dict(list(sizes.items())[:MAX_NAMED])
        self._recorder().add(_live("hook", server, details, reason))

    async def flushed(self) -> None:
        """Wait until everything that was recorded is written."""
        await self._recorder().flushed()

    def live_rollback(
        self,
        server: str,
        feature_set: str,
        checkpoint: str,
        outcome: str,
        reason: str = "",
        *,
        agent: str,
        conversation: str = "",
    ) -> None:
        """Record a step of a rollback: before it is sent, and how it ended. A client names no conversation with it."""
        details = {"featureSet": feature_set, "agent_id": agent, "checkpoint": checkpoint, "outcome": outcome}
        if conversation:
            details["conversationId"] = conversation
        self._recorder().add(_live("rollback", server, details, reason))

    def live_published(
        self, server: str, channel: str, conversation: str, outcome: str, reason: str = "", *, agent: str
    ) -> None:
        """Record that an answer of a conversation of the hub went to a channel, or did not."""
        details = {"channelId": channel, "conversationId": conversation, "agent_id": agent, "outcome": outcome}
        self._recorder().add(_live("published", server, details, reason))

    def live_passed(self, server: str, agent: str, method: str, id: str, outcome: str, reason: str = "") -> None:
        """Record that a server's message was passed to a client that is a host, and how that client answered."""
        details = {"agent_id": agent, "method": method, "id": id[:300], "outcome": outcome}
        self._recorder().add(_live("passed", server, details, reason))

    def live_wake(self, agent: str, server: str, feature_set: str, inference: str, events: int) -> Record:
        """An agent is woken for a group of events."""
        details = {"agent_id": agent, "featureSet": feature_set, "inferenceId": inference, "events": events}
        return _live("wake", server, details)

    def live_delivered(self, agent: str, events: Sequence[tuple[str, str]]) -> Record:
        """Events are handed to an agent; each is named by its server and id."""
        named = [f"{server}/{event}" for server, event in events[:MAX_NAMED]]
        details = {"agent_id": agent, "events": named, "count": len(events)}
        return event_record(LIVE + "delivered", NOBODY, details=details)

    def live_withdrawn(self, server: str, agent: str, events: Sequence[str]) -> Record:
        """Events that waited for an agent are deleted: it may no longer have them, or did not read them in time."""
        details = {"agent_id": agent, "events": list(events[:MAX_NAMED]), "count": len(events)}
        return _live("withdrawn", server, details)

    def inference(self, inference: StoredInference, rule: str) -> Record:
        """A server asked for an inference, which ended (MCPL, Audit Logging). `rule` chose the model."""
        details: dict[str, object] = {
            "featureSet": inference.feature_set,
            "inferenceId": inference.id,
            "model": inference.model,
            "inputTokensCount": inference.input_tokens_count,
            "outputTokensCount": inference.output_tokens_count,
            "agent_id": inference.agent,
            "conversationId": inference.conversation,
        }
        if inference.claimed:
            details["tokensClaimedByClient"] = True
        return _live("inference", inference.server, details, inference.error, rule=rule)

    def turn(self, principal: Principal, turn: StoredTurn) -> Record:
        """A turn of a conversation ended, with an answer or an error (MCPL, Audit Logging)."""
        details = {
            "conversationId": turn.conversation,
            "inferenceId": turn.inference,
            "model": turn.model,
            "finishReason": turn.finish,
            "inputTokensCount": turn.input_tokens_count,
            "outputTokensCount": turn.output_tokens_count,
        }
        return event_record(TURN, principal, reason=turn.error, details=details)

    def tainted(self, principal: Principal, target: Target) -> Record:
        """A principal is given text of a server that the operator does not trust."""
        return event_record(TAINTED, principal, target)

    def taint_cleared(self, by: Principal, principal_name: str, because: str, trace: str = "") -> Record:
        """A person ends the taint of a principal."""
        return event_record(TAINT_CLEARED, by, trace=trace, reason=because, details={"principal": principal_name})

    def configured(self, by: Principal, *, applied: bool, changed: Sequence[str], problems: Sequence[str]) -> None:
        """Record a reload of the configuration."""
        details = {"applied": applied, "changed": list(changed[:MAX_NAMED]), "problems": list(problems[:MAX_NAMED])}
        self._recorder().add(event_record(CONFIGURED, by, details=details))

    def operated(self, by: Principal, operation: str, server: str, because: str, trace: str) -> None:
        """Record an operation that no other event shows."""
        self._recorder().add(event_record(OPERATED, by, Target("admin", server, operation), trace, reason=because))


def _live(event: str, server: str, details: Mapping[str, object], reason: str = "", *, rule: str = "") -> Record:
    """An event about a server that speaks MCPL."""
    return event_record(LIVE + event, NOBODY, Target("server", server, ""), rule=rule, reason=reason, details=details)


def _access(event: str, by: Principal, grant: Grant, trace: str) -> Record:
    target = Target("tool" if grant.tool_name else "server", grant.server_id, grant.tool_name or "")
    details: dict[str, object] = {"agent_id": grant.agent_id, "permission": grant.permission}
    if grant.expires_at is not None:
        details["expires_at"] = grant.expires_at.isoformat()
    return event_record(event, by, target, trace, rule=grant.entry_type, reason=grant.justification, details=details)


def _key(
    event: str, by: Principal, principal: str, keys: Sequence[Key], trace: str, replaced: Sequence[str] = ()
) -> Record:
    """The record names keys by their shown prefixes."""
    first = keys[0]
    details: dict[str, object] = {
        "principal": principal,
        "kind": first.kind,
        "shown": [key.shown for key in keys[:MAX_NAMED]],
        "count": len(keys),
    }
    if replaced:
        details["replaced"] = list(replaced[:MAX_NAMED])
    if first.permissions is not None:
        details["permissions"] = list(first.permissions)
    if first.expires_at is not None:
        details["expires_at"] = first.expires_at.isoformat()
    return event_record(event, by, trace=trace, details=details)
