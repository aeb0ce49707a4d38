"""A real browser without a window, driven over its debugging pipe: pages are opened, clicked, read and pictured."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
PATIENCE_S = 30.0


class _Pipe:
    """The connection to one browser, which all its pages share."""

    def __init__(self, sink: int, source: int) -> None:
        self.sink = sink
        self.source = source
        self.numbers = itertools.count(1)
        self.held = b""
        self.pages: dict[str, Page] = {}
        """By session: whose events they are."""

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.held:
            read = os.read(self.source, 1 << 20)
            assert read, "the browser has gone"
            self.held += read
        message, _, self.held = self.held.partition(b"\0")
        return msgspec.json.decode(message, type=dict[str, Any])

    def ask(self, method: str, params: dict[str, object], session: str = "") -> dict[str, Any]:
        """One command of the browser's own protocol and its answer; what else it says is kept as events of its page."""
        number = next(self.numbers)
        own = {"sessionId": session} if session else {}
        _write(self.sink, msgspec.json.encode({"id": number, "method": method, "params": params, **own}) + b"\0")
        while True:
            said = self.read()
            if said.get("id") == number:
                assert "error" not in said, said
                return dict(said["result"])
            page = self.pages.get(said.get("sessionId", session))
            if page is not None:
                page.events.append(said)


class Page:
    """One page of a browser."""

    def __init__(self, pipe: _Pipe, context: str = "") -> None:
        self._pipe = pipe
        self.events: list[dict[str, Any]] = []
        own: dict[str, object] = {"browserContextId": context} if context else {}
        target = pipe.ask("Target.createTarget", {"url": "about:blank", **own})["targetId"]
        self._session = pipe.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        pipe.pages[self._session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    @contextlib.contextmanager
    def beside(self) -> Iterator[Page]:
        """Another page of the same person."""
        other = Page(self._pipe)
        try:
            yield other
        finally:
            other.ask("Page.close")

    @contextlib.contextmanager
    def stranger(self) -> Iterator[Page]:
        """A page of the same browser that shares nothing with this one, as if of another person."""
        context = self._pipe.ask("Target.createBrowserContext", {})["browserContextId"]
        try:
            yield Page(self._pipe, context)
        finally:
            self._pipe.ask("Target.disposeBrowserContext", {"browserContextId": context})

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """One command of the browser's own protocol to this page, and its answer."""
        return self._pipe.ask(method, params, self._session)

    def open(self, url: str) -> None:
        """Go to an address and wait until it is there."""
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        said = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def until(self, condition: str) -> Any:
        """Wait for a condition."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.run(condition)):
            assert time.monotonic() < end, f"never: {condition}\n{self.run('document.body.innerText')}"
            time.sleep(0.02)
        return value

    def picture(self, file: Path, width: int = 1100, height: int = 900, *, dark: bool = False) -> None:
        """A picture of the page."""
        self.size(width, height, dark=dark)
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show it in a window of this size."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)

    def complaints(self) -> list[str]:
        """The problems that the browser found: exceptions, refused scripts and styles, requests that failed."""
        self.run("1")
        told = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                told.append(str(params["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                told.append(params["entry"]["text"])
        return told

    def requested(self) -> list[str]:
        """Every address that the page asked for."""
        self.run("1")
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextlib.contextmanager
def browser(home: Path) -> Iterator[Page]:
    """A page of a browser that forgets everything."""
    assert BROWSER is not None
    (theirs, ours), (back, told) = os.pipe(), os.pipe()
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    command += ["--remote-debugging-pipe", f"--user-data-dir={home}", "--no-first-run", "--disable-extensions"]
    command += ["--disable-background-networking", "--disable-component-update", "about:blank"]
    # It reads commands from descriptor 3 and answers on 4; ours are moved out of the way first.
    source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs, told))
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, source, 3), (os.POSIX_SPAWN_DUP2, sink, 4)]
    process = os.posix_spawn(BROWSER, command, os.environ, file_actions=[*quiet, *pipes], setsid=True)
    for fd in (theirs, told, source, sink):
        os.close(fd)
    try:
        yield Page(_Pipe(ours, back))
    finally:
        os.close(ours)
        os.close(back)
        os.killpg(process, signal.SIGTERM)
        os.waitpid(process, 0)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
