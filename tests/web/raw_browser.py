"""A browser without scripts that keeps any number of cookies, at the console's local name or a public one."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from hub.running_hub import RunningHub

from .console_visitor import forms_of


class Answer(NamedTuple):
    status: int
    text: str


class Browser:
    """One browser. Without `host` it runs on the hub's own machine."""

    def __init__(self, hub: RunningHub, host: str = "") -> None:
        self._hub = hub
        self.host = host or hub.operations.console.address.local_host
        self._origin = f"{'https' if host else 'http'}://{self.host}"
        self.cookies: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        """Of each cookie that was set."""

    async def get(self, path: str) -> Answer:
        return await self._send("GET", path, {}, b"")

    async def post(self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None) -> Answer:
        own = {"origin": self._origin, "content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self._send("POST", path, own, urlencode(fields).encode())

    async def press(self, page: str, action: str, **fields: str) -> Answer:
        """Send the form of a page with this action."""
        form = next(form for form in forms_of((await self.get(page)).text) if form.action == action)
        return await self.post(action, {**form.fields, **fields})

    async def _send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        said = {"host": self.host, "connection": "close", "content-length": str(len(body)), **headers}
        if cookies:
            said["cookie"] = cookies
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(self._hub.url).port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
        head, _, text = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        for line in head.decode().split("\r\n")[1:]:
            name, _, value = line.partition(": ")
            if name.lower() == "set-cookie":
                self._keep(value)
        return Answer(int(head.split(b" ")[1]), text.decode())

    def _keep(self, value: str) -> None:
        pair, _, attributes = value.partition(";")
        name, _, text = pair.partition("=")
        self.attributes[name] = attributes
        if "max-age=0" in attributes.lower():
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = text.strip('"')
