"""Arguments in the audit log: enough to see what was done, no secret, and never much."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.config.settings import AuditSettings, Config, HubSettings
from interlock.hub.audit.argument_redaction import MAX_BYTES, prepare
from interlock.hub.audit.search import FoundEntry, search
from interlock.judge.secrets import redact
from interlock.store.records import Search
from interlock.store.secret_names import names_a_secret

from .running_hub import RawClient, RunningHub, child, running_hub

GITHUB = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


async def calls(hub: RunningHub) -> list[FoundEntry]:
    await hub.hub_app.recorder.flushed()
    return await hub.hub_app.store.read(lambda database: search(database, Search(event="TOOL_EXECUTED"), 100))


async def test_an_entry_shows_the_arguments_without_secrets(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp")
        for arguments in (
            {"text": "mysql -pHunter2xyz; curl -u bob:Pa55w0rdQ http://x"},
            {"text": "notes.txt"},
            {"text": f"use {GITHUB}"},
            {"text": "x" * 5000},
        ):
            await client.modern("tools/call", {"name": "busy__echo", "arguments": arguments})
        third, second, first, command = (entry.record.redacted_arguments for entry in await calls(hub))
        assert command == {"text": "mysql -p[secret: password] curl -u bob:[secret: password] http://x"}
        assert first == {"text": "notes.txt"}
        assert second == {"text": "use [secret: github_token]"}
        assert isinstance(third, dict)
        assert "[cut: 5000 characters]" in str(third["text"])


async def test_only_the_hash_is_kept_where_the_operator_says_so(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        config = msgspec.structs.replace(hub.hub_app.config, audit=AuditSettings(arguments="hash"))
        await hub.hub_app.apply(config)
        client = RawClient(hub.url + "/mcp")
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "private"}})
        (entry,) = await calls(hub)
        assert entry.record.redacted_arguments is msgspec.UNSET
        assert len(entry.record.arguments) == 64


@pytest.mark.parametrize("arguments", [["a"], "text", 7, None, [{"password": "hunter22"}]])
async def test_arguments_that_are_no_object_do_not_keep_the_log_from_being_read(tmp_path: Path, arguments: Any) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "busy__echo", "arguments": arguments})
        await hub.hub_app.recorder.flushed()
        found = await hub.hub_app.store.read(lambda database: search(database, Search(), 100))
        (shown,) = [entry.record.redacted_arguments for entry in found if entry.record.name == "echo"]
        assert list(shown or ()) == ["[no object]"]
        assert "hunter22" not in str(shown)


async def test_a_refused_call_shows_its_arguments_too(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(access="opt-in")) as hub:
        key = await hub.new_key("ci")
        await hub.deny("ci", "busy", "echo")
        client = RawClient(hub.url + "/mcp", key)
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "a", "password": "hunter22"}})
        await hub.hub_app.recorder.flushed()
        found = await hub.hub_app.store.read(lambda database: search(database, Search(event="TOOL_BLOCKED"), 10))
        assert [entry.record.redacted_arguments for entry in found] == [
            {"text": "a", "password": "[redacted: 8 characters]"}
        ]


def test_the_setting_is_checked() -> None:
    assert Config().audit.arguments == "redacted"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"audit": {"arguments": "all"}}, Config)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=30) | st.just(GITHUB),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=example_count(50, 150))
@given(batch=st.lists(st.dictionaries(st.sampled_from(["a", "api_key", "clientSecret", "text"]), JSON), max_size=6),
       ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))  # fmt: skip
def test_t23_no_secret_survives_in_arguments_however_they_are_written(
    batch: list[dict[str, Any]], ascii_only: bool, indent: int | None
) -> None:
    written = [json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace") for value in batch]
    for value, kept in zip(batch, prepare(written, redact), strict=True):
        assert len(kept) <= MAX_BYTES
        assert b"\n" not in kept
        shown = msgspec.json.decode(kept, type=dict[str, Any])
        assert GITHUB not in json.dumps(shown)
        for name in ("api_key", "clientSecret"):
            hidden = shown.get(name)
            assert hidden is None or isinstance(hidden, bool) or str(hidden).startswith("[redacted"), value


NAMES = (
    "pass", "password", "passwd", "passphrase", "passcode", "pwd", "pin", "otp", "secret", "tokens", "bearer",
    "cookie", "credentials", "auth", "authorization", "jwt", "signature", "api-key", "accessKey", "PRIVATE_KEY",
    "secretkey", "signing_keys", "ssh-key", "connection_string", "db.dsn", "api_\u212aey", "client_\u017fecret",
)  # fmt: skip
"""The last two are spelled with the signs for kelvin and a long s, which are a k and an s to one who ignores case."""


def test_t23_every_name_of_a_secret_hides_its_value() -> None:
    for name in NAMES:
        assert names_a_secret(name), name
        written = json.dumps({"a": 1, name: "Hidden"}, ensure_ascii=False).encode()
        (kept,) = prepare([written], redact)
        assert b"Hidden" not in kept, name


COMMANDS = """
curl -u bob:PASS http://x
curl -ubob:PASS http://x
curl --user=bob:PASS http://x
http -a bob:PASS x
smbclient -U bob%PASS //x/y
mysql -pPASS -u root
sudo mysqldump --single-transaction -u root -pPASS db
sshpass -p PASS ssh x
sshpass -pPASS ssh x
docker login -u bob -p PASS registry.example
az login --service-principal -u x -p PASS
mongosh -u bob -p PASS
redis-cli -h x -a PASS ping
ldapsearch -D x -w PASS
unzip -P PASS file.zip
htpasswd -bc file bob PASS
openssl enc -aes256 -pass pass:PASS
wget --http-password PASS x
tool --api-key=PASS
tool --token PASS
PGPASSWORD=PASS psql
MYSQL_PWD=PASS mysql
env DEPLOY_TOKEN='PASS' tool
"""


@settings(max_examples=example_count(50, 150))
@given(
    command=st.sampled_from(COMMANDS.strip().splitlines()),
    password=st.from_regex(r"Z[a-z0-9!^+/:.]{3,20}Z", fullmatch=True),
    as_words=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_t23_no_password_of_a_command_line_survives(
    command: str, password: str, as_words: bool, indent: int | None
) -> None:
    command = (
        command.replace("PASS'", f"{password}'")
        if "'" in command
        else re.sub(r"\bPASS\b|(?<=-p)PASS", password, command)
    )
    value = {"cmd": shlex.split(command) if as_words else command, "note": "x"}
    (kept,) = prepare([json.dumps(value, indent=indent).encode()], redact)
    assert password not in json.dumps(msgspec.json.decode(kept), ensure_ascii=False), kept
    (other,) = prepare([json.dumps({"a": {"b": [value]}}).encode()], redact)
    assert password not in other.decode(), other


def test_t23_basic_credentials_are_hidden_and_ordinary_words_are_not() -> None:
    assert redact("Basic dXNlcjpodW50ZXIyaHVudGVy") == "Basic [secret: password]"
    for text in (
        "Basic configuration of servers",
        "docker run -u 1000:1000 x",
        "mysql -p -u root",
        "curl -u $NAME:$PASS http://x",
        "mkdir -p /tmp/x && ssh -p 22 host",
        "sqlmap -u http://x/y",
        "login --token <token>",
    ):
        assert redact(text) == text


def test_t23_an_escaped_secret_is_found() -> None:
    hidden = '{"text":"\\u0067hp_' + GITHUB[4:] + '"}'
    (kept,) = prepare([hidden.encode()], redact)
    assert kept == b'{"text":"[secret: github_token]"}'


def test_a_value_that_fits_is_kept_as_it_came() -> None:
    plain = b'{"path":"/tmp/x","limit":3}'
    assert prepare([plain, b"", plain], redact) == [plain, b"", plain]
