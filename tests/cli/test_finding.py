"""`interlock find` and `interlock budget` at the terminal, before a real hub."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from waiting import block_until

from .conftest import SOURCE, User
from .fake_hub import FakeHub

MANY = Path(__file__).parents[1] / "hub" / "many_server.py"
BUDGET = {
    "agent": "bot\x1b[2J",
    "level": "L3",
    "budget": 2_000,
    "all_tools": 200,
    "all_tokens": 40_000,
    "listed_tools": 3,
    "listed_tokens": 572,
    "instructions_tokens": 90,
    "instructions_over_budget": ["wordy"],
    "pinned_over_budget": ["many__huge"],
    "servers": [{"id": "many", "tokens": 39_000}, {"id": "few", "tokens": 1_000}],
}


def test_a_budget_is_a_picture_of_what_fills_the_context(user: User, hub: FakeHub) -> None:
    hub.answers["hub/budget"] = BUDGET
    shown = user.run("budget", "bot").output
    assert hub.params_of("hub/budget") == [{"agent": "bot"}]
    lines = [line.strip() for line in shown.splitlines() if "█" in line or "░" in line]
    bars = {line.split("  ")[0]: line.count("█") for line in lines}
    assert bars["all tools the agent may call"] == 40
    assert bars["listed to the model"] == 1
    assert bars["budget"] == 2
    assert bars["many"] == 39
    for said in ("level L3", "40,000", "200 tools", "instructions of servers", "many__huge", "wordy"):
        assert said in shown
    assert "\x1b[2J" not in shown, "no name moves the cursor"


def test_a_long_whole_list_comes_with_the_setting_that_shortens_it(user: User, hub: FakeHub) -> None:
    hub.answers["hub/budget"] = {**BUDGET, "level": "L0", "listed_tokens": 10_339, "budget": 20_000}
    ran = user.run("budget")
    assert "level L0, all tools are listed" in ran.output
    assert "`budget = 4000` in [hub]" in ran.output
    hub.answers["hub/budget"] = {**BUDGET, "level": "L0", "listed_tokens": 900}
    assert "budget = 4000" not in user.run("budget").output


def test_what_is_found_is_shown_with_how_and_what_had_no_room(user: User, hub: FakeHub) -> None:
    tool = {"name": "a__b", "description": "Does\nit\x1b[2J.", "relevance_score": 0.5, "status": "known"}
    found = {"tools": [tool], "total_available": 9, "search_strategy": "keyword", "query_time_ms": 1.5}
    hub.answers["hub/find"] = {**found, "left_out_for_budget": ["a__c"]}
    shown = user.run("find", "do", "it", "--agent", "bot", "-n", "3").output
    asked = {"query": "do it", "max_results": 3, "strategy": "hybrid", "agent": "bot"}
    assert hub.params_of("hub/find") == [asked]
    for said in ("0.50", "a__b", "not connected", "1 of 9 tools", "by keyword", "left out, over the budget: a__c"):
        assert said in shown
    assert "\x1b[2J" not in shown


def test_what_speaks_for_a_tool_is_said_on_request(user: User, hub: FakeHub) -> None:
    why = ["words: time, clock\x1b[2J", "learned: called 3 times after queries like this, +0.20"]
    tool = {"name": "a__b", "description": "Does it.", "relevance_score": 0.5, "why": why}
    hub.answers["hub/find"] = {
        "tools": [tool],
        "total_available": 9,
        "search_strategy": "keyword",
        "query_time_ms": 1.5,
    }
    shown = user.run("find", "--explain", "what", "time", "is", "it").output
    for said in ("0.50", "a__b", "Does it.", "words: time, clock", "learned: called 3 times"):
        assert said in shown
    assert "\x1b[2J" not in shown
    assert "learned" not in user.run("find", "time").output
    user.run("find", "-", stdin="a long query\n")
    assert hub.params_of("hub/find")[-1]["query"] == "a long query\n"


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_no_result_says_so_and_what_to_do(user: User, hub: FakeHub, explain: list[str]) -> None:
    nothing = {"tools": [], "total_available": 9, "search_strategy": "keyword", "query_time_ms": 1.5}
    hub.answers["hub/find"] = {**nothing, "hint": "say it in other words\x1b[2J"}
    shown = user.run("find", "xyzzy", *explain).output
    assert "0 of 9 tools" in shown
    assert "→ say it in other words" in shown
    assert "\x1b[2J" not in shown


def test_a_search_names_the_servers_that_are_still_starting(user: User, hub: FakeHub) -> None:
    hub.answers["hub/find"] = {"tools": [], "total_available": 0, "search_strategy": "hybrid", "query_time_ms": 1.0}
    states = {"slow": ("connecting", 0), "known": ("connecting", 3), "ready": ("connected", 0), "broken": ("error", 0)}
    servers = [{"id": name, "state": state, "tools": tools} for name, (state, tools) in states.items()]
    hub.answers["hub/status"] = {"servers": servers}
    assert "still starting: slow; search again" in user.run("find", "time").output
    assert "still starting: slow; their tools follow" in user.run("list").stderr
    assert "still starting" not in user.run("list", "--server", "ready").stderr


def test_what_was_learned_from_use_is_forgotten(user: User, hub: FakeHub) -> None:
    hub.answers["hub/find.forget"] = {"forgotten": 2}
    assert "forgot 2 uses of tools" in user.run("find", "--forget").output
    assert hub.params_of("hub/find") == []
    hub.answers["hub/find.forget"] = {"forgotten": 0}
    assert "nothing was learned" in user.run("find", "--forget").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["find"], "for example: interlock find list open pull requests"),
        (["find", ""], "for example: interlock find list open pull requests"),
        (["find", " ", ""], "for example: interlock find list open pull requests"),
        (["find", "--forget", "time"], "--forget takes no query"),
        (["find", "--forget", "--agent", "bot"], "it forgets what was learned from all agents"),
        (["find", "x", "-n", "0"], "-n"),
        (["find", "x", "--strategy", "magic"], "magic"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_hub_hears_of_it(
    user: User, hub: FakeHub, arguments: list[str], said: str
) -> None:
    done = user.run(*arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert hub.params_of("hub/find") == hub.params_of("hub/find.forget") == []


def test_a_real_hub_finds_for_an_agent_and_says_what_its_context_holds(user: User) -> None:
    command = json.dumps([sys.executable, str(MANY), "200", "40"])
    user.configure(
        f'[servers.many]\ncommand = {command}\nenv = {{ PYTHONPATH = "{SOURCE}" }}\n'
        '[agents.tight]\nbudget = 1500\npinned = ["many__create_*"]\n'
    )
    user.start_hub()

    def budget(*agent: str) -> Any:
        return json.loads(user.finished("budget", *agent, "--json")[1])

    block_until(lambda: budget()["all_tools"])
    free, tight = budget(), budget("tight")
    assert (free["level"], free["all_tools"], free["listed_tools"]) == ("L0", 200, 200)
    assert free["all_tokens"] == free["listed_tokens"]
    assert tight["level"] == "L3"
    assert tight["listed_tokens"] + tight["instructions_tokens"] <= tight["budget"] == 1_500
    assert tight["pinned_over_budget"]
    status = user.finished("status")[1]
    needed = re.search(r"\[agents\.tight\] budget is too small for the pinned many__create_.*take (\d+) tokens", status)
    assert needed is not None
    assert int(needed[1]) > 1_500
    found = json.loads(user.finished("find", "how", "high", "is", "the", "tide", "--agent", "tight", "--json")[1])
    assert found["tools"][0]["name"] == "many__measure_tide_height"
    code, _, err = user.finished("find", "tide", "--agent", "nobody")
    assert code != 0
    assert "no agent 'nobody'" in err
    code, _, err = user.finished("find", "  ")
    assert code != 0
    assert "say what the tool should do" in err
