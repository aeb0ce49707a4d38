"""Measure the judges on a folder of attack and benign vectors: `python bench/validators.py DIR --json FILE`.

One JSON object a line, one file a suite. Per suite it counts the bad rows that were missed and the benign ones that
raised an alarm, hard rows apart from soft ones (whose label is arguable), and times every judgement. The harness
answers DNS, redirects and links itself; nothing leaves the process.
"""

from __future__ import annotations

import argparse
import ast
import base64
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from interlock.config.documents import ParsedFile, parse_json, parse_toml
from interlock.config.imports import read_import
from interlock.config.problems import Problem, ProblemReport
from interlock.config.settings import ServerSettings
from interlock.judge.definitions import judge_definition
from interlock.judge.fingerprints import fingerprint
from interlock.judge.names import exposed_name, judge_against, judge_name
from interlock.judge.paths import judge_real_path
from interlock.judge.regexes import RegexError, compile_regex
from interlock.judge.results import judge_result
from interlock.judge.text import judge_text, show_hidden, strip_hidden
from interlock.judge.urls import judge_redirect, judge_resolved, judge_url, judge_urls_in_text, names_to_resolve
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.patterns import PatternError, compile_pattern
from interlock.wire.errors import Fault
from interlock.wire.limits import DEFAULT
from interlock.wire.messages import Request, decode
from interlock.wire.payload_checks import check_shape, strict

Row = Mapping[str, Any]
Judge = Callable[[Row], bool]
"""Whether a row was caught: refused, flagged, told apart, or held to its bound, as its suite asks."""

BENIGN = frozenset(("allow", "clean", "same", "accept", "accept_pending_approval"))
"""Expectations of rows that must pass; `either` rows are only counted, and every other expectation means bad."""


class NotMeasured(Exception):
    """The part of the project that a suite is about is not here; the message says which."""


def ssrf(row: Row) -> bool:
    """A fetch as the hub makes it: judge, resolve for each connection, judge every address, follow each redirect."""
    given = row["input"]
    if "text" in given:
        return bool(judge_urls_in_text(given["text"]))
    if judge_url(given["url"]):
        return True
    # Each list is one answer of the resolver; a name that changes its answer is resolved and judged again every time.
    answers = given.get("resolve") or [[]]
    for name in names_to_resolve(given["url"]):
        if any(judge_resolved(name, tuple(answer)) for answer in answers):
            return True
    url = given["url"]
    hops = given.get("redirect", [])
    for hop, answer in enumerate(hops if isinstance(hops, list) else [hops], start=1):
        url, found = judge_redirect(url, answer["location"], hop=hop)
        if found or any(judge_resolved(name, tuple(answers[0])) for name in names_to_resolve(url)):
            return True
    return False


def paths(row: Row) -> bool:
    given = row["input"]

    def read_link(path: str) -> str | None:
        """The fixture's links lead elsewhere, those called a loop to themselves, those called inside to the root."""
        folder, _, name = path.rpartition("/")
        if not given.get("fixture") or not folder.startswith(given["root"]):
            return None
        if "loop" in name:
            return path
        if "link" not in name:
            return None
        return given["root"] if "inside" in name or "internal" in name else f"/elsewhere/{name}"

    return bool(judge_real_path(given["path"], (given["root"],), read_link))


def tool_defs(row: Row) -> bool:
    given = row["input"]
    if "tool" in given:
        return bool(judge_definition(given["tool"]))
    if "sequence" in given:
        return len({fingerprint(definition) for definition in given["sequence"]}) > 1
    old, new = given["existing"], given["new"]
    if judge_name(new["tool"]) or judge_against(new["server"], new["tool"], [(old["server"], old["tool"])]):
        return True
    return exposed_name(old["server"], old["tool"]) != exposed_name(new["server"], new["tool"])


_VISIBLE = frozenset({"text.lookalike", "text.stacked_marks"})
"""Cases that are flagged although they show: there is nothing to take away."""


def unicode_hidden(row: Row) -> bool:
    """Flagged, and then really gone; or clean, and then left exactly as it was."""
    text: str = row["input"]["text"]
    if not judge_text(text):
        return strip_hidden(text) != text or show_hidden(text) != text
    return all(finding.rule in _VISIBLE for finding in judge_text(strip_hidden(text)))


def result_injection(row: Row) -> bool:
    given = row["input"]
    return bool(judge_result(given["text"] if "text" in given else given["payload"]))


def redos_glob(row: Row) -> bool:
    """Answered, or refused with a reason, within a tenth of a second."""
    given = row["input"]
    text = str(given["subject"])
    started = time.perf_counter()
    try:
        if "glob" in given:
            compile_pattern(given["glob"]).matches(text)
        else:
            compile_regex(given["regex"]).search(text)
    except (PatternError, RegexError):
        pass
    return time.perf_counter() - started < 0.1


def naughty_strings(row: Row) -> bool:
    """Unchanged through JSON, and through the judge of text unless it says what it would change."""
    text = row["input"]["text"]
    if msgspec.json.decode(msgspec.json.encode(text)) != text:
        return False
    return bool(judge_text(text)) or strip_hidden(text) == text == show_hidden(text)


def log_header_injection(row: Row) -> bool:
    """Made visible and written as JSON, the value stays one line of plain characters."""
    shown = show_hidden(row["input"]["value"])
    line = msgspec.json.encode({"value": shown}).decode()
    return line.isprintable() and not judge_text(line) and msgspec.json.decode(line) == {"value": shown}


def shell_sandbox(row: Row) -> bool:
    return bool(_from_module("interlock.judge.shell", "judge_shell")(row["input"]["command"]))


def shell_inferred(row: Row) -> bool:
    """The same commands as the hub judges them where it only infers that an argument is one."""
    rules = _from_module("interlock.judge.shell", "ShellRules")(everyday=True)
    return bool(_from_module("interlock.judge.shell", "judge_shell")(row["input"]["command"], rules))


def shell_readonly(row: Row) -> bool:
    given = row["input"]
    if "sql" in given:
        return bool(_from_module("interlock.judge.sql", "judge_readonly_sql")(given["sql"]))
    return bool(_from_module("interlock.judge.readonly", "judge_readonly_shell")(given["command"]))


def code_safety(row: Row) -> bool:
    given = row["input"]
    code = (
        given["code"] if "code" in given else (given["head"] * (given["len"] // len(given["head"]) + 1))[: given["len"]]
    )
    rules = _from_module("interlock.judge.code", "CodeRules")()
    return bool(_from_module("interlock.judge.code", "judge_code")(code, rules))


def json_parse(row: Row) -> bool:
    """Refused as arguments are: unreadable, out of bounds or readable in two ways; and as a message, if it is one."""
    data = _bytes(row["input"])
    try:
        check_shape(data, DEFAULT)
        value = msgspec.json.decode(data)
        strict(data)
        if isinstance(value, dict) and "jsonrpc" in value:
            decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Fault):
        return True
    return False


def jsonrpc_envelope(row: Row) -> bool:
    """Refused before anything would be forwarded: as an envelope, by its method, or by what its parameters must be."""
    given = row["input"]
    if "upstream_sends" in given:
        return _contained(str(given["upstream_sends"]))
    if "msg" not in given:
        raise NotMeasured("needs a message that is not in the row")
    try:
        message = decode(_standard_json(given["msg"]))
        if not isinstance(message, Request) or message.method not in METHODS:
            return True
        return preview(message.params).name != "echo"
    except Fault:
        return True


def _contained(sent: str) -> bool:
    """Sent by a real server to a real hub: the call ends, and the server's neighbour does not notice."""
    import hostile

    for words, kind in _IN_HTTP.items():
        if words in sent:
            return hostile.is_contained_over_http(kind)
    return hostile.is_contained(sent.encode())


_IN_HTTP = {
    "Set-Cookie headers": "cookies",
    "gzip.compress(": "zeros",
    "text/html with": "html",
    "one byte per": "slow",
}
"""Abilities that only servers over HTTP have, by the words of the rows."""


def http_raw(row: Row) -> bool:
    """Sent to a real hub on loopback: refused or hung up on, and answered once for each request that stands there."""
    import raw_http

    given = row["input"]
    sent = base64.b64decode(given["raw_b64"]) if "raw_b64" in given else given["expr"]
    if not isinstance(sent, bytes):
        raise NotMeasured("needs a sender that takes its time, or bytes that are not in the row")
    answers = raw_http.statuses(sent)
    expected = sent.count(b"POST /mcp HTTP/1.1") if row["cls"] == "pipeline" else 1
    return len(answers) <= expected and all(400 <= status < 600 for status in answers)


def ws_frames(row: Row) -> bool:
    raise NotMeasured("there is no WebSocket face yet that these frames could be sent to")


def config_import(row: Row) -> bool:
    """A file that came with a project: unreadable, with a server held back, or one whose name had to be changed."""
    given = row["input"]
    if "text" in given:
        return not any(_imported(given["text"], suffix)[0] for suffix in (".json", ".toml"))
    config = given["config"] if "config" in given else given["expr"]
    servers, problems = _imported(_standard_json(config).decode(), ".json")
    if problems or any(server.problem is not None for server in servers.values()):
        return True
    if row["expect"] != "reject_or_normalise":
        return not servers
    named = {name for member in ("mcpServers", "servers") for name in config.get(member, {})}
    return named.isdisjoint(servers)


def _imported(text: str, suffix: str) -> tuple[dict[str, ServerSettings], list[Problem]]:
    path = Path("/project/.mcp").with_suffix(suffix)
    parsed = (parse_toml if suffix == ".toml" else parse_json)(text, str(path))
    if isinstance(parsed, Problem):
        return {}, [parsed]
    report = ProblemReport(path, parsed[1], fatal=False)
    return read_import(ParsedFile(path, "", *parsed), report, trusted=False), report.problems


def _bytes(given: Mapping[str, Any]) -> bytes:
    if "b64" in given:
        return base64.b64decode(given["b64"])
    if "b64_head" in given:
        head = base64.b64decode(given["b64_head"])
        size = int(given["len"])
        return (head * (size // max(len(head), 1) + 1))[:size]
    built = given["expr"]
    return built if isinstance(built, bytes) else str(built).encode("utf-8", "surrogatepass")


def _standard_json(value: object) -> bytes:
    # The standard encoder, since a row may hold what a strict one would not write.
    import json

    return json.dumps(value).encode()


SUITES: dict[str, Judge] = {
    judge.__name__: judge
    for judge in (
        *(
            ssrf,
            shell_sandbox,
            shell_inferred,
            shell_readonly,
            code_safety,
            tool_defs,
            unicode_hidden,
            paths,
            result_injection,
            json_parse,
        ),
        *(jsonrpc_envelope, http_raw, log_header_injection, naughty_strings, config_import, redos_glob, ws_frames),
    )
}


VECTORS = {"shell_inferred": "shell_sandbox"}
"""Suites that judge the vectors of another one."""


class Counts(msgspec.Struct):
    rows: int = 0
    bad: int = 0
    missed: int = 0
    benign: int = 0
    false_alarms: int = 0

    def add(self, bad: bool, caught: bool) -> None:
        self.rows += 1
        if bad:
            self.bad += 1
            self.missed += not caught
        else:
            self.benign += 1
            self.false_alarms += caught


def measure(judge: Judge, rows: Iterator[Row], show: list[str] | None = None) -> dict[str, object]:
    """Counts for one suite. A judge that raises is wrong whatever was expected, and counted as an error too."""
    counts = {"hard": Counts(), "soft": Counts()}
    classes: dict[str, dict[str, Counts]] = {}
    times: list[float] = []
    errors = skipped = 0
    why = "no rows"
    for row in rows:
        expected = row["expect"]
        if expected == "either":
            continue
        bad = expected not in BENIGN
        row = {**row, "input": {key: _built(value, key) for key, value in row["input"].items()}}
        started = time.perf_counter()
        try:
            caught = judge(row)
        except NotMeasured as reason:
            skipped += 1
            why = str(reason)
            continue
        except Exception:  # the boundary of the measurement: what a judge lets escape is counted, not hidden
            errors += 1
            caught = not bad
        times.append(time.perf_counter() - started)
        weight = "soft" if row.get("soft") else "hard"
        counts[weight].add(bad, caught)
        by_class = classes.setdefault(row["cls"], {"hard": Counts(), "soft": Counts()})
        by_class[weight].add(bad, caught)
        if show is not None and caught != bad:
            show.append(f"{weight} {'missed' if bad else 'false alarm'} {row['cls']} {row['id']}")
    if not times:
        return {"not_measured": why}
    return {**counts, "classes": classes, "errors": errors, "skipped": skipped, "microseconds": _spread(times)}


def read_rows(path: Path) -> Iterator[Row]:
    # The standard decoder, since rows may hold lone surrogates, which are no valid JSON text to a strict one.
    import json

    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def build(expression: str) -> object:
    """A large payload from its short form: literals, `+`, `*`, `%`, `join` and `range`, and nothing else."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return expression
    if not all(isinstance(node, _BUILDING) for node in ast.walk(tree)):
        return expression
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr != "join":
            return expression
    try:
        return eval(compile(tree, "<expr>", "eval"), {"__builtins__": {}, "range": range})
    except (NameError, TypeError, ValueError):
        return expression


def _built(value: object, key: str = "") -> object:
    if key == "expr" and isinstance(value, str):
        return build(value)
    if isinstance(value, dict) and value.keys() == {"expr"}:
        return build(value["expr"])
    if isinstance(value, str) and value.startswith("EXPR:"):
        return build(value.removeprefix("EXPR:"))
    return value


_BUILDING = (
    *(ast.Expression, ast.Constant, ast.BinOp, ast.Add, ast.Mult, ast.Mod, ast.Call, ast.Attribute, ast.Name, ast.Load),
    *(ast.Store, ast.GeneratorExp, ast.comprehension, ast.List, ast.Dict, ast.Tuple),
)


@cache
def _from_module(module: str, name: str) -> Callable[..., Any]:
    from importlib import import_module

    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise NotMeasured(f"{module}.{name} is not there") from None
    return found


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e6, 1) for name, part in at.items()}


def _line(suite: str, measured: dict[str, object]) -> str:
    if "not_measured" in measured:
        return f"{suite:22} not measured: {measured['not_measured']}"
    parts = [f"{suite:22}"]
    for weight in ("hard", "soft"):
        counts = measured[weight]
        if isinstance(counts, Counts):
            missed = f"{counts.missed}/{counts.bad} missed"
            parts.append(f"{weight}: {missed:>16}, {counts.false_alarms}/{counts.benign} false alarms")
    return "   ".join((*parts, f"{measured['microseconds']} µs, {measured['errors']} errors"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of vectors, one .jsonl file a suite")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--suite", action="append", help="measure only this suite; may be repeated")
    parser.add_argument("--show", action="store_true", help="name the rows that came out wrong")
    options = parser.parse_args(arguments)
    report: dict[str, dict[str, object]] = {}
    for suite in options.suite or SUITES:
        path = options.folder / f"{VECTORS.get(suite, suite)}.jsonl"
        wrong: list[str] | None = [] if options.show else None
        if suite not in SUITES:
            report[suite] = {"not_measured": "no such suite"}
        elif not path.is_file():
            report[suite] = {"not_measured": "no vectors"}
        else:
            report[suite] = measure(SUITES[suite], read_rows(path), wrong)
        print(_line(suite, report[suite]))
        for line in wrong or ():
            print("    " + line)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
