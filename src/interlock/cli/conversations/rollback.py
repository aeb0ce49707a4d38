"""`interlock rollback`: take back what the last turns of a conversation changed."""

from __future__ import annotations

from collections import Counter

import click

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.perform import Json, ask_as_person
from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import bold, coloured, counted, is_attended, json_option, plain, say, show_json

RUN_S = 600.0
"""How long all steps may take together."""


@click.command()
@click.argument("conversation")
@click.option("--turn", type=int, metavar="N", help="The first turn to take back; else the newest.")
@click.option("--go-on", is_flag=True, help="Try the other steps when one fails.")
@click.option("--yes", is_flag=True, help="Do not ask before it is done.")
@json_option
def rollback(conversation: str, turn: int | None, go_on: bool, yes: bool, as_json: bool) -> None:
    """Take back what the last turns of a conversation changed.

    It shows first what can be taken back and what cannot, and asks. Then it goes back newest first, and stops at the
    first step that fails. The text of the conversation stays.

    \b
    Example:
      interlock rollback conv_0123 --turn 4
    """
    with HubLink.open() as link:
        wanted: Json = {"id": conversation, **({} if turn is None else {"turn": turn})}
        plan = link.ask("hub/rollback.plan", wanted)
        if not as_json:
            _show_plan(plan)
        if not any(step["possible"] for step in plan["steps"]):
            if as_json:
                show_json(plan)
            none = "" if plan["steps"] else "a tool can be taken back if it left a checkpoint with the conversation"
            raise CommandFailure("nothing can be taken back", none)
        if not yes:
            if as_json:
                show_json(plan)
            if as_json or not is_attended():
                raise CommandFailure("this needs an answer", "run it with --yes")
            click.confirm("Take this back?", abort=True, err=True)
        done = ask_as_person(link, "rollback.run", {**wanted, "plan": plan["digest"], "go_on": go_on}, RUN_S)
        if as_json:
            show_json(done)
        else:
            for step in done["steps"]:
                word = coloured("taken back", "green") if step["possible"] else coloured("not taken back", "red")
                say(f"{word}  {_named(step)}{': ' + plain(step['reason']) if step['reason'] else ''}")
        if not done["complete"]:
            raise CommandFailure("not everything was taken back")


def _show_plan(plan: Json) -> None:
    if not plan["steps"] and not plan["lasting"]:
        say(f"From turn {plan['first']} on, the conversation called no tools.")
        return
    say(bold(f"From turn {plan['first']} on, newest first:"))
    for step in plan["steps"]:
        if step["possible"]:
            say(f"  can be taken back     {_named(step)}")
        else:
            say(f"  cannot be taken back  {_named(step)}: {plain(step['reason'])}")
    if plan["lasting"]:
        say(f"The effects of {counted(len(plan['lasting']), 'other call')} stay:")
        for (turn, tool), count in Counter((call["turn"], call["tool"]) for call in plan["lasting"]).items():
            say(f"  turn {turn}  {plain(tool)}{f', {count} times' if count > 1 else ''}")


def _named(step: Json) -> str:
    return plain(f"{step['server']} {step['feature_set']}: {step['at']} -> {step['to'] or '?'}")
