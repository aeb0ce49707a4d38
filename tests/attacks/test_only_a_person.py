"""A program without a terminal gives nobody rights, and an agent program does nothing as the person it works for.

Both hold for a hub without a passphrase. The table of operations says which rows need a person, and every command of
`interlock` is here in one of three sets: a new one belongs in one of them before these tests pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click
import msgspec
import pytest

from attacks.test_passphrase import AGENTS as ASKING
from attacks.test_passphrase import NARROWING, SETTINGS, WIDENING, asked
from cli.conftest import User, user  # noqa: F401 - a fixture
from cli.test_approvals import on_terminal
from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, RunningHub, running_hub
from hub.test_journal import entries
from hub.test_operations import Terminal, sample, terminal
from interlock.cli.app import SECTIONS, app
from interlock.cli.control.agent_environment import AGENTS
from interlock.cli.control.hub_link import HubLink
from interlock.config.settings import ServerSettings
from interlock.hub.admin.people import PROGRAM, ControlPeer
from interlock.hub.admin.table import OPERATIONS
from waiting import block_until

HEADERS = {"content-type": "application/json", "accept": "application/json"}
ACTING = {name for name in WIDENING if not OPERATIONS[name].terminal}
"""Operations that act as the person and give nobody rights."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RawHttpServer(modern=True) as web:
        servers = {"web": ServerSettings(url=web.url)}
        async with running_hub(tmp_path, servers, hub=SETTINGS, agents=ASKING) as running:
            await running.new_key("eve", "person")
            await running.new_key("ci")
            await running.deny("shut out", "web")
            await running.allow("let in", "web")
            yield running


async def said(program: Terminal, name: str, params: dict[str, Any]) -> str:
    """The name of the error, or `done`."""
    answer = await program.ask(f"hub/{name}", {**sample(OPERATIONS[name]), **params})
    return str(answer["error"]["data"]["name"]) if "error" in answer else "done"


def test_t125_scripts_act_as_the_person_but_give_no_rights() -> None:
    assert {"call", "rooms.join", "rollback.run", "discovery.register", "discovery.install"} == ACTING


async def test_t125_a_program_without_a_terminal_gives_nobody_rights(hub: RunningHub, tmp_path: Path) -> None:
    giving = WIDENING.keys() - ACTING
    async with terminal(hub, tmp_path, PROGRAM) as program:
        for name in giving:
            assert await said(program, name, WIDENING[name]) == "PERSON_REQUIRED", name
            more = {**WIDENING[name], "passphrase": "there is none"}
            assert await said(program, name, more) == "PERSON_REQUIRED", name
            assert await said(program, name, {**WIDENING[name], "terminal": True}) == "INVALID_PARAMS", name
        assert await said(program, "keys.create", {"agent": "mallory", "kind": "admin"}) == "PERSON_REQUIRED"
        assert [key.principal for key in hub.hub_app.keys.list() if key.kind in ("person", "admin")] == ["eve"]
        for name, params in NARROWING.items():
            assert await said(program, name, params) == "done", name
        assert await said(program, "call", WIDENING["call"]) == "done"
    async with terminal(hub, tmp_path) as person:
        for name in giving - {"rooms.capabilities"}:
            assert await said(person, name, WIDENING[name]) == "done", name
        # This hub has no rooms, so a person gets as far as the handler.
        assert await said(person, "rooms.capabilities", WIDENING["rooms.capabilities"]) == "NOT_FOUND"
    refused = [entry.record for entry in await entries(hub) if "only a person" in entry.record.reason]
    assert refused, "every refusal is on record"


async def test_t125_an_agent_program_does_nothing_as_the_person(hub: RunningHub, tmp_path: Path) -> None:
    answer = await asked(hub)
    async with terminal(hub, tmp_path, ControlPeer(terminal=True, agent="Claude Code")) as program:
        for name, params in WIDENING.items():
            assert await said(program, name, params) == "PERSON_REQUIRED", name
        deciding = {name for name, operation in OPERATIONS.items() if operation.proves_itself}
        assert {"approvals.answer", "taints.clear", "permissions.approve", "console.code"} <= deciding
        for name in deciding:
            params = answer if name == "approvals.answer" else {}
            assert await said(program, name, {**params, "terminal": True}) == "PERSON_REQUIRED", name
        for name, params in NARROWING.items():
            assert await said(program, name, params) == "done", name
    assert hub.hub_app.inbox.open_count == 1


@pytest.mark.parametrize("with_passphrase", [False, True])
async def test_t125_a_script_gives_rights_with_the_key_of_an_administrator(
    hub: RunningHub, with_passphrase: bool
) -> None:
    """The way that the threats name for scripts. It approves nothing, and makes no person's key."""
    if with_passphrase:
        await hub.operate("passphrase.set", new="correct horse", terminal=True)
    answer, key = await asked(hub), await hub.new_key("deploy", "admin")

    async def said(verb: str, path: str, **params: Any) -> int:
        in_address = urlencode(params) if verb == "DELETE" else ""
        body = msgspec.json.encode(params) if verb == "POST" else b""
        return (await RawClient(f"{hub.url}/admin/{path}?{in_address}", key).send(verb, body, HEADERS))[0]

    place = {"entry_type": "server_grant", "server_id": "web"}
    assert await said("POST", "grants", **place, agent_id="ci", permission="allow") == 200
    assert await said("DELETE", "grants", **place, agent_id="shut out") == 200
    assert [await said("POST", "keys", agent=f"new-{kind}", kind=kind) for kind in ("agent", "admin")] == [200, 200]
    assert await said("POST", "keys", agent="mallory", kind="person") == 403
    assert await said("POST", f"decisions/{answer.pop('id')}/answer", **answer) == 403
    assert hub.hub_app.inbox.open_count == 1


GIVING_COMMANDS: dict[str, tuple[str, ...]] = {
    "console": (),
    "approvals approve": ("x",),
    "approvals deny": ("x",),
    "approvals passphrase": (),
    "approvals rules": ("--make", "x"),
    "taints clear": ("local",),
    "permissions approve": ("demo", "shell.execute"),
    "features enable": ("demo", "memory", "--agent", "local"),
    "features forget": ("demo", "memory", "--agent", "local"),
    "keys create": ("bob", "--kind", "person"),
    "keys rotate": ("eve",),
    "grants allow": ("ci", "demo"),
    "grants revoke": ("shut-out", "demo"),
    "rooms capabilities": ("eve", "--topic", "build", "--add", "chat"),
    "rooms fulfil": ("build", "x"),
}
"""Commands that approve or give rights, with arguments of the case that does."""
ACTING_COMMANDS: dict[str, tuple[str, ...]] = {
    "call": ("demo__convert", "value=1", "source=km", "target=m"),
    "discovery register": ("stats", "--", "npx", "stats"),
    "install": ("stats",),
    "rooms join": ("build",),
    "rooms watch": ("build",),
    "rooms say": ("build", "hello"),
    "rooms propose": ("build", "x"),
    "rooms call": ("build", "x", "--to", "server:demo"),
}
"""Commands that act as the person, in the case that does."""
BY_OPERATION = {"rollback": "rollback.run", "watch": "approvals.answer"}
"""Commands that only read at first. The rows of the operations that they perform then are tested above."""
FREE_COMMANDS = {
    # They read, print, or judge without doing.
    *("status", "health", "doctor", "demo", "list", "find", "budget", "check", "why", "logs", "export", "completion"),
    *("approvals list", "approvals show", "approvals rules list", "taints list", "grants list", "permissions list"),
    *("keys list", "features list", "events", "usage", "channels list", "conversations list", "conversations show"),
    *("rooms list", "discovery list", "sessions list", "secrets list", "service status"),
    "search-model status",
    *("audit export", "audit search", "audit show", "audit tail", "audit verify"),
    # They take away, or end something.
    *("down", "stop", "remove", "logout", "sessions end", "discovery deregister", "service uninstall"),
    *("grants deny", "permissions deny", "permissions revoke", "keys revoke", "features disable", "channels close"),
    *("conversations delete", "secrets remove", "search-model remove"),
    # They start or change programs and files of the user, as an editor or a shell of the user can.
    *("up", "start", "restart", "add", "import", "setup", "connect", "service install", "rooms create", "new", "dev"),
    *("search-model install", "secrets key", "secrets rekey", "secrets rotate", "secrets set", "backup", "restore"),
    # They act as an agent, or say words that ask for nothing by themselves.
    *("stdio", "hook", "chat", "channels open", "rooms mode"),
    # A person logs in at the authorization server.
    "login",
}


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_t125_every_command_needs_a_person_or_says_why_not() -> None:
    assert SECTIONS
    asking = GIVING_COMMANDS.keys() | ACTING_COMMANDS.keys() | BY_OPERATION.keys()
    assert not asking & FREE_COMMANDS
    # A group that does something by itself has a name of its own.
    assert {*_commands(app), "approvals rules"} == asking | FREE_COMMANDS
    assert all(OPERATIONS[name].passphrase for name in BY_OPERATION.values())


CONFIG = """
[rooms.topics.build]
visibility = "restricted"
kinds = { person = "full-access" }
members = { eve = "full-access" }
"""


def test_t125_no_command_gives_rights_from_a_pipe_or_acts_for_an_agent_program(user: User) -> None:  # noqa: F811
    user.configure(CONFIG)
    user.start_hub()
    assert "the key is shown only now" in on_terminal(user, "keys", "create", "eve", "--kind", "person")
    with HubLink.open(user.home) as link:
        block_until(lambda: link.ask("hub/status")["servers"][0]["state"] == "connected")
        place = {"entry_type": "server_grant", "agent_id": "shut-out", "server_id": "demo"}
        link.ask("hub/grants.grant", {**place, "permission": "deny"})
        for command, arguments in GIVING_COMMANDS.items():
            code, out, err = user.finished(*command.split(), *arguments)
            assert (code, "only a person" in err) == (5, True), (command, out, err)
        assert user.finished("call", *ACTING_COMMANDS["call"])[0] == 0, "a script calls tools as its user"
        assert user.finished("keys", "create", "nightly")[0] == 0, "and makes keys for agents"
        user.environ[next(iter(AGENTS))] = "1"
        for command, arguments in (GIVING_COMMANDS | ACTING_COMMANDS).items():
            code, out, err = user.finished(*command.split(), *arguments)
            assert (code, "only a person" in err) == (5, True), (command, out, err)
        assert user.finished("keys", "create", "weekly")[0] == 0
        assert "only a person may" in on_terminal(user, "keys", "create", "bob", "--kind", "person")
        del user.environ[next(iter(AGENTS))]
        names = {key["principal"]: key["kind"] for key in link.ask("hub/keys.list")["keys"]}
        assert names == {"eve": "person", "nightly": "agent", "weekly": "agent"}
        assert link.ask("hub/grants.list")["total"] == 1
        assert "Revoked 1 entry" in on_terminal(user, "grants", "revoke", "shut-out", "demo")


def test_an_agent_program_runs_the_demonstration(user: User) -> None:  # noqa: F811
    """Its hub is of this command alone, and has nobody's tools."""
    user.environ[next(iter(AGENTS))] = "1"
    code, out, err = user.finished("demo")
    assert (code, "4. The hub refuses wrong arguments" in out) == (0, True), (out, err)
