"""`interlock watch`: shows approval requests as they arrive, and answers them by a key press."""

from __future__ import annotations

from collections.abc import Iterator

import click

from interlock.cli.admin.approvals import answered, details
from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.perform import Json, ask_as_person, need_person
from interlock.cli.terminal.call_outcomes import outcome_line
from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import (
    bold,
    coloured,
    counted,
    is_attended,
    json_option,
    one_line,
    plain,
    say,
    show_json,
)

KEYS = {"y": "once", "a": "always", "n": "no"}
MAX_SHOWN_CHARS = 1500
MAX_SHOWN_LINES = 25
"""Longer arguments are shown by a key press, and can be approved only after it."""


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
        rows = found["decisions"]
        if not attended:
            for row in rows:
                _headline(row)
            if not rows:
                say("No approval requests are open.")
            say("  → run it in a terminal to answer requests as they arrive", err=True)
            return
        say("Waiting for approval requests; stop with Ctrl-C.", err=True)
        with HubLink.open(home) as answers:
            for row in _open_requests(rows, link, answers):
                _ask_person(row, answers)


def _open_requests(rows: list[Json], link: HubLink, answers: HubLink) -> Iterator[Json]:
    yield from rows
    for message in link.notifications():
        if message["method"] == "hub/decision" and message["params"]["state"] == "open":
            yield message["params"]
        elif message["method"] == "hub/gap":
            # Requests came faster than they were read here: ask for all that are open.
            yield from answers.ask("hub/approvals.list")["decisions"]


def _ask_person(row: Json, link: HubLink) -> None:
    """Ask until the person answers or leaves the request open."""
    need_person("answer approval requests")
    shown = link.ask("hub/approvals.show", {"id": row["id"]})
    current, view = shown["decision"], shown.get("view") or ""
    if current["state"] != "open":
        return
    text = view or current["summary"]
    is_read = _is_short(text)
    _headline(current, text if is_read else f"{counted(len(text), 'character')}; press d to read all of them")
    if shown.get("is_own"):
        say("  you asked for it yourself, so another person has to answer")
        return
    if current.get("needs_view") and not view:
        say("  this hub cannot show it in full, so it can only be denied")
    keys = {key: answer for key, answer in KEYS.items() if answer != "always" or not current.get("every_time")}
    while True:
        offered = "  ".join(f"{bold(f'[{key}]')} {answer}" for key, answer in keys.items())
        say(f"  {offered}  {bold('[d]')} details  [other] later")
        key = click.getchar()[:1].lower()
        if key == "d":
            details(current, view)
            is_read = True
            continue
        if keys.get(key, "no") != "no" and not is_read:
            say("  the arguments are not shown in full yet; press d to read them")
            continue
        if key in keys:
            params = {"id": current["id"], "answer": keys[key], "view": shown.get("view_hash") or "", "terminal": True}
            try:
                done = ask_as_person(link, "approvals.answer", params, timeout=60)
                answered(done["decision"])
                if done["decision"]["kind"] == "proposal" and keys[key] != "no":
                    say(f"  {outcome_line(done.get('response'))}")
            except CommandFailure as failure:
                say(f"  {plain(failure.message)}")
        else:
            say("  left open")
        return


def _is_short(view: str) -> bool:
    """Whether the arguments fit on the screen beside the question."""
    return len(view) <= MAX_SHOWN_CHARS and view.count("\n") < MAX_SHOWN_LINES


def _headline(row: Json, arguments: str = "") -> None:
    risk = f" [{row['risk']}]" if row["risk"] else ""
    say(f"{bold(row['id'])}{plain(risk)} {plain(row['asker'])} → {plain(row['target'])}")
    say(f"  {one_line(row['question'], 160)}")
    for finding in row["findings"]:
        say(f"  {coloured('finding', 'yellow')} {one_line(finding, 150)}")
    for line in (arguments or one_line(row["summary"], 160)).split("\n"):
        say(f"    {plain(line)}")
