"""`up`, `down` and `stdio` as processes: one hub for each user, whoever comes first."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.starting import is_running
from interlock.config.confirmations import Confirmations
from interlock.config.files import try_lock
from interlock.store.connect import connect
from interlock.store.schema import bring_up, steps
from waiting import block_until

from .conftest import User
from .fake_hub import FakeHub

BROKEN = "[hub]\nmode = 'gard'\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def hello(*more: dict[str, object], capabilities: dict[str, object] | None = None) -> bytes:
    """A client's opening, and further requests."""
    info = {"name": "c", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": capabilities or {}, "clientInfo": info}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}, *more]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def ready(user: User) -> None:
    """Wait until the demonstration server can be called."""
    with HubLink.open(user.home) as link:
        block_until(lambda: link.ask("hub/status")["servers"][0]["state"] == "connected")


def test_up_in_the_background_returns_when_the_hub_answers_and_down_stops_it(user: User) -> None:
    user.configure()
    code, out, err = user.finished("up", "-d")
    assert (code, err) == (0, "")
    assert "demo" in out
    assert is_running(user.home)
    assert (user.home / "run" / "hub.log").stat().st_mode & 0o777 == 0o600
    assert user.run("down").exit_code == 0
    assert not is_running(user.home)


def test_a_hub_has_nothing_of_whoever_started_it(user: User) -> None:
    user.configure()
    user.environ |= {"INTERLOCK_KEY": "ilk_mine", "INTERLOCK_MARK": "0" * 32}
    user.finished("up", "-d")
    try:
        pid = json.loads((user.home / "run" / "hub.json").read_text())["pid"]
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        assert user.run("down").exit_code == 0
    assert b"INTERLOCK_HOME=" in environ
    assert b"INTERLOCK_KEY=" not in environ
    assert b"INTERLOCK_MARK=" not in environ


def test_a_second_up_finds_the_first(user: User) -> None:
    user.configure()
    user.finished("up", "-d")
    code, out, _ = user.finished("up", "-d", "--json")
    assert code == 0
    assert json.loads(out)["already"] is True
    assert user.starts() == 1


def test_up_in_the_foreground_says_where_it_listens_and_ends_with_the_hub(user: User) -> None:
    user.configure()
    with user.process("up") as process:
        assert process.stdout is not None
        listens = process.stdout.readline().decode()
        assert f"http://{json.loads((user.home / 'run' / 'hub.json').read_text())['listen']}/mcp" in listens
        assert b"No servers are configured yet" in process.stdout.readline()
        assert b"interlock.toml" in process.stdout.readline()
        with HubLink.open(user.home) as link:
            link.ask("hub/stop")
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_the_terminal_sees_calls_and_changes_a_running_hub(user: User) -> None:
    user.configure()
    user.start_hub()
    ready(user)
    assert "demo__convert" in user.finished("list")[1]
    code, out, _ = user.finished("call", "demo__convert", "value=1", "source=km", "target=m", "--json")
    assert code == 0
    assert "1000" in json.loads(out)["content"][0]["text"]
    code, _, err = user.finished("call", "demo__nothing")
    assert code == 2
    assert "Unknown tool" in err
    assert user.finished("call", "demo__convrt")[2].count("did you mean `demo__convert`?") == 1
    script = write(user.folder / "other.py", "import sys; sys.stderr.write('hello from stderr\\n'); sys.stdin.read()")
    assert user.finished("add", "other", "--", sys.executable, str(script))[0] == 0
    assert "other" in user.servers()
    block_until(lambda: "hello from stderr" in user.finished("logs", "other")[1])
    assert user.finished("remove", "other")[0] == 0
    assert "other" not in user.servers()


def test_a_broken_change_leaves_the_old_configuration_in_force_and_is_told(user: User) -> None:
    user.configure()
    user.start_hub()
    user.configure("mode = 'gard'\n")
    with HubLink.open(user.home) as link:
        assert link.ask("hub/reload")["applied"] is False
        status = link.ask("hub/status")
    assert status["mode"] == "guard"
    assert "must be one of" in status["config"]["problems"][0]["message"]


def test_the_hubs_own_log_says_what_is_wrong_with_a_changed_file(user: User) -> None:
    user.configure()
    user.finished("up", "-d")
    user.configure("mode = 'gard'\n")
    block_until(lambda: f"{user.config}:3: `mode` in [hub] must be one of" in user.run("logs", "hub").output)


def test_a_changed_file_is_taken_over_without_being_told(user: User) -> None:
    user.configure()
    user.start_hub()
    user.configure("[servers.late]\nurl = 'http://127.0.0.1:9/'\n")
    block_until(lambda: user.servers() == ["late"])


def test_a_file_that_goes_and_comes_back_ends_no_server(user: User) -> None:
    user.configure("[servers.here]\nurl = 'http://127.0.0.1:9/'\n")
    user.start_hub()
    user.config.unlink()
    block_until(lambda: f"{user.config}: the file was deleted" in user.run("status").output)
    assert user.servers() == ["here"]
    user.configure("[servers.again]\nurl = 'http://127.0.0.1:9/'\n")
    block_until(lambda: user.servers() == ["again"])
    assert "was deleted" not in user.run("status").output


def test_a_hub_in_the_background_says_that_nothing_is_configured(user: User) -> None:
    user.configure()
    assert "demonstration server" in user.finished("up", "-d")[1]


@pytest.mark.parametrize("arguments", [["up"], ["up", "-d"], ["up", "--json"]])
def test_a_wrong_configuration_starts_nothing_and_names_file_and_line(user: User, arguments: list[str]) -> None:
    write(user.config, BROKEN)
    code, _, err = user.finished(*arguments)
    assert code == 3
    assert f"{user.config}:2" in err
    assert "must be one of" in err
    assert not is_running(user.home)


def test_up_uses_the_configuration_it_is_given(user: User) -> None:
    mine = '[hub]\nlisten = "127.0.0.1:0"\n[servers.mine]\nurl = "http://127.0.0.1:9/"\n'
    write(user.folder / "mine.toml", mine)
    user.finished("up", "-d", "--config", "mine.toml")
    assert user.servers() == ["mine"]


def test_without_a_terminal_a_project_file_is_shown_and_not_started(user: User) -> None:
    user.configure()
    write(user.folder / ".mcp.json", '{"mcpServers": {"cloned": {"command": "npx", "args": ["evil\\u001b[2K"]}}}')
    code, _, err = user.finished("up", "-d")
    assert code == 0
    assert "npx" in err
    assert "\x1b" not in err
    assert "in a terminal to confirm this file" in err
    assert "cloned" not in user.servers()


def test_a_project_file_that_nobody_confirmed_is_named_in_the_status(user: User) -> None:
    user.configure()
    file = user.folder / ".mcp.json"
    file.write_text('{"mcpServers": {"here": {"command": "npx"}}}')
    Confirmations(user.home).add(file, hashlib.sha256(file.read_bytes()).hexdigest())
    user.start_hub()
    assert user.servers() == ["here"]
    assert "confirmed" not in user.run("status").output
    file.write_text('{"mcpServers": {"other": {"command": "npx"}}}')
    said = block_until(lambda: status if "confirmed" in (status := user.run("status").output) else "")
    assert f"{file}: nobody has confirmed this project file" in said
    assert f"run `interlock up` in {user.folder}" in said
    block_until(lambda: user.servers() == [])  # The file is named before its servers have ended.


def test_a_project_file_that_waits_at_the_start_is_named_in_the_status(user: User) -> None:
    user.configure()
    (user.folder / ".mcp.json").write_text('{"mcpServers": {"here": {"command": "npx"}}}')
    user.start_hub()
    block_until(lambda: "nobody has confirmed this project file" in user.run("status").output)


def test_stdio_starts_a_hub_and_carries_a_whole_conversation(user: User) -> None:
    user.configure()
    text = "word " * 50_000
    call = {"name": "demo__text_figures", "arguments": {"text": text}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    user.finished("stdio")
    ready(user)
    code, out, err = user.finished("stdio", stdin=hello(request))
    assert (code, err) == (0, "")
    opening, answer = map(json.loads, out.splitlines())
    assert opening["result"]["serverInfo"]["name"] == "interlock"
    assert answer["result"]["structuredContent"]["words"] == 50_000


def test_a_hub_that_stdio_starts_knows_nothing_of_the_folder(user: User) -> None:
    user.configure()
    write(user.folder / "interlock.toml", "[servers.cloned]\ncommand = ['x']")
    user.finished("stdio")
    assert user.servers() == ["demo"]


def test_blank_lines_before_the_hello_cost_nothing(user: User) -> None:
    user.configure()
    user.start_hub()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(user.home / "run" / "hub.sock"))
        sock.settimeout(10)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "interlock/hello", "params": {"role": "control"}}
        sock.sendall(b"\n" * 5000 + b"\r\n" + json.dumps(hello).encode() + b"\n")
        assert "result" in json.loads(sock.makefile("rb").readline())


def test_three_clients_at_once_share_one_hub(user: User) -> None:
    user.configure()
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(user.finished("stdio", stdin=hello())[0])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert user.starts() == 1


def test_stdio_waits_for_the_next_hub_and_ends_with_its_client(user: User, hub: FakeHub) -> None:
    hub.hangs_up = True
    with user.process("stdio") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"early bytes\n"
        process.stdin.close()
        assert process.wait(120) == 0


class StdioClient:
    """A client of `interlock stdio` that stays connected."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._id = 100

    def send(self, message: dict[str, object]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._in.flush()

    def next(self) -> dict[str, object]:
        line = self._out.readline()
        assert line, "the client's server has gone"
        message: dict[str, object] = json.loads(line)
        return message

    def request(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """The answer. Notifications before it are dropped."""
        self._id += 1
        self.send({"id": self._id, "method": method, "params": params})
        while (message := self.next()).get("id") != self._id:
            pass
        return message

    def until(self, method: str) -> dict[str, object]:
        """The next message with this method. Others before it are dropped."""
        while (message := self.next()).get("method") != method:
            pass
        return message

    def listed(self, tool: str) -> None:
        """Wait until a tool is in the list."""
        while f'"{tool}"' not in json.dumps(self.request("tools/list", {})):
            pass

    def opened(self, **capabilities: object) -> StdioClient:
        self._in.write(hello(capabilities=capabilities))
        self.send({"method": "notifications/initialized"})
        assert self.next()["id"] == 0
        return self


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


def _other(user: User, server: str) -> str:
    """A configuration beside the user's own."""
    text = f'[hub]\nlisten = "127.0.0.1:0"\n[servers.{server}]\nurl = "http://127.0.0.1:9/"\n'
    return str(write(user.folder / f"{server}.toml", text))


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_the_hub_that_a_connected_client_starts_again_has_the_configuration_of_the_last(user: User, ended: str) -> None:
    user.configure()
    user.finished("up", "-d", "--config", _other(user, "mine"), "--host", "127.0.0.2", "--port", "0")
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
    user.finished("up", "-d", "--config", _other(user, "first"))
    with user.process("stdio") as process, open(user.home / "run" / "start.lock", "ab") as lock:
        client = StdioClient(process).opened()
        assert try_lock(lock.fileno())  # clients that would start a hub wait
        assert user.run("down").exit_code == 0
        client.send({"id": 1, "method": "ping"})
        with user.fork("up", "--config", _other(user, "second")) as hub:
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
    config = Path(_other(user, "mine"))
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
    assert hello == {"role": "stdio", "key": "ilk_mine", "view": "/profiles/work/mcp", "cwd": str(user.folder)}


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


@pytest.mark.parametrize("arguments", [["up"], ["up", "-d"]])
def test_a_hub_whose_address_is_taken_says_so_and_how_to_mend_it(user: User, arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        warned = '[servers.a]\ncommand = ["python3"]\nenv = { A = "${NOT_SET_HERE}" }\n'
        write(user.config, f'[hub]\nlisten = "127.0.0.1:{port}"\n{warned}')
        code, _, err = user.finished(*arguments)
    assert code == 1
    assert f"the hub cannot listen on 127.0.0.1:{port}: Address already in use\n" in err
    assert "set another `listen` in [hub]" in err
    assert err.count("`NOT_SET_HERE`, which is not set") == 1, "the starter and the hub do not both say it"
    assert "Traceback" not in err


def test_a_hub_that_cannot_make_its_socket_says_so_and_leaves_nothing(user: User) -> None:
    user.configure()
    (user.home / "run" / "hub.sock").mkdir(parents=True)
    code, _, err = user.finished("up")
    assert code == 1
    assert err.startswith("interlock: the hub cannot start: ")
    assert "hub.sock: Is a directory" in err
    assert "Traceback" not in err


def test_a_hub_whose_store_is_not_there_says_so_and_how_to_mend_it(user: User) -> None:
    write(user.config, '[hub]\nlisten = "127.0.0.1:0"\nstore = "postgresql://nobody@127.0.0.1:1/nothing"\n')
    code, _, err = user.finished("up")
    assert code == 1
    assert "the hub cannot start" in err
    assert "→" in err
    assert "Traceback" not in err


def test_a_hub_killed_hard_is_replaced_by_the_next_start_which_ends_its_servers(user: User) -> None:
    noted, script = user.folder / "noted", write(user.folder / "stubborn.py", STUBBORN)
    user.configure(f"[servers.stubborn]\ncommand = ['{sys.executable}', '{script}', '{noted}']\n")
    mark = {"INTERLOCK_MARK": "0" * 32}
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, env=mark
    ) as neighbour:
        user.finished("up", "-d")
        stubborn = int(block_until(lambda: noted.exists() and noted.read_text()) or 0)
        with HubLink.open(user.home) as link:
            os.kill(int(link.hello["pid"]), signal.SIGKILL)
            assert link.wait_closed(120)
        assert _runs(stubborn)
        assert user.finished("up", "-d")[0] == 0
        assert user.starts() == 2
        with HubLink.open(user.home) as link:
            ended = f"ended processes that a killed hub had left behind: {stubborn}"
            wanted = {"server": "hub", "lines": 500}
            block_until(lambda: ended in [line["text"] for line in link.ask("hub/logs", wanted)["lines"]])
        assert not _runs(stubborn)
        assert neighbour.poll() is None, "the mark is that of another hub"


STUBBORN = """\
import os, signal, sys
noted = sys.argv[1]
if os.path.exists(noted):  # the second hub's
    sys.stdin.read()
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(noted + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(noted + ".new", noted)
while True:
    signal.pause()
"""


def _runs(pid: int) -> bool:
    """Whether a process has not ended. One that nobody has waited for yet has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_the_demonstration_runs_a_hub_of_its_own_and_leaves_nothing(user: User) -> None:
    code, out, err = user.finished("demo")
    assert (code, err) == (0, "")
    assert "interlock call demo__" in out
    assert not user.home.exists()


@pytest.mark.parametrize("sign", ["hub.log", "hub.lock"])
@pytest.mark.parametrize("arguments", [["demo"], ["up", "-d"]])
def test_interrupting_whoever_starts_a_hub_ends_the_hub(user: User, arguments: list[str], sign: str) -> None:
    user.configure()
    places = user.root / "t"
    places.mkdir()
    user.environ["TMPDIR"] = str(places)
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with user.process(*arguments, preexec_fn=heeding) as process:
        while not [*places.glob(f"*/run/{sign}"), *user.home.glob(f"run/{sign}")]:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert list(places.iterdir()) == []
    assert not is_running(user.home)
    everyone = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert str(places) not in everyone


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_hub_whose_terminal_is_closed_ends_its_servers_and_tidies_up(user: User, number: signal.Signals) -> None:
    user.configure()
    with user.process("up") as hub:
        assert hub.stdout is not None
        while b"demo  connected" not in hub.stdout.readline():
            pass
        hub.send_signal(number)
        hub.communicate(timeout=120)
    assert hub.returncode == 0
    assert not (user.home / "run" / "hub.sock").exists()


def test_a_hub_started_to_outlive_its_terminal_does(user: User) -> None:
    user.configure()
    with user.process("up", preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)) as hub:
        assert hub.stdout is not None
        hub.stdout.readline()
        hub.send_signal(signal.SIGHUP)
        assert user.servers() == ["demo"]
        assert user.finished("down")[0] == 0
        hub.communicate(timeout=120)
    assert hub.returncode == 0


def test_a_hub_whose_words_nobody_reads_runs_all_the_same(user: User) -> None:
    user.configure()
    with user.process("up") as hub:
        assert hub.stdout is not None
        hub.stdout.readline()
        hub.stdout.close()
        assert user.servers() == ["demo"]
        assert user.finished("down")[0] == 0
        _, err = hub.communicate(timeout=120)
    assert (hub.returncode, err) == (0, b"")


def test_up_says_that_it_upgraded_the_store_and_where_the_backup_is(user: User) -> None:
    user.configure()
    user.home.mkdir(mode=0o700)
    database = connect(str(user.home / "hub.db"))
    bring_up(database, lambda _: None, steps()[:1])
    database.close()
    _, out, _ = user.finished("up", "-d")
    try:
        (backup,) = (user.home / "backups").iterdir()
        said = f"upgraded from schema 1 to {len(steps())}; backup in {backup}"
        assert said in out
        assert said in user.finished("logs", "hub")[1]
        assert said not in user.finished("up", "-d")[1], "a hub that runs already upgraded nothing now"
    finally:
        assert user.run("down").exit_code == 0
    assert "upgraded" not in user.finished("up", "-d")[1]
    assert user.run("down").exit_code == 0
