"""`interlock find` and `interlock budget`: search tools like an agent, and show what fills its context."""

from __future__ import annotations

import sys

import click

from interlock.cli.control.perform import Json, perform, performs
from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import bold, counted, json_option, one_line, plain, say, say_table, show_json
from interlock.cli.tools.tools import still_starting

BAR = 40
LEVELS = {
    "L0": "all tools are listed",
    "L1": "the model finds tools, and sees their categories",
    "L2": "the model finds tools",
    "L3": "the model finds tools, and sees pinned ones",
}
LONG_LIST = 4_000
"""Tokens of a whole list above which a smaller one is worth a hint."""
SMALLER = "  → to list a few tools, and let the model find the others: `budget = 4000` in [hub]"


@click.command()
@click.argument("query", nargs=-1)
@click.option("--agent", metavar="NAME", help="Search with the access of this agent.")
@click.option("-n", "--max-results", default=5, show_default=True, type=click.IntRange(1, 20))
@click.option("--strategy", type=click.Choice(["hybrid", "keyword", "semantic", "category"]), default="hybrid")
@click.option("--explain", is_flag=True, help="Say what speaks for each tool.")
@click.option("--forget", is_flag=True, help="Forget what was learned from the use of all agents, and find nothing.")
@json_option
def find(
    query: tuple[str, ...],
    agent: str | None,
    max_results: int,
    strategy: str,
    explain: bool,
    forget: bool,
    as_json: bool,
) -> None:
    """Find tools by what they do.

    The query - is read from standard input. Tools that an agent found, called and that succeeded rise for its queries
    like those. --explain shows that for the agent of --agent, or for callers without a key.

    \b
    Examples:
      interlock find list open pull requests
      interlock find --explain what time is it
      interlock find --forget
    """
    if forget:
        if query or agent:
            raise WrongUsage(
                "--forget takes no query and no --agent: it forgets what was learned from all agents",
                "to forget all of it: interlock find --forget",
            )
        _forget(as_json=as_json)
        return
    text = sys.stdin.read() if query == ("-",) else " ".join(query)
    if not text.strip():
        raise WrongUsage("say what the tool should do", "for example: interlock find list open pull requests")
    wanted = {"query": text, "max_results": max_results, "strategy": strategy, "agent": agent}
    found = perform("find", wanted)
    if as_json:
        show_json(found)
        return
    if explain:
        for tool in found["tools"]:
            say(f"{tool['relevance_score']:.2f}  {bold(plain(tool['name']))}  {_described(tool)}")
            for reason in tool.get("why", ()):
                say(f"      {plain(reason)}")
    else:
        _show_table(found)
    how = "" if found["search_strategy"] == strategy else f", by {found['search_strategy']}"
    say(f"{len(found['tools'])} of {found['total_available']} tools, {found['query_time_ms']} ms{how}")
    for name in found.get("left_out_for_budget", ()):
        say(f"left out, over the budget: {plain(name)}")
    if found.get("hint"):
        say(f"  → {plain(found['hint'])}")
    if starting := still_starting(perform("status")["servers"]):
        say(f"  → still starting: {', '.join(starting)}; search again in a moment")


def _described(tool: Json) -> str:
    return one_line(tool.get("description") or "", 80)


def _show_table(found: Json) -> None:
    rows = (
        (
            f"{tool['relevance_score']:.2f}",
            bold(plain(tool["name"])),
            "" if tool.get("status", "connected") == "connected" else "not connected",
            _described(tool),
        )
        for tool in found["tools"]
    )
    say_table(rows)


@performs("find.forget")
def _forget(done: Json) -> None:
    count = done["forgotten"]
    say(f"forgot {count} {'use' if count == 1 else 'uses'} of tools" if count else "nothing was learned from use")


@click.command()
@click.argument("agent", required=False)
@click.option("--agent", "named", metavar="NAME", help="The same as AGENT.")
@json_option
def budget(agent: str | None, named: str | None, as_json: bool) -> None:
    """Show what fills an agent's context, in tokens.

    Without AGENT: for callers without a key.

    \b
    Example:
      interlock budget cursor
    """
    _budget(agent=agent or named, as_json=as_json)


@performs("budget")
def _budget(found: Json, agent: str | None) -> None:
    whole = max(1, found["all_tokens"], found["budget"] or 0)
    say(f"{plain(found['agent'])}: level {found['level']}, {LEVELS[found['level']]}")
    if found.get("searches"):
        say(f"  its client {found['searches']}, so it gets the whole list")
    rows = [
        ("all tools the agent may call", found["all_tokens"], counted(found["all_tools"], "tool")),
        ("listed to the model", found["listed_tokens"], counted(found["listed_tools"], "tool")),
    ]
    if found["instructions_tokens"]:
        rows.append(("instructions of servers", found["instructions_tokens"], ""))
    if found["budget"] is not None:
        rows.append(("budget", found["budget"], ""))
    say_table((name, f"{tokens:,}", _bar(tokens, whole), note) for name, tokens, note in rows)
    for name in found["pinned_over_budget"]:
        say(f"pinned, but over the budget: {plain(name)}")
    for name in found["instructions_over_budget"]:
        say(f"instructions left out, over the budget: {plain(name)}")
    say_table((f"  {plain(s['id'])}", f"{s['tokens']:,}", _bar(s["tokens"], whole)) for s in found["servers"])
    if found["level"] == "L0" and found["listed_tokens"] > LONG_LIST and not found.get("searches"):
        say(SMALLER, err=True)


def _bar(part: int, whole: int) -> str:
    filled = round(BAR * min(part, whole) / whole)
    return "█" * filled + "░" * (BAR - filled)
