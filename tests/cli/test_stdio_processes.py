"""`interlock stdio` as a process: it starts the hub that is missing, and ends with its client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.starting import is_running

from .conftest import User, new_user
from .fake_hub import FakeHub
from .hub_processes import BROKEN, StdioClient, hello, ready, write


class FirstClients(NamedTuple):
    """A user whose folder has a configuration that nobody confirmed, and three clients that came before any hub."""

    user: User
    codes: list[int]


@pytest.fixture(scope="module")
def first() -> Iterator[FirstClients]:
    with pytest.MonkeyPatch.context() as patch, new_user(patch) as user:
        user.configure()
        write(user.folder / "interlock.toml", "[servers.cloned]\ncommand = ['x']")
        with ThreadPoolExecutor(3) as at_once:
            codes = list(at_once.map(lambda _: user.finished("stdio", stdin=hello())[0], range(3)))
        yield FirstClients(user, codes)


def test_three_clients_at_once_share_one_hub(first: FirstClients) -> None:
    assert first.codes == [0, 0, 0]
    assert first.user.starts() == 1


def test_a_hub_that_stdio_starts_knows_nothing_of_the_folder(first: FirstClients) -> None:
    assert first.user.servers() == ["demo"]


def test_stdio_carries_a_whole_conversation(first: FirstClients) -> None:
    text = "word " * 50_000
    call = {"name": "demo__text_figures", "arguments": {"text": text}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    ready(first.user)
    code, out, err = first.user.finished("stdio", stdin=hello(request))
    assert (code, err) == (0, "")
    opening, answer = map(json.loads, out.splitlines())
    assert opening["result"]["serverInfo"]["name"] == "interlock"
    assert answer["result"]["structuredContent"]["words"] == 50_000


def test_stdio_waits_for_the_next_hub_and_ends_with_its_client(user: User, hub: FakeHub) -> None:
    hub.hangs_up = True
    with user.process("stdio") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"early bytes\n"
        process.stdin.close()
        assert process.wait(120) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="ancestors are read from /proc")
def test_a_hub_that_a_client_started_is_not_its_descendant(user: User) -> None:
    user.configure()
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        assert "result" in client.request("ping", {})
        with HubLink.open(user.home) as link:
            hub = link.hello["pid"]
        ancestors = set()
        pid = hub
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            ancestors.add(pid)
        assert process.pid not in ancestors
        assert os.getsid(hub) != os.getsid(process.pid)
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0
    assert is_running(user.home)


def test_stdio_hands_over_key_view_and_folder(user: User, hub: FakeHub) -> None:
    user.environ["INTERLOCK_KEY"] = "ilk_mine"
    user.finished("stdio", "--profile", "work")
    hello = hub.params_of("interlock/hello")[-1]
    assert hello == {"role": "stdio", "key": "ilk_mine", "view": "/profiles/work/mcp"}


def test_stdio_with_a_wrong_key_is_refused_and_prints_nothing(user: User, hub: FakeHub) -> None:
    code, out, err = user.finished("stdio", "--key", "ilk_wrong")
    assert (code, out) == (5, "")
    assert "this key is unknown" in err
    assert "→ connect again" in err


def test_stdio_survives_a_hub_that_cannot_start(user: User) -> None:
    write(user.config, BROKEN)
    code, out, err = user.finished("stdio")
    assert (code, out) == (3, "")
    assert "hub.log" in err
