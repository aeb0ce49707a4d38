"""`interlock watch`: shows approval requests as they arrive, and answers them by a key press."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from .approvals import answered, details
from .failures import Failure
from .hub_link import HubLink
from .show import as_dict, bold, coloured, is_attended, json_option, one_line, plain, say, show_json

KEYS = {"y": "once", "a": "always", "n": "no"}


@click.command()
@json_option
def watch(as_json: bool) -> None:
    """Answer approval requests as they arrive.

    Without a terminal, it prints the open ones and exits.

    \b
    Example:
      interlock watch
    """
    from interlock.config.home import home_folder

    home = home_folder()
    with HubLink.open(home) as link:
        attended = is_attended() and not as_json
        found = link.ask("hub/approvals.list", {"follow": attended})
        if as_json:
            show_json(found)
            return
        rows = [as_dict(row) for row in found.get("decisions") or []]
        if not attended:
            for row in rows:
                _headline(row)
            return
        say("Waiting for approval requests; stop with Ctrl-C.", err=True)
        with HubLink.open(home) as answers:
            for row in _open_requests(rows, link, answers):
                _ask_person(row, answers)


def _open_requests(rows: list[dict[str, Any]], link: HubLink, answers: HubLink) -> Iterator[dict[str, Any]]:
    yield from rows
    for message in link.notifications():
        row = as_dict(message.get("params"))
        if message["method"] == "hub/decision" and row.get("state") == "open":
            yield row
        elif message["method"] == "hub/gap":
            # Requests came faster than they were read here: ask for all that are open.
            yield from map(as_dict, answers.ask("hub/approvals.list").get("decisions") or [])


def _ask_person(row: dict[str, Any], link: HubLink) -> None:
    """Ask until the person answers or leaves the request open."""
    current = as_dict(link.ask("hub/approvals.show", {"id": row.get("id")}).get("decision"))
    if current.get("state") != "open":
        return
    _headline(current)
    while True:
        say(f"  {bold('[y]')} once  {bold('[a]')} always  {bold('[n]')} no  {bold('[d]')} details  [other] later")
        key = click.getchar()[:1].lower()
        if key == "d":
            details(current)
            continue
        if key in KEYS:
            params = {"id": current.get("id"), "answer": KEYS[key], "terminal": True}
            try:
                answered(as_dict(link.ask("hub/approvals.answer", params).get("decision")))
            except Failure as failure:
                say(f"  {plain(failure.message)}")
        else:
            say("  left open")
        return


def _headline(row: dict[str, Any]) -> None:
    risk = f" [{row['risk']}]" if row.get("risk") else ""
    say(f"{bold(str(row.get('id')))}{plain(risk)} {plain(str(row.get('asker')))} → {plain(str(row.get('target')))}")
    say(f"  {one_line(str(row.get('question') or ''), 160)}")
    for finding in row.get("findings") or ():
        say(f"  {coloured('finding', 'yellow')} {one_line(str(finding), 150)}")
    if row.get("summary"):
        say(f"  {one_line(str(row['summary']), 160)}")
