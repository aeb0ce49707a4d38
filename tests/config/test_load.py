"""An operator's file: what it may say, and what is said about it when it is wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from interlock.config.load import LoadedConfig, listening, load, load_again
from interlock.config.settings import HubSettings, RestartSettings, ServerSettings

from .conftest import UserFiles

Own = Callable[..., LoadedConfig]

FULL = """\
[hub]
listen = "127.0.0.1:7421"
mode = "locked"
timeouts = { tool_s = 5 }
[servers.github]
url = "https://api.example.com/mcp/"
headers = { Authorization = "Bearer ${TOKEN}" }
[servers.db]
command = ["uvx", "postgres-mcp"]
env = { DATABASE_URL = "${env:DATABASE_URL}" }
share = "session"
start = "on-demand"
tools.deny = ["drop_*"]
restart = { policy = "never" }
[servers.files]
command = "npx"
args = ["-y", "server-files", "/data"]
[profiles.work]
tools = ["github__*", "db__*"]
budget = 4000
[agents.cursor]
profile = "work"
ask = ["github__merge_*"]
"""


def test_every_setting_of_a_full_file_arrives(own: Own) -> None:
    loaded = own(FULL, {"TOKEN": "t0ken", "DATABASE_URL": "postgres://db"})
    config = loaded.config
    assert loaded.problems == ()
    assert config.hub.mode == "locked"
    assert config.hub.timeouts.tool_s == 5
    assert config.hub.timeouts.start_s == 120
    assert config.servers["github"].headers == {"Authorization": "Bearer t0ken"}
    assert config.servers["db"].env == {"DATABASE_URL": "postgres://db"}
    assert config.servers["db"].share == "session"
    assert config.servers["db"].tools.deny == ("drop_*",)
    assert config.servers["db"].restart == RestartSettings(policy="never")
    assert config.servers["files"].command == ("npx", "-y", "server-files", "/data")
    assert config.profiles["work"].budget == 4000
    assert config.agents["cursor"].ask == ("github__merge_*",)


WRONG = [
    (
        '[servers.db]\ncomand = ["x"]\nurl = "https://h/"',
        2,
        "unknown setting `comand` in [servers.db]; did you mean `command`?",
    ),
    ('[hub]\n\nmode = "gard"', 3, "`mode` in [hub] must be one of"),
    ('[hub]\ntimeouts.tool_s = "long"', 2, "`tool_s` in [hub.timeouts] must be a number, not a text"),
    ("[hub]\ntimeouts.tool_s = -1", 2, "must be a number > 0.0"),
    ('[hub]\nlisten = "7420"', 2, "`listen` is not valid"),
    ('[hub]\nlisten = "0.0.0.0:1"\nanonymous = true', 3, "without a key"),
    ('[hub]\nallowed_origins = [\n"https://a",\n"nonsense"]', 4, "`nonsense` is not an origin"),
    ("[servers.x]\nenabled = true", 1, "neither `command` nor `url`"),
    ('[servers.x]\ncommand = ["a"]\nurl = "https://h/"', 3, "both `command` and `url`"),
    ('[servers.x]\nurl = "file:///etc/passwd"', 2, "must begin with http"),
    ('[servers.x]\nurl = "https://me:pw@h/"', 2, "contains credentials"),
    ('[servers.x]\ncommand = "uvx postgres-mcp"', 2, "one program's name"),
    ("[servers.x]\ncommand = [1]", 2, "must be a list of texts"),
    ('[servers.x]\ncommand = [" "]', 2, "is empty"),
    ('[servers.x]\ncommand = ["a\\u0000"]', 1, "NUL"),
    ('[servers.X]\ncommand = ["a"]', 1, "the name `X` in [servers] may contain only"),
    ('[servers.a__b]\ncommand = ["a"]', 1, "separates server from tool"),
    ('[servers.hub]\ncommand = ["a"]', 1, "is reserved"),
    ('[servers.x]\nurl = "https://h/"\nheaders = { "a b" = "c" }', 3, "malformed"),
    ('[servers.x]\ncommand = ["a"]\nenv = { "A-B" = "c" }', 3, "is not a valid variable name"),
    ('[agents.me]\nprofile = "none"', 2, "there is no profile `none`"),
    ('[servers.x]\ncommand = ["a"]\npermissions.policy = "maybe"', 3, "must be one of"),
    (
        '[servers.x]\ncommand = ["a"]\npermissions.approve = ["shell", "root"]',
        3,
        "`root` in `approve` is not a permission",
    ),
    ('[servers.x]\ncommand = ["a"]\npermissions.deny = ["two.parts"]', 3, "`two.parts` in `deny` is not a permission"),
    ('[servers.x]\ncommand = ["a"]\ntrust = "total"', 3, "must be one of"),
    ('[servers.x]\ncommand = ["a"]\ntimeout_s = 5\ntimeouts.tool_s = 6', 3, "are the same setting"),
    (
        '[servers.x]\ncommand = ["a"]\n[servers.x.tools.timeouts]\n"" = { tool_s = 1 }',
        4,
        "is not a tool name or pattern",
    ),
    ('[servers.x]\ncommand = ["a"]\n[servers.x.tools.timeouts]\na = { tools = 1 }', 4, "unknown setting `tools`"),
    ("servers = 3", 1, "`servers` must be tables"),
    ("[server.x]\nurl = 'https://h/'", 1, "did you mean `servers`"),
    ("[hub]\nmode = 'guard'\nmode = 'locked'", 3, "this key occurs twice in its table"),
    ("[servers.x]\nurl = 'https://h/'\n[servers.x]", 3, "[servers.x] occurs twice"),
    ('[hub]\nmode = "guard\n', 2, "has no closing quote"),
    ("[hub\n", 1, ""),
    ('[hub]\nlisten = "127.0.0.1:70000"', 2, "a port is at most 65535"),
    ('[servers.x]\ncommand = ["a", 1]', 2, "not one with a whole number in it"),
    ('[servers.x]\ncommand = ["a"]\n[servers.x.env]\nA = "b"\nB = 1', 5, "`env.B` in [servers.x] must be a text"),
    ('import = [\n  "a.json",\n  1,\n]', 3, "item 2 of `import` in the file must be a text"),
    ('[servers.x]\ncommand = ["a"]\ninherit_env = ["A B"]', 3, "`A B` is not a valid variable name"),
    ('[profiles.x]\ntools = "a"', 2, "must be a list, not a text"),
    ("[profiles.x]\ntools = [1]", 2, "must be a text, not a whole number"),
    ("[hub]\nlimits.depth = 0", 2, "must be a whole number >= 8"),
    ("[hub]\naudit = true", 2, "must be one of"),
    ('[live.quiet_hours]\nstart = "9:00"', 2, 'must be a time of day, such as "09:00"'),
    ('[hub]\nnode = "a b"', 2, "must be letters, digits, dots, _ and -"),
    ('[servers.x]\ncommand = ["a"]\nenabled = "yes"', 3, "must be true or false, not a text"),
    ('[servers.x]\ncommand = ["a"]\nenv = ["A=b"]', 3, "must be a table, not a list"),
]


@pytest.mark.parametrize(("text", "line", "message"), WRONG, ids=[row[2] or "syntax" for row in WRONG])
def test_each_problem_names_its_line(own: Own, text: str, line: int, message: str) -> None:
    loaded = own(text)
    assert not loaded.usable
    assert any(message in problem.message and problem.line == line for problem in loaded.problems), loaded.problems


def test_all_problems_are_reported_in_order_of_their_lines(own: Own) -> None:
    loaded = own('[hub]\nmode = 1\nlisen = ""\n[servers.a]\nurl = 2\n[agents.b]\naks = []\n')
    assert [problem.line for problem in loaded.problems] == [2, 3, 4, 5, 7]


@pytest.mark.parametrize("text", [row[0] for row in WRONG])
def test_every_problem_has_a_hint(own: Own, text: str) -> None:
    assert [problem for problem in own(text).problems if not problem.hint] == []


@pytest.mark.parametrize("setting", ['url = "ftp://h/"', 'url = "https://h/"\nheaders = { A = "b\\nc" }'])
def test_a_fault_of_the_written_value_is_not_blamed_on_its_variables(own: Own, setting: str) -> None:
    assert len(own(f"[servers.a]\n{setting}\n").problems) == 1


def test_an_import_inside_a_table_is_reported_with_its_right_place(own: Own) -> None:
    (problem,) = own('[servers.a]\nurl = "https://h/"\nimport = ["b.json"]\n').problems
    assert problem.hint == "move it to the top of the file, above the first [table]"


def test_a_setting_outside_its_table_is_reported_with_that_table(own: Own) -> None:
    (problem,) = own("budget = 4000\n").problems
    assert (problem.line, problem.hint) == (1, "move it into [hub]")
    (problem,) = own("[hub]\ntool_s = 5\n").problems
    assert (problem.line, problem.hint) == (2, "move it into [hub.timeouts]")


def test_a_missing_variable_stops_only_its_own_server(own: Own) -> None:
    loaded = own('[servers.a]\ncommand = ["x"]\n[servers.b]\ncommand = ["x"]\nenv = { K = "${GONE}" }\n')
    assert loaded.usable
    assert loaded.config.servers["a"].problem is None
    problem = loaded.config.servers["b"].problem
    assert problem is not None
    assert problem.line == 5
    assert "`GONE`" in problem.message
    assert "export GONE" in problem.hint


def test_text_that_looks_like_a_variable_and_is_none_stops_its_server(own: Own) -> None:
    problem = own('[servers.b]\ncommand = ["x"]\nenv = { K = "${GONE-BY}" }\n').config.servers["b"].problem
    assert problem is not None
    assert "`${GONE-BY}` is not a valid variable" in problem.message


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ('url = "${V}"', "file:///etc/passwd"),
        ('url = "https://${V}/"', "me:pw@h"),
        ('url="https://h/"\nheaders={ A = "${V}" }', "a\nb"),
    ],
)
def test_the_value_of_a_variable_is_checked_like_a_written_one(own: Own, setting: str, value: str) -> None:
    loaded = own(f"[servers.a]\n{setting}", {"V": value})
    problem = loaded.config.servers["a"].problem
    assert problem is not None
    assert value not in str(problem)


def test_a_server_does_not_print_its_secrets(own: Own) -> None:
    loaded = own(FULL, {"TOKEN": "s3cret", "DATABASE_URL": "postgres://u:s3cret@db"})
    assert "s3cret" not in repr(loaded)


def test_a_relative_working_folder_counts_from_the_file(user_files: UserFiles) -> None:
    loaded = user_files.own('[servers.a]\ncommand = ["x"]\ncwd = "work"')
    assert loaded.config.servers["a"].cwd == str(user_files.user_config.parent / "work")


def test_with_nothing_configured_the_demonstration_server_runs(user_files: UserFiles) -> None:
    config = user_files.in_project().config
    assert config.demo
    assert config.servers["demo"].command == (sys.executable, "-P", "-m", "interlock.server.demo")


def test_the_named_file_goes_before_the_environment_and_the_users_own(user_files: UserFiles) -> None:
    named = user_files.write("a.toml", '[servers.a]\nurl = "https://a/"')
    variable = user_files.write("b.toml", '[servers.b]\nurl = "https://b/"')
    user_files.own('[servers.c]\nurl = "https://c/"')
    environ = {**user_files.environ, "INTERLOCK_CONFIG": str(variable)}
    assert list(load(named, home=user_files.home, environ=environ).config.servers) == ["a"]
    assert list(load(home=user_files.home, environ=environ).config.servers) == ["b"]
    assert list(load(home=user_files.home, environ=user_files.environ).config.servers) == ["c"]


def test_a_named_file_that_is_missing_is_a_problem(user_files: UserFiles) -> None:
    loaded = load(user_files.project / "none.toml", home=user_files.home, environ=user_files.environ)
    assert not loaded.usable
    assert not loaded.config.demo


def test_loading_again_sees_the_change(user_files: UserFiles) -> None:
    path = user_files.write("own.toml", '[servers.a]\nurl = "https://a/"')
    first = load(path, home=user_files.home, environ=user_files.environ)
    assert str(path) in first.config.origin.files
    path.write_text('[servers.b]\nurl = "https://b/"')
    assert list(load_again(first.config, home=user_files.home).config.servers) == ["b"]


def test_the_address_of_the_command_line_stays_when_the_file_is_read_again(user_files: UserFiles) -> None:
    path = user_files.write("own.toml", '[servers.a]\nurl = "https://a/"')
    first = listening(load(path, home=user_files.home, environ=user_files.environ), "127.0.0.1:7777")
    path.write_text('[servers.b]\nurl = "https://b/"')
    for _ in range(2):
        first = load_again(first.config, home=user_files.home)
        assert (list(first.config.servers), first.config.hub.listen) == (["b"], "127.0.0.1:7777")


def test_the_settings_of_a_deleted_file_stay_in_use_with_a_problem(
    user_files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", user_files.environ["XDG_CONFIG_HOME"])
    first = user_files.own('[servers.a]\nurl = "https://a/"')
    user_files.user_config.unlink()
    again = load_again(first.config, home=user_files.home)
    assert not again.usable
    assert (again.problems[0].file, again.problems[0].message[:20]) == (
        str(user_files.user_config),
        "the file was deleted",
    )
    assert again.problems[0].hint
    user_files.user_config.write_text('[servers.b]\nurl = "https://b/"')
    assert list(load_again(first.config, home=user_files.home).config.servers) == ["b"]


def test_missing_files_are_watched_for(user_files: UserFiles) -> None:
    assert str(user_files.user_config) in user_files.in_project().config.origin.files
    missing = str(user_files.project / "later.json")
    assert missing in user_files.own(f'import = ["{missing}"]').config.origin.files


def test_a_file_that_is_not_utf_8_names_the_line(user_files: UserFiles) -> None:
    path = user_files.project / "x.toml"
    path.write_bytes(b"# fine\n# \xff\n")
    (problem,) = load(path, home=user_files.home, environ=user_files.environ).problems
    assert problem.line == 2


@pytest.mark.parametrize("name", ["x.toml", "x.json"])
def test_deep_nesting_is_refused(user_files: UserFiles, name: str) -> None:
    deep = "[" * 5000 + "]" * 5000
    path = user_files.write(name, f"a = {deep}" if name.endswith("toml") else f'{{"a": {deep}}}')
    (problem,) = load(path, home=user_files.home, environ=user_files.environ).problems
    assert "deep" in problem.message


@each_case(
    ("hub", "admitted"),
    [
        (HubSettings(), True),
        (HubSettings(listen="[::1]:80"), True),
        (HubSettings(listen="localhost:80"), True),
        (HubSettings(listen="0.0.0.0:80"), False),
        (HubSettings(listen="hub.example:80"), False),
        (HubSettings(anonymous=False), False),
        (HubSettings(listen="0.0.0.0:1", anonymous=True), False),
        (HubSettings(allowed_hosts=("localhost:3000", "127.0.0.1", "[::1]:9")), True),
        (HubSettings(allowed_hosts=("hub.example.com",)), False),
        (HubSettings(allowed_hosts=("hub.example.com:443",), anonymous=True), True),
    ],
)
def test_callers_without_a_key_are_admitted_on_loopback_only(hub: HubSettings, admitted: bool) -> None:
    assert hub.admits_anonymous is admitted


def test_a_server_with_an_address_is_reached_over_http() -> None:
    assert ServerSettings(url="https://h/").transport == "http"
    assert ServerSettings(command=("x",)).transport == "stdio"


def test_an_import_that_is_missing_is_named_where_it_is_written(user_files: UserFiles) -> None:
    loaded = user_files.own('import = [\n  "/nowhere/else.json",\n]\n')
    (problem,) = loaded.problems
    assert (problem.line, problem.fatal) == (2, False)
    assert str(Path("/nowhere/else.json")) in problem.message


def test_t47_a_number_of_5000_digits_is_a_problem_of_its_file(user_files: UserFiles) -> None:
    path = user_files.write(".mcp.json", '{"mcpServers": {"a": {"command": "npx", "timeout":\n ' + "1" * 5000 + "}}}")
    (problem,) = user_files.in_project().problems
    assert (problem.file, problem.line, problem.fatal) == (str(path), 2, False)
    assert "out of range" in problem.message


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000, "0b" + "1" * 5000])
def test_t47_a_huge_number_in_toml_is_a_problem_of_its_file(user_files: UserFiles, number: str) -> None:
    loaded = user_files.own(f'[servers.a]\ncommand = ["x"]\nenv = {{ K = {number} }}')
    assert any("out of range" in problem.message for problem in loaded.problems)
    assert not loaded.usable


def test_t47_half_a_surrogate_pair_keeps_only_its_server_from_starting(user_files: UserFiles) -> None:
    servers = '{"a": {"command": "npx", "args": ["\\ud83d"]}, "b": {"command": "npx", "args": ["x"]}}'
    text = f'{{"mcpServers": {servers}, "history": "\\ud83d"}}'
    path = user_files.write("other.json", text)
    loaded = user_files.own(f'import = ["{path}"]')
    assert loaded.config.servers["a"].problem is not None
    assert loaded.config.servers["b"].problem is None


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_t47_files_that_never_end_are_refused_at_once(user_files: UserFiles, kind: str) -> None:
    path = user_files.project / "x.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    (problem,) = user_files.own(f'import = ["{path}"]').problems
    assert "not a regular file" in problem.message


def test_t47_a_file_of_the_kernel_that_would_have_to_wait_is_refused_at_once(
    user_files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/proc/kmsg` is a regular file by its mode; its non-blocking read returns None."""

    class Waiting(io.FileIO):
        def read(self, size: int | None = -1, /) -> None:  # type: ignore[override]
            return None

    path = user_files.write("x.json", "{}")
    real = open

    def opened(file: object, *rest: Any, **options: Any) -> Any:
        if isinstance(file, int) and os.fstat(file).st_ino == path.stat().st_ino:
            return Waiting(file, "rb")
        return real(file, *rest, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("interlock.config.files.open", opened, raising=False)
    (problem,) = user_files.own(f'import = ["{path}"]').problems
    assert "not a regular file" in problem.message


@pytest.mark.parametrize("secret", ["", "short", "whsec_" + "QUJD" * 12])
def test_a_webhook_without_a_good_secret_is_a_problem_with_its_line(user_files: UserFiles, secret: str) -> None:
    text = '[hooks.ci]\nagent = "a"\nsecret_env = "CI"\n[live.webhook]\nurl = "https://a.example"\n'
    text += '[channels.team]\nagent = "a"\n[channels.team.webhook]\nurl = "https://a.example"\n'
    text += '[models.one]\nmodel = "m"\n'
    loaded = user_files.own(text, dict.fromkeys(("CI", "INTERLOCK_LIVE_SECRET", "INTERLOCK_CHANNELS_SECRET"), secret))
    assert loaded.usable
    said = [(problem.line, problem.hint.split("=")[0]) for problem in loaded.problems]
    expected = [(3, "export CI"), (5, "export INTERLOCK_LIVE_SECRET"), (9, "export INTERLOCK_CHANNELS_SECRET")]
    assert said == ([] if len(secret) > 40 else expected)
