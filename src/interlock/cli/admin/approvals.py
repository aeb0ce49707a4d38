"""`interlock approvals`: the approval requests that wait for a person, and the rules made from answers."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.perform import Json, need_person, perform, performs, say_rows
from interlock.cli.terminal.call_outcomes import finish_with
from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import bold, coloured, json_option, one_line, plain, say, say_table, show_json

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
        ctx.invoke(list_, all=False, as_json=as_json)


@approvals.command("list")
@performs("approvals.list")
@click.option("--all", is_flag=True, help="Also those that were answered or have expired.")
def list_(found: Json, all: bool) -> None:
    """List open approval requests, or all.

    \b
    Example:
      interlock approvals list --all
    """
    say_rows(found["decisions"], _row, "No approval requests are open.")


@approvals.command()
@performs("approvals.show")
@click.argument("id")
def show(found: Json, id: str) -> None:
    """Show one approval request in full.

    \b
    Example:
      interlock approvals show a3f
    """
    details(found["decision"], found.get("view") or "")


@approvals.command()
@click.argument("id")
@click.option("--always", is_flag=True, help="Also allow this exact call of this agent in the future.")
@json_option
def approve(id: str, always: bool, as_json: bool) -> None:
    """Approve a call once, or always. It shows the call in full and asks. Needs a terminal.

    A proposal of a room is carried out at once, and its answer is shown. If it fails, the command ends with 1.

    \b
    Example:
      interlock approvals approve a3f --always
    """
    need_person("approve calls")
    found = perform("approvals.show", {"id": id})
    details(found["decision"], found["view"] or "")
    if always and found["decision"].get("every_time"):
        raise WrongUsage(
            "each such call needs a person's answer, and no rule can give it", "approve it without --always"
        )
    click.confirm("Approve it?", default=False, abort=True, err=True)
    answer = "always" if always else "once"
    given = {"id": id, "answer": answer, "view": found["view_hash"], "terminal": True}
    done = perform("approvals.answer", given, timeout=60)
    row, response = done["decision"], done.get("response")
    if row["kind"] == "proposal" and not as_json:
        answered(row)
        finish_with(response)
    elif row["kind"] == "proposal":
        finish_with(response, as_json={**row, "response": response})
    elif as_json:
        show_json(row)
    else:
        answered(row)


@approvals.command()
@performs("approvals.answer", "decision", person="deny calls", answer="no")
@click.argument("id")
@click.option("--because", "reason", metavar="TEXT", default="", help="The reason, which the agent is told.")
def deny(row: Json, **given: Any) -> None:
    """Deny a call. Needs a terminal.

    \b
    Example:
      interlock approvals deny a3f --because "no secrets, please"
    """
    answered(row)


@approvals.group(invoke_without_command=True)
@click.option("--make", metavar="DECISION", help="Make a rule from an approved call. Needs a terminal.")
@click.option("--revoke", metavar="RULE", help="Revoke a rule. The next such call needs approval again.")
@json_option
@click.pass_context
def rules(ctx: click.Context, make: str | None, revoke: str | None, as_json: bool) -> None:
    """List, make and revoke rules. A rule allows a call without another approval.

    Without a command, it lists them.

    \b
    Example:
      interlock approvals rules --revoke 5f2c01d9a7be
    """
    if make is not None:
        need_person("make rules")
        perform("rules.make", {"decision": make, "terminal": True})
    if revoke is not None:
        perform("rules.revoke", {"id": revoke})
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_rules, as_json=as_json)


@rules.command("list")
@performs("rules.list")
def list_rules(found: Json) -> None:
    """List rules.

    \b
    Example:
      interlock approvals rules list
    """
    for rule in found["rules"]:
        say(f"{bold(rule['id'])}  {plain(rule['explained'])} (by {plain(rule['made_by'])})")
        for call in rule["calls"]:
            say(f"    {one_line(call, 100)}")
    if not found["rules"]:
        say("No rules. → `interlock approvals approve ID --always` makes one")


@approvals.command()
@click.option("--remove", is_flag=True, help="Remove it: approvals need none any more.")
@json_option
def passphrase(remove: bool, as_json: bool) -> None:
    """Set the passphrase that every approval needs. Needs a terminal.

    Approvals, rules, permissions, feature sets and the console then ask for it. The hub keeps a hash of it alone.

    \b
    Example:
      interlock approvals passphrase
    """
    need_person("set the passphrase")
    if remove:
        state = perform("passphrase.remove", {"terminal": True})
    else:
        new = click.prompt("New passphrase", hide_input=True, confirmation_prompt=True, err=True)
        state = perform("passphrase.set", {"new": new, "terminal": True})
    if as_json:
        show_json(state)
    elif state["needed"]:
        say("Approvals need the passphrase.")
    else:
        say("Approvals need no passphrase.")


def details(row: Json, view: str) -> None:
    """Print one approval request with its whole arguments, and the text of agents and servers escaped."""
    say(f"{bold(row['id'])}  {plain(row['question'])}")
    facts = [
        ("requested by", f"{row['asker']} ({row['asker_kind']})"),
        ("for", row["target"]),
        ("risk", row["risk"] or "unknown"),
        ("trust", row["trust"] or "standard"),
        *(("finding", finding) for finding in row["findings"]),
        ("because", row["rule"]),
        ("state", row["state"]),
        *([("caller", f"has gone; an approval holds {_UNTIL}")] if row.get("caller_gone") else []),
        ("deadline", row["deadline"]),
        ("arguments", (row["arguments_hash"] or "-")[:16]),
        ("definition", (row["fingerprint"] or "-")[:16]),
    ]
    if row["answered_by"]:
        facts.append(("answered", f"{row['answer']} by {row['answered_by']} at {row['answered_at']}"))
    say_table((f"  {name}", plain(value)) for name, value in facts)
    for text in (view or row["summary"]).split("\n"):
        say(f"    {plain(text)}")


def answered(row: Json) -> None:
    """Print the outcome of an answer."""
    word = "denied" if row["answer"] == "no" else "approved"
    scope = " always" if row["answer"] == "always" else ""
    say(f"{row['id']} {word}{scope} by {plain(row['answered_by'])}.")
    if row["offers_rule"]:
        hint = f"`interlock approvals rules --make {row['id']}`"
        say(f"  → you have approved this several times; to allow this exact call always: {hint}")


_STATES = {"used": "approved, used"}
_UNTIL = "for the same call, if it comes again before the deadline"


def _row(row: Json) -> tuple[str, ...]:
    risk, gone = row["risk"], ", caller has gone" if row.get("caller_gone") else ""
    return (
        bold(row["id"]),
        plain(row["asker"]),
        plain(row["target"]),
        coloured(risk, RISKS[risk]) if risk in RISKS else "-",
        _STATES.get(row["state"], row["state"].replace("_", " ")) + gone,
        one_line(row["summary"], 60),
    )
