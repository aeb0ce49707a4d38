"""Commands that ask a running hub: what they send and what they print."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cases import each_case
from interlock.cli.app import app
from interlock.cli.control import hub_link
from interlock.cli.control.hub_link import HubLink, SocketLineReader
from interlock.cli.control.own_address import own_url
from interlock.cli.lifecycle.status import duration
from interlock.cli.lifecycle.up import show_running
from interlock.cli.terminal import show
from interlock.cli.terminal.failures import CommandFailure, CommandRefused, NoHub
from interlock.cli.terminal.show import plain
from interlock.transports import peers
from interlock.transports.peers import peer_uid
from interlock.version import VERSION
from interlock.wire.errors import TABLE

from .conftest import User
from .fake_hub import FakeHub


def test_status_shows_each_server_or_its_fix(user: User, hub: FakeHub) -> None:
    output = user.run("status").output
    assert "demo  connected  2 tools  1,234 tokens" in output
    assert "db    error      the variable `DATABASE_URL` is not set" in output
    assert "→ export DATABASE_URL=…" in output
    assert "up 1 min 35 s" in output


def test_the_help_of_the_list_of_approvals_names_the_answered_ones(user: User) -> None:
    assert "List open approval requests, or all." in user.run("approvals", "list", "--help").output


def test_what_keeps_a_server_from_starting_is_told_once(user: User, hub: FakeHub) -> None:
    status = json.loads(user.run("status", "--json").output)
    wrong = {"file": "/c/interlock.toml", "line": 3, "message": status["servers"][1]["problem"], "hint": "export it"}
    other = {"file": "", "line": None, "message": "`listen` changed", "hint": "restart"}
    hub.answers["hub/status"] = {**status, "config": {"path": "", "problems": [wrong, other]}}
    output = user.run("status").output
    assert output.count("`DATABASE_URL` is not set") == 1
    assert "\n`listen` changed" in output
    assert output.index("`listen` changed") < output.index("demo  connected"), "above the servers, of which many follow"


def test_health_shows_each_server_and_why_it_is_not_well(user: User, hub: FakeHub) -> None:
    row = {"state": "connected", "checked_at": None, "calls": 0, "calls_failed": 0, "answer_ms": 1.2, "details": None}
    ill = {
        **row,
        "server": "db",
        "health": "degraded",
        "reasons": ["it says so\x1b[31m"],
        "calls": 4,
        "calls_failed": 3,
    }
    hub.answers["hub/health"] = {
        "status": "degraded",
        "reason": "",
        "servers": [{**row, "server": "files", "health": "healthy", "reasons": []}, ill],
    }
    assert user.run("health").exit_code == 0
    shown = user.run("health").output
    assert "1 of 2 servers healthy." in shown
    assert "files  healthy" in shown
    assert "db     degraded  1 ms  3 of 4 calls failed  it says so" in shown
    assert "\x1b" not in shown
    ill["health"] = "down"
    assert user.run("health").exit_code == user.run("health", "--json").exit_code == 1


def test_tokens_that_are_not_counted_yet_are_not_guessed(user: User, hub: FakeHub) -> None:
    (tool,) = hub.answers["hub/tools"]["tools"]
    hub.answers["hub/tools"] = {"tools": [{**tool, "tokens": None}, tool]}
    assert user.run("list").output.splitlines()[-1] == "2 tools"


def test_status_in_json_is_the_hubs_own_answer(user: User, hub: FakeHub) -> None:
    assert json.loads(user.run("status", "--json").output) == hub.answers["hub/status"]


def test_the_status_of_one_server_says_why_its_era_was_chosen(user: User, hub: FakeHub) -> None:
    demo = hub.answers["hub/status"]["servers"][0]
    said = {**demo, "era": "modern", "revision": "2026-07-28", "era_reason": "the server speaks it"}
    hub.answers["hub/status"] = {**hub.answers["hub/status"], "servers": [said], "disabled": ["off"]}
    shown = user.run("status", "demo").output.splitlines()
    assert shown == [
        "  demo  connected  2 tools  1,234 tokens  python -m demo",
        "      revision 2026-07-28, stateless era: the server speaks it",
    ]
    assert json.loads(user.run("status", "demo", "--json").output) == said
    assert "the server `off` is disabled" in user.run("status", "off").stderr
    assert user.run("status", "nobody").exit_code == 1


def test_install_lets_the_hub_install_a_registered_server(user: User, hub: FakeHub) -> None:
    installed = {"server_id": "dynamic-time", "package": "mcp-time==1", "digest": "d" * 64, "folder": "/f"}
    hub.answers["hub/discovery.install"] = installed
    shown = user.run("install", "dynamic.time").output
    assert hub.params_of("hub/discovery.install") == [{"id": "dynamic.time"}]
    assert "Installed mcp-time==1 for `dynamic-time`" in shown
    assert "interlock restart dynamic-time" in shown
    data = {"name": "NOT_FOUND"}
    hub.answers["hub/discovery.install"] = {"error": {"code": -32602, "message": "no such server", "data": data}}
    unknown = user.run("install", "time")
    assert unknown.exit_code == 3
    assert "`interlock discovery register`" in unknown.stderr
    hub.close()
    stopped = user.run("install", "time")
    assert stopped.exit_code == 3
    assert "need a running hub: `interlock up -d`" in stopped.stderr


def test_without_a_terminal_there_is_no_colour(user: User, hub: FakeHub) -> None:
    assert "\x1b" not in user.run("status").output


def test_text_of_a_server_cannot_move_the_cursor(user: User, hub: FakeHub) -> None:
    assert "\x1b" not in user.run("list").output + user.run("logs").output
    assert plain("a\u202eb\x07\nc") == "a\\u202eb\\u0007\nc"


def test_of_a_server_that_is_still_starting_nothing_is_said_yet(user: User, hub: FakeHub) -> None:
    starting = {"id": "slow", "state": "connecting", "where": "npx slow", "tools": 0, "tokens": 0}
    hub.answers["hub/status"]["servers"] = [starting]
    hub.answers["hub/tools"] = {"tools": []}
    assert "0 tools" not in user.run("status").output
    assert user.run("list").output == "No tools yet: slow is still starting.\n"


def test_up_in_the_background_looks_for_a_moment_what_its_servers_offer(
    user: User, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    status = hub.answers["hub/status"]
    answers = iter([{**status, "servers": [{"id": "demo", "state": "connecting"}]}])
    hub.answers["hub/status"] = lambda _: next(answers, status)
    show_running(user.home, False, already=False)
    assert "2 tools" in capsys.readouterr().out


def test_list_passes_on_server_and_profile(user: User, hub: FakeHub) -> None:
    output = user.run("list", "--server", "demo", "--profile", "work").output
    assert hub.params_of("hub/tools") == [{"server": "demo", "profile": "work"}]
    assert "demo__add" in output
    assert "1 tool, 40 tokens" in output


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["a=2", "note=3"], {"a": 2, "note": "3"}),
        (["a=true", "b=[1]", "c=plain text", "d="], {"a": True, "b": [1], "c": "plain text", "d": ""}),
        (['{"a": {"b": 1}}'], {"a": {"b": 1}}),
        ([], {}),
        (["url=https://h/?a=b"], {"url": "https://h/?a=b"}),
    ],
)
def test_call_reads_arguments_as_the_schema_says(user: User, hub: FakeHub, words: list[str], sent: object) -> None:
    result = user.run("call", "demo__add", *words)
    assert result.exit_code == 0
    assert hub.params_of("hub/call")[0]["arguments"] == sent
    assert json.loads(result.output) == sent


@pytest.mark.parametrize(
    ("schema", "text", "sent"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "5", "5"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"type": ["string", "null"]}, "true", "true"),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "5", 5),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, "1"]}, "1", 1),
        ({"type": "string"}, "[1]", "[1]"),
        ({"type": "array"}, "[1]", [1]),
        ({"$ref": "#/$defs/x"}, "5", 5),
        ({"type": 5, "anyOf": 5, "oneOf": [5]}, "5", 5),
        ({}, "5", 5),
    ],
)
def test_a_value_is_read_as_any_kind_that_its_schema_names(
    user: User, hub: FakeHub, schema: dict[str, object], text: str, sent: object
) -> None:
    tool = {"name": "demo__x", "inputSchema": {"type": "object", "properties": {"v": schema}}}
    hub.answers["hub/tools"] = {"tools": [tool]}
    assert user.run("call", "demo__x", f"v={text}").exit_code == 0
    assert hub.params_of("hub/call")[0]["arguments"] == {"v": sent}


def test_call_reads_json_from_standard_input(user: User, hub: FakeHub) -> None:
    user.run("call", "demo__add", "-", stdin='{"a": 1}')
    assert hub.params_of("hub/call")[0]["arguments"] == {"a": 1}


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["{broken"],
        ["=1"],
        ['{"a": NaN}'],
        ['{"a": -Infinity}'],
        ['{"a": 1e999}'],
        ['{"a": 1, "a": 2}'],
        ['{"a": ' * 5000 + "1" + "}" * 5000],
        ["a=1", "a=2"],
    ],
)
def test_call_refuses_arguments_it_cannot_read(user: User, hub: FakeHub, words: list[str]) -> None:
    result = user.run("call", "demo__add", *words)
    assert result.exit_code == 2
    assert "key=" in result.stderr
    assert hub.params_of("hub/call") == []


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "[" * 5000])
def test_a_value_that_json_cannot_hold_is_sent_as_the_text_it_is(user: User, hub: FakeHub, text: str) -> None:
    assert user.run("call", "demo__add", f"a={text}").exit_code == 0
    assert hub.params_of("hub/call")[0]["arguments"] == {"a": text}


@pytest.mark.parametrize("words", [["call", "demo__add", "note=\udcff"], ["logs", "\udcff"], ["why", "\udcff"]])
def test_what_is_not_utf_8_is_refused_instead_of_waited_for(user: User, hub: FakeHub, words: list[str]) -> None:
    result = user.run(*words)
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr


@pytest.mark.parametrize(("given", "code"), [(b'{"note": "\xff"}', 2), (b'\xef\xbb\xbf{"note": "b"}', 0)])
def test_standard_input_is_read_as_utf_8(user: User, hub: FakeHub, given: bytes, code: int) -> None:
    assert user.finished("call", "demo__add", "-", stdin=given)[0] == code


def test_an_answer_without_a_number_is_the_answer(user: User, hub: FakeHub) -> None:
    hub.answers["hub/status"] = {"id": None, "error": {"code": -32700, "message": "that is not JSON"}}
    result = user.run("status")
    assert result.exit_code == 1
    assert "that is not JSON" in result.stderr


def test_the_doctor_tells_of_a_server_that_the_hub_cannot_start(user: User, hub: FakeHub) -> None:
    down = {"id": "sqlite", "state": "error", "health": "down", "problem": "it exited with code 1", "hint": "see logs"}
    hub.answers["hub/status"] = {**hub.answers["hub/status"], "servers": [down]}
    assert "✗ server sqlite: is down: it exited with code 1" in user.run("doctor").output


def test_the_doctor_names_a_server_without_its_variable_once(user: User, hub: FakeHub) -> None:
    user.config.parent.mkdir(parents=True, exist_ok=True)
    user.config.write_text('[servers.b]\ncommand = ["python3"]\nenv = { K = "${NOT_SET_ANYWHERE}" }\n')
    down = {"id": "b", "state": "error", "health": "down", "problem": "NOT_SET_ANYWHERE is not set", "hint": "set it"}
    hub.answers["hub/status"] = {**hub.answers["hub/status"], "servers": [down]}
    shown = user.run("doctor").output
    assert shown.count("server b:") == 1, shown
    assert "NOT_SET_ANYWHERE" in shown


def test_conversations_are_listed_by_name_and_shown_by_the_beginning_of_an_id(user: User, hub: FakeHub) -> None:
    rows = [
        {"id": id_, "agent": "a", "model": "m", "turns": 1, "updated": "2026-01-01T00:00"}
        for id_ in ("conv_5a1f", "conv_5a22", "conv_77")
    ]
    hub.answers["hub/conversations.list"] = {"conversations": rows}
    hub.answers["hub/conversations.show"] = {"turns": []}
    hub.answers["hub/conversations.delete"] = {"deleted": 1}
    assert user.run("conversations", "list", "--agent", "a").output == user.run("conversations", "--agent", "a").output
    assert user.run("conversations", "show", "conv_7").exit_code == 0
    assert user.run("conversations", "delete", "conv_5a1").exit_code == 0
    assert hub.params_of("hub/conversations.show") == [{"id": "conv_77"}]
    assert hub.params_of("hub/conversations.delete") == [{"id": "conv_5a1f"}]
    several = user.run("conversations", "show", "conv_5a")
    assert (several.exit_code, "2 conversations begin with" in several.output) == (2, True)


def test_a_hub_of_another_version_that_lacks_something_is_told_from_a_mistake(user: User, hub: FakeHub) -> None:
    unknown = {"code": -32601, "message": "no such method: hub/why", "data": {"name": "METHOD_NOT_FOUND"}}
    hub.answers["hub/why"] = {"error": unknown}
    assert "no such method" in user.run("why").stderr
    assert "✓ hub: runs" in user.run("doctor").output
    hub.answers["interlock/hello"] = {"version": "0.0.9", "pid": 1, "principal": {"id": "local", "kind": "agent"}}
    told = user.run("why").stderr
    assert "the running hub has version 0.0.9" in told
    assert "`interlock down`, then `interlock up -d`" in told
    assert "! hub: runs, pid 1, version 0.0.9, another version" in user.run("doctor").output


def test_a_folder_whose_name_is_not_utf_8_keeps_nobody_from_asking(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsencode(user.root) + b"/\xff"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    assert user.run("status").exit_code == 0


def test_a_tool_that_reports_an_error_ends_with_1(user: User, hub: FakeHub) -> None:
    hub.answers["hub/call"] = {"result": {"content": [{"type": "text", "text": "no"}], "isError": True}}
    result = user.run("call", "demo__add", "a=1")
    assert (result.exit_code, result.stdout) == (1, "no\n")


@pytest.mark.parametrize(
    ("name", "as_result", "code", "hint"),
    [
        ("INVALID_TOOL_ARGS", True, 2, "interlock list --server demo --json"),
        ("LOGIN_REQUIRED", True, 1, "interlock login demo"),
        ("APPROVAL_PENDING", True, 5, "interlock approvals"),
        ("UPSTREAM_UNAVAILABLE", False, 1, "interlock logs demo"),
        ("RATE_LIMITED", False, 5, "interlock why"),
        ("ACCESS_DENIED", False, 5, ""),
    ],
)
def test_the_exit_code_of_a_call_tells_wrong_use_failure_and_refusal_apart(
    user: User, hub: FakeHub, name: str, as_result: bool, code: int, hint: str
) -> None:
    data = {"name": name, "domain": TABLE[name].domain}
    refused = {"result": {"content": [], "isError": True, "_meta": {"dev.interlock/error": data}}}
    hub.answers["hub/call"] = refused if as_result else {"error": {"code": 1, "message": "no", "data": data}}
    result = user.run("call", "demo__add", "a=1")
    assert result.exit_code == code
    assert hint in result.stderr


def test_a_call_that_the_hub_did_not_let_through_is_not_put_down_to_its_server(user: User, hub: FakeHub) -> None:
    meta = {"dev.interlock/error": {"name": "VALIDATION_BLOCKED", "gate": "validators"}}
    hub.answers["hub/call"] = {"result": {"content": [], "isError": True, "_meta": meta}}
    result = user.run("call", "demo__add", "a=1")
    assert result.exit_code == 5
    assert "the hub refused the call of demo__add" in result.stderr
    assert "interlock why" in result.stderr
    assert "interlock logs" not in result.stderr


def test_an_error_of_the_hub_is_shown_with_its_fix(user: User, hub: FakeHub) -> None:
    hub.answers["hub/call"] = {"error": {"code": -32602, "message": "no such tool", "data": {"hint": "see `list`"}}}
    result = user.run("call", "demo__nope")
    assert result.exit_code == 1
    assert "no such tool" in result.stderr
    assert "→ see `list`" in result.stderr


def test_a_failed_call_names_the_commands_that_help(user: User, hub: FakeHub) -> None:
    unknown = {"code": -32602, "message": "no", "data": {"name": "TOOL_NOT_FOUND", "hint": "tools/list names them"}}
    hub.answers["hub/call"] = {"error": unknown}
    nope = user.run("call", "other__nope")
    assert (nope.exit_code, "did you mean" in nope.stderr, "`interlock list`" in nope.stderr) == (2, False, True)
    for typed in ("demo__ad", "add"):
        assert "did you mean `demo__add`?" in user.run("call", typed).stderr
    hidden = user.run("call", "demo__add").stderr
    assert ("did you mean" in hidden, "`interlock why AGENT demo__add`" in hidden) == (False, True)
    hub.answers["hub/call"] = {"error": {"code": -32603, "message": "the server exited with code 4"}}
    assert "`interlock logs demo`" in user.run("call", "demo__nope").stderr


def test_logs_follow_until_the_hub_closes(user: User, hub: FakeHub) -> None:
    hub.lines = [{"at": "12:01", "server": "db", "stream": "stderr", "text": "later"}]
    lines = user.run("logs", "db", "-f", "--json").output.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["boom\x1b[31m", "later"]
    assert hub.params_of("hub/logs") == [{"lines": 100, "follow": True, "server": "db"}]


def test_a_follower_that_lost_lines_is_told_where(user: User, hub: FakeHub) -> None:
    hub.gaps = [{"event": "LogWritten", "source": "db", "first": 3, "last": 900}]
    hub.lines = [{"at": "12:01", "server": "db", "stream": "stderr", "text": "later"}]
    lines = user.run("logs", "-f").output.splitlines()
    assert lines[1] == "… lines of db are missing here: they came faster than they were printed"
    assert lines[2].endswith("later")
    told = [json.loads(line) for line in user.run("logs", "-f", "--json").output.splitlines()]
    assert told[1] == {"gap": hub.gaps[0]}


def test_a_made_key_stands_alone_on_standard_output(user: User, hub: FakeHub) -> None:
    result = user.run("keys", "create", "ci", "--kind", "service", "--profile", "work")
    assert result.stdout == "ilk_test\n"
    assert hub.params_of("hub/keys.create") == [{"agent": "ci", "kind": "service", "profile": "work"}]


def test_keys_are_listed_and_revoked(user: User, hub: FakeHub) -> None:
    assert "all tools" in user.run("keys", "list").output
    [key] = hub.answers["hub/keys.list"]["keys"]
    hub.answers["hub/keys.list"] = {"keys": [{**key, "permissions": ["invoke:a__*"], "profile": "work"}]}
    listed = user.run("keys", "list").output
    assert "cursor" in listed
    assert "invoke:a__* in profile work" in listed
    assert "all tools" not in listed, "a narrowed key says what it may"
    assert json.loads(user.run("keys", "revoke", "cursor", "--json").output) == {"revoked": 1}


def test_down_says_how_to_stop_a_hub_that_does_not_obey(user: User, hub: FakeHub) -> None:
    failed = {
        "error": {"code": -32603, "message": "the hub failed to perform stop", "data": {"name": "INTERNAL_ERROR"}}
    }
    hub.answers |= {"hub/stop": failed, "interlock/hello": {"version": "0.0.1", "pid": 4711}}
    result = user.run("down")
    assert result.exit_code == 1
    assert "which has version 0.0.1, did not stop: the hub failed to perform stop" in result.stderr
    assert "kill 4711" in result.stderr


def test_no_log_output_is_said(user: User, hub: FakeHub) -> None:
    hub.answers["hub/logs"] = {"lines": []}
    assert user.run("logs").stderr == "There is no log output yet.\n"
    assert user.run("logs", "--json").output == ""


def test_down_waits_until_the_hub_has_closed(user: User, hub: FakeHub) -> None:
    assert user.run("down").exit_code == 0
    assert hub.stopped.is_set()


def test_a_link_refuses_a_socket_of_another_user(user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_link.os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(CommandRefused, match="another user"):
        HubLink.open(user.home)
    assert hub.asked == []


def test_the_package_itself_can_be_run(user: User) -> None:
    command = [sys.executable, "-P", "-m", "interlock", "--version"]
    ran = subprocess.run(command, env=user.environ, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, VERSION)


def test_the_peer_of_a_socket_is_known() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()


def test_the_peer_of_a_socket_is_known_as_macos_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Told:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option, size) == (0, 1, 76)
            return struct.pack("=IIh2x16I", 0, 501, 1, *[20] * 16)

    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    monkeypatch.setattr(peers.sys, "platform", "darwin")
    assert peer_uid(Told()) == 501  # type: ignore[arg-type]


def test_a_hub_that_goes_while_it_is_looked_at_counts_as_none(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(sock: socket.socket) -> int:
        raise OSError(errno.ENOTCONN, "not connected")

    monkeypatch.setattr(peers, "peer_uid", gone)
    with pytest.raises(NoHub):
        HubLink.open(user.home)


def test_a_socket_left_over_by_a_killed_hub_counts_as_none(user: User) -> None:
    path = user.home / "run" / "hub.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NoHub):
        HubLink.open(user.home)


def test_a_path_too_long_for_a_socket_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandFailure) as caught:
        HubLink.open(tmp_path / ("x" * 120))
    assert "INTERLOCK_HOME" in caught.value.hint


def test_a_hub_that_hangs_up_at_hello_is_about_to_be_gone(user: User) -> None:
    path = user.home / "run" / "hub.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as ending:
        ending.bind(str(path))
        ending.listen()
        threading.Thread(target=lambda: ending.accept()[0].close()).start()
        with pytest.raises(NoHub):
            HubLink.open(user.home)


def test_a_hub_that_does_not_answer_is_given_up(user: User) -> None:
    path = user.home / "run" / "hub.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(CommandFailure, match="did not answer"):
            HubLink.open(user.home, timeout=0.05)


def test_lines_come_whole_whatever_the_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lines = SocketLineReader(ours)
        theirs.sendall(b'{"a"')
        theirs.sendall(b": 1}\nrest")
        theirs.shutdown(socket.SHUT_WR)
        assert lines.next(5) == b'{"a": 1}'
        assert lines.next(5) is None
        assert bytes(lines.rest) == b"rest"


@each_case(("seconds", "said"), [(0, "0 s"), (59, "59 s"), (3661, "1 h 1 min"), (90_000, "1 d 1 h")])
def test_durations_are_said_in_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_failure_is_json_where_json_was_asked_for(user: User, hub: FakeHub) -> None:
    hub.close()
    result = user.run("status", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"] == {
        "message": "no hub is running",
        "hint": "start it with `interlock up` (or `interlock up -d`)",
        "exit_code": 4,
    }
    assert "no hub is running" in user.run("status").stderr


def commands_with_json(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from commands_with_json(command, (*path, name))
        elif command is not None and any(option.name == "as_json" for option in command.params):
            yield (*path, name)


def test_wrong_usage_of_every_command_is_json_where_json_was_asked_for(user: User) -> None:
    wrong = [(*path, "--no-such-option") for path in commands_with_json(app)]
    assert len(wrong) > 40
    wrong += [
        ("up", "--port", "99999"),
        ("up", "--port", "x"),
        ("audit", "show", "zzz"),
        ("audit", "tail", "-n", "x"),
        ("audit", "nosuch"),
        ("connect", "nosuch"),
        ("connect", "cursor", "--print", "--undo"),
        ("add",),
        ("bogus",),
        ("--bogus",),
    ]
    for arguments in wrong:
        result = user.run(*arguments, "--json")
        assert result.exit_code == 2, (arguments, result.output)
        error = json.loads(result.stdout)["error"]
        assert (bool(error["message"]), error["exit_code"]) == (True, 2), arguments
        assert "--help" in error["hint"], arguments
    assert user.run("add", "a", "--no-such-option", "--", "npx", "x", "--json").stdout == ""


def test_up_listens_where_the_command_line_says(user: User) -> None:
    user.configure()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = user.run("up", "-d", "--port", str(port), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(user.run("status", "--json").output)["listen"] == f"127.0.0.1:{port}"
    assert user.run("up", "--port", "7999", "--json").exit_code == 1
    assert user.run("up", "--port", "70000").exit_code == 2


def test_a_long_call_says_on_a_terminal_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            done = super().write(text)
            if re.search(r"files__search: \d+ s", self.getvalue()):
                written.set()
            return done

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(show, "TELL_EVERY_S", 0.001)
    with show.waiting("files__search"):
        assert written.wait(60)
    assert terminal.getvalue().endswith("\r\x1b[K"), "the line is gone when the call has ended"


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("0.0.0.0:7420", "http://127.0.0.1:7420"),
        ("[::]:7420", "http://[::1]:7420"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[fd00::1]:7420", "http://[fd00::1]:7420"),
    ],
)
def test_a_hub_at_every_address_is_called_at_the_loopback_one(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, listen: str, url: str
) -> None:
    hub.answers["hub/status"] = {**hub.answers["hub/status"], "listen": listen}
    monkeypatch.setenv("INTERLOCK_HOME", str(user.home))
    assert own_url() == url
