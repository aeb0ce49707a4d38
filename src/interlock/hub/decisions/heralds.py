"""Who is told of an open question besides the inbox: a signed webhook, and the desktop.

They only tell: nothing that comes back is an answer. One that is slow or gone loses news, and holds up nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import shutil
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from interlock.config.settings import Hub
from interlock.hub.decisions.decision import Decision
from interlock.hub.decisions.table import State
from interlock.transports.http.pool import default_context

MOST_WAITING: Final = 256
TIMEOUT_S: Final = 10.0
TRIES: Final = 3
PAUSE_S: Final = 2.0
SIGNATURE: Final = "x-interlock-signature"
TIMESTAMP: Final = "x-interlock-timestamp"

Log = Callable[[str, str], None]


class Heralds:
    """Passes on news of open questions, in order, off the loop."""

    def __init__(self, settings: Callable[[], Hub], log: Log) -> None:
        self._settings = settings
        self._log = log
        self._news: asyncio.Queue[Decision] = asyncio.Queue(MOST_WAITING)
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Open questions that somebody is still to be told of."""
        return self._news.qsize()

    def heard(self, decision: Decision) -> None:
        """A decision changed. Only open ones are news, and only where someone is to be told."""
        hub = self._settings()
        if decision.state is not State.OPEN or (hub.webhook.url is None and not hub.approvals.desktop):
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
        if not secret:
            self._log("hub", "the webhook's secret is not set; nothing is sent unsigned")
            return
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                status = await asyncio.to_thread(_send, url, secret, decision)
            except OSError as cause:
                why = repr(cause)
                continue
            if status < 300:
                return
            why = f"it answered {status}"
            if status < 500:
                break
        self._log("hub", f"the webhook was not told of approval {decision.id}: {why}")


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


def _send(url: str, secret: str, decision: Decision) -> int:
    """Gives the status of the answer. Raises OSError where there was none."""
    import http.client  # needed where a webhook is set, and nowhere else

    asked = decision.question
    body = msgspec.json.encode(
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
    timestamp = str(int(time.time()))
    parts = urlsplit(url)
    host = parts.hostname or ""
    line: http.client.HTTPConnection
    if parts.scheme == "https":
        line = http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_S, context=default_context())
    else:
        line = http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        said = {"content-type": "application/json", TIMESTAMP: timestamp, SIGNATURE: signature(secret, timestamp, body)}
        line.request("POST", path, body, said)
        return line.getresponse().status
    except http.client.HTTPException as cause:
        raise OSError(repr(cause)) from cause
    finally:
        line.close()
