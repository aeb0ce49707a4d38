"""Who is told of an open question besides the inbox: a signed webhook, and the desktop.

They only tell: nothing that comes back is an answer. One that is slow or gone loses news, and holds up nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import shutil
import time
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.config.settings import Hub, Webhook
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.states import DecisionState
from interlock.hub.cannot_start import CannotStart
from interlock.transports.http.documents import Post
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault

MOST_WAITING: Final = 256
TIMEOUT_S: Final = 10.0
TRIES: Final = 3
PAUSE_S: Final = 2.0
MOST_BYTES: Final = 64 * 1024
"""Of an answer, which nobody reads."""
SIGNATURE: Final = "x-interlock-signature"
TIMESTAMP: Final = "x-interlock-timestamp"
SHORTEST_SECRET: Final = 16
_PLACEHOLDERS: Final = ("changeme", "change-me", "change_me", "placeholder", "password", "secret", "example", "your-")

Log = Callable[[str, str], None]


class ApprovalNotifiers:
    """Passes on news of open questions, in order, off the loop."""

    def __init__(self, settings: Callable[[], Hub], resolver: Resolver, log: Log) -> None:
        self._settings = settings
        self._resolver = resolver
        self._log = log
        self._news: asyncio.Queue[Decision] = asyncio.Queue(MOST_WAITING)
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Open questions that somebody is still to be told of."""
        return self._news.qsize()

    def on_decision(self, decision: Decision) -> None:
        """A decision changed. Only open ones are news, and only where someone is to be told."""
        hub = self._settings()
        if decision.state is not DecisionState.OPEN or (hub.webhook.url is None and not hub.approvals.desktop):
            return
        if self._news.full():
            self._log("hub", f"nobody could be told of approval {decision.id}: too many wait")
            return
        self._news.put_nowait(decision)
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())

    async def close(self) -> None:
        """Tell no more."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            decision = await self._news.get()
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
            await asyncio.wait_for(process.wait(), TIMEOUT_S)
        except (OSError, TimeoutError) as cause:
            self._log("hub", f"the desktop could not be told of approval {decision.id}: {cause!r}")

    async def _post(self, url: str, secret: str, decision: Decision) -> None:
        if weak := why_weak(secret):
            self._log("hub", f"the webhook's secret {weak}; nothing is sent unsigned")
            return
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                await self._send(url, secret, _told(decision))
            except Fault as fault:
                why = fault.message
                status = fault.data.get("status")
                if fault.name == "VALIDATION_BLOCKED" or (isinstance(status, int) and status < 500 and status != 429):
                    break
            else:
                return
        self._log("hub", f"the webhook was not told of approval {decision.id}: {why}")

    async def _send(self, url: str, secret: str, body: bytes) -> None:
        """Post it once. Raises a `Fault` for anything but a good answer."""
        timestamp = str(int(time.time()))
        signed = {TIMESTAMP: timestamp, SIGNATURE: signature(secret, timestamp, body)}
        post = Post(url, signed, guard=guarded_for(url, self._resolver), most_bytes=MOST_BYTES)
        try:
            await post(body, TIMEOUT_S)
        finally:
            with contextlib.suppress(OSError):
                await post.close()


def check_webhook(settings: Webhook) -> None:
    """Raises CannotStart where a webhook is to be told and nothing good to sign with is there."""
    if settings.url is not None and (why := why_weak(os.environ.get(settings.secret_env, ""))):
        hint = "set it to what `openssl rand -hex 32` prints, for instance, or leave [hub.webhook] out"
        raise CannotStart(f"the webhook's secret in ${settings.secret_env} {why}", hint)


def why_weak(secret: str) -> str:
    """Why a secret is none, as it goes on after its name; empty for a good one."""
    if not secret:
        return "is not set"
    if len(secret) < SHORTEST_SECRET or len(set(secret)) < SHORTEST_SECRET // 2:
        return "is too short or too plain to be a secret"
    return "is a placeholder" if any(word in secret.lower() for word in _PLACEHOLDERS) else ""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What the receiver compares: HMAC-SHA256 over the time of sending, a dot, and the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def desktop_command(decision: Decision) -> list[str] | None:
    """The program that shows a line on this desktop, where there is one. Its text is read by no shell."""
    title, text = f"Interlock: approval {decision.id}", decision.question.text[:300]
    if program := shutil.which("notify-send"):
        return [program, "--app-name=Interlock", "--", title, text]
    if program := shutil.which("osascript"):
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return [program, "-e", script, title, text]
    return None


def _told(decision: Decision) -> bytes:
    asked = decision.question
    return msgspec.json.encode(
        {
            "event": "decision.open",
            "id": decision.id,
            "kind": asked.kind,
            "asker": asked.asker,
            "target": asked.shown,
            "question": asked.text,
            "rule": asked.rule,
            "risk": asked.risk,
            "trust": asked.trust,
            "findings": list(asked.findings),
            "summary": asked.summary,
            "created": decision.created,
            "deadline": decision.deadline,
        }
    )
