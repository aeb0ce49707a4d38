"""How many events a hub accepts: each deduplicated, recorded and committed before it is answered.

    python bench/live.py

A hub has one core, the server that pushes has the other. The server pushes `EVENTS` new events, `AT_ONCE` at a time,
then the same ones again. Events are dropped by a rule, so that no agent's bound ends the run; a dropped event is
stored, recorded and answered like any other. Beside the time on the wall stands the hub's processor time, so that
neighbours on the machine do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EVENTS = 6_000
AT_ONCE = 200
CAPABILITIES = {
    "version": "0.4",
    "pushEvents": True,
    "featureSets": {"bench.push": {"description": "Events", "uses": ["pushEvents"]}},
}


def serve() -> None:
    """A server with one tool, `push`."""
    cores = os.cpu_count() or 1
    os.sched_setaffinity(0, {cores - 1})
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        result: Any = {}
        if "id" not in message or method is None:
            continue
        if method == "initialize":
            offered = {"tools": {}, "experimental": {"mcpl": CAPABILITIES}}
            result = {"protocolVersion": "2025-11-25", "capabilities": offered}
            result["serverInfo"] = {"name": "bench", "version": "1"}
        elif method == "tools/list":
            result = {"tools": [{"name": "push", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": json.dumps(push())}]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def push() -> float:
    """Push every event, and return how many a second were answered."""
    began, sent, answered = time.perf_counter(), 0, 0
    text = "A build of the main branch has failed, and its log is at the usual place."
    while answered < EVENTS:
        lines = []
        while sent < EVENTS and sent - answered < AT_ONCE:
            payload = {"content": [{"type": "text", "text": text}]}
            params = {"featureSet": "bench.push", "eventId": f"e{sent}", "timestamp": "2026-01-23T10:30:00Z"}
            message = {"jsonrpc": "2.0", "id": sent, "method": "push/event", "params": {**params, "payload": payload}}
            lines.append(json.dumps(message) + "\n")
            sent += 1
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        assert "result" in json.loads(sys.stdin.readline())
        answered += 1
    return EVENTS / (time.perf_counter() - began)


def main() -> None:
    """Run a hub, enable the feature set, and have the server push."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        config = root / "interlock.toml"
        command = json.dumps([sys.executable, str(Path(__file__).resolve()), "--server"])
        config.write_text(
            f"[hub]\nlisten = '127.0.0.1:0'\n[servers.bench]\ncommand = {command}\nera = 'legacy'\ntimeout_s = 300\n"
            "[live.rules.all]\nthen = 'drop'\n"
        )
        environ = {**os.environ, "INTERLOCK_HOME": str(root / "h"), "XDG_CONFIG_HOME": str(root / "c")}
        up = [sys.executable, "-P", "-m", "interlock.cli", "up", "--config", str(config)]
        process = subprocess.Popen(up, env=environ, stdout=subprocess.DEVNULL)
        try:
            os.sched_setaffinity(process.pid, {0})
            for number, what in enumerate(("new events", "the same again")):
                rate, used_s = measure(root / "h", process.pid, first=not number)
                print(f"{what:15} {rate:8,.0f} a second, {EVENTS / used_s:8,.0f} a second of the hub's processor time")
        finally:
            process.terminate()
            process.wait()


def used(pid: int) -> float:
    """The processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(home: Path, pid: int, *, first: bool) -> tuple[float, float]:
    """Events a second, and the hub's processor time for all of them."""
    from interlock.cli.control.hub_link import HubLink
    from interlock.cli.terminal.failures import CommandFailure

    for _ in range(600):
        try:
            with HubLink.open(home, own=True) as link:
                states = {row["id"]: row["state"] for row in link.ask("hub/status", {})["servers"]}
                if states.get("bench") == "connected":
                    if first:
                        params = {"server": "bench", "features": ["bench.*"], "agent": "bench", "terminal": True}
                        link.ask("hub/features.enable", params)
                    before = used(pid)
                    called = link.ask("hub/call", {"name": "bench__push", "arguments": {}}, timeout=300)
                    return float(json.loads(called["result"]["content"][0]["text"])), used(pid) - before
        except CommandFailure:
            pass  # the hub is starting
        time.sleep(0.1)
    raise SystemExit("the hub did not start")


if __name__ == "__main__":
    if "--server" in sys.argv:
        serve()
    else:
        main()
