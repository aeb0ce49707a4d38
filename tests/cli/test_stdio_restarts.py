"""Clients of `interlock stdio` whose hub ends: they keep their session, and every call is answered."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.starting import is_running
from interlock.config.files import try_lock
from waiting import block_until

from .conftest import User
from .hub_processes import StdioClient, other_config, ready, write


def test_a_client_keeps_its_session_when_the_hub_restarts(user: User) -> None:
    user.configure()
    user.finished("up", "-d")
    ready(user)
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        assert "result" in client.request("tools/list", {})
        assert user.run("down").exit_code == 0
        user.finished("up", "-d")
        changes = [client.next() for _ in range(3)]
        assert {str(change["method"]) for change in changes} == {
            f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")
        }
        ready(user)
        call = {"name": "demo__text_figures", "arguments": {"text": "two words"}}
        answer = client.request("tools/call", call)
        assert answer["result"]["structuredContent"]["words"] == 2  # type: ignore[index]
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


def test_a_request_after_the_hub_was_stopped_starts_another(user: User) -> None:
    user.configure()
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        assert user.run("down").exit_code == 0
        # A request that crosses the end of the hub is answered with the advice to send it again.
        while "result" not in (answer := client.request("ping", {})):
            assert "send the request again" in answer["error"]["message"]  # type: ignore[index]
        assert user.starts() == 2
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_the_hub_that_a_connected_client_starts_again_has_the_configuration_of_the_last(user: User, ended: str) -> None:
    user.configure()
    user.finished("up", "-d", "--config", other_config(user, "mine"), "--host", "127.0.0.2", "--port", "0")
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        if ended == "stopped":
            assert user.run("down").exit_code == 0
        else:
            os.kill(json.loads((user.home / "run" / "hub.json").read_text())["pid"], signal.SIGKILL)
        while "result" not in client.request("ping", {}):
            pass
        assert user.starts() == 2
        assert user.servers() == ["mine"]
        assert json.loads((user.home / "run" / "hub.json").read_text())["listen"].startswith("127.0.0.2:")
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


def test_a_connected_client_gets_the_hub_that_the_operator_starts_next(user: User) -> None:
    user.configure()
    user.finished("up", "-d", "--config", other_config(user, "first"))
    with user.process("stdio") as process, open(user.home / "run" / "start.lock", "ab") as lock:
        client = StdioClient(process).opened()
        assert try_lock(lock.fileno())  # clients that would start a hub wait
        assert user.run("down").exit_code == 0
        client.send({"id": 1, "method": "ping"})
        with user.fork("up", "--config", other_config(user, "second")) as hub:
            block_until(lambda: is_running(user.home))
            lock.close()
            while "result" not in client.request("ping", {}):
                pass
            assert user.servers() == ["second"]
            process.stdin.close()  # type: ignore[union-attr]
            assert process.wait(120) == 0
            assert user.run("down").exit_code == 0
            hub.communicate(timeout=120)


def test_a_connected_client_is_told_that_the_configuration_of_the_last_hub_is_gone(user: User) -> None:
    user.configure()
    config = Path(other_config(user, "mine"))
    user.finished("up", "-d", "--config", str(config))
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        assert user.run("down").exit_code == 0
        config.unlink()
        while "send the request again" in (message := client.request("ping", {})["error"]["message"]):  # type: ignore[index]
            pass
        assert str(config) in message
        assert not is_running(user.home)
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_open_calls_of_a_hub_that_ends_are_answered(user: User, ended: str) -> None:
    write(user.folder / "slow.py", SLOW)
    user.configure(f"[servers.slow]\ncommand = ['{sys.executable}', '{user.folder / 'slow.py'}']\n")
    user.finished("up", "-d")
    ready(user)
    with HubLink.open(user.home) as link:
        pid = link.hello["pid"]
    with user.process("stdio") as process:
        client = StdioClient(process).opened()
        client.send({"id": "open", "method": "tools/call", "params": {"name": "slow__wait", "arguments": {}}})
        block_until((user.folder / "called").exists)
        if ended == "stopped":
            assert user.run("down").exit_code == 0
        else:
            os.kill(pid, signal.SIGKILL)
        while (answer := client.next()).get("id") != "open":
            pass
        # The server has the call, so that a repeat would carry it out twice.
        error: dict[str, Any] = answer["error"]  # type: ignore[assignment]
        assert (error["data"]["name"], error["data"].get("retryable", False)) == ("OUTCOME_UNKNOWN", False)
        assert "unknown" in error["message"]
        assert "send the request again" not in error["message"]
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


def test_an_answer_to_a_form_of_a_killed_hub_is_not_the_answer_to_another_servers_form(user: User) -> None:
    command = f"command = ['{sys.executable}', '{write(user.folder / 'form.py', FORM)}']\n"
    user.configure(f"[servers.first]\n{command}[servers.second]\n{command}")
    user.finished("up", "-d")
    with user.process("stdio") as process:
        client = StdioClient(process).opened(elicitation={})
        client.listed("first__who")
        client.send({"id": "first", "method": "tools/call", "params": {"name": "first__who", "arguments": {}}})
        first = client.until("elicitation/create")["id"]
        with HubLink.open(user.home) as link:
            os.kill(link.hello["pid"], signal.SIGKILL)
        withdrawn = client.until("notifications/cancelled")
        assert withdrawn["params"]["requestId"] == first  # type: ignore[index]
        client.listed("second__who")
        client.send({"id": "second", "method": "tools/call", "params": {"name": "second__who", "arguments": {}}})
        second = client.until("elicitation/create")["id"]
        for form, name in ((first, "meant for the first"), (second, "meant for the second")):
            client.send({"id": form, "result": {"action": "accept", "content": {"name": name}}})
        while (answer := client.next()).get("id") != "second":
            pass
        assert answer["result"]["content"][0]["text"] == "meant for the second"  # type: ignore[index]
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait(120) == 0


FORM = """\
from interlock import Context, Server

server = Server("form")


@server.tool
async def who(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return str(answer.value["name"])


server.run()
"""
SLOW = """\
import pathlib, time
from interlock import Server

server = Server("slow")


@server.tool
def wait() -> str:
    pathlib.Path(__file__).with_name("called").touch()
    time.sleep(3600)
    return ""


server.run()
"""
