"""`interlock status`: shows each server with its tools and tokens, or its problem and the fix."""

from __future__ import annotations

from typing import Any

import click

from .show import as_dict, bold, coloured, columns, counted, json_option, one_line, plain, say, show_json

STARTING = ("registered", "connecting", "restarting")
"""States in which the tools of a server are not known yet."""
COLOURS = {"connected": "green", "error": "red", "disconnected": "red"}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show the servers, and how to fix those that do not run.

    \b
    Example:
      interlock status --json
    """
    from .hub_link import HubLink

    with HubLink.open() as link:
        found = link.ask("hub/status")
    if as_json:
        show_json(found)
    else:
        show_status(found)


def show_status(found: dict[str, Any]) -> None:
    facts = [
        f"Interlock {found.get('version')}",
        f"pid {found.get('pid')}",
        f"up {duration(float(found.get('uptime_s') or 0))}",
        str(found.get("listen")),
        str(found.get("mode")),
    ]
    if found.get("memory_mb"):
        facts.append(f"{found['memory_mb']:.0f} MB")
    say(bold(" · ".join(facts)))
    for line in warning_lines(found):
        say(line)
    servers = found.get("servers") or []
    if not servers:
        say("No servers yet.")
        say("  → add one: `interlock add NAME -- command…` or `interlock add NAME URL`")
    for line in server_lines(servers):
        say(line)
    shown = {server.get("problem") for server in servers}
    config = as_dict(found.get("config"))
    for problem in config.get("problems") or []:
        if problem.get("message") in shown:
            continue
        line = f":{problem['line']}" if problem.get("line") else ""
        place = f"{problem['file']}{line}: " if problem.get("file") else ""
        say(coloured(plain(f"{place}{problem.get('message')}"), "yellow"))
        if problem.get("hint"):
            say(f"  → {plain(str(problem['hint']))}")


def warning_lines(found: dict[str, Any]) -> list[str]:
    """What the hub warns of, each with its fix below."""
    lines: list[str] = []
    for warning in found.get("warnings") or []:
        lines.append(coloured(f"warning: {plain(str(warning.get('message')))}", "red"))
        if warning.get("hint"):
            lines.append(f"  → {plain(str(warning['hint']))}")
    return lines


def server_lines(servers: list[dict[str, Any]]) -> list[str]:
    """One line per server: its tools, or its problem with the fix below."""
    offers = iter(columns(_offers(server) for server in servers if not server.get("problem")))
    widest = max((len(str(server["id"])) for server in servers), default=0)
    states = max((len(str(server["state"])) for server in servers), default=0)
    indent = " " * (widest + 4)
    lines: list[str] = []
    for server in servers:
        name, state = str(server["id"]), str(server["state"])
        summary = one_line(str(server["problem"]), 160) if server.get("problem") else next(offers)
        head = "  " + bold(name) + " " * (widest - len(name))
        lines.append(f"{head}  {coloured(state, COLOURS.get(state, 'yellow'))}{' ' * (states - len(state))}  {summary}")
        if server.get("problem") and server.get("hint"):
            lines.append(f"{indent}→ {plain(str(server['hint']))}")
        for permission in server.get("permissions") or []:
            lines += _permission(permission)
        if left_out := server.get("left_out"):
            more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
            lines.append("      " + coloured(one_line(f"left out{more}: {left_out[0]}", 160), "yellow"))
            lines.append(f"      → see `interlock logs {plain(name)}`")
        for item in server.get("quarantined") or []:
            found = item["findings"][0]
            summary = f"in quarantine: {item['kind']} {item['name']} ({found['rule']}): {found['message']}"
            lines.append("      " + coloured(one_line(summary, 160), "yellow"))
            lines.append(f"      → to allow it: {plain(str(item['hint']))}")
    return lines


def _offers(server: dict[str, Any]) -> tuple[str, ...]:
    count = server.get("tools") or 0
    if not count and server.get("state") in STARTING:
        return "", "", one_line(str(server.get("where") or ""), 100)
    return (
        counted(count, "tool"),
        f"{server['tokens']:,} tokens" if server.get("tokens") is not None else "",
        one_line(str(server.get("where") or ""), 100),
    )


def _permission(row: dict[str, Any]) -> list[str]:
    if row.get("grant") == "approved":
        return []
    name, server = plain(str(row.get("permission"))), plain(str(row.get("server")))
    summary = f"      permission {name} is {plain(str(row.get('grant')))}: {plain(str(row.get('rule')))}"
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
