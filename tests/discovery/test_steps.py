from __future__ import annotations

import pytest

from cases import each_case
from interlock.discovery.entries import from_definition
from interlock.discovery.index import ToolIndex
from interlock.discovery.steps import MAX_STEPS, steps
from processor_work import work_of


@each_case(
    ("query", "parts"),
    [
        (
            "Find flights to Rome, then book the cheapest one and mail the ticket",
            ["Find flights to Rome", "book the cheapest one", "mail the ticket"],
        ),
        ("Read the notes. Summarize the meeting!", ["Read the notes.", "Summarize the meeting!"]),
        ("create a branch; push the files", ["create a branch", "push the files"]),
        (
            "pull the report, post the report, and archive the report",
            ["pull the report", "post the report", "archive the report"],
        ),
        ("read the page and remember it", ["read the page", "remember it"]),
        ("Read the file. Then commit. Finally mail it.", ["Read the file.", "commit.", "mail it."]),
        ("read a file; then commit; after that, zip the folder", ["read a file", "commit", "zip the folder"]),
        ("First read it, second commit the changes, and third mail it", ["read it", "commit the changes", "mail it"]),
        ("- read the file\n- commit\n* mail it", ["read the file", "commit", "mail it"]),
        ("the first name of the user, the second address", []),
        ("search for black and white photos", []),
        ("salt and pepper prices", []),
        ("weather", []),
    ],
)
def test_a_task_falls_into_its_steps(query: str, parts: list[str]) -> None:
    assert [part for part, _ in steps(query)] == parts


def test_a_task_of_very_many_steps_is_searched_within_a_bound_and_loses_none() -> None:
    query = " ".join(f"Read the chapter number{n} carefully." for n in range(100))
    found = steps(query)
    assert len(found) == MAX_STEPS
    told = " ".join(part for part, _ in found)
    assert all(f"number{n} " in told for n in range(100))


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\n", "\n ", "\r\n\t"], ids=repr)
def test_runs_of_blanks_cost_little(blank: str) -> None:
    query = f"find it, then{blank * 8_000}!"
    assert work_of(lambda: steps(query), tries=1) < 20_000_000


@each_case("query", ["run a command, then commit", "read the file. run a command."])
def test_the_only_tool_is_found_for_one_of_several_steps(query: str) -> None:
    index = ToolIndex()
    index.put(from_definition("shell", {"name": "run", "description": "Run a shell command."}))
    assert [hit.entry.name for hit in index.search(query).hits] == ["run"]
    assert not index.search("read the mail. book a flight.").hits
