"""Decides whether a message may be acted on: when it arrives, and again when a response is used.

The grant in force decides. A feature set that a message names must also be on, and must declare the capability that the
message uses, so that a server gains nothing by declaring too much or too little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from interlock.protocols.mcpl import channels
from interlock.protocols.mcpl.capabilities import (
    AFTER_OBSERVE,
    AFTER_REWRITE,
    CHANNELS_INCOMING,
    CHANNELS_REGISTER,
    INFERENCE_STREAMING,
    INJECT,
    LIFECYCLE,
    OBSERVE,
    McplDialect,
)
from interlock.protocols.mcpl.decoding import Value
from interlock.protocols.mcpl.errors import (
    capability_denied,
    channel_not_permitted,
    feature_set_disabled,
    inference_in_hook,
    unknown_channel,
    unknown_feature_set,
)
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.mcpl.hooks import AfterInferenceResult, BeforeInference, BeforeInferenceResult, Injection
from interlock.protocols.mcpl.inference import InferenceRequest
from interlock.protocols.mcpl.methods import METHODS, McplMethod, find, read_params
from interlock.protocols.mcpl.scopes import ScopeDecision, agreed_label
from interlock.protocols.mcpl.scopes import decide as decide_scope
from interlock.protocols.mcpl.states import McplConnection
from interlock.wire.errors import Fault
from interlock.wire.visible_text import reorders

BEFORE_NEEDS = METHODS["context/beforeInference"].needs_one_of
MAX_REGISTERED = 4_096
"""Channels of one connection."""


class AuthorizedMessage(msgspec.Struct, frozen=True):
    """A message that may be acted on."""

    method: McplMethod
    params: Value
    refusals: tuple[Fault | None, ...] = ()
    """For a message of several items: why each is refused, None for one that is admitted."""


def admit(
    connection: McplConnection,
    name: str,
    params: bytes,
    registered: Collection[str] = (),
    *,
    notification: bool = False,
    in_hook: bool = False,
) -> AuthorizedMessage:
    """Decode and authorize a server's message. Raises the refusal for the server.

    `registered` has the connection's channel ids. `in_hook`: a hook of this server led to the message.
    """
    row = find(name, "server", connection.dialect, notification=notification)
    value = read_params(row, params)
    if row.tagged:
        _check_tagged(connection, row, _feature_set(value), value)
    elif row.needs:
        _check_granted(connection, row.needs)
    if isinstance(value, InferenceRequest) and in_hook:
        raise inference_in_hook(value.feature_set)
    return AuthorizedMessage(row, value, _refusals(connection, value, registered))


def check_outgoing(
    connection: McplConnection, name: str, *, channel: str | None = None, notification: bool = False
) -> None:
    """Refuse a message of the host that the server may not receive. Raises a `Fault`."""
    row = find(name, "host", connection.dialect, notification=notification)
    if row.needs_one_of and not (connection.on and connection.active.grant.allows_any(row.needs_one_of)):
        _check_granted(connection, row.needs_one_of[0])
    if name == "channels/outgoing/chunk" and not connection.offer.channel_chunks:
        raise capability_denied(row.needs, connection.dialect, reason="not_advertised")
    if row.needs:
        _check_granted(connection, row.needs)
        if channel is not None and not connection.active.grant.allows_channel(row.needs, channel):
            raise channel_not_permitted(channel, row.needs)


def before_inference(connection: McplConnection, params: BeforeInference) -> BeforeInference | None:
    """The hook's params for this server, without the user's text if it may not observe; None if it is not asked."""
    try:
        check_outgoing(connection, "context/beforeInference")
    except Fault:
        return None
    return params if connection.active.grant.allows(OBSERVE) else msgspec.structs.replace(params, user_message=None)


def wants_before_inference(connection: McplConnection) -> bool:
    """Whether this server is asked before inferences."""
    return connection.on and connection.active.grant.allows_any(BEFORE_NEEDS)


def wants_after_inference(connection: McplConnection) -> bool:
    """Whether this server is told of answers (0.4)."""
    return connection.on and connection.dialect is McplDialect.V0_4 and connection.active.grant.allows(AFTER_OBSERVE)


def wants_lifecycle(connection: McplConnection) -> bool:
    """Whether this server is told that inferences begin and end (0.5)."""
    return connection.on and connection.dialect is McplDialect.V0_5 and connection.active.grant.allows(LIFECYCLE)


class HookContribution(msgspec.Struct, frozen=True):
    """A hook's response, item by item."""

    accepted: tuple[Injection, ...] = ()
    refused: tuple[tuple[Injection, Fault], ...] = ()


def use_injections(connection: McplConnection, result: BeforeInferenceResult) -> HookContribution:
    """The injections of a response that the grant in force now allows at their positions."""
    accepted: list[Injection] = []
    refused: list[tuple[Injection, Fault]] = []
    for injection in result.context_injections:
        try:
            _check_contribution(connection, INJECT[injection.position], result.feature_set)
        except Fault as fault:
            refused.append((injection, fault))
        else:
            accepted.append(injection)
    return HookContribution(tuple(accepted), tuple(refused))


def use_rewrite(connection: McplConnection, result: AfterInferenceResult) -> str | None:
    """The answer that replaces the model's; None to keep it. Raises a `Fault` if the server may not replace it."""
    if result.modified_response is None:
        return None
    _check_contribution(connection, AFTER_REWRITE, result.feature_set)
    return result.modified_response


def check_tool_call(
    connection: McplConnection, feature_set: str | None, *, scoped: bool, rollback: bool = False
) -> None:
    """Refuse a call of a tool whose feature set is off. A tool without one has no scope and no rollback.

    Raises a `Fault`.
    """
    if feature_set is None:
        if scoped or rollback:
            raise Fault("INVALID_PARAMS", "the tool names no feature set, so it has no scope and no rollback")
        return
    _check_enabled(connection, feature_set)
    declared = connection.active.declared[feature_set]
    if rollback and not declared.rollback:
        raise Fault("INVALID_PARAMS", f"the feature set {feature_set} does not declare rollback")
    if scoped and not declared.scoped:
        raise Fault("INVALID_PARAMS", f"the feature set {feature_set} is not scoped")


def judge_scope(
    connection: McplConnection, feature_set: str | None, arguments: Mapping[str, object], claimed: str | None
) -> tuple[str, ScopeDecision]:
    """The label of a scoped action, and the verdict of the rules. Raises if the label disagrees with the arguments.

    For a tool call, `arguments` are those of the call. For `scope/elevate`, they are the payload.
    """
    check_tool_call(connection, feature_set, scoped=True)
    name = feature_set or ""
    label = agreed_label(connection.active.scope_labels.get(name), arguments, claimed)
    return label, decide_scope(connection.active.scopes.get(name, ScopeRules()), label)


def _check_tagged(connection: McplConnection, row: McplMethod, feature_set: str, value: Value) -> None:
    paths = [row.needs] if row.needs else []
    if isinstance(value, InferenceRequest) and value.stream:
        paths.append(INFERENCE_STREAMING)
    if connection.dialect is McplDialect.V0_5 and feature_set in connection.offer.feature_sets:
        # The set is off because it lacks a capability, and 0.5 has a code for that.
        for path in paths:
            _check_granted(connection, path, feature_set)
    _check_enabled(connection, feature_set)
    for path in paths:
        _check_granted(connection, path, feature_set)
        _check_declared(connection, path, feature_set)
    if row.name == "scope/elevate" and not connection.active.declared[feature_set].scoped:
        raise Fault("INVALID_PARAMS", f"the feature set {feature_set} is not scoped", data={"field": "featureSet"})


def _check_enabled(connection: McplConnection, feature_set: str) -> None:
    if feature_set not in connection.offer.feature_sets:
        raise unknown_feature_set(feature_set)
    if not connection.on or not connection.active.enabled(feature_set):
        decided = connection.pending or connection.active
        raise feature_set_disabled(feature_set, connection.dialect, can_enable=decided.can_enable(feature_set))


def _check_declared(connection: McplConnection, path: str, feature_set: str) -> None:
    if not connection.active.declared[feature_set].covers(path):
        raise capability_denied(path, connection.dialect, reason="declaration_mismatch", feature_set=feature_set)


def _check_granted(connection: McplConnection, path: str, feature_set: str | None = None) -> None:
    if not connection.on:
        raise capability_denied(path, connection.dialect, reason="no_policy_yet", feature_set=feature_set)
    if not connection.active.grant.allows(path):
        raise capability_denied(path, connection.dialect, feature_set=feature_set)


def _check_contribution(connection: McplConnection, path: str, feature_set: str | None) -> None:
    """Check a contribution against the grant. The feature set in a 0.4 response can only narrow it."""
    if connection.dialect is McplDialect.V0_4:
        if feature_set is None:
            raise Fault("INVALID_PARAMS", "result.featureSet: the field is required", data={"field": "featureSet"})
        _check_enabled(connection, feature_set)
        _check_declared(connection, path, feature_set)
    _check_granted(connection, path)


def _refusals(connection: McplConnection, value: Value, registered: Collection[str]) -> tuple[Fault | None, ...]:
    grant = connection.active.grant
    if isinstance(value, channels.ChannelsIncoming):
        found = tuple(_refuse_incoming(connection, message.channel_id, registered) for message in value.messages)
        first = found[0]
        if first is not None and all(refusal is not None for refusal in found):
            raise first
        return found
    if isinstance(value, channels.ChannelsRegister | channels.ChannelsChanged):
        added = value.channels if isinstance(value, channels.ChannelsRegister) else value.added
        updated = () if isinstance(value, channels.ChannelsRegister) else value.updated
        left = MAX_REGISTERED - len(registered)
        refusals: list[Fault | None] = []
        for index, channel in enumerate((*added, *updated)):
            if reorders(channel.id):
                refusals.append(Fault("INVALID_PARAMS", "channels.id: it has control characters"))
            elif not grant.allows_channel(CHANNELS_REGISTER, channel.id):
                refusals.append(channel_not_permitted(channel.id, CHANNELS_REGISTER))
            elif index >= len(added) and channel.id not in registered:
                refusals.append(unknown_channel(channel.id))
            elif channel.id not in registered and (left := left - 1) < 0:
                refusals.append(Fault("RESOURCE_EXHAUSTED", f"more than {MAX_REGISTERED} channels"))
            else:
                refusals.append(None)
        return tuple(refusals)
    return ()


def _refuse_incoming(connection: McplConnection, channel: str, registered: Collection[str]) -> Fault | None:
    if channel not in registered:
        return unknown_channel(channel)
    if not connection.active.grant.allows_channel(CHANNELS_INCOMING, channel):
        return channel_not_permitted(channel, CHANNELS_INCOMING)
    return None


def _feature_set(value: Value) -> str:
    name: str = value.feature_set  # type: ignore[attr-defined]
    return name
