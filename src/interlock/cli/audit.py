"""`interlock audit`: shows, searches, exports and verifies the audit log of a running hub."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from .failures import Failure, NoHub
from .hub_link import ask_hub
from .show import as_dict, bold, coloured, counted, json_option, one_line, plain, say, say_table, show_json


@click.group()
def audit() -> None:
    """Show, search, export and verify the audit log.

    \b
    Example:
      interlock audit search --agent cursor --result BLOCKED
    """


@audit.command()
@click.option("-n", "--lines", default=20, show_default=True, type=click.IntRange(1, 10_000))
@json_option
def tail(lines: int, as_json: bool) -> None:
    """Print the newest entries.

    \b
    Example:
      interlock audit tail -n 50
    """
    _print(ask_hub("hub/audit.search", {"most": lines}), as_json)


@audit.command()
@click.option(
    "--event", metavar="TYPE", help="Only this kind: TOOL_EXECUTED, ACCESS_GRANTED, dev.interlock.key_created, …"
)
@click.option("--agent", metavar="NAME", help="Only entries of this agent, person or service.")
@click.option("--server", metavar="ID", help="Only calls to this server.")
@click.option("--tool", metavar="NAME", help="Only this tool, by its server's own name.")
@click.option("--result", type=click.Choice(["SUCCESS", "FAILURE", "BLOCKED", "UNKNOWN"]), help="Only this result.")
@click.option("--trace", metavar="ID", help="Only this trace.")
@click.option("--chain", metavar="NAME", help="Only entries of this hub, if several share a store.")
@click.option("-n", "--lines", default=100, show_default=True, type=click.IntRange(1, 10_000))
@json_option
def search(
    event: str | None,
    agent: str | None,
    server: str | None,
    tool: str | None,
    result: str | None,
    trace: str | None,
    chain: str | None,
    lines: int,
    as_json: bool,
) -> None:
    """Find entries.

    \b
    Example:
      interlock audit search --agent cursor --result BLOCKED
    """
    wanted = {"event": event, "agent": agent, "server": server, "tool": tool, "result": result, "trace": trace}
    wanted |= {"chain": chain}
    params: dict[str, object] = {"most": lines, **{key: value for key, value in wanted.items() if value is not None}}
    _print(ask_hub("hub/audit.search", params), as_json)


@audit.command()
@click.argument("number", type=click.IntRange(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show one entry in full, with all entries of the same trace.

    \b
    Example:
      interlock audit show 42
    """
    found = ask_hub("hub/audit.show", {"seq": number})
    if as_json:
        show_json(found)
        return
    for key, value in as_dict(as_dict(found["entry"])["record"]).items():
        say(f"{bold(key)}: {plain(str(value))}")
    _print({"entries": found["related"]}, as_json=False)


@audit.command()
@click.argument("file", type=click.Path(dir_okay=False, writable=True))
@json_option
def export(file: str, as_json: bool) -> None:
    """Write every entry to FILE, one JSON object per line. The file can be verified by itself.

    \b
    Example:
      interlock audit export audit.jsonl
    """
    from pathlib import Path

    found = ask_hub("hub/audit.export", {"file": str(Path(file).absolute())}, timeout=600)
    if as_json:
        show_json(found)
    else:
        say(f"{found['records']:,} entries in {plain(file)}")


@audit.command()
@click.option("--file", type=click.Path(exists=True, dir_okay=False), help="An export to check, instead of the store.")
@json_option
def verify(file: str | None, as_json: bool) -> None:
    """Check that no entry was changed, removed, moved or cut off. Needs no running hub.

    \b
    Example:
      interlock audit verify --file audit.jsonl
    """
    found = _verified_store() if file is None else _verified(file)
    if as_json:
        show_json(found)
    else:
        say(f"{found['records']:,} entries in {counted(len(found['chains']), 'chain')}")
        for finding in found["findings"]:
            say(f"  {coloured(finding['problem'], 'red')} at {finding['seq']}: {plain(finding['message'])}")
    if not found["sound"]:
        raise Failure("the audit log was altered", "keep a copy of the store, and compare it with a backup")


def _verified_store() -> dict[str, Any]:
    """Verify the store: in the running hub, which knows its newest entries, or else here."""
    try:
        return ask_hub("hub/audit.verify", {}, timeout=600)
    except NoHub:
        pass
    from pathlib import Path

    import msgspec

    from interlock.config import home_folder, load
    from interlock.hub.audit.home_check import verify_store
    from interlock.hub.foundation import store_of
    from interlock.store import StoreError

    home = home_folder()
    try:
        report = verify_store(store_of(load(None, home=home, folder=Path.cwd()).config, home), home)
    except StoreError as cause:
        raise Failure(cause.message, cause.hint) from None
    return {**msgspec.to_builtins(report), "sound": report.sound}


def _verified(file: str) -> dict[str, Any]:
    import msgspec

    from interlock.hub.audit.verify import verify_export

    try:
        with open(file, "rb") as lines:
            report = verify_export(lines, {})
    except (msgspec.MsgspecError, ValueError) as cause:
        raise Failure(f"{file} is not an audit log export: {cause}", "choose a file made by `audit export`") from None
    return {**msgspec.to_builtins(report), "sound": report.sound}


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    say_table(_row(as_dict(entry)) for entry in found["entries"])


_OURS = "dev.interlock."
_COLOURS = {"SUCCESS": "green", "PENDING": "yellow"}


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    record = as_dict(entry["record"])
    at = datetime.fromtimestamp(int(record.get("at", 0)) / 1_000_000).strftime("%m-%d %H:%M:%S")
    target = "__".join(part for part in (record.get("server", ""), record.get("name", "")) if part)
    result = str(entry.get("result", ""))
    event = str(record.get("event", ""))
    shown = coloured(result, _COLOURS.get(result, "red")) if result != "RECORDED" else plain(event.removeprefix(_OURS))
    if entry.get("problem"):
        shown = coloured("ALTERED", "red")
    elif record.get("claimed_by"):
        shown = coloured(f"{plain(str(record['claimed_by']))} claims", "yellow")
    why = str(entry.get("problem") or record.get("reason") or record.get("rule") or "")
    took = f"{int(record['duration_us']) / 1000:.1f} ms" if record.get("duration_us") is not None else ""
    return (str(entry["seq"]), at, plain(record.get("actor", "")), plain(target), shown, took, one_line(why, 60))
