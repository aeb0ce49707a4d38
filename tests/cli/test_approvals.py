"""Answering at a terminal: a real hub, a real agent over standard streams, and a real terminal (a pty)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.cli.control.hub_link import HubLink
from waiting import block_until

from .conftest import User
from .fake_hub import FakeHub
from .on_terminal import PASSPHRASE, on_terminal

ASKING = '[hub.approvals]\nhold_s = 30\n[agents.local]\nask = ["demo__*"]\n'


class Agent:
    """A client over `interlock stdio`."""

    def __init__(self, user: User) -> None:
        self._process = user.fork("stdio")
        info = {"name": "c", "version": "1"}
        self.ask(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.answer(0)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, id: int, method: str, params: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: int) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return message
        raise AssertionError("no answer")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


@pytest.fixture
def agent(user: User) -> Iterator[Agent]:
    user.configure(ASKING)
    user.start_hub()
    with HubLink.open(user.home) as link:
        block_until(lambda: link.ask("hub/status")["servers"][0]["state"] == "connected")
    made = Agent(user)
    yield made
    made.close()
    user.finished("down")


def first_call(user: User, agent: Agent, id: int) -> str:
    """Have the agent call a tool that needs a yes; the id of the question."""
    agent.ask(id, "tools/call", {"name": "demo__text_figures", "arguments": {"text": "two words"}})
    with HubLink.open(user.home) as link:
        found = block_until(lambda: link.ask("hub/approvals.list")["decisions"])
    return str(found[-1]["id"])


def test_a_question_is_answered_live_and_the_held_call_goes_on(user: User, agent: Agent) -> None:
    id_ = first_call(user, agent, 1)
    script = [(b"[other] later", b"d"), (b"[other] later", b"y"), (b"approved by person:", b"")]
    shown = on_terminal(user, "watch", script=script)
    assert f"{id_} approved by person:" in shown
    assert not agent.answer(1)["result"].get("isError")


def test_approve_and_deny_need_a_terminal_and_say_what_came_of_it(user: User, agent: Agent) -> None:
    id_ = first_call(user, agent, 1)
    code, _, err = user.finished("approvals", "approve", id_)
    assert code == 5
    assert "terminal" in err
    with HubLink.open(user.home) as link, pytest.raises(Exception, match="terminal"):
        link.ask("hub/approvals.answer", {"id": id_, "answer": "once"})
    assert f"{id_} denied by person:" in on_terminal(user, "approvals", "deny", id_, "--because", "no secrets")
    told = agent.answer(1)["error"]["message"]
    assert "denied by person:" in told
    assert "They said: no secrets" in told
    assert "denied" in user.finished("approvals", "list", "--all")[1]


def test_always_makes_a_rule_that_is_listed_and_revoked(user: User, agent: Agent) -> None:
    id_ = first_call(user, agent, 1)
    # The space after a prompt is written once the terminal shows no more what is typed.
    script = [(b"New passphrase: ", PASSPHRASE), (b"Repeat for confirmation: ", PASSPHRASE), (b"need the pass", b"")]
    shown = on_terminal(user, "approvals", "passphrase", script=script)
    script = [(b"Approve it?", b"y\n"), (b"Passphrase: ", PASSPHRASE), (b"approved always", b"")]
    shown += on_terminal(user, "approvals", "approve", id_, "--always", script=script)
    assert '"text": "two words"' in shown
    assert "correct horse" not in shown
    agent.answer(1)
    listed = json.loads(user.finished("approvals", "rules", "--json")[1])["rules"]
    assert [rule["agent"] for rule in listed] == ["local"]
    assert user.run("approvals", "rules", "list").output == user.run("approvals", "rules").output
    code, out, _ = user.finished("approvals", "rules", "--revoke", listed[0]["id"])
    assert (code, out.startswith("No rules.")) == (0, True)


def test_watch_offers_no_answer_to_an_own_request_and_says_when_one_cannot_be_shown(user: User, hub: FakeHub) -> None:
    rest = {
        "state": "open",
        "asker": "s",
        "target": "s__x",
        "question": "?",
        "risk": "",
        "findings": [],
        "summary": "x",
    }
    own = {"id": "own", "kind": "tool_call", **rest}
    unseen = {"id": "uns", "kind": "changed_tool", "needs_view": True, **rest}
    hub.answers["hub/approvals.list"] = {"decisions": [own, unseen]}
    hub.answers["hub/approvals.show"] = lambda params: {
        "decision": own if params["id"] == "own" else unseen,
        "is_own": params["id"] == "own",
    }
    shown = on_terminal(user, "watch", script=[(b"[other] later", b"x"), (b"left open", b"")])
    before, _, after = shown.partition("another person has to answer")
    assert "[other] later" not in before
    assert "it can only be denied" in after


def test_watch_asks_for_all_open_requests_after_it_lost_some(user: User, hub: FakeHub) -> None:
    asked = {
        "id": "a3f",
        "kind": "tool_call",
        "state": "open",
        "asker": "ci",
        "target": "demo__x",
        "question": "Say yes",
        "risk": "",
        "findings": [],
        "summary": "",
    }
    lists = [{"decisions": []}, {"decisions": [asked]}]
    hub.answers["hub/approvals.list"] = lambda params: lists.pop(0)
    hub.answers["hub/approvals.show"] = {"decision": asked}
    hub.gaps = [{"event": "ApprovalChanged", "source": "approvals", "first": 1, "last": 9}]
    shown = on_terminal(user, "watch", script=[(b"[other] later", b"x"), (b"left open", b"")])
    assert "a3f" in shown
    assert "left open" in shown


HOSTILE = {
    "id": "a3f",
    "kind": "tool_call",
    "state": "open",
    "asker": "evil\x1b[2J",
    "asker_kind": "agent",
    "trust": "standard",
    "findings": ["a\x1b[2Jb"],
    "rule": "r\x1b[2J",
    "deadline": "2099-01-01T00:00:00Z",
    "arguments_hash": "",
    "fingerprint": "",
    "answer": "",
    "answered_by": "",
    "target": "x\u202ey",
    "question": "Say\x1b]0;t\x07 yes",
    "summary": "a\x1b[1A\nb",
    "risk": "dangerous",
}


@pytest.mark.parametrize("arguments", [("approvals",), ("approvals", "show", "a3f"), ("watch",)])
def test_what_agents_say_never_moves_the_cursor(user: User, hub: FakeHub, arguments: tuple[str, ...]) -> None:
    hub.answers["hub/approvals.list"] = {"decisions": [HOSTILE]}
    hub.answers["hub/approvals.show"] = {"decision": HOSTILE}
    result = user.run(*arguments)
    assert result.exit_code == 0
    assert "a3f" in result.output
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output


def test_watch_without_a_terminal_prints_and_ends(user: User, hub: FakeHub) -> None:
    hub.answers["hub/approvals.list"] = {"decisions": []}
    assert user.run("watch").exit_code == 0
    assert hub.params_of("hub/approvals.list") == [{"follow": False}]


def test_t41_long_arguments_can_be_approved_only_after_they_were_read(user: User, agent: Agent) -> None:
    text = "word " * 1000 + "at the very end: rm -rf /"
    agent.ask(1, "tools/call", {"name": "demo__text_figures", "arguments": {"text": text}})
    with HubLink.open(user.home) as link:
        block_until(lambda: link.ask("hub/approvals.list")["decisions"])
    script = [
        (b"[other] later", b"y"),
        (b"not shown in full yet", b""),
        (b"[other] later", b"d"),
        (b"rm -rf /", b""),
        (b"[other] later", b"y"),
        (b"approved by person:", b""),
    ]
    shown = on_terminal(user, "watch", script=script)
    before, _, after = shown.partition("not shown in full yet")
    assert "rm -rf /" not in before
    assert "rm -rf /" in after


FAILURES: list[Any] = [
    {"error": {"code": -32602, "message": "Unknown tool: foo"}},
    {"result": {"isError": True, "content": [{"type": "text", "text": "Unknown tool: foo"}]}},
]


@pytest.mark.parametrize("response", [*FAILURES, {"result": {"content": [{"type": "text", "text": "all good"}]}}, None])
def test_an_approved_proposal_shows_its_outcome_and_a_failure_ends_with_1(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, response: Any
) -> None:
    monkeypatch.setattr("interlock.cli.control.perform.is_attended", lambda: True)
    row = {**HOSTILE, "kind": "proposal", "server": "room:build", "proposal": "5c1f", "offers_rule": False}
    hub.answers["hub/approvals.list"] = {"decisions": [row]}
    hub.answers["hub/approvals.show"] = {"decision": row, "view": "{}", "view_hash": "h"}
    done = {"decision": {**row, "state": "used", "answer": "once", "answered_by": "person:ada"}, "response": response}
    hub.answers["hub/approvals.answer"] = done
    shown = {None: "No answer came yet"}.get(response) if response is None else "all good"
    for arguments in (("approvals", "approve", "a3f"), ("rooms", "fulfil", "build", "5c")):
        for options in ((), ("--json",)):
            result = user.run(*arguments, *options, stdin="y\n")
            assert result.exit_code == (1 if response in FAILURES else 0), result.output
            if not options:
                assert ("failed Unknown tool: foo" if response in FAILURES else shown) in result.output
    gone = user.run("rooms", "fulfil", "build", "77")
    assert (gone.exit_code, "open: 5c1f" in gone.output) == (2, True)


def test_t125_an_agents_terminal_cannot_approve(user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.control.perform.is_attended", lambda: True)
    monkeypatch.setenv("CLAUDECODE", "1")
    for arguments in (("approve", "a3f"), ("deny", "a3f"), ("rules", "--make", "a3f")):
        result = user.run("approvals", *arguments)
        assert result.exit_code != 0
        assert "Claude Code" in result.stderr
    assert not [method for method, _ in hub.asked if "answer" in method or "make" in method]


def test_always_is_neither_offered_nor_taken_where_each_call_is_asked_about(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {**HOSTILE, "every_time": True, "offers_rule": False}
    hub.answers["hub/approvals.list"] = {"decisions": [row]}
    hub.answers["hub/approvals.show"] = {"decision": row, "view": "{}", "view_hash": "h"}
    shown = on_terminal(user, "watch", script=[(b"[other] later", b"a"), (b"left open", b"")])
    assert ("once" in shown, "always" in shown) == (True, False)
    monkeypatch.setattr("interlock.cli.control.perform.is_attended", lambda: True)
    result = user.run("approvals", "approve", "a3f", "--always", stdin="y\n")
    assert (result.exit_code, "approve it without --always" in result.output) == (2, True)
    assert not [method for method, _ in hub.asked if "answer" in method]
