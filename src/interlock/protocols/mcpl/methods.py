"""The table of all methods of MCPL: who sends each, in which dialect, as request or notification, and its capability.

The capability decides, whether or not the message names a feature set. A row without one needs no authority.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from interlock.protocols.mcpl import capabilities as paths
from interlock.protocols.mcpl import channels, hooks, inference
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.checkpoints import RollbackParams, RollbackResult
from interlock.protocols.mcpl.decoding import Value, decode
from interlock.protocols.mcpl.events import PushEvent, PushResult
from interlock.protocols.mcpl.feature_sets import FeatureSetsChanged, FeatureSetsUpdate, UpdateReceipt
from interlock.protocols.mcpl.manifests import ManifestChanged
from interlock.protocols.mcpl.scopes import ElevateParams, ElevateResult
from interlock.wire.errors import Fault

Sender = Literal["host", "server", "both"]
Kind = Literal["request", "notification", "either"]


class EmptyObject(Value, frozen=True):
    """Empty params, or an empty result."""


class McplMethod(msgspec.Struct, frozen=True):
    """The row of a method: who sends it, its types, and the capability that it needs."""

    name: str
    sender: Sender
    params: type[Value]
    result: type[Value] | None = None
    """The type of the result; None for a notification, and for the manifest, which has its own reader."""
    needs: str = ""
    """The capability path that a message of this method needs."""
    dialects: frozenset[McplDialect] = frozenset(McplDialect)
    needs_one_of: tuple[str, ...] = ()
    """Capability paths of which one is enough."""
    kind: Kind = "request"
    tagged: bool = False
    """Whether its params name a feature set, which must be on."""


_0_4 = frozenset({McplDialect.V0_4})
_0_5 = frozenset({McplDialect.V0_5})

_HOOK = (paths.OBSERVE, *paths.INJECT.values())

METHODS: Final = {
    row.name: row
    for row in (
        McplMethod("push/event", "server", PushEvent, PushResult, paths.PUSH, tagged=True),
        McplMethod(
            "context/beforeInference", "host", hooks.BeforeInference, hooks.BeforeInferenceResult, needs_one_of=_HOOK
        ),
        McplMethod(
            "context/afterInference",
            "host",
            hooks.AfterInference,
            hooks.AfterInferenceResult,
            paths.AFTER_OBSERVE,
            _0_4,
            kind="either",
        ),
        McplMethod("inference/lifecycle", "host", hooks.Lifecycle, None, paths.LIFECYCLE, _0_5, kind="notification"),
        McplMethod(
            "inference/request",
            "server",
            inference.InferenceRequest,
            inference.InferenceResult,
            paths.INFERENCE,
            tagged=True,
        ),
        McplMethod(
            "inference/chunk", "host", inference.InferenceChunk, None, paths.INFERENCE_STREAMING, kind="notification"
        ),
        McplMethod("model/info", "server", EmptyObject, inference.ModelInfo, paths.MODEL_INFO),
        McplMethod("featureSets/update", "host", FeatureSetsUpdate, UpdateReceipt, kind="either"),
        McplMethod("featureSets/changed", "server", FeatureSetsChanged, None, dialects=_0_4, kind="notification"),
        McplMethod("scope/elevate", "server", ElevateParams, ElevateResult, dialects=_0_4, tagged=True),
        McplMethod("state/rollback", "host", RollbackParams, RollbackResult, paths.TOOLS, tagged=True),
        McplMethod(
            "channels/register", "server", channels.ChannelsRegister, channels.RegisterResult, paths.CHANNELS_REGISTER
        ),
        McplMethod(
            "channels/changed",
            "server",
            channels.ChannelsChanged,
            channels.RegisterResult,
            paths.CHANNELS_REGISTER,
            kind="either",
        ),
        McplMethod("channels/list", "both", EmptyObject, channels.ListResult, paths.CHANNELS_REGISTER),
        McplMethod("channels/open", "host", channels.ChannelsOpen, channels.OpenResult, paths.CHANNELS_LIFECYCLE),
        McplMethod("channels/close", "host", channels.ChannelsClose, channels.CloseResult, paths.CHANNELS_LIFECYCLE),
        McplMethod(
            "channels/outgoing/chunk",
            "host",
            channels.OutgoingChunk,
            None,
            paths.CHANNELS_STREAMING,
            kind="notification",
        ),
        McplMethod(
            "channels/outgoing/complete",
            "host",
            channels.OutgoingComplete,
            None,
            paths.CHANNELS_STREAMING,
            kind="notification",
        ),
        McplMethod(
            "channels/publish",
            "host",
            channels.Publish,
            channels.PublishResult,
            paths.CHANNELS_PUBLISH,
            kind="either",
        ),
        # Some servers send it as a notification, without wanting results.
        McplMethod(
            "channels/incoming",
            "server",
            channels.ChannelsIncoming,
            channels.IncomingResult,
            paths.CHANNELS_INCOMING,
            kind="either",
        ),
        McplMethod("channels/typing", "host", channels.Typing, None, paths.CHANNELS_TYPING, _0_5, kind="notification"),
        McplMethod(
            "channels/acknowledge",
            "host",
            channels.Acknowledge,
            channels.AcknowledgeResult,
            paths.CHANNELS_ACKNOWLEDGE,
            _0_5,
            kind="either",
        ),
        McplMethod("mcpl/manifestChanged", "server", ManifestChanged, None, dialects=_0_5, kind="notification"),
        McplMethod("mcpl/manifest", "host", EmptyObject, None, dialects=_0_5),
    )
}


def find(name: str, sender: Literal["host", "server"], dialect: McplDialect, *, notification: bool) -> McplMethod:
    """The row for a message. Raises METHOD_NOT_FOUND if this side may not send it in this dialect and form."""
    row = METHODS.get(name)
    if row is None or row.sender not in (sender, "both") or dialect not in row.dialects:
        raise Fault("METHOD_NOT_FOUND", f"{name[:100]!r} is not a method of a {sender} in MCPL {dialect.value}")
    if row.kind == ("request" if notification else "notification"):
        raise Fault("INVALID_REQUEST", f"{name} is a {row.kind}")
    return row


def read_params(row: McplMethod, params: bytes) -> Value:
    """The params of a message. Raises INVALID_PARAMS naming the member."""
    return decode(row.params, params)
