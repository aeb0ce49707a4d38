"""Servers in the console: added from a URL or a command, logged in to, their tools switched, and removed."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from hub.running_hub import RawClient, RunningHub, running_hub
from interlock.hub.upstreams.states import ServerState
from interlock.server import Server, Tool
from protected_server import ProtectedServer, visit

from .console_visitor import Answer, Visitor, forms_of
from .test_console_approvals import HOSTILE

pytestmark = pytest.mark.anyio


class ConsoleHub(NamedTuple):
    """A hub with its file, and a person in its console."""

    hub: RunningHub
    file: Path
    visitor: Visitor

    async def post(self, path: str, **fields: str) -> Answer:
        """Post a form with the token of the session."""
        token = next(form.fields["token"] for form in await self.visitor.forms("/console/agents"))
        return await self.visitor.post(path, {"token": token, **fields})

    def servers(self) -> dict[str, dict[str, object]]:
        """The servers in the file."""
        found: dict[str, dict[str, object]] = tomllib.loads(self.file.read_text()).get("servers", {})
        return found


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[ConsoleHub]:
    folder = tmp_path_factory.mktemp("servers")
    file = folder / "interlock.toml"
    file.write_text("# mine\n[hub]\nmode = 'observe'\n")
    async with running_hub(folder, {}, file=file) as hub:
        yield ConsoleHub(hub, file, await Visitor(hub).log_in())


async def test_a_server_is_added_logged_in_to_and_its_tools_are_switched(place: ConsoleHub) -> None:
    async with ProtectedServer() as protected:
        added = await place.post("/console/servers", server="docs", where=protected.url, values="X-Team = blue\n")
        assert (added.status, added.headers["location"]) == (303, "/console/servers/docs?done=added")
        assert place.servers()["docs"] == {"url": protected.url, "headers": {"X-Team": "blue"}}
        assert place.file.read_text().startswith("# mine\n")
        await place.hub.state("docs", ServerState.ERROR)
        assert "needs a login" in (await place.visitor.get("/console/servers")).text
        shown = (await place.visitor.get(added.headers["location"])).text
        assert "<code>interlock login docs</code>" in shown
        assert '<h1>docs</h1><span class="pill login">needs a login</span>' in shown
        assert '<p class="done" role="status" tabindex="-1" autofocus>' in shown, "the focus is on what was done"

        page = await place.visitor.press("/console/servers/docs", "begin")
        url = _found(page.text, r'href="(http[^"]+)" target="_blank"').replace("&amp;", "&")
        assert protected.base.partition("//")[2] in page.text, "the person reads where the link leads"
        state = _found(page.text, r'data-part="([^"]+)"')
        status, _, _ = await RawClient(await visit(url)).send("GET")
        assert status == 200
        assert "You are logged in to docs" in (await place.visitor.get(state)).text
        await place.hub.state("docs", ServerState.CONNECTED)
        other = (await place.visitor.get("/console/servers/docs/login?state=unknown")).text
        assert "This login is no longer under way" in other, "the login of another says nothing about this one"

        assert "whoami" in (await place.visitor.get("/console/servers/docs")).text
        assert (await place.visitor.press("/console/servers/docs", "disable")).status == 303
        assert place.servers()["docs"]["tools"] == {"deny": ["whoami"]}
        await place.hub.state("docs", ServerState.CONNECTED)
        page = await place.visitor.get("/console/tools/docs__whoami")
        assert page.status == 404
        assert (await place.visitor.press("/console/servers/docs", "enable")).status == 303
        assert place.servers()["docs"]["tools"] == {"deny": []}

        assert (await place.post("/console/servers/docs/login", command="remove")).status == 303
        assert (await place.post("/console/servers/docs", command="remove")).status == 303
    assert "docs" not in place.servers()
    assert "The server was removed." in (await place.visitor.get("/console/servers?done=remove")).text
    found = await place.hub.operate("audit.search", event="dev.interlock.operation", most=1000)
    done = {entry["record"]["name"] for entry in found["entries"]}
    assert {"servers.add", "logins.begin", "tools.disable", "tools.enable", "logins.remove", "servers.remove"} <= done


async def test_a_command_is_split_into_words_and_runs_without_a_shell(place: ConsoleHub) -> None:
    where = f"{sys.executable} -c 'import sys; sys.exit(3)' '; rm -rf x'"
    assert (await place.post("/console/servers", server="gone", where=where, values="A=b=c")).status == 303
    assert place.servers()["gone"] == {
        "command": [sys.executable, "-c", "import sys; sys.exit(3)", "; rm -rf x"],
        "env": {"A": "b=c"},
    }
    page = (await place.visitor.get("/console/servers/gone?done=added")).text
    assert "The server was added." in page
    assert (await place.visitor.press("/console/servers/gone", "remove")).status == 303


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"server": "x", "where": "${cmd:id}"}, "cannot be set here"),
        ({"server": "x", "where": "http://127.0.0.1:1/", "values": "A=${file:/etc/passwd}"}, "cannot be set here"),
        ({"server": "x", "where": "prog", "values": "A=${secret:github}"}, "cannot be set here"),
        ({"server": "x", "where": "http://127.0.0.1:1/${op://a/b}"}, "cannot be set here"),
        ({"server": "x", "where": "prog 'open"}, "open quotation"),
        ({"server": "x", "where": "prog", "values": "nothing"}, "has no `=`"),
        ({"server": "x", "where": "javascript://alert(1)"}, "url"),
        ({"server": "../x", "where": "prog"}, "the name"),
        ({"server": HOSTILE[:48], "where": "prog"}, "the name"),
        ({"server": "x", "where": ""}, "a URL or a command"),
    ],
)
async def test_t45_a_bad_server_changes_nothing(place: ConsoleHub, fields: dict[str, str], problem: str) -> None:
    before = place.file.read_bytes()
    answer = await place.post("/console/servers", **fields)
    assert answer.status == 400, answer.text
    assert problem.lower() in unquote(answer.text).lower()
    assert "<img" not in answer.text
    assert place.file.read_bytes() == before
    kept = next(form for form in forms_of(answer.text) if form.action == "/console/servers").fields
    assert {name: kept[name] for name in ("server", "where")} == {
        name: "".join(character for character in fields[name] if character != "\x1b") for name in ("server", "where")
    }, "a mistake does not cost the form"


async def test_t14_only_the_hubs_own_user_adds_servers_switches_tools_and_logs_in(place: ConsoleHub) -> None:
    ada = await Visitor(place.hub).log_in_with(
        await place.hub.new_key("ada", "person", permissions=("admin_read", "admin_write"))
    )
    page = (await ada.get("/console/servers")).text
    assert "Add a server" not in page
    before = place.file.read_bytes()
    other = ConsoleHub(place.hub, place.file, ada)
    for path, fields in (
        ("/console/servers", {"server": "evil", "where": "sh -c id"}),
        ("/console/servers/x/tools", {"command": "disable", "tool": "t"}),
        ("/console/servers/x", {"command": "remove"}),
        ("/console/servers/x/login", {"command": "begin"}),
    ):
        assert (await other.post(path, **fields)).status == 403, path
        assert (await place.visitor.post(path, {"token": "x", **fields})).status == 403, path
    assert place.file.read_bytes() == before


async def test_t54_the_texts_of_a_hostile_server_are_shown_as_text_on_every_page(place: ConsoleHub) -> None:
    hostile = Server(HOSTILE, HOSTILE, instructions=HOSTILE)

    def tool(word: str) -> str:
        return HOSTILE

    for name in ("plain", "flagged"):
        hostile.add_tool(Tool(tool, name=name, title=HOSTILE, description=f"{name} {HOSTILE}"))
    async with hostile.http() as address:
        await place.post("/console/servers", server="evil", where=address.url)
        await place.hub.state("evil", ServerState.CONNECTED)
        place.hub.hub_app.logs.add("evil", "stderr", HOSTILE)
        pages = ["/console", "/console/servers", "/console/servers/evil", "/console/servers/evil/log", "/console/tools"]
        pages += [f"/console/tools/{row['name']}" for row in (await place.hub.operate("tools", server="evil"))["tools"]]
        for page in pages:
            answer = await place.visitor.get(page)
            assert answer.status == 200, page
            _is_harmless(answer.text)
        shown = (await place.visitor.get("/console/servers/evil")).text
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown
        assert "\\u202eevil" in shown
        await place.post("/console/servers/evil", command="remove")


def _is_harmless(page: str) -> None:
    assert "<img" not in page
    assert "alert(1)</script>" not in page
    assert not {"\x1b", "\u202e", "\u2066"} & set(page)


async def test_t54_a_login_page_that_is_no_web_address_is_not_linked(place: ConsoleHub) -> None:
    async with ProtectedServer() as protected:
        protected.metadata = {"authorization_endpoint": "javascript:alert(1)//"}
        await place.post("/console/servers", server="liar", where=protected.url)
        await place.hub.state("liar", ServerState.ERROR)
        answer = await place.post("/console/servers/liar/login", command="begin")
        assert answer.status >= 400
        assert "javascript:" not in answer.text
        await place.post("/console/servers/liar", command="remove")


def _found(page: str, pattern: str) -> str:
    match = re.search(pattern, page)
    assert match is not None, page
    return match[1]
