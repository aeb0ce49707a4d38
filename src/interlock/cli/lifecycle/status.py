"""`interlock status`: shows each server with its tools and tokens, or its problem and the fix."""

from __future__ import annotations

import click

from interlock.cli.control.completion import server_names
from interlock.cli.control.perform import Json, perform
from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import (
    bold,
    coloured,
    columns,
    counted,
    json_option,
    one_line,
    plain,
    say,
    show_json,
)

MAX_FINDINGS = 3
STARTING = ("registered", "connecting", "restarting")
"""States in which the tools of a server may not be known yet."""
COLOURS = {"connected": "green", "error": "red", "disconnected": "red"}


@click.command()
@click.argument("server", required=False, shell_complete=server_names)
@json_option
def status(server: str | None, as_json: bool) -> None:
    """Show the servers, and how to fix those that do not run.

    With SERVER it shows that server alone, with the revision of MCP that the hub speaks with it, and why.

    \b
    Example:
      interlock status github
    """
    found = perform("status")
    if server is None:
        if as_json:
            show_json(found)
        else:
            show_status(found)
        return
    row = next((row for row in found["servers"] if row["id"] == server), None)
    if row is None:
        state = "is disabled" if server in (found.get("disabled") or []) else "is not known"
        raise CommandFailure(f"the server `{server}` {state}", "`interlock status` shows all of them")
    if as_json:
        show_json(row)
        return
    for line in (*server_lines([row]), *_speaks(row)):
        say(line)


def show_status(found: Json) -> None:
    facts = [
        f"Interlock {found['version']}",
        f"pid {found['pid']}",
        f"up {duration(found['uptime_s'])}",
        found["listen"],
        found["mode"],
    ]
    if found.get("memory_mb"):
        facts.append(f"{found['memory_mb']:.0f} MB")
    say(bold(" · ".join(facts)))
    for line in warning_lines(found):
        say(line)
    servers = found["servers"]
    for line in _problem_lines(found):
        say(line)
    if not servers:
        say("No servers yet.")
        say("  → add one: `interlock add NAME -- command…` or `interlock add NAME URL`")
    for line in server_lines(servers):
        say(line)
    for name in found.get("disabled") or []:
        say(f"  {bold(plain(name))}  disabled  → set `enabled = true` in its table to use it")


def warning_lines(found: Json) -> list[str]:
    """The hub's warnings, each with its fix below."""
    lines: list[str] = []
    for warning in found.get("warnings") or []:
        lines.append(coloured(f"warning: {plain(warning['message'])}", "red"))
        if warning.get("hint"):
            lines.append(f"  → {plain(warning['hint'])}")
    return lines


def _problem_lines(found: Json) -> list[str]:
    """The problems of the configuration, each with its fix below. Those of a server are in its line already."""
    lines: list[str] = []
    shown = {server.get("problem") for server in found["servers"]}
    for problem in found["config"]["problems"]:
        if problem.get("message") in shown:
            continue
        line = f":{problem['line']}" if problem.get("line") else ""
        place = f"{problem['file']}{line}: " if problem.get("file") else ""
        lines.append(coloured(plain(f"{place}{problem.get('message')}"), "yellow"))
        if problem.get("hint"):
            lines.append(f"  → {plain(problem['hint'])}")
    return lines


def server_lines(servers: list[Json]) -> list[str]:
    """One line per server: its tools, or its problem with the fix below."""
    offers = iter(columns(_offers(server) for server in servers if not server.get("problem")))
    widest = max((len(server["id"]) for server in servers), default=0)
    states = max((len(_state(server)) for server in servers), default=0)
    indent = " " * (widest + 4)
    lines: list[str] = []
    for server in servers:
        name, state = server["id"], _state(server)
        summary = one_line(server["problem"], 160) if server.get("problem") else next(offers)
        head = "  " + bold(name) + " " * (widest - len(name))
        lines.append(f"{head}  {coloured(state, COLOURS.get(state, 'yellow'))}{' ' * (states - len(state))}  {summary}")
        if server.get("problem") and server.get("hint"):
            lines.append(f"{indent}→ {plain(server['hint'])}")
        if server.get("isolation") == "sandbox":
            lines.append(f"{indent}contained: {plain(server['limits'])}")
        if state == "connected" and (health := server.get("health")) in ("degraded", "unhealthy"):
            why = f"{health}: {'; '.join(server.get('health_reasons') or [])}"
            lines.append("      " + coloured(one_line(why, 160), "yellow"))
        changed = state not in STARTING and (state != "connected" or server.get("restarts"))
        if changed and (change := server.get("last_change")):
            reason = plain(change["reason"]).replace("_", " ")
            since = f"since {plain(server['since'])}: {change['before']} → {state} ({reason})"
            lines.append(f"      {since}")
        for permission in server.get("permissions") or []:
            lines += _permission(permission)
        if (mgp := server.get("mgp")) and mgp["warning"]:
            lines.append("      " + coloured(one_line(mgp["warning"], 160), "yellow"))
        if left_out := server.get("left_out"):
            more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
            lines.append("      " + coloured(one_line(f"left out{more}: {left_out[0]}", 160), "yellow"))
            if "`interlock " not in left_out[0]:  # its own text names the command that helps
                lines.append(f"      → see `interlock logs {plain(name)}`")
        for item in server.get("quarantined") or []:
            for found in item["findings"][:MAX_FINDINGS]:
                summary = f"in quarantine: {item['kind']} {item['name']} ({found['rule']}): {found['message']}"
                lines.append("      " + coloured(one_line(summary, 160), "yellow"))
            lines.append(f"      → to allow it: {plain(item.get('hint', ''))}")
    return lines


def _speaks(server: Json) -> list[str]:
    """The revision and the era of a connected server, and why the hub chose that era."""
    if not server.get("revision"):
        return []
    era = {"modern": "stateless era", "legacy": "handshake era"}.get(server["era"], plain(server["era"]))
    why = f": {plain(server['era_reason'])}" if server.get("era_reason") else ""
    return [f"      revision {plain(server['revision'])}, {era}{why}"]


def _state(server: Json) -> str:
    return "needs login" if server.get("needs_login") else str(server["state"])


def _offers(server: Json) -> tuple[str, ...]:
    count = server.get("tools") or 0
    if not count and server.get("state") in STARTING:
        return "", "", one_line(server["where"], 100)
    return (
        counted(count, "tool"),
        f"{server['tokens']:,} tokens" if server.get("tokens") is not None else "",
        one_line(server["where"], 100),
    )


def _permission(row: Json) -> list[str]:
    if row["grant"] == "approved":
        return []
    name, server = plain(row["permission"]), plain(row["server"])
    summary = f"      permission {name} is {plain(row['grant'])}: {plain(row['rule'])}"
    return [coloured(summary, "yellow"), f"      → to grant it: `interlock permissions approve {server} {name}`"]


def duration(seconds: float) -> str:
    """`95` as `1 min 35 s`, with at most two units."""
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    left, parts = int(seconds), []
    for name, size in units:
        if left >= size:
            parts.append(f"{left // size} {name}")
            left %= size
    return " ".join(parts[:2]) or "0 s"
