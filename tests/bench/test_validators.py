"""The measurement counts what it should: misses, false alarms, soft rows apart, errors, and what is not there."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "validators.py"), run_name="validators")


def row(suite: str, expect: str, soft: bool = False, cls: str = "c", **given: object) -> dict[str, object]:
    return {"id": f"{suite}-1", "suite": suite, "expect": expect, "cls": cls, "input": given, "soft": soft}


def measured(folder: Path, suite: str, rows: list[dict[str, object]]) -> dict[str, Any]:
    (folder / f"{suite}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    assert BENCH["main"]([str(folder), "--json", str(folder / "out.json"), "--suite", suite]) == 0
    report: dict[str, Any] = json.loads((folder / "out.json").read_text())[suite]
    return report


def test_misses_and_false_alarms_are_counted_apart_for_hard_and_soft_rows(tmp_path: Path) -> None:
    rows = [
        row("ssrf", "block", url="http://10.0.0.1/"),
        row("ssrf", "block", url="http://8.8.8.8/"),
        row("ssrf", "allow", url="http://8.8.8.8/", cls="d"),
        row("ssrf", "allow", soft=True, url="http://10.0.0.1/"),
    ]
    report = measured(tmp_path, "ssrf", rows)
    assert report["hard"] == {"rows": 3, "bad": 2, "missed": 1, "benign": 1, "false_alarms": 0}
    assert report["soft"] == {"rows": 1, "bad": 0, "missed": 0, "benign": 1, "false_alarms": 1}
    assert report["classes"]["d"]["hard"]["benign"] == 1


def test_every_answer_of_the_resolver_and_every_redirect_is_judged(tmp_path: Path) -> None:
    public = [["93.184.216.34"]]
    rows = [
        row("ssrf", "allow", url="https://example.org/", resolve=public),
        row("ssrf", "block", url="https://example.org/", resolve=[*public, ["10.0.0.1"]]),
        row(
            "ssrf",
            "block",
            url="https://example.org/",
            resolve=public,
            redirect={"status": 302, "location": "//10.0.0.1/"},
        ),
        row("ssrf", "allow", url="https://example.org/", resolve=public, redirect={"status": 302, "location": "/next"}),
    ]
    report = measured(tmp_path, "ssrf", rows)
    assert (report["hard"]["missed"], report["hard"]["false_alarms"], report["errors"]) == (0, 0, 0)


def test_links_of_a_fixture_are_followed(tmp_path: Path) -> None:
    rows = [
        row("paths", "block", root="/srv", path="dir_link/../x", fixture="links"),
        row("paths", "allow", root="/srv", path="dir_link/../x", fixture=None),
    ]
    report = measured(tmp_path, "paths", rows)
    assert (report["hard"]["missed"], report["hard"]["false_alarms"]) == (0, 0)


def test_changed_definitions_and_colliding_names_are_told_apart(tmp_path: Path) -> None:
    rows = [
        row("tool_defs", "reapprove", sequence=[{"name": "t"}, {"name": "t", "title": "x"}]),
        row("tool_defs", "same", sequence=[{"name": "t", "n": 1}, {"n": 1.0, "name": "t"}]),
        row(
            "tool_defs",
            "distinct_or_reject",
            existing={"server": "a", "tool": "x"},
            new={"server": "b", "tool": "a__x"},
        ),
        row("tool_defs", "same", existing={"server": "a", "tool": "x"}, new={"server": "a", "tool": "x"}),
    ]
    report = measured(tmp_path, "tool_defs", rows)
    assert (report["hard"]["bad"], report["hard"]["missed"], report["hard"]["false_alarms"]) == (2, 0, 0)


def test_a_judge_that_fails_is_wrong_whatever_was_expected(tmp_path: Path) -> None:
    rows = [row("paths", "block", root="/srv", path=3), row("paths", "allow", root="/srv", path=3)]
    report = measured(tmp_path, "paths", rows)
    assert report["errors"] == 2
    assert (report["hard"]["missed"], report["hard"]["false_alarms"]) == (1, 1)


def test_json_that_reads_two_ways_and_messages_that_are_none_are_refused(tmp_path: Path) -> None:
    rows = [row("json_parse", "accept", b64="eyJhIjoxfQ=="), row("json_parse", "reject", expr='\'{"a":1,"a":2}\'')]
    report = measured(tmp_path, "json_parse", rows)
    assert (report["hard"]["missed"], report["hard"]["false_alarms"]) == (0, 0)
    good = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
    rows = [
        row("jsonrpc_envelope", "accept", msg=good),
        row("jsonrpc_envelope", "invalid", msg=[good]),
        row("jsonrpc_envelope", "invalid", msg={**good, "Method": "x"}),
        row("jsonrpc_envelope", "invalid", expr_note="oversize", len=9, msg_head="{"),
    ]
    report = measured(tmp_path, "jsonrpc_envelope", rows)
    assert (report["hard"]["rows"], report["hard"]["missed"], report["hard"]["false_alarms"]) == (3, 0, 0)
    assert report["skipped"] == 1


def test_what_a_hostile_server_sends_goes_through_a_real_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    rows = [
        row("jsonrpc_envelope", "contained", upstream_sends="no JSON at all"),
        row("jsonrpc_envelope", "contained", upstream_sends="Content-Type: text/html with JSON body"),
    ]
    report = measured(tmp_path, "jsonrpc_envelope", rows)
    assert (report["hard"]["rows"], report["hard"]["missed"], report["errors"]) == (2, 0, 0)


def test_project_files_are_read_as_the_hub_reads_them(tmp_path: Path) -> None:
    def config(name: str, **server: object) -> dict[str, object]:
        return {"mcpServers": {name: {"command": "npx", "args": ["some-server"], **server}}}

    rows = [
        row("config_import", "accept_pending_approval", config=config("good")),
        row("config_import", "accept_pending_approval", config=config("Good Name")),
        row("config_import", "reject_or_normalise", config=config("a b")),
        row("config_import", "reject_or_admin_only", config=config("x", env={"LD_PRELOAD": "/tmp/x.so"})),
        row("config_import", "reject_or_safe", text="a: &a [*a]"),
    ]
    report = measured(tmp_path, "config_import", rows)
    assert (report["hard"]["missed"], report["hard"]["false_alarms"], report["errors"]) == (0, 0, 0)


def test_what_is_not_there_is_said_to_be_not_measured(tmp_path: Path) -> None:
    assert "not_measured" in measured(tmp_path, "ws_frames", [row("ws_frames", "reject_or_safe", raw_b64="")])
    assert "not_measured" in measured(tmp_path, "unheard_of", [])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'a'*3+'!'", "aaa!"),
        ("','.join('%d'%i for i in range(3))", "0,1,2"),
        ("a/b", "a/b"),
        ("__import__('os')", "__import__('os')"),
        ("''.__class__", "''.__class__"),
        ("open('x')", "open('x')"),
        ("(", "("),
    ],
)
def test_payloads_are_built_from_a_few_harmless_operations_only(expression: str, value: str) -> None:
    assert BENCH["build"](expression) == value
