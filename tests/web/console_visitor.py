"""A browser without scripts for tests of the console: it keeps the cookie, reads forms and posts them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlencode

from hub.running_hub import RawClient, RunningHub


class Answer(NamedTuple):
    """An answer of the hub."""

    status: int
    headers: dict[str, str]
    text: str


class Form(NamedTuple):
    """A form with its hidden fields and buttons."""

    action: str
    fields: dict[str, str]
    buttons: list[tuple[str, str]]


class Visitor:
    """One browser."""

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.host = hub.operations.console.address.local_host
        self.cookie = ""

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.send("GET", path, b"", headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        own = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{self.host}"}
        return await self.send("POST", path, urlencode(fields).encode(), own | headers)

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        said = {"host": self.host, "accept": "text/html"}
        if self.cookie:
            said["cookie"] = f"interlock_console={self.cookie}"
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        status, names, answer = await RawClient(self.hub.url + path).send(method, body, said)
        if cookie := names.get("set-cookie"):
            self.cookie = cookie.partition("=")[2].partition(";")[0].strip('"')
        return Answer(status, names, answer.decode())

    async def code(self) -> str:
        """A login code, as `interlock console` gets one."""
        operations = self.hub.operations
        made = await operations.perform(operations.hub_user, "console.code", b'{"terminal":true}')
        return str(made.code)  # type: ignore[attr-defined]

    async def log_in(self) -> Visitor:
        """Log in as the hub's own user."""
        answer = await self.post("/console/login", {"code": await self.code()})
        assert (answer.status, answer.headers["location"]) == (303, "/console"), answer.text
        return self

    async def log_in_with(self, key: str) -> Visitor:
        """Log in with a key."""
        answer = await self.post("/console/login", {"key": key})
        assert answer.status == 303, answer.text
        return self

    async def forms(self, path: str) -> list[Form]:
        """The forms of a page, without that for logging out."""
        answer = await self.get(path)
        assert answer.status == 200, answer.text
        return [form for form in forms_of(answer.text) if form.action != "/console/logout"]

    async def press(self, path: str, value: str, **fields: str) -> Answer:
        """Press the first button with a value on a page."""
        form, name = next(
            (form, name) for form in await self.forms(path) for name, found in form.buttons if found == value
        )
        return await self.post(form.action, {**form.fields, name: value, **fields})


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "form":
            self.forms.append(Form(given["action"], {}, []))
        elif tag == "input" and "name" in given:
            self.forms[-1].fields[given["name"]] = given.get("value", "")
        elif tag == "button" and "name" in given:
            self.forms[-1].buttons.append((given["name"], given["value"]))


def forms_of(page: str) -> list[Form]:
    """Every form of a page."""
    reader = _Reader()
    reader.feed(page)
    return reader.forms


def tags_of(page: str) -> list[str]:
    """Every element of a page."""
    reader = _Reader()
    reader.feed(page)
    return reader.tags


async def call(hub: RunningHub, agent: str, tool: str, **arguments: object) -> None:
    """Have an agent call a tool of `busy_server.py`."""
    client = RawClient(hub.url + "/mcp", hub.key(agent))
    await client.modern("tools/call", {"name": f"busy__{tool}", "arguments": arguments})
