"""Incoming webhooks: a signed message becomes an event for the agent that the configuration names.

The hub verifies signature and timestamp over the raw bytes before it reads the message (Standard Webhooks). It
recognizes a repeated message by its id.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from standardwebhooks import Webhook

from interlock.config.live_sections import why_weak_secret
from interlock.config.live_settings import HookSettings
from interlock.config.settings import Rate
from interlock.hub.live.events.delivery_addresses import PREFIX
from interlock.hub.live.events.intake import EventIntake, IncomingEvent
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.hub.rate_meter import Meters
from interlock.protocols.mcpl.events import PushResult
from interlock.wire.errors import Fault
from interlock.wire.limits import DEFAULT
from interlock.wire.payload_checks import check_shape

MAX_BYTES: Final = 64 * 1024
MAX_ID: Final = 256
UNVERIFIED: Final = Rate(per_minute=600)
"""Messages without a valid signature that all webhooks together answer, before senders are told to wait."""
_TYPE: Final = re.compile(r"[A-Za-z0-9_:-]{1,60}(?:\.[A-Za-z0-9_:-]{1,60}){0,5}\Z")
UNREADY: Final = "the webhook has no secret yet"


class IncomingWebhooks:
    """The webhooks of one hub."""

    def __init__(
        self, settings: Callable[[], Mapping[str, HookSettings]], intake: EventIntake, refusals: RecordedRefusals
    ) -> None:
        self._settings = settings
        self._intake = intake
        self._refusals = refusals
        self._unverified = Meters("webhook")
        self._verified = Meters("webhook")

    async def receive(self, name: str, headers: Mapping[str, str], body: bytes) -> PushResult:
        """Take a message. Raises a `Fault` to refuse it; the sender may send it again."""
        hook = self._settings().get(name)
        if hook is None:
            self._count_unverified()
            raise _not_signed()
        try:
            id_ = self._id_of(hook, headers, body)
            self._verified.take(name, hook.rate, time.monotonic())
            return await self._intake.take(_event(name, id_, body), (hook.agent,))
        except Fault as fault:
            claimed = {key.lower(): value for key, value in headers.items()}.get("webhook-id", "")
            self._refusals.add(PREFIX + name, "POST", "", claimed, fault)
            # Only the operator learns that a webhook has no secret. The answer would tell a stranger that it exists.
            if fault.message == UNREADY:
                raise _not_signed() from None
            raise

    def _id_of(self, hook: HookSettings, headers: Mapping[str, str], body: bytes) -> str:
        try:
            return _verified(hook, headers, body)
        except Fault:
            self._count_unverified()
            raise

    def _count_unverified(self) -> None:
        """Count a message whose signature is not valid, so that a flood never blocks signed messages.

        All names share one count, also unknown ones, so that no answer tells which webhooks exist. Raises RATE_LIMITED.
        """
        self._unverified.take("", UNVERIFIED, time.monotonic())


def _verified(hook: HookSettings, headers: Mapping[str, str], body: bytes) -> str:
    """The id of a message with a valid signature and time. Raises AUTH_REQUIRED."""
    lower = {name.lower(): value for name, value in headers.items()}
    id_ = lower.get("webhook-id", "")
    if not id_ or not lower.get("webhook-signature"):
        raise _not_signed()
    secret = os.environ.get(hook.secret_env, "")
    if why_weak_secret(secret):
        # `interlock status` shows the name of the variable to the operator. A stranger must not learn it.
        raise Fault("SERVER_NOT_READY", UNREADY)
    try:
        Webhook(secret).verify(body, lower, json_parse=False)
    except Exception:  # A library reads a stranger's bytes: any exception means that they are not valid.
        raise _not_signed() from None
    if not 0 < len(id_) <= MAX_ID:
        raise Fault("INVALID_PARAMS", f"webhook-id has at most {MAX_ID} characters")
    return id_


def _not_signed() -> Fault:
    """The same refusal for a wrong signature and an unknown webhook, so that strangers learn no names."""
    return Fault("AUTH_REQUIRED", "the signature or its time is not good, or there is no such webhook")


def _event(name: str, id: str, body: bytes) -> IncomingEvent:
    """The event of a message. Its `type` becomes the feature set, so that rules can match it.

    The body stays unchanged. Indenting multiplies its size, so `delivery_rendering.py` does that, after the check.
    """
    check_shape(body, DEFAULT)
    try:
        decoded, text = msgspec.json.decode(body, type=dict[str, Any]), body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Fault("INVALID_PARAMS", "the body is no JSON object") from None
    kind = decoded.get("type")
    feature = kind if isinstance(kind, str) and _TYPE.match(kind) else "message"
    return IncomingEvent.posted(PREFIX + name, id, feature, text)
