"""`interlock why`: the gate and the rule behind a refusal, or behind a call that was not made."""

from __future__ import annotations

import json
from typing import Any

import click

from .asking import ask
from .show import bold, json_option, plain, say, show_json


@click.command()
@click.argument("agent", required=False)
@click.argument("tool", required=False)
@click.argument("arguments", required=False)
@json_option
def why(agent: str | None, tool: str | None, arguments: str | None, as_json: bool) -> None:
    """Say why a call was refused, or what one would come to.

    Without TOOL: the last refusal, of all or of one AGENT. With TOOL: what a call with these ARGUMENTS (a JSON object)
    would come to now, without making it.

    \b
    Example:
      interlock why cursor github__create_issue '{"title": "x"}'
    """
    params: dict[str, Any] = {"agent": agent, "tool": tool}
    if arguments is not None:
        try:
            params["arguments"] = json.loads(arguments)
        except ValueError as error:
            raise click.BadParameter(f"ARGUMENTS is not JSON: {error}") from None
    answer = ask("hub/why", {name: value for name, value in params.items() if value is not None})
    if as_json:
        show_json(answer)
    elif tool is None:
        _last(answer.get("refusal"), agent)
    else:
        _judged(answer["judgement"])


def _last(refusal: dict[str, Any] | None, agent: str | None) -> None:
    if refusal is None:
        say(f"Nothing {'' if agent is None else f'of {plain(agent)} '}was refused since the hub started.")
        return
    what = plain(f"{refusal['server']} {refusal['target']}")
    say(f"{refusal['at']}  {bold(plain(refusal['agent']))} → {what}: {plain(refusal['message'])}")
    _rule(refusal)


def _judged(judgement: dict[str, Any]) -> None:
    outcome = judgement["outcome"]
    if outcome == "allowed":
        say("allowed: every gate passes it.")
        return
    say(f"{outcome}: {plain(judgement.get('message') or judgement.get('error') or '')}")
    _rule(judgement)
    if judgement.get("hint"):
        say(f"  → {plain(judgement['hint'])}")


def _rule(said: dict[str, Any]) -> None:
    hidden = " (the caller is told that there is no such thing)" if said.get("hidden") else ""
    say(f"  gate {said['gate']}, rule: {plain(said['rule'])}{hidden}")
