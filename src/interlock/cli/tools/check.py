"""`interlock check`: runs the hub's checks on a text, or on the configuration and its examples."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.terminal.failures import WrongConfiguration, WrongUsage
from interlock.cli.terminal.options import OneOf
from interlock.cli.terminal.show import bold, coloured, counted, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig
    from interlock.config.settings import Config
    from interlock.judge.findings import Finding

KINDS = ("shell", "url", "code", "path", "sql", "tool")
OTHER_NAMES = {"command": "shell", "cmd": "shell", "bash": "shell", "sh": "shell", "python": "code", "file": "path"}
FROM_FILES = frozenset(("code", "sql", "tool"))
"""Kinds that also accept a file name without an @ before it."""
FILE_NAME = re.compile(r"[^\s()'\"=;]+\.(?:py|pyi|js|mjs|ts|sh|rb|pl|sql|txt|json|toml|ya?ml)")
"""A word that is meant as the name of a file, also where it would be a text that can be checked."""
INFERRED = "As inferred, a hub asks a person who is present before such a call, and else notes it; `locked` refuses."
WIDTH = 100


@click.command()
@click.argument("kind", type=OneOf(KINDS, OTHER_NAMES), required=False)
@click.argument("text", required=False)
@click.option("--enforced", is_flag=True, help="For shell: as `sandbox` does where it is declared or configured.")
@click.option("--readonly", is_flag=True, help="For shell: as `readonly` does, which forbids writing.")
@click.option("--level", type=click.Choice(["standard", "strict", "readonly"]), default="standard", help="For code.")
@click.option("--language", default="python", metavar="NAME", help="For code.")
@click.option("--dialect", metavar="NAME", help="For sql.")
@click.option("--root", "roots", multiple=True, metavar="DIR", help="For path: a folder it must be in (repeatable).")
@click.option("--config", metavar="[FILE]", is_flag=False, flag_value="", help="Check the configuration instead.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    kind: str | None,
    text: str | None,
    enforced: bool,
    readonly: bool,
    level: str,
    language: str,
    dialect: str | None,
    roots: tuple[str, ...],
    config: str | None,
    as_json: bool,
) -> None:
    """Check a command, URL, code, path, SQL statement or tool.

    TEXT is the text itself, `@FILE`, or `-` for standard input; code, sql and tool also accept a file name. Nothing is
    run, opened or resolved. The output says which validator judges. Exit code 5 means that it has findings.

    A hub refuses a call with findings where the validator is declared or configured, and in mode `locked`. Where it is
    only inferred, a person who is present is asked, and else the finding is noted. A command is judged as inferred,
    each part by itself; with --enforced it must be one simple command. `interlock why` judges a call of one tool.

    With --config, it checks the configuration, and each validator with its examples (`accepts`, `refuses`). Warnings
    are those of `interlock up`: one server, model or import cannot be used, such as for a variable that is not set.

    \b
    Examples:
      interlock check shell 'ls; rm -rf /'
      interlock check shell --enforced 'npm ci && npm test'
      interlock check code script.py --level strict
      interlock check --config
    """
    if config is not None:
        _check_config(Path(config) if config else None, as_json)
        return
    if kind is None or text is None:
        command = f"interlock check {kind or '|'.join(KINDS)}"
        raise WrongUsage(
            "there is no text to check", f"write `{command} TEXT`, or `{command} -` to read standard input"
        )
    judged = _read(kind, text)
    if kind == "tool":
        _check_tools(ctx, judged, as_json)
        return
    findings = _judges(enforced, readonly, level, language, dialect, roots)[kind](judged)
    validator, way = _way(kind, enforced, readonly, level, language)
    if as_json:
        rows = [_as_json(finding) for finding in findings]
        show_json({"ok": not findings, "validator": validator, "findings": rows, "allow": how_to_allow(findings)})
    else:
        say(f"`{validator}`{way}")
        show_findings(judged, findings)
        if allow := how_to_allow(findings):
            say(f"  {allow}")
        if findings and kind == "shell" and not (enforced or readonly):
            say(f"  {INFERRED}")
    ctx.exit(5 if findings else 0)


def show_findings(text: str, findings: tuple[Finding, ...]) -> None:
    """Print each finding with its part of the text marked."""
    if not findings:
        say(coloured("✓", "green") + " no findings")
    for finding in findings:
        say(f"{coloured('✗', 'red')} {bold(finding.rule)}: {plain(finding.message)}")
        if finding.span is not None:
            for line in marked(text, finding.span):
                say(f"    {line}")
        if finding.hint:
            say(f"    → {plain(finding.hint)}")


def how_to_allow(findings: tuple[Finding, ...]) -> str | None:
    """The setting that allows this text for a tool."""
    from interlock.judge.validators import is_metadata

    if not findings:
        return None
    if any(is_metadata(finding) for finding in findings):
        return "No setting allows a metadata service."
    rules = ", ".join(f'"{rule}"' for rule in dict.fromkeys(finding.rule for finding in findings))
    return f"An operator can allow it: [servers.SERVER.validators.TOOL] ignore = [{rules}]"


def marked(text: str, span: tuple[int, int]) -> tuple[str, str]:
    """The first line of a span, and marks under the span. Invisible characters are escaped."""
    start, end = span
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    first = max(first, start - WIDTH // 2)
    end = max(min(end, last, start + WIDTH // 2), start)
    before, inside, after = (plain(part) for part in (text[first:start], text[start:end], text[end:last][:40]))
    return before + inside + after, " " * len(before) + "^" * max(len(inside), 1)


def _way(kind: str, enforced: bool, readonly: bool, level: str, language: str) -> tuple[str, str]:
    """The validator that judges a kind of text, and how."""
    if kind == "shell" and not readonly:
        simple = ", enforced: one simple command"
        return (
            "sandbox",
            simple if enforced else ", inferred: each part by itself (--enforced wants one simple command)",
        )
    ways = {
        "shell": ("readonly", ": a command that only reads"),
        "url": ("network_restricted", ""),
        "code": ("code_safety", f", level {level}, {plain(language)}"),
        "path": ("paths", ""),
        "sql": ("readonly", ": statements that only read"),
    }
    return ways[kind]


def _judges(
    enforced: bool, readonly: bool, level: str, language: str, dialect: str | None, roots: tuple[str, ...]
) -> dict[str, Callable[[str], tuple[Finding, ...]]]:
    def shell(text: str) -> tuple[Finding, ...]:
        from interlock.judge.arguments import FoundArgument
        from interlock.judge.validators import Rules, judge_metadata, judge_value

        found = FoundArgument("command", "", text, {})
        validator = "readonly" if readonly else "sandbox"
        return (*judge_value(validator, found, Rules(inferred=not enforced)), *judge_metadata(found))

    def url(text: str) -> tuple[Finding, ...]:
        from interlock.judge.urls import judge_url

        return judge_url(text)

    def code(text: str) -> tuple[Finding, ...]:
        from interlock.judge.code import CodeRules, judge_code

        return judge_code(text, CodeRules(level=level, language=language))  # type: ignore[arg-type]

    def path(text: str) -> tuple[Finding, ...]:
        from interlock.hub.calls.gates.validator_checks import read_link
        from interlock.judge.paths import judge_real_path

        return judge_real_path(text, [str(Path(root).absolute()) for root in roots or (".",)], read_link)

    def sql(text: str) -> tuple[Finding, ...]:
        from interlock.judge.sql import judge_readonly_sql

        return judge_readonly_sql(text, dialect)

    return {"shell": shell, "url": url, "code": code, "path": path, "sql": sql}


def _read(kind: str, text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    file = Path(text[1:]) if text.startswith("@") else None
    if file is None and kind == "tool" and not text.lstrip().startswith(("{", "[")) and not Path(text).is_file():
        raise WrongUsage(f"there is no file {text[:200]}", "give a file, or a tool's definition as JSON")
    if file is None and kind in FROM_FILES and "\n" not in text and len(text) < 4096:
        if Path(text).is_file():
            file = Path(text)
        elif FILE_NAME.fullmatch(text):
            hint = f"correct the name; if it is the text itself: echo {shlex.quote(text)} | interlock check {kind} -"
            raise WrongUsage(f"there is no file {text[:200]}", hint)
    if file is None:
        return text
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as cause:
        raise WrongUsage(f"{file} cannot be read: {cause}", "choose a text file") from cause


def _check_tools(ctx: click.Context, text: str, as_json: bool) -> None:
    """Check one definition, a list of them, or the answer to `tools/list`."""
    from interlock.judge.definitions import judge_definition
    from interlock.judge.fingerprints import fingerprint

    try:
        given: Any = json.loads(text)
    except ValueError as cause:
        raise WrongUsage(f"this is not valid JSON: {cause}", "give a tool's definition, or a list of them") from cause
    if isinstance(given, dict):
        given = given.get("result", given)
        given = given.get("tools", [given]) if isinstance(given, dict) else given
    tools = given if isinstance(given, list) else [given]
    judged = [(tool, judge_definition(tool)) for tool in tools]
    if as_json:
        rows = [
            {
                "name": tool.get("name") if isinstance(tool, dict) else None,
                "fingerprint": fingerprint(tool),
                "findings": [_as_json(finding) for finding in findings],
            }
            for tool, findings in judged
        ]
        show_json({"ok": not any(findings for _, findings in judged), "tools": rows})
    else:
        for tool, findings in judged:
            name = str(tool.get("name")) if isinstance(tool, dict) else "?"
            say(f"{bold(plain(name))}@{fingerprint(tool)[:16]}")
            show_findings("", tuple(_without_span(finding) for finding in findings))
    ctx.exit(5 if any(findings for _, findings in judged) else 0)


def _without_span(finding: Finding) -> Finding:
    """The span is inside one of the definition's texts, which the message names."""
    import msgspec

    return msgspec.structs.replace(finding, span=None)


def _as_json(finding: Finding) -> dict[str, object]:
    return {"rule": finding.rule, "message": finding.message, "hint": finding.hint, "span": finding.span}


def _check_config(path: Path | None, as_json: bool) -> None:
    from interlock.cli.lifecycle.up import show_problems
    from interlock.config.home import home_folder
    from interlock.config.load import load

    loaded: LoadedConfig = load(path, home=home_folder(), folder=Path.cwd())
    problems = [str(problem) for problem in loaded.problems if problem.fatal]
    warnings = [str(problem) for problem in loaded.problems if not problem.fatal]
    failed, passed = _check_examples(loaded.config) if loaded.usable else ([], 0)
    if as_json:
        outcome = {"ok": not problems and not failed, "problems": problems, "warnings": warnings}
        show_json({**outcome, "failed": failed, "passed": passed})
    else:
        show_problems(loaded.problems)
        for example in failed:
            say(f"{coloured('✗', 'red')} {plain(example)}")
        if not problems and not failed:
            where = loaded.config.origin.path or "nothing is configured"
            count = f"{counted(len(loaded.config.servers), 'server')}, {counted(passed, 'example')}"
            count += f", {counted(len(warnings), 'warning')}" if warnings else ""
            say(f"{coloured('✓', 'green')} {plain(where)}: {count}")
    if problems or failed:
        raise WrongConfiguration("the configuration has problems", "fix the problems above")


def _check_examples(config: Config) -> tuple[list[str], int]:
    """The failed examples, and the number of passed ones."""
    failed: list[str] = []
    passed = 0
    for server, settings in config.servers.items():
        for tool, table in settings.validators.items():
            for name, number, arguments, wanted in _examples(table):
                place = f"[servers.{server}.validators.{tool}] {name} #{number}"
                wrong = _wrong(server, tool, settings, arguments, wanted)
                if wrong:
                    failed.append(f"{place}: {wrong}")
                else:
                    passed += 1
    return failed, passed


def _examples(table: Any) -> Iterator[tuple[str, int, dict[str, object], bool]]:
    for number, arguments in enumerate(table.accepts, 1):
        yield "accepts", number, arguments, True
    for number, arguments in enumerate(table.refuses, 1):
        yield "refuses", number, arguments, False


def _wrong(server: str, tool: str, settings: Any, arguments: dict[str, object], wanted: bool) -> str:
    from interlock.hub.calls.gates.validator_checks import ToolCheck
    from interlock.hub.calls.gates.validator_choice import choose_configured
    from interlock.hub.judging_threads import JudgingThreads
    from interlock.transports.resolving import Resolver

    # A tool name that the pattern matches.
    chosen = choose_configured(tool.replace("*", "x"), settings.validators)
    if chosen.places is None:
        return "no validator is configured (`use`), so the example cannot be checked"
    judging = JudgingThreads(Resolver())
    objections = ToolCheck(server, tool, chosen, judging, local=settings.transport == "stdio").judge(
        chosen.places.find(arguments)
    )
    judging.close()
    if wanted and objections:
        return f"refused: {objections[0].found.where}: {objections[0].finding.message} [{objections[0].finding.rule}]"
    return "" if wanted or objections else "not refused: there were no findings"
