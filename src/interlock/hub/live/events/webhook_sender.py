"""Sends webhooks as Standard Webhooks says: signed, and again if they are not accepted.

No message is sent unsigned. A message has the same id and the same bytes in every attempt, so that its receiver can
recognize a repetition.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from standardwebhooks import Webhook

from interlock.config.live_sections import why_weak_secret
from interlock.transports.http.client.documents import Post
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault

TIMEOUT_S: Final = 10.0
TRIES: Final = 4
PAUSE_S: Final = 1.0
MAX_BYTES: Final = 64 * 1024
"""Upper bound for the bytes of an answer."""
MAX_FAILING: Final = 1024


class WebhookSender:
    """Sends messages to addresses that the operator wrote."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._failing: set[str] = set()
        """Addresses that did not take their last message."""

    async def send(self, url: str, secret_env: str, id: str, type: str, data: Mapping[str, object]) -> None:
        """Send a message until it is accepted. Raises a `Fault` if it was not."""
        secret = _secret(secret_env)
        body = _body(type, datetime.now(UTC), data)
        # An address that failed for the last message gets one attempt, so that a dead one delays no other messages.
        last = 0 if url in self._failing else TRIES - 1
        for attempt in range(last + 1):
            try:
                await self._post(url, secret, id, body)
                self._failing.discard(url)
                return
            except Fault as fault:
                if attempt == last or is_final(fault):
                    if len(self._failing) < MAX_FAILING:
                        self._failing.add(url)
                    raise
            await asyncio.sleep(PAUSE_S * 2**attempt)

    async def send_once(
        self, url: str, secret_env: str, id: str, type: str, at: datetime, data: Mapping[str, object]
    ) -> None:
        """Send a message once. `at` is the time of the message, the same in every attempt. Raises a `Fault`."""
        await self._post(url, _secret(secret_env), id, _body(type, at, data))

    async def _post(self, url: str, secret: str, id: str, body: bytes) -> None:
        """Post once. Raises a `Fault` for any answer but success."""
        at = datetime.now(UTC)
        headers = {
            "webhook-id": id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(secret).sign(id, at, body.decode()),
        }
        post = Post(url, headers, guard=guarded_for(url, self._resolver), most_bytes=MAX_BYTES)
        try:
            await post(body, TIMEOUT_S)
        except Fault as fault:
            status = fault.data.get("status")
            if not isinstance(status, int) or not 200 <= status < 300:
                raise
            # The receiver accepted the message. Its answer is too long to read, and does not matter.
        finally:
            with contextlib.suppress(OSError):
                await post.close()


def _secret(secret_env: str) -> str:
    """The signing secret. Raises SERVER_NOT_READY if it is missing or weak."""
    secret = os.environ.get(secret_env, "")
    if weak := why_weak_secret(secret):
        raise Fault("SERVER_NOT_READY", f"its secret in ${secret_env} {weak}, and the hub sends nothing unsigned")
    return secret


def _body(type: str, at: datetime, data: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"type": type, "timestamp": at.isoformat(timespec="seconds"), "data": data})


def is_final(fault: Fault) -> bool:
    """Whether another attempt would fail in the same way."""
    status = fault.data.get("status")
    refused = isinstance(status, int) and status < 500 and status != 429
    return refused or fault.name in ("VALIDATION_BLOCKED", "INVALID_PARAMS")
