"""`interlock why`: shows the gate and the rule that refused a call, or that would refuse one."""

from __future__ import annotations

import json
from typing import Any

import click

from interlock.cli.control.perform import Json, performs
from interlock.cli.terminal.show import bold, coloured, plain, say


def _parsed(ctx: click.Context, option: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"ARGUMENTS is not valid JSON: {error}") from None


@click.command()
@performs("why")
@click.argument("agent", required=False)
@click.argument("tool", required=False)
@click.argument("arguments", required=False, callback=_parsed)
def why(found: Json, agent: str | None, tool: str | None, arguments: Any) -> None:
    """Show why a call was refused, or whether one would be.

    Without TOOL: the last refusal, of all agents or of one AGENT; a tool's name alone shows the last refusal of that
    tool. With TOOL: whether a call with these ARGUMENTS (a JSON object) would be allowed now, and what is noted about
    it: such a call is asked about while a person is present. The call is not made. For the agent server:ID, TOOL is
    sampling, elicitation or roots: what that server may ask clients for.

    \b
    Example:
      interlock why cursor github__create_issue '{"title": "x"}'
    """
    if tool is None:
        _last(found["refusal"], agent)
    else:
        _judged(found["judgement"])


def _last(refusal: Json | None, agent: str | None) -> None:
    if refusal is None:
        say(f"No call {'' if agent is None else f'of {plain(agent)} '}was refused since the hub started.")
        if agent is not None and "__" in agent:
            say(f"  → `interlock why AGENT {plain(agent)}` says how a call of it would be judged")
        return
    target = plain(f"{refusal['server']} {refusal['target']}".strip())
    say(f"{refusal['at']}  {bold(plain(refusal['agent']))} → {target}: {plain(refusal['message'])}")
    _rule(refusal)
    if refusal.get("hint"):
        say(f"  → {plain(refusal['hint'])}")


def _judged(judgement: Json) -> None:
    outcome = judgement["outcome"]
    if outcome == "allowed":
        say(plain(judgement.get("message") or "allowed: every gate lets it pass."))
        for finding in judgement.get("findings", ()):
            say(f"  {coloured('noted', 'yellow')} {plain(finding)}")
        if judgement.get("hint"):
            say(f"  → {plain(judgement['hint'])}")
        return
    say(f"{outcome}: {plain(judgement.get('message') or judgement.get('error') or '')}")
    _rule(judgement)
    if judgement.get("hint"):
        say(f"  → {plain(judgement['hint'])}")


def _rule(refusal: Json) -> None:
    hidden = " (the caller sees it as not existing)" if refusal.get("hidden") else ""
    say(f"  gate {refusal['gate']}, rule: {plain(refusal['rule'])}{hidden}")
