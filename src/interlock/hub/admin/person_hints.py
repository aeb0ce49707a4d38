"""Hints of `interlock why`, for a person: the hints of refusals are written for the model that made the call."""

from __future__ import annotations

import shlex

from interlock.hub.calls.pipeline.dry_run import DryRun
from interlock.hub.calls.refusals import Refusal
from interlock.hub.catalog.items import Item

_ASK_OPERATOR = "ask the operator for "


def hint_of_refusal(refusal: Refusal) -> str:
    """The hint for the last refusal."""
    if refusal.decision:
        return _to_approve(refusal.decision)
    return _hint(refusal.error, refusal.hint)


def hint_of_judgement(judgement: DryRun, agent: str, tool: Item | None, profile: str | None) -> str:
    """The hint for a call that was judged and not made. `profile`, or a grant, hides `tool` from the agent."""
    if judgement.outcome == "asked":
        return "a person is asked when the agent makes this call: `interlock watch`, `interlock approvals list`"
    if tool is not None and profile is not None:
        return (
            f"the profile `{profile}` of {agent} leaves it out: name it in `tools` of [profiles.{profile}], or give"
            f" {agent} another profile in [agents.{agent}]"
        )
    if tool is not None:
        place, name = f"{agent} {tool.server}", shlex.quote(tool.name)
        if judgement.rule.startswith("tool_grant"):
            return f"`interlock grants revoke {place} {name}` removes the denial of this tool"
        return (
            f"`interlock grants list {agent}` shows what hides it; `interlock grants revoke {place}` removes a denial"
            f" of the server, `interlock grants allow {place} {name}` allows the tool"
        )
    return _hint(judgement.error, judgement.hint)


def _hint(error: str, hint: str) -> str:
    return "`interlock list` lists the tools" if error == "TOOL_NOT_FOUND" else hint.removeprefix(_ASK_OPERATOR)


def _to_approve(decision: str) -> str:
    return f"`interlock approvals show {decision}` shows the call, `interlock approvals approve {decision}` approves it"
