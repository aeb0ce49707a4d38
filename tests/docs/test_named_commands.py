"""Every command that a message, a page or the documentation tells people to type exists, with its options."""

from __future__ import annotations

import re

import click

from interlock.cli.app import app

from .reference import DOCS

ROOT = DOCS.parent
TEXTS = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.html")])
_NAMED = re.compile(r"(?:`|<code>)interlock ([a-z][^`<\n\"]*)(?:`|</code>)")
_OPTION = re.compile(r"--[a-z][a-z-]*")


def problem_of(typed: str) -> str:
    """The first mistake in the words after `interlock`; empty if there is none."""
    command: click.Command = app
    words = re.split(r"[ |…,]+", typed.partition(" -- ")[0])
    while words and isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"no command {words[0]}" if not command.invoke_without_command or command is app else ""
        command = found
        words = words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    unknown = set(_OPTION.findall(" ".join(words))) - known - {"--help", "--version"}
    return f"no option {', '.join(sorted(unknown))}" if unknown else ""


def test_every_command_that_people_are_told_to_type_exists() -> None:
    named = [(path.relative_to(ROOT), typed) for path in TEXTS for typed in _NAMED.findall(path.read_text())]
    wrong = [f"{path}: `interlock {typed}`: {problem}" for path, typed in named if (problem := problem_of(typed))]
    assert not wrong, "\n".join(wrong)
    assert all(map(problem_of, ("tools memory", "keys frobnicate", "up --nonsense")))
