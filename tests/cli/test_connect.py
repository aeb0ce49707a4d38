"""`connect`: our entry comes and goes, and nothing else in a client's file moves."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock.config.client_files
from interlock.cli.clients import channel_check
from interlock.cli.clients.channel_check import check_channel
from interlock.cli.clients.client_hooks import settings_file
from interlock.cli.clients.clients import NAMES, client, with_member
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure
from interlock.config.documents import parser_of
from interlock.config.json_members import remove_member, set_member
from interlock.config.problems import Problem
from interlock.hub.live.events.delivery_tools import NONE_WAITS
from waiting import block_until

from .conftest import User
from .fake_hub import FakeHub

WITH_COMMENTS = """{
    // mine, do not touch
    "theme": "dark", /* very */
    "mcpServers": {
        "other": {"command": "x", "args": []}, // trailing
    },
}
"""


WEB = "http://127.0.0.1:9/mcp"


@pytest.fixture(autouse=True)
def delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake hub notifies nobody, so commands in this process get the outcome of a check instead."""
    monkeypatch.setattr(channel_check, "check_channel", lambda *_: {"verified": True, "took_ms": 1.0})


def entry_of(path: Path, at: tuple[str, ...]) -> dict[str, object] | None:
    parsed = parser_of(path)(path.read_text(), str(path))
    assert not isinstance(parsed, Problem), parsed
    content: object = parsed[0]
    for key in (*at, "interlock"):
        content = content.get(key) if isinstance(content, dict) else None
    return content  # type: ignore[return-value]


def _command(entry: dict[str, object]) -> list[str]:
    command = entry.get("command") or entry.get("cmd")
    return [str(word) for word in (command if isinstance(command, list) else [command, *entry["args"]])]  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_every_client_gets_an_entry_with_its_own_key_and_loses_it_again(user: User, hub: FakeHub, name: str) -> None:
    chosen = client(name)
    assert user.run("connect", name).exit_code == 0
    entry = entry_of(chosen.path, chosen.at)
    assert entry is not None
    program, *args = _command(entry)
    assert Path(program).is_absolute()
    assert args[-1] == "stdio"
    assert (entry.get("env") or entry.get("envs") or entry.get("environment")) == {
        "INTERLOCK_KEY": "ilk_test",
        "INTERLOCK_HOME": str(user.home),
    }
    assert chosen.path.stat().st_mode & 0o077 == 0
    assert hub.params_of("hub/keys.create") == [{"agent": name, "kind": "agent"}]
    hub.asked.clear()
    assert user.run("connect", name, "--undo").exit_code == 0
    assert entry_of(chosen.path, chosen.at) is None
    assert hub.params_of("hub/keys.revoke") == [{"agent": name}]


@pytest.mark.parametrize(
    ("platform", "desktop", "code"),
    [
        ("linux", "c/Claude", "c/Code"),
        ("darwin", "Library/Application Support/Claude", "Library/Application Support/Code"),
        ("win32", "AppData/Roaming/Claude", "AppData/Roaming/Code"),
    ],
)
def test_each_clients_file_is_where_its_system_has_it(
    user: User, monkeypatch: pytest.MonkeyPatch, platform: str, desktop: str, code: str
) -> None:
    monkeypatch.delenv("APPDATA", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr(interlock.config.client_files, "sys", types.SimpleNamespace(platform=platform))
    assert {name: client(name).path.relative_to(user.root).as_posix() for name in NAMES} == {
        "claude-code": ".claude.json",
        "claude-desktop": f"{desktop}/claude_desktop_config.json",
        "cursor": ".cursor/mcp.json",
        "vscode": f"{code}/User/mcp.json",
        "gemini": ".gemini/settings.json",
        "codex": ".codex/config.toml",
        "goose": "AppData/Roaming/Block/goose/config/config.yaml" if platform == "win32" else "c/goose/config.yaml",
        "junie": ".junie/mcp/mcp.json",
        "lm-studio": ".lmstudio/mcp.json",
        "opencode": "c/opencode/opencode.json",
        "qwen": ".qwen/settings.json",
        "windsurf": ".codeium/windsurf/mcp_config.json",
        "zed": {"linux": "c/zed", "darwin": ".config/zed", "win32": "AppData/Roaming/Zed"}[platform] + "/settings.json",
    }


def test_an_existing_file_keeps_its_comments_and_its_other_servers(user: User, hub: FakeHub) -> None:
    path = client("cursor").path
    path.parent.mkdir()
    path.write_text(WITH_COMMENTS)
    outcome = json.loads(user.run("connect", "cursor", "--json").output)
    changed = path.read_text()
    for kept in ("// mine, do not touch", "/* very */", "// trailing", '"other": {"command": "x", "args": []}'):
        assert kept in changed
    assert entry_of(path, ("mcpServers",)) is not None
    assert Path(outcome["backup"]).read_text() == WITH_COMMENTS
    user.run("connect", "cursor", "--undo")
    assert path.read_text() == WITH_COMMENTS


@pytest.mark.parametrize("name", ["gemini", "codex"])
def test_lines_end_as_they_did(user: User, hub: FakeHub, name: str) -> None:
    path = client(name).path
    path.parent.mkdir(parents=True)
    before = b'{\r\n  "theme": "dark",\r\n  "mcpServers": {}\r\n}\r\n' if name == "gemini" else b'model = "m"\r\n\r\n'
    path.write_bytes(before)
    assert user.run("connect", name).exit_code == 0
    lines = path.read_bytes().split(b"\n")
    assert len(lines) > 5
    assert all(line.endswith(b"\r") for line in lines[:-1])
    assert user.run("connect", name, "--undo").exit_code == 0
    assert path.read_bytes().strip() == before.strip()


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("cursor", b'\xef\xbb\xbf{\n  "mcpServers": {}\n}\n'),
        ("cursor", b'{\r\n  "a": 1,\n  "mcpServers": {"x": {}}\r\n}\n'),
        ("codex", b'\xef\xbb\xbfmodel = "m"\n'),
        ("codex", b'model = "m"\r\nnote = """\r\nx\n"""\n[a]\nb = 1'),
        ("codex", b'mcp_servers.x.command = "a"\nmodel = "m"\n'),
        ("codex", b'[mcp_servers.x]\ncommand = "a"\n[a]\nb = 1\n[mcp_servers.y]\ncommand = "b"\n# end\n'),
    ],
)
def test_connecting_and_taking_it_back_leaves_every_byte(user: User, hub: FakeHub, name: str, before: bytes) -> None:
    path = client(name).path
    path.parent.mkdir(parents=True)
    path.write_bytes(before)
    assert user.run("connect", name).exit_code == 0
    connected = path.read_bytes()
    assert b"ilk_test" in connected
    assert user.run("connect", name).exit_code == 0
    assert path.read_bytes() == connected
    assert user.run("connect", name, "--undo").exit_code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("before", ["mcp_servers = { x = { command = 'a' } }\n", "mcp_servers = 'x'\n"])
def test_a_file_that_cannot_take_the_entry_is_told_what_to_do_by_hand(user: User, hub: FakeHub, before: str) -> None:
    path = client("codex").path
    path.parent.mkdir(parents=True)
    path.write_text(before)
    result = user.run("connect", "codex")
    assert result.exit_code == 1
    assert "interlock connect codex --print" in result.stderr
    assert path.read_text() == before
    assert hub.params_of("hub/keys.create") == []


def test_codex_keeps_its_comments(user: User, hub: FakeHub) -> None:
    path = client("codex").path
    path.parent.mkdir()
    path.write_text('model = "o9" # best\n\n[mcp_servers.other]\ncommand = "x"\n')
    user.run("connect", "codex")
    assert "# best" in path.read_text()
    assert set(tomllib.loads(path.read_text())["mcp_servers"]) == {"other", "interlock"}


@pytest.mark.parametrize("text", ["{broken", '{"mcpServers": []}', '{"a": 1, "a": 2}', "[]"])
def test_a_file_that_cannot_be_changed_safely_is_left_alone_and_no_key_is_made(
    user: User, hub: FakeHub, text: str
) -> None:
    path = client("cursor").path
    path.parent.mkdir()
    path.write_text(text)
    result = user.run("connect", "cursor")
    assert result.exit_code == 1
    assert "was not changed" in result.stderr
    assert path.read_text() == text
    assert hub.asked == []


def test_print_writes_nothing(user: User, hub: FakeHub) -> None:
    printed = json.loads(user.run("connect", "cursor", "--print", "--profile", "work").stdout)
    assert printed["mcpServers"]["interlock"]["env"]["INTERLOCK_KEY"] == "ilk_test"
    assert not client("cursor").path.exists()
    assert hub.params_of("hub/keys.create") == [{"agent": "cursor", "kind": "agent", "profile": "work"}]


def test_connecting_twice_leaves_one_entry_and_one_key(user: User, hub: FakeHub) -> None:
    user.run("connect", "gemini")
    user.run("connect", "gemini")
    assert client("gemini").path.read_text().count("INTERLOCK_KEY") == 1
    assert len(hub.params_of("hub/keys.create")) == 1, "the second one takes the place of the first"


def test_a_client_never_gets_the_key_of_a_person(user: User, hub: FakeHub) -> None:
    user.run("connect", "cursor")
    before = client("cursor").path.read_text()
    hub.answers["hub/keys.list"] = {"keys": [{"prefix": "ilk_me", "principal": "cursor", "kind": "person"}]}
    hub.asked.clear()
    refused = user.run("connect", "cursor")
    assert (refused.exit_code, "a key of the kind `person`" in refused.stderr) == (5, True)
    assert hub.params_of("hub/keys.rotate") == []
    assert client("cursor").path.read_text() == before


def test_a_profile_that_does_not_exist_costs_a_client_neither_its_key_nor_its_entry(user: User) -> None:
    user.configure('[profiles.work]\ntools = ["*"]\n')
    user.start_hub()

    def keys() -> list[tuple[str, str, str | None]]:
        with HubLink.open(user.home) as link:
            return [(row["principal"], row["prefix"], row["profile"]) for row in link.ask("hub/keys.list")["keys"]]

    assert user.run("connect", "cursor", "--profile", "work").exit_code == 0
    file, before = client("cursor").path.read_text(), keys()
    refused = user.run("connect", "cursor", "--profile", "wrok")
    assert refused.exit_code == 1
    assert "there is no profile `wrok`" in refused.stderr
    assert "profiles: work" in refused.stderr
    assert (client("cursor").path.read_text(), keys()) == (file, before)

    assert user.run("connect", "cursor").exit_code == 0
    ((name, prefix, profile),) = keys()
    assert (name, profile) == ("cursor", "work"), "a client that is connected again keeps its profile"
    assert prefix in client("cursor").path.read_text()
    user.configure('[profiles.work]\ntools = ["*"]\n[servers.web]\nurl = "' + WEB + '"\n')
    web = with_member(client("cursor"), client("cursor").path.read_text(), ("mcpServers", "web"), {"url": WEB})
    client("cursor").path.write_text(web)
    assert user.run("setup", "--yes").exit_code == 0
    assert "web" not in client("cursor").path.read_text()
    assert keys() == [(name, prefix, profile)], "setup leaves the key of a client that is connected"
    assert user.run("setup", "--undo").exit_code == 0
    assert client("cursor").path.read_text() == web
    for key, code in (("ilk_unknown", 5), (str(json.loads(web)["mcpServers"]["interlock"]["env"]["INTERLOCK_KEY"]), 2)):
        called = user.run("call", "nope", "--key", key)
        assert (called.exit_code, "does not accept this key" in called.stderr) == (code, code == 5)
    mine = user.run("list", "--key", key, "--json")
    assert (mine.exit_code, json.loads(mine.stdout)) == (0, {"tools": []}), "its profile has no tool of a server"
    assert "the hub does not accept this key" in user.run("list", "--key", "ilk_unknown").stderr
    assert user.run("list", "--key", key, "--profile", "work").exit_code == 2
    assert user.run("keys", "rotate", "cursor", "--profile", "wrok").exit_code == 1
    assert keys() == [(name, prefix, profile)]


def test_undo_without_a_hub_says_that_the_key_still_counts(user: User) -> None:
    result = user.run("connect", "cursor", "--undo")
    assert result.exit_code == 0
    assert "stays valid" in result.stderr


def test_a_hub_in_its_usual_place_is_not_named(user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_HOME")
    assert client("cursor").entry(["/bin/interlock"], "ilk_k")["env"] == {"INTERLOCK_KEY": "ilk_k"}


def test_connect_starts_a_hub_where_none_runs_and_verifies_that_it_reaches_a_live_client(user: User) -> None:
    user.configure()
    code, out, err = user.finished("connect", "claude-code", "--live")
    assert (code, err) == (0, "")
    assert "Claude Code is connected" in out
    assert "delivery verified: a test notification came through `interlock stdio`" in out
    assert user.starts() == 1
    with HubLink.open(user.home) as link:
        # The session of the check ends with it.
        block_until(lambda: not link.ask("hub/sessions.list")["sessions"])


@pytest.mark.parametrize(
    ("program", "limit_s", "problem"),
    [
        ("import sys; sys.exit('this key is unknown')", 60, "ended with 1: this key is unknown"),
        ("import sys; sys.stdin.read()", 0.2, "an answer to `initialize` did not come"),
    ],
)
def test_a_check_that_fails_says_where_and_leaves_no_process(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, program: str, limit_s: float, problem: str
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remember(*given: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*given, **options))
        return started[-1]

    monkeypatch.setattr(channel_check, "LIMIT_S", limit_s)
    monkeypatch.setattr(subprocess, "Popen", remember)
    entry = {"command": sys.executable, "args": ["-c", program], "env": {}}
    with HubLink.open(hub.home) as link, pytest.raises(CommandFailure, match=problem):
        check_channel(link, "claude-code", entry)
    assert [process.poll() is not None for process in started] == [True]


def test_live_ends_with_1_if_no_test_notification_arrives(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CommandFailure("the test notification did not come", "look there")

    monkeypatch.setattr(channel_check, "check_channel", fail)
    result = user.run("connect", "claude-code", "--live")
    assert result.exit_code == 1
    assert "is connected, but no test notification reached it: the test notification did not come" in result.stderr
    shown = user.run("connect", "claude-code", "--live", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["delivery"]["verified"]) == (1, False)


keys = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=4)


@given(objects, objects, st.sampled_from([None, 2, 4, "\t"]), values)
def test_setting_a_member_changes_only_that_member(
    outer: dict[str, object], inner: dict[str, object], indent: int | str | None, value: object
) -> None:
    document = {**outer, "servers": inner}
    text = json.dumps(document, indent=indent)
    changed = set_member(text, ("servers", "interlock"), value)
    assert json.loads(changed) == {**outer, "servers": {**inner, "interlock": value}}


@given(objects, objects, st.sampled_from([None, 2, 4, "\t"]), values)
def test_removing_what_was_set_gives_the_text_back(
    outer: dict[str, object], inner: dict[str, object], indent: int | str | None, value: object
) -> None:
    inner.pop("interlock", None)
    text = json.dumps({**outer, "servers": inner}, indent=indent)
    assert remove_member(set_member(text, ("servers", "interlock"), value), ("servers", "interlock")) == text


@given(objects, objects)
def test_removing_any_member_leaves_the_others(outer: dict[str, object], inner: dict[str, object]) -> None:
    text = json.dumps({**outer, "servers": inner}, indent=2)
    for key in inner:
        rest = {name: value for name, value in inner.items() if name != key}
        assert json.loads(remove_member(text, ("servers", key))) == {**outer, "servers": rest}


def test_print_uses_the_key_that_the_client_has_already(user: User, hub: FakeHub) -> None:
    assert user.run("connect", "cursor").exit_code == 0
    hub.asked.clear()
    result = user.run("connect", "cursor", "--print")
    assert "ilk_test" in result.output
    other = user.run("connect", "cursor", "--print", "--profile", "work")
    assert (other.exit_code, "interlock connect cursor --profile work" in other.stderr) == (2, True)
    assert hub.params_of("hub/keys.create") == []


MINE = '{"theme": "dark", "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "date"}]}]}}'


PROMPT = json.dumps({"hook_event_name": "UserPromptSubmit"})


@pytest.mark.parametrize("before", [None, "{}", MINE])
def test_live_adds_two_hooks_for_claude_code_and_undo_removes_them(
    user: User, hub: FakeHub, before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings_file().path
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    for declared in (False, True):
        outcome = {"verified": True, "took_ms": 1.0, "declared": declared}
        monkeypatch.setattr(channel_check, "check_channel", lambda *_, found=outcome: found)
        shown = user.run("connect", "claude-code", "--live")
        assert (shown.exit_code, "nothing is enabled" in shown.stdout) == (0, not declared)
    groups = json.loads(path.read_text())["hooks"]["UserPromptSubmit"]
    commands = [each["command"] for group in groups for each in group["hooks"]]
    assert [command for command in commands if command != "date"] == commands[-1:], "one hook, after the user's own"
    assert commands[-1].endswith(" hook claude-code")
    (stop,) = json.loads(path.read_text())["hooks"]["Stop"]
    assert [each["command"] for each in stop["hooks"]] == commands[-1:]
    assert user.run("connect", "claude-code", "--undo").exit_code == 0
    assert json.loads(path.read_text()) == json.loads(before or "{}")
    assert user.run("connect", "cursor", "--live").exit_code == 2


def test_hooks_of_the_user_stay_also_beside_ours(user: User, hub: FakeHub) -> None:
    def command(line: str) -> dict[str, str]:
        return {"type": "command", "command": line}

    path = settings_file().path
    path.parent.mkdir()
    names = ("/home/me/bin/my-hook claude-code", "echo hook claude-code", "interlock hook claude-code | tee log", "'")
    mine = [command(line) for line in names]
    old = command("'/an older/place/interlock' hook claude-code")
    module = command("/usr/bin/python3 -P -m interlock.cli hook claude-code")
    before = {"hooks": {"Stop": [{"matcher": "*", "hooks": [*mine, old]}, {"hooks": [module]}]}}
    path.write_text(json.dumps(before))
    assert user.run("connect", "claude-code", "--live").exit_code == 0
    settings = json.loads(path.read_text())
    first, ours = settings["hooks"]["Stop"]
    assert first == {"matcher": "*", "hooks": mine}, "only what an earlier installation of ours wrote is gone"
    ours["hooks"].append(command("notify-send mine"))
    path.write_text(json.dumps(settings))
    assert user.run("connect", "claude-code", "--live").exit_code == 0
    assert json.loads(path.read_text()) == settings, "ours is there already"
    assert user.run("connect", "claude-code", "--undo").exit_code == 0
    left = [first, {"hooks": [command("notify-send mine")]}]
    assert json.loads(path.read_text()) == {"hooks": {"Stop": left}}


@pytest.mark.skipif(sys.platform == "win32", reason="makes symbolic links")
def test_settings_that_cannot_be_changed_stop_live_before_anything_changes(user: User, hub: FakeHub) -> None:
    path = settings_file().path
    path.parent.mkdir()
    path.symlink_to(path)
    for broken in (True, False):
        if not broken:
            path.unlink()
            path.write_text('{"hooks": {"Stop": 7}}')
        refused = user.run("connect", "claude-code", "--live")
        assert refused.exit_code == 1
        assert "not changed" in refused.output
        assert hub.params_of("hub/keys.create") == []
    assert user.run("connect", "claude-code", "--undo").exit_code == 1
    assert hub.params_of("hub/keys.revoke") == []


def test_the_hook_hands_over_events_and_fails_open(user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.clients.hook.REACH_S", 30)
    monkeypatch.setattr("interlock.cli.clients.hook.ANSWER_S", 30)
    assert user.run("hook", "claude-code", stdin=PROMPT).output == "", "it is not connected"
    user.run("connect", "claude-code", "--live")
    hub.answers["tools/call"] = {
        "content": [{"type": "text", "text": "[Event e1 from s]"}, {"type": "text", "text": "x" * 20_000}]
    }
    for unusual in ("", "{", "[]", '{"hook_event_name": "PreToolUse"}', '{"prompt": "x"}'):
        assert user.run("hook", "claude-code", stdin=unusual).output == ""
    assert hub.params_of("tools/call") == [], "nobody would show the events"
    said = json.loads(user.run("hook", "claude-code", stdin=PROMPT).output)["hookSpecificOutput"]
    assert said["hookEventName"] == "UserPromptSubmit"
    assert said["additionalContext"].startswith("[Event e1 from s]")
    assert "Cut here" in said["additionalContext"][8_000:9_200]
    assert hub.params_of("tools/call")[0]["name"] == "read_events"
    assert (
        hub.params_of("interlock/hello")[-1] | {"role": "stdio", "key": "ilk_test"}
        == hub.params_of("interlock/hello")[-1]
    )
    hub.answers["tools/call"] = {"content": [NONE_WAITS]}
    assert user.run("hook", "claude-code", stdin=PROMPT).output == "", "no event waits"
    hub.answers["tools/call"] = {"isError": True, "content": [{"type": "text", "text": "no"}]}
    assert user.run("hook", "claude-code", stdin=PROMPT).output == ""
    hub.answers["tools/call"] = {"error": {"code": -32602, "message": "no such tool"}}
    assert user.run("hook", "claude-code", stdin=PROMPT).output == "", "nothing is enabled for it"
    del hub.answers["tools/call"]
    late = user.run("hook", "claude-code", stdin=PROMPT)
    assert "Events may wait" in late.output, "it asked, and got no answer in time"
    monkeypatch.setenv("INTERLOCK_HOME", str(user.root / "elsewhere"))
    client("claude-code").path.write_text("{}")
    none = user.run("hook", "claude-code", stdin=PROMPT)
    assert (none.exit_code, none.output) == (0, "")


def test_the_hook_hands_over_the_context_of_servers_with_the_events(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.clients.hook.REACH_S", 30)
    user.run("connect", "claude-code", "--live")
    hub.answers["context/beforeInference"] = {"contextInjections": [{"namespace": "memory", "content": "Likes tea."}]}
    hub.answers["tools/call"] = {"content": [{"type": "text", "text": "[Event e1]"}]}
    prompt = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "What do I drink?"}
    said = json.loads(user.run("hook", "claude-code", stdin=json.dumps(prompt)).output)["hookSpecificOutput"]
    assert said["additionalContext"] == "Likes tea.\n\n[Event e1]"
    (asked,) = hub.params_of("context/beforeInference")
    assert (asked["conversationId"], asked["userMessage"]) == ("s1", "What do I drink?")
    hub.answers["context/beforeInference"] = {"error": {"code": -32602, "message": "no"}}
    said = json.loads(user.run("hook", "claude-code", stdin=json.dumps(prompt)).output)["hookSpecificOutput"]
    assert said["additionalContext"] == "[Event e1]", "a server that fails costs its own context alone"


def test_the_stop_hook_tells_of_an_answer_once_and_says_nothing(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.clients.hook.REACH_S", 30)
    hub.answers |= {"context/afterInference": {}, "tools/call": {}}
    stop = {"session_id": "s1", "hook_event_name": "Stop", "stop_hook_active": False}
    assert user.run("hook", "claude-code", stdin=json.dumps({**stop, "last_assistant_message": "x"})).output == ""
    assert hub.params_of("context/afterInference") == [], "it is not connected"
    user.run("connect", "claude-code", "--live")
    transcript = user.root / "t.jsonl"
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 9}
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "From the transcript."}]
    answer = {"type": "assistant", "message": {"model": "claude-x", "content": blocks, "usage": usage}}
    transcript.write_text(f'{{"type":"user"}}\n{json.dumps(answer)}\n{{"type":"system"}}\nnot json\n')
    runs = [
        {**stop, "transcript_path": str(transcript)},
        {**stop, "transcript_path": str(transcript), "last_assistant_message": "As it was said."},
        {**stop, "transcript_path": str(transcript), "stop_hook_active": True},
        {**stop, "transcript_path": "/dev/zero"},
        {**stop, "transcript_path": str(user.root)},
    ]
    for run in runs:
        result = user.run("hook", "claude-code", stdin=json.dumps(run))
        assert (result.exit_code, result.output) == (0, ""), "any output could make Claude Code go on"
    told = hub.params_of("context/afterInference")
    assert [each["assistantMessage"] for each in told] == ["From the transcript.", "As it was said."]
    assert told[0]["model"]["id"] == "claude-x"
    assert told[0]["usage"] == {"inputTokens": 3, "outputTokens": 4}
    monkeypatch.setattr("interlock.cli.clients.hook.REACH_S", 0.05)
    del hub.answers["tools/call"]  # it answers nothing from now on
    late = user.run("hook", "claude-code", stdin=json.dumps({**stop, "last_assistant_message": "x"}))
    assert (late.exit_code, late.output) == (0, ""), "the hub does not answer in time"
    hub.close()
    gone = user.run("hook", "claude-code", stdin=json.dumps({**stop, "last_assistant_message": "x"}))
    assert (gone.exit_code, gone.output) == (0, ""), "no hub runs"
