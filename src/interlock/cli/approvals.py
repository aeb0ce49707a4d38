"""`interlock approvals`: the questions that wait for a person, and the rules learned from the answers."""

from __future__ import annotations

from typing import Any

import click

from .failures import Refused
from .show import as_dict, bold, coloured, columns, is_attended, json_option, one_line, plain, say, show_json

RISKS = {"dangerous": "red", "moderate": "yellow", "safe": "green"}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """Answer what agents and servers ask a person.

    Without a command, it lists what is open.

    \b
    Example:
      interlock approvals approve a3f
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, with_answered=False, as_json=as_json)


@approvals.command("list")
@click.option("--all", "with_answered", is_flag=True, help="Also those that are answered or over.")
@json_option
def list_(with_answered: bool, as_json: bool) -> None:
    """List open questions.

    \b
    Example:
      interlock approvals list --all
    """
    found = _ask("hub/approvals.list", {"all": with_answered})
    if as_json:
        show_json(found)
        return
    rows = [as_dict(row) for row in found.get("decisions") or []]
    for line in columns(_row(row) for row in rows):
        say(line)
    if not rows:
        say("Nothing waits for an answer.")


@approvals.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show a question with everything it is about.

    \b
    Example:
      interlock approvals show a3f
    """
    found = as_dict(_ask("hub/approvals.show", {"id": id}).get("decision"))
    if as_json:
        show_json(found)
    else:
        details(found)


@approvals.command()
@click.argument("id")
@click.option("--always", is_flag=True, help="For this very call by this agent, from now on.")
@json_option
def approve(id: str, always: bool, as_json: bool) -> None:
    """Say yes, once or for good. Needs a terminal.

    \b
    Example:
      interlock approvals approve a3f --always
    """
    _answer(id, "always" if always else "once", as_json)


@approvals.command()
@click.argument("id")
@json_option
def deny(id: str, as_json: bool) -> None:
    """Say no. Needs a terminal.

    \b
    Example:
      interlock approvals deny a3f
    """
    _answer(id, "no", as_json)


@approvals.command()
@click.option("--make", metavar="DECISION", help="Make a rule of what was approved. Needs a terminal.")
@click.option("--revoke", metavar="RULE", help="Forget a rule: the next such call asks again.")
@json_option
def rules(make: str | None, revoke: str | None, as_json: bool) -> None:
    """List, make and revoke rules: what may be called without asking again.

    \b
    Example:
      interlock approvals rules --revoke 5f2c01d9a7be
    """
    if make is not None:
        need_person()
        _ask("hub/rules.make", {"decision": make, "terminal": True})
    if revoke is not None:
        _ask("hub/rules.revoke", {"id": revoke})
    found = _ask("hub/rules.list", {})
    if as_json:
        show_json(found)
        return
    known = [as_dict(rule) for rule in found.get("rules") or []]
    for rule in known:
        say(f"{bold(str(rule.get('id')))}  {plain(str(rule.get('explained')))} (by {plain(str(rule.get('made_by')))})")
        for call in rule.get("calls") or []:
            say(f"    {one_line(str(call), 100)}")
    if not known:
        say("No rules. → `interlock approvals approve ID --always` makes one")


def details(row: dict[str, Any]) -> None:
    """Everything about a question. Text of agents and servers never moves the cursor."""
    say(f"{bold(str(row.get('id')))}  {plain(str(row.get('question')))}")
    facts = [
        ("asked by", f"{row.get('asker')} ({row.get('asker_kind')})"),
        ("for", str(row.get("target"))),
        ("risk", str(row.get("risk") or "not said")),
        ("trust", str(row.get("trust") or "standard")),
        *(("found", str(finding)) for finding in row.get("findings") or ()),
        ("because", str(row.get("rule"))),
        ("state", str(row.get("state"))),
        ("deadline", str(row.get("deadline"))),
        ("arguments", str(row.get("arguments_hash") or "-")[:16]),
        ("definition", str(row.get("fingerprint") or "-")[:16]),
    ]
    if row.get("answered_by"):
        facts.append(("answered", f"{row['answer']} by {row['answered_by']} at {row['answered_at']}"))
    for line in columns((f"  {name}", plain(value)) for name, value in facts):
        say(line)
    for text in str(row.get("summary") or "").splitlines():
        say(f"    {plain(text)}")


def answered(row: dict[str, Any]) -> None:
    """What came of an answer."""
    word = "denied" if row.get("answer") == "no" else "approved"
    good = " for good" if row.get("answer") == "always" else ""
    say(f"{row.get('id')} {word}{good} by {plain(str(row.get('answered_by')))}.")
    if row.get("offers_rule"):
        hint = f"`interlock approvals rules --make {row.get('id')}`"
        say(f"  → approved several times now; to allow this very call without asking: {hint}")


def need_person() -> None:
    """An answer is a person's: without a terminal there is nobody to give it."""
    if not is_attended():
        raise Refused("an answer needs a person at a terminal", "run this in a terminal, or use `interlock watch`")


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    risk = str(row.get("risk") or "")
    return (
        bold(str(row.get("id"))),
        plain(str(row.get("asker"))),
        plain(str(row.get("target"))),
        coloured(risk, RISKS[risk]) if risk in RISKS else "-",
        str(row.get("state")),
        one_line(str(row.get("summary") or ""), 60),
    )


def _answer(id: str, answer: str, as_json: bool) -> None:
    need_person()
    after = as_dict(_ask("hub/approvals.answer", {"id": id, "answer": answer, "terminal": True}).get("decision"))
    if as_json:
        show_json(after)
    else:
        answered(after)


def _ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    with HubLink.open(home_folder()) as link:
        return link.ask(method, params)
