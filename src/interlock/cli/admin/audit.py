"""`interlock audit`: shows, searches, exports and verifies the audit log of a running hub."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from interlock.cli.control.perform import Json, perform, performs
from interlock.cli.terminal.failures import CommandFailure, NoHub
from interlock.cli.terminal.show import bold, coloured, counted, json_option, one_line, plain, say, say_table, show_json

FOLLOW_EVERY_S = 0.5
FOLLOW_PAGE = 100
MAX_FOLLOWED = 10_000


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def audit(ctx: click.Context, as_json: bool) -> None:
    """Show, search, export and verify the audit log.

    Without a command, it prints the newest entries.

    \b
    Example:
      interlock audit search --agent cursor --result BLOCKED
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(tail, as_json=as_json)


@audit.command()
@click.option("-n", "--lines", default=20, show_default=True, type=click.IntRange(1, 10_000))
@click.option("-f", "--follow", is_flag=True, help="Print new entries as they are written, until Ctrl-C.")
@json_option
def tail(lines: int, follow: bool, as_json: bool) -> None:
    """Print the newest entries.

    With `--follow --json`, each entry is one line.

    \b
    Example:
      interlock audit tail -f
    """
    if follow:
        _follow(lines, as_json)
        return
    found = perform("audit.search", {"most": lines})
    if as_json:
        show_json(found)
    else:
        _print(found["entries"])


@audit.command()
@performs("audit.search")
@click.option(
    "--event", metavar="TYPE", help="Only this kind: TOOL_EXECUTED, ACCESS_GRANTED, dev.interlock.key_created, …"
)
@click.option("--agent", metavar="NAME", help="Only entries of this agent, person or service.")
@click.option("--server", metavar="ID", help="Only calls to this server.")
@click.option("--tool", metavar="NAME", help="Only this tool, by its server's own name.")
@click.option("--result", type=click.Choice(["SUCCESS", "FAILURE", "BLOCKED", "UNKNOWN"]), help="Only this result.")
@click.option("--calls", is_flag=True, default=None, help="Only calls and refusals, without events of the hub.")
@click.option("--trace", metavar="ID", help="Only this trace.")
@click.option("--chain", metavar="NAME", help="Only entries of this hub, if several share a store.")
@click.option("--before", metavar="NUMBER", type=click.IntRange(1), help="Only entries before this one.")
@click.option("--before-chain", metavar="NAME", help="The hub of that entry, if several share a store.")
@click.option("-n", "--lines", "most", default=100, show_default=True, type=click.IntRange(1, 10_000))
def search(found: Json, **given: Any) -> None:
    """Find entries. A search looks at the newest 50,000 entries, and says how to continue before them.

    \b
    Example:
      interlock audit search --agent cursor --result BLOCKED
    """
    _print(found["entries"])
    last = found.get("searched_to")
    if not found["entries"]:
        say("No entry matches." if last is None else "None of the newest entries matches.")
    if last is not None:
        place = f"--before {last['seq']} --before-chain {plain(last['chain'])}"
        say(f"Older entries were not searched. → continue with `{place}`")


@audit.command()
@performs("audit.show")
@click.argument("seq", metavar="NUMBER", type=click.IntRange(1))
@click.option("--chain", metavar="NAME", help="The hub of that entry, if several share a store.")
def show(found: Json, **given: Any) -> None:
    """Show one entry in full, with all entries of the same trace.

    \b
    Example:
      interlock audit show 42
    """
    entry = found["entry"]
    if entry.get("problem"):
        say(coloured(f"This entry {plain(str(entry['problem']))}", "red"))
    for key, value in entry["record"].items():
        say(f"{bold(_SHOWN_AS.get(key, key))}: {plain(_value(key, value))}")
    approvals = [one for one in found["related"] if str(one["record"].get("event", "")).startswith(_DECISION)]
    if approvals:
        say(bold("approval:"))
        _print(approvals)
    say(bold("all entries of this trace:"))
    _print(found["related"])


@audit.command()
@performs("audit.export", timeout=600)
@click.argument("file", type=click.Path(dir_okay=False, writable=True, resolve_path=True))
def export(found: Json, file: str) -> None:
    """Write every entry to FILE, one JSON object per line. The file can be verified by itself.

    \b
    Example:
      interlock audit export audit.jsonl
    """
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
            colour = "yellow" if finding["problem"] in ("lost", "restored") else "red"
            say(f"  {coloured(finding['problem'], colour)} at {finding['seq']}: {plain(finding['message'])}")
        if found["sound"]:
            say("No stored entry was changed, removed or moved.")
    if not found["sound"]:
        raise CommandFailure("the audit log was altered", "keep a copy of the store, and compare it with a backup")


def _verified_store() -> Json:
    """Verify the store: in the running hub, which knows its newest entries, or else here."""
    try:
        return perform("audit.verify", timeout=600)
    except NoHub:
        pass
    from pathlib import Path

    import msgspec

    from interlock.config.home import home_folder
    from interlock.config.load import load
    from interlock.hub.audit.home_check import verify_store
    from interlock.hub.foundation import store_of
    from interlock.store import StoreError

    home = home_folder()
    try:
        report = verify_store(store_of(load(None, home=home, folder=Path.cwd()).config, home), home)
    except StoreError as cause:
        raise CommandFailure(cause.for_operators, cause.hint) from None
    return {**msgspec.to_builtins(report), "sound": report.sound}


def _verified(file: str) -> Json:
    import msgspec

    from interlock.hub.audit.verify import verify_export

    try:
        with open(file, "rb") as lines:
            report = verify_export(lines, {})
    except (msgspec.MsgspecError, ValueError) as cause:
        raise CommandFailure(
            f"{file} is not an audit log export: {cause}", "choose a file made by `audit export`"
        ) from None
    return {**msgspec.to_builtins(report), "sound": report.sound}


def _value(key: str, value: object) -> str:
    """One member of an entry: its time as a person reads it, and values with members as JSON."""
    if key == "at" and isinstance(value, int):
        return datetime.fromtimestamp(value / 1_000_000).astimezone().isoformat(" ", "milliseconds")
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else str(value)


def _print(entries: list[Json], followed: Iterable[str] = ()) -> None:
    """Print one line per entry. Each hub of a store counts for itself: where there are several, a line names its hub.

    `followed` are hubs whose entries were printed before.
    """
    several = len({*followed, *(entry["chain"] for entry in entries)}) > 1
    say_table((*_row(entry), f"--chain {plain(entry['chain'])}" if several else "") for entry in entries)


def _follow(lines: int, as_json: bool) -> None:
    """Print the newest entries, then entries as they are written. A chain's numbers rise, so none is printed twice."""
    from time import sleep

    from interlock.cli.control.hub_link import HubLink

    printed: dict[str, int] = {}
    """The highest number of each chain that was printed, or was older than the first entry that was."""
    began: int | None = None
    most = max(lines, FOLLOW_PAGE)
    with HubLink.open() as link, suppress(KeyboardInterrupt):
        while True:
            found = link.ask("hub/audit.search", {"most": most})["entries"]
            new = [entry for entry in found if _is_new(entry, printed, began)]
            if began is not None and len(new) == most < MAX_FOLLOWED:
                most = min(10 * most, MAX_FOLLOWED)  # More entries were written meanwhile than one page has.
                continue
            for entry in new:
                printed[entry["chain"]] = max(entry["seq"], printed.get(entry["chain"], 0))
            if began is None:
                began = max((entry["record"]["at"] for entry in found), default=0)
                new = new[-lines:]
            if as_json:
                for entry in new:
                    say(json.dumps(entry))
            elif new:
                _print(new, printed)
            most = FOLLOW_PAGE
            sleep(FOLLOW_EVERY_S)


def _is_new(entry: Json, printed: dict[str, int], began: int | None) -> bool:
    """Whether the entry was written since the start. An entry of a chain that the first page lacked may be old."""
    last = printed.get(entry["chain"])
    if last is None:
        return began is None or bool(entry["record"]["at"] >= began)
    return bool(entry["seq"] > last)


_OURS = "dev.interlock."
_DECISION = "dev.interlock.decision_"
_SHOWN_AS = {"arguments": "sha256 of the arguments", "given": "arguments"}
_COLOURS = {"SUCCESS": "green", "PENDING": "yellow"}


def _row(entry: Json) -> tuple[str, ...]:
    record = entry["record"]
    at = datetime.fromtimestamp(record["at"] / 1_000_000).strftime("%m-%d %H:%M:%S")
    result, event = entry["result"], record["event"]
    named = filter(None, (record.get("server", ""), record.get("name", "")))
    # An operation on a server is not a tool of it.
    target = (" " if event == f"{_OURS}operation" else "__").join(named)
    shown = coloured(result, _COLOURS.get(result, "red")) if result != "RECORDED" else plain(event.removeprefix(_OURS))
    if entry.get("problem"):
        shown = coloured("ALTERED", "red")
    elif record.get("claimed_by"):
        shown = coloured(f"{plain(record['claimed_by'])} claims", "yellow")
    why = entry.get("problem") or record.get("reason") or record.get("rule") or ""
    took = f"{record['duration_us'] / 1000:.1f} ms" if record.get("duration_us") is not None else ""
    return (str(entry["seq"]), at, plain(record.get("actor", "")), plain(target), shown, took, one_line(why, 60))
