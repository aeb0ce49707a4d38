"""`interlock rooms` with a real hub: what two terminals see of each other."""

from __future__ import annotations

import getpass
import json

from .conftest import User

CONFIG = """
[hub]
listen = "127.0.0.1:0"
[rooms.topics.build]
visibility = "restricted"
kinds = { person = "full-access" }
[rooms.topics.closed]
[rooms.topics.quiet]
visibility = "restricted"
kinds = { person = "listener" }
[rooms.profiles]
listener = ["mcp/response:*"]
"""


def test_what_one_terminal_says_another_one_sees(user: User) -> None:
    user.config.parent.mkdir(parents=True, exist_ok=True)
    user.config.write_text(CONFIG)
    user.start_hub()
    try:
        me = f"person:{getpass.getuser()}"
        code, out, err = user.finished("rooms", "list")
        assert code == 0, err
        assert "build" in out
        assert "restricted" in out
        watcher = user.fork("rooms", "watch", "build", "--json", "--count", "5")
        assert watcher.stdout is not None
        welcome = json.loads(watcher.stdout.readline())
        watching = welcome["payload"]["you"]["id"]
        assert watching.startswith(f"{me}~")
        assert welcome["payload"]["you"]["capabilities"] == ["mcp/*", "chat"]
        listed = json.loads(user.finished("rooms", "list", "--json")[1])
        assert [one["id"] for one in listed[0]["participants"]] == [watching]
        sent = json.loads(user.finished("rooms", "say", "build", "hello", "--json")[1])
        rest = [json.loads(watcher.stdout.readline()) for _ in range(4)]
        assert [each["kind"] for each in rest] == ["system/presence", "system/presence", "chat", "system/presence"]
        assert (rest[2]["id"], rest[2]["payload"]["text"]) == (sent["id"], "hello")
        watcher.communicate(timeout=30)
        assert watcher.returncode == 0
        assert "nobody else is in `build` now" in user.finished("rooms", "say", "build", "hello")[2]
        assert "ghost is not in `build` now" in user.finished("rooms", "say", "build", "hello", "--to", "ghost")[2]
        code, out, err = user.finished("rooms", "say", "closed", "hello")
        assert code == 5, (out, err)
        code, out, err = user.finished("rooms", "say", "quiet", "hello")
        assert code == 5, (out, err)
        assert "You lack capability for 'chat'" in err
        code, out, err = user.finished("rooms", "call", "build", "x", "--to", "server:nope")
        assert code == 1, (out, err)
        assert "server:nope is not in build; here: system:inbox" in err
        code, out, err = user.finished("rooms", "propose", "build", "x")
        assert code == 0, (out, err)
        assert "it names nobody who carries it out" in err
        code, out, err = user.finished("rooms", "say", "build", "hello", "--key", "ilk_unknown")
        assert code == 5, (out, err)
        assert "refused the connection: this key is not known\n" in err
        assert "→ connect the client again" in err
        code, out, err = user.finished("rooms", "join", "build", stdin=b"good morning\n/reject nothing no\n")
        assert code == 0, err
        assert "0 proposals begin with 'nothing'" in err
    finally:
        user.finished("down")
