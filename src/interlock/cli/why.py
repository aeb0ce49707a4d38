"""`interlock why`: shows the gate and the rule that refused a call, or that would refuse one."""

from __future__ import annotations

import json
from typing import Any

import click

from .hub_link import ask_hub
from .show import bold, json_option, plain, say, show_json


@click.command()
@click.argument("agent", required=False)
@click.argument("tool", required=False)
@click.argument("arguments", required=False)
@json_option
def why(agent: str | None, tool: str | None, arguments: str | None, as_json: bool) -> None:
    """Show why a call was refused, or whether one would be.

    Without TOOL: the last refusal, of all agents or of one AGENT. With TOOL: whether a call with these ARGUMENTS (a
    JSON object) would be allowed now. The call is not made.

    \b
    Example:
      interlock why cursor github__create_issue '{"title": "x"}'
    """
    params: dict[str, Any] = {"agent": agent, "tool": tool}
    if arguments is not None:
        try:
            params["arguments"] = json.loads(arguments)
        except ValueError as error:
            raise click.BadParameter(f"ARGUMENTS is not valid JSON: {error}") from None
    answer = ask_hub("hub/why", {name: value for name, value in params.items() if value is not None})
    if as_json:
        show_json(answer)
    elif tool is None:
        _last(answer.get("refusal"), agent)
    else:
        _judged(answer["judgement"])


def _last(refusal: dict[str, Any] | None, agent: str | None) -> None:
    if refusal is None:
        say(f"No call {'' if agent is None else f'of {plain(agent)} '}was refused since the hub started.")
        return
    target = plain(f"{refusal['server']} {refusal['target']}")
    say(f"{refusal['at']}  {bold(plain(refusal['agent']))} → {target}: {plain(refusal['message'])}")
    _rule(refusal)


def _judged(judgement: dict[str, Any]) -> None:
    outcome = judgement["outcome"]
    if outcome == "allowed":
        say("allowed: every gate lets it pass.")
        return
    say(f"{outcome}: {plain(judgement.get('message') or judgement.get('error') or '')}")
    _rule(judgement)
    if judgement.get("hint"):
        say(f"  → {plain(judgement['hint'])}")


def _rule(refusal: dict[str, Any]) -> None:
    hidden = " (the caller sees it as not existing)" if refusal.get("hidden") else ""
    say(f"  gate {refusal['gate']}, rule: {plain(refusal['rule'])}{hidden}")
