"""How much longer a contained server takes to start than a plain one: from the command to its first answer.

python -m bench.containment
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from interlock.containment.backends import reports
from interlock.containment.launcher_client import ContainedProcess, start_contained
from interlock.containment.policy import BackendName, Containment

ROUNDS = 20
PAUSE_S = 0.25
"""Between starts, as a hub that starts one server now and then."""
COMMAND = ("/bin/cat",)
WITH_HOSTS = "with hosts"
"""Sandlock with its supervisor, which decides over connections."""
HOST = "127.0.0.1"
"""An address: how long a name takes to look up depends on the network, and one that is unknown starts no server."""


def plain() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(COMMAND, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def contained(backend: BackendName, folder: Path, hosts: tuple[str, ...] = ()) -> ContainedProcess:
    asked = Containment(
        folder=str(folder),
        backend=backend,
        read=(),
        write=(),
        hosts=hosts,
        memory_bytes=512 << 20,
        cpus=1,
        processes=32,
        time_s=60,
    )
    return start_contained(asked, COMMAND, {"PATH": os.defpath}, None)


def answered(process: subprocess.Popen[bytes] | ContainedProcess, began: float) -> float:
    """Milliseconds until the program has answered; then it is ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"x\n")
    said = process.stdout.read(2)
    took = time.perf_counter() - began
    assert said == b"x\n", f"it did not start: {process.stderr.read()!r}"
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    process.wait()
    return took * 1000


def main() -> None:
    serving = [report.backend for report in reports() if not report.missing]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "hub", "contained", "cat")
        for backend in serving:  # starts the launcher
            answered(contained(backend, folder), 0)
        times: dict[str, list[float]] = {"plain": [], **{backend: [] for backend in serving}}
        if "sandlock" in serving:
            times[WITH_HOSTS] = []
        for _ in range(ROUNDS):  # in turn, so that all meet the same load of the machine
            for name, measured in times.items():
                time.sleep(PAUSE_S)
                began = time.perf_counter()
                if name == "plain":
                    measured.append(answered(plain(), began))
                elif name == WITH_HOSTS:
                    measured.append(answered(contained("sandlock", folder, (HOST,)), began))
                else:
                    measured.append(answered(contained(name, folder), began))  # type: ignore[arg-type]
    base = statistics.median(times["plain"])
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for name, measured in times.items():
        median = statistics.median(measured)
        over = f"over plain {median - base:6.1f} ms, at the fastest {min(measured) - min(times['plain']):6.1f} ms"
        print(f"{name:12} median {median:6.1f} ms, fastest {min(measured):6.1f} ms, {over}")


if __name__ == "__main__":
    main()
