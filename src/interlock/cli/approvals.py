"""`interlock approvals`: the approval requests that wait for a person, and the rules made from answers."""

from __future__ import annotations

from typing import Any

import click

from .failures import Refused
from .hub_link import ask_hub
from .show import as_dict, bold, coloured, is_attended, json_option, one_line, plain, say, say_table, show_json

RISKS = {"dangerous": "red", "moderate": "yellow", "safe": "green"}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """List and answer approval requests.

    Without a command, it lists the open ones.

    \b
    Example:
      interlock approvals approve a3f
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, with_answered=False, as_json=as_json)


@approvals.command("list")
@click.option("--all", "with_answered", is_flag=True, help="Also those that were answered or have expired.")
@json_option
def list_(with_answered: bool, as_json: bool) -> None:
    """List open approval requests.

    \b
    Example:
      interlock approvals list --all
    """
    found = ask_hub("hub/approvals.list", {"all": with_answered})
    if as_json:
        show_json(found)
        return
    rows = [as_dict(row) for row in found.get("decisions") or []]
    say_table(_row(row) for row in rows)
    if not rows:
        say("No approval requests are open.")


@approvals.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one approval request in full.

    \b
    Example:
      interlock approvals show a3f
    """
    found = ask_hub("hub/approvals.show", {"id": id})
    if as_json:
        show_json({**as_dict(found.get("decision")), "view": found.get("view"), "view_hash": found.get("view_hash")})
    else:
        details(as_dict(found.get("decision")), str(found.get("view") or ""))


@approvals.command()
@click.argument("id")
@click.option("--always", is_flag=True, help="Also allow this exact call of this agent in the future.")
@json_option
def approve(id: str, always: bool, as_json: bool) -> None:
    """Approve a call once, or always. It shows the call in full and asks. Needs a terminal.

    \b
    Example:
      interlock approvals approve a3f --always
    """
    _answer(id, "always" if always else "once", as_json)


@approvals.command()
@click.argument("id")
@json_option
def deny(id: str, as_json: bool) -> None:
    """Deny a call. Needs a terminal.

    \b
    Example:
      interlock approvals deny a3f
    """
    _answer(id, "no", as_json)


@approvals.command()
@click.option("--make", metavar="DECISION", help="Make a rule from an approved call. Needs a terminal.")
@click.option("--revoke", metavar="RULE", help="Revoke a rule. The next such call needs approval again.")
@json_option
def rules(make: str | None, revoke: str | None, as_json: bool) -> None:
    """List, make and revoke rules. A rule allows a call without another approval.

    \b
    Example:
      interlock approvals rules --revoke 5f2c01d9a7be
    """
    if make is not None:
        need_person()
        ask_hub("hub/rules.make", {"decision": make, "terminal": True})
    if revoke is not None:
        ask_hub("hub/rules.revoke", {"id": revoke})
    found = ask_hub("hub/rules.list", {})
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


def details(row: dict[str, Any], view: str) -> None:
    """Print one approval request with its whole arguments, and the text of agents and servers escaped."""
    say(f"{bold(str(row.get('id')))}  {plain(str(row.get('question')))}")
    facts = [
        ("requested by", f"{row.get('asker')} ({row.get('asker_kind')})"),
        ("for", str(row.get("target"))),
        ("risk", str(row.get("risk") or "unknown")),
        ("trust", str(row.get("trust") or "standard")),
        *(("finding", str(finding)) for finding in row.get("findings") or ()),
        ("because", str(row.get("rule"))),
        ("state", str(row.get("state"))),
        ("deadline", str(row.get("deadline"))),
        ("arguments", str(row.get("arguments_hash") or "-")[:16]),
        ("definition", str(row.get("fingerprint") or "-")[:16]),
    ]
    if row.get("answered_by"):
        facts.append(("answered", f"{row['answer']} by {row['answered_by']} at {row['answered_at']}"))
    say_table((f"  {name}", plain(value)) for name, value in facts)
    for text in (view or str(row.get("summary") or "")).splitlines():
        say(f"    {plain(text)}")


def answered(row: dict[str, Any]) -> None:
    """Print the outcome of an answer."""
    word = "denied" if row.get("answer") == "no" else "approved"
    scope = " always" if row.get("answer") == "always" else ""
    say(f"{row.get('id')} {word}{scope} by {plain(str(row.get('answered_by')))}.")
    if row.get("offers_rule"):
        hint = f"`interlock approvals rules --make {row.get('id')}`"
        say(f"  → you have approved this several times; to allow this exact call always: {hint}")


def need_person() -> None:
    """Raises Refused without a terminal: only a person may answer."""
    if not is_attended():
        raise Refused("only a person at a terminal may answer", "run this in a terminal, or use `interlock watch`")


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
    params: dict[str, Any] = {"id": id, "answer": answer, "terminal": True}
    if answer != "no":
        found = ask_hub("hub/approvals.show", {"id": id})
        details(as_dict(found.get("decision")), str(found.get("view") or ""))
        click.confirm("Approve it?", default=False, abort=True, err=True)
        if found.get("view_hash"):
            params["view"] = found["view_hash"]
    after = as_dict(ask_hub("hub/approvals.answer", params).get("decision"))
    if as_json:
        show_json(after)
    else:
        answered(after)
