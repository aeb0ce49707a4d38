"""Notifies people of new approval requests: by a signed webhook and on the desktop.

A notifier takes no answers. A slow notifier loses notifications and delays nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from interlock.config.settings import HubSettings, WebhookSettings
from interlock.events import EventFilter, Gap, SubscriberTask, Subscription
from interlock.events.types import ApprovalChanged, Delivery
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.cannot_start import CannotStart
from interlock.transports.http.client.documents import Post
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault

MAX_WAITING: Final = 256
TIMEOUT_S: Final = 10.0
TRIES: Final = 3
PAUSE_S: Final = 2.0
MAX_BYTES: Final = 64 * 1024
"""Upper bound for the webhook's answer, whose content is ignored."""
SIGNATURE: Final = "x-interlock-signature"
TIMESTAMP: Final = "x-interlock-timestamp"
MIN_SECRET: Final = 16
_PLACEHOLDERS: Final = ("changeme", "change-me", "change_me", "placeholder", "password", "secret", "example", "your-")

OPEN: Final = DecisionState.OPEN.value

Log = Callable[[str, str], None]


class ApprovalNotifiers:
    """Sends notifications in order, on a background task."""

    def __init__(self, settings: Callable[[], HubSettings], resolver: Resolver, log: Log, inbox: Inbox) -> None:
        self._settings = settings
        self._resolver = resolver
        self._log = log
        self._inbox = inbox
        self._subscription: Subscription | None = None
        self._task: SubscriberTask | None = None
        self._taken = 0
        """Notifications that were read from the bus and are not sent yet."""

    @property
    def waiting(self) -> int:
        """The number of changes that wait for the notifiers."""
        return self._taken + (0 if self._subscription is None else self._subscription.unread)

    def start(self) -> None:
        """Notify people from now on."""
        self._subscription = self._inbox.bus.subscribe(EventFilter.of(ApprovalChanged), MAX_WAITING)
        self._task = SubscriberTask(self._subscription, self._notify)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    async def _notify(self, batch: Sequence[Delivery]) -> None:
        """Notify people of open requests, if a notifier is configured."""
        opened = [event for event in batch if isinstance(event, ApprovalChanged) and event.state == OPEN]
        if any(isinstance(event, Gap) for event in batch) and self._is_configured():
            self._log(
                "hub", "some approval requests were not notified: too many waited; see `interlock approvals list`"
            )
        self._taken = len(opened)
        try:
            for event in opened:
                if self._is_configured():
                    await self._send_all(event.id)
                self._taken -= 1
        finally:
            self._taken = 0

    def _is_configured(self) -> bool:
        hub = self._settings()
        return hub.webhook.url is not None or hub.approvals.desktop

    async def _send_all(self, id: str) -> None:
        try:
            decision = self._inbox.get(id)
        except Fault:
            return  # The request was deleted while its notification waited.
        hub = self._settings()
        if hub.approvals.desktop:
            await self._show(decision)
        if hub.webhook.url is not None:
            await self._post(hub.webhook.url, os.environ.get(hub.webhook.secret_env, ""), decision)

    async def _show(self, decision: Decision) -> None:
        command = desktop_command(decision)
        if command is None:
            return
        try:
            quiet = asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
            async with asyncio.timeout(TIMEOUT_S):
                await process.wait()
        except (OSError, TimeoutError) as cause:
            self._log("hub", f"the desktop did not show approval {decision.id}: {cause!r}")

    async def _post(self, url: str, secret: str, decision: Decision) -> None:
        if weak := why_weak(secret):
            self._log("hub", f"the webhook's secret {weak}; the hub sends nothing unsigned")
            return
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                await self._send(url, secret, _payload(decision))
            except Fault as fault:
                why = fault.message
                status = fault.data.get("status")
                if fault.name == "VALIDATION_BLOCKED" or (isinstance(status, int) and status < 500 and status != 429):
                    break
            else:
                return
        self._log("hub", f"the webhook did not take approval {decision.id}: {why}")

    async def _send(self, url: str, secret: str, body: bytes) -> None:
        """Post once. Raises a `Fault` for any answer but success."""
        timestamp = str(int(time.time()))
        signed = {TIMESTAMP: timestamp, SIGNATURE: signature(secret, timestamp, body)}
        post = Post(url, signed, guard=guarded_for(url, self._resolver), most_bytes=MAX_BYTES)
        try:
            await post(body, TIMEOUT_S)
        finally:
            with contextlib.suppress(OSError):
                await post.close()


def check_webhook(settings: WebhookSettings) -> None:
    """Raise CannotStart if a webhook is configured without a strong secret."""
    if settings.url is not None and (why := why_weak(os.environ.get(settings.secret_env, ""))):
        hint = "set it to the output of `openssl rand -hex 32`, or remove [hub.webhook]"
        raise CannotStart(f"the webhook's secret in ${settings.secret_env} {why}", hint)


def why_weak(secret: str) -> str:
    """Why a secret is weak, as the end of a sentence that begins with its name; empty for a strong secret."""
    if not secret:
        return "is not set"
    if len(secret) < MIN_SECRET or len(set(secret)) < MIN_SECRET // 2:
        return "is too short or too simple"
    return "is a placeholder" if any(word in secret.lower() for word in _PLACEHOLDERS) else ""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The signature for the receiver to check: HMAC-SHA256 over timestamp, dot and body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def desktop_command(decision: Decision) -> list[str] | None:
    """The command that shows a desktop notification; None if there is none. No shell reads the text."""
    title, text = f"Interlock: approval {decision.id}", decision.request.text[:300]
    if program := shutil.which("notify-send"):
        return [program, "--app-name=Interlock", "--", title, text]
    if program := shutil.which("osascript"):
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return [program, "-e", script, title, text]
    return None


def _payload(decision: Decision) -> bytes:
    request = decision.request
    return msgspec.json.encode(
        {
            "event": "decision.open",
            "id": decision.id,
            "kind": request.kind,
            "asker": request.asker,
            "target": request.shown,
            "question": request.text,
            "rule": request.rule,
            "risk": request.risk,
            "trust": request.trust,
            "findings": list(request.findings),
            "summary": request.summary,
            "created": decision.created,
            "deadline": decision.deadline,
        }
    )
