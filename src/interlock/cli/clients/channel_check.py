"""Checks that a notification of the running hub reaches a client over `interlock stdio`.

The check starts the command of the client's own entry, as the client does, and the hub notifies that session alone.
Process and session end with the check.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from time import monotonic
from typing import IO, Any, Final

from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import as_dict
from interlock.hub.handlers.claude_channel import CAPABILITY, METHOD

LIMIT_S: Final = 20.0
"""The time limit of the whole check, including the start of a process."""
END_S: Final = 5.0
CLIENT: Final = "interlock-connect"
HINT: Final = "see `interlock logs hub`, then run this command again"


def check_channel(link: HubLink, agent: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Send a test notification through the hub and the client's own entry. Raises CommandFailure.

    `declared` says whether the hub offers the channel to this client, which needs an enabled feature set.
    """
    mark = secrets.token_hex(8)
    with tempfile.TemporaryFile() as errors, _Stdio(entry, errors) as client:
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": CLIENT, "version": mark},
        }
        offered = as_dict(client.ask("initialize", opening).get("capabilities"))
        client.tell("notifications/initialized")
        client.ask("ping", {})  # After the answer, the hub has read all earlier messages.
        rows = link.ask("hub/sessions.list", {"agent": agent}, timeout=client.left_s).get("sessions") or []
        own = next((row for row in rows if (row.get("client"), row.get("version")) == (CLIENT, mark)), None)
        if own is None:
            raise CommandFailure("the hub does not know the session of `interlock stdio`", "run `interlock doctor`")
        began = monotonic()
        link.ask("hub/sessions.test_channel", {"id": own["id"], "mark": mark}, timeout=client.left_s)
        client.wait_for(mark)
        took_ms = round((monotonic() - began) * 1000, 1)
    declared = CAPABILITY in as_dict(offered.get("experimental"))
    return {"verified": True, "declared": declared, "took_ms": took_ms}


class _Stdio:
    """The process of a client's entry, with a deadline for everything."""

    def __init__(self, entry: Mapping[str, Any], errors: IO[bytes]) -> None:
        self._deadline = monotonic() + LIMIT_S
        self._id = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._errors = errors
        env = {**os.environ, **{str(name): str(value) for name, value in as_dict(entry.get("env")).items()}}
        command = [str(entry["command"]), *map(str, entry["args"])]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=env
            )
        except OSError as error:
            raise CommandFailure(f"`{command[0]}` cannot be started: {error.strerror}", HINT) from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> _Stdio:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process as a client does, or by force."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):  # it has ended already
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(END_S)
        process.stdout.close()

    @property
    def left_s(self) -> float:
        """The rest of the time, at least a moment."""
        return max(0.05, self._deadline - monotonic())

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._id += 1
        self._write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while True:
            message = self._next(f"an answer to `{method}`")
            if message.get("id") != self._id or "method" in message:
                continue
            if "error" in message:
                raise CommandFailure(f"the hub refused `{method}`: {as_dict(message['error']).get('message')}", HINT)
            return as_dict(message.get("result"))

    def tell(self, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": method})

    def wait_for(self, mark: str) -> None:
        """Wait for the test notification."""
        while True:
            message = self._next("the test notification")
            meta = as_dict(as_dict(message.get("params")).get("meta"))
            if message.get("method") == METHOD and meta.get("test") == mark:
                return

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _next(self, awaited: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self.left_s)
        except queue.Empty:
            raise CommandFailure(
                f"{awaited} did not come through `interlock stdio` within {LIMIT_S:g} s", HINT
            ) from None
        if line is None:
            raise self._ended()
        try:
            return as_dict(json.loads(line))
        except (ValueError, RecursionError):
            return {}

    def _ended(self) -> CommandFailure:
        """The failure for a process that has ended, with its last output."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return CommandFailure("`interlock stdio` closed its output", HINT)
        self._errors.seek(0)
        output = self._errors.read(2000).decode(errors="replace").strip()
        return CommandFailure(
            f"`interlock stdio` ended with {self._process.returncode}: {output or 'it said nothing'}", HINT
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)
