"""MCPL's refusals (MCPL, Appendix A: Error Codes). The numbers are those of the one error table."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.protocols.mcpl.capabilities import EXPLICIT, McplDialect
from interlock.wire.errors import TABLE, ErrorKind, ErrorObject, Fault


def feature_set_disabled(name: str, dialect: McplDialect, *, can_enable: bool) -> Fault:
    """A message used a feature set that is off. Only a 0.4 server is told whether it could be on."""
    hint = {"canEnable": can_enable} if dialect is McplDialect.V0_4 else {}
    return Fault("FEATURE_SET_DISABLED", "Feature set not enabled", data={"featureSet": name, **hint})


def unknown_feature_set(name: str) -> Fault:
    """A message used a feature set that its server did not declare."""
    return Fault("UNKNOWN_FEATURE_SET", "Unknown feature set", data={"featureSet": name[:200]})


def capability_denied(path: str, dialect: McplDialect, *, reason: str = "", feature_set: str | None = None) -> Fault:
    """A message needs a capability that is not granted. 0.4 has no code for that, so it uses those of feature sets."""
    data: dict[str, object] = {"capability": path}
    if reason:
        data["reason"] = reason
    if feature_set is not None:
        data["featureSet"] = feature_set
    if path in EXPLICIT and not reason:
        # A feature set that uses it may be on, and only the operator's explicit grant is missing.
        name = "FEATURE_SET_DISABLED" if dialect is McplDialect.V0_4 else "CAPABILITY_DENIED"
        return Fault(name, f"{path} is not granted", data=data)
    if dialect is McplDialect.V0_4:
        return Fault("FEATURE_SET_DISABLED", "No enabled feature set uses this capability", data=data)
    return Fault("CAPABILITY_DENIED", "Capability denied", data=data)


def unknown_channel(channel: str) -> Fault:
    """The server has registered no such channel."""
    return Fault("UNKNOWN_CHANNEL", "Unknown channel", data={"channelId": channel})


def channel_not_permitted(channel: str, path: str) -> Fault:
    """The grant does not cover this channel."""
    return Fault("CHANNEL_NOT_PERMITTED", "Channel not permitted", data={"channelId": channel, "capability": path})


def inference_in_hook(feature_set: str) -> Fault:
    """A server requested inference because of a hook (MCPL, Loop Prevention)."""
    return Fault("INFERENCE_IN_HOOK", "A context hook may not start an inference", data={"featureSet": feature_set})


def _by_code() -> dict[int, ErrorKind]:
    found: dict[int, ErrorKind] = {}
    for kind in TABLE.values():
        if kind.mcpl:
            found.setdefault(kind.mcpl, kind)
    return found


BY_CODE: Mapping[int, ErrorKind] = _by_code()
"""The rows of Appendix A, by number. The first row of a number is its general one."""


def as_fault(error: ErrorObject) -> Fault | None:
    """A peer's error as a `Fault` with the same code; None for a code that MCPL does not have."""
    kind = BY_CODE.get(error.code)
    return None if kind is None else Fault(kind.name, error.message[:1_000], code=error.code)
