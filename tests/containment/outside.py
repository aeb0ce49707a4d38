"""Things that a contained server must not reach: files, sockets, a process, an open descriptor."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from interlock.containment.launcher_client import start_contained
from interlock.containment.policy import BackendName, Containment

from . import attempts

PYTHON = os.path.realpath(sys.executable)
MEMORY_MB = 96
PROCESSES = 8


class EscapeTargets:
    """The targets of attempts, and a way to run attempts plainly or contained."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        outside, own = folder / "outside", folder / "own"
        for made in (outside, own, folder / "code"):
            made.mkdir()
        for name in ("secret", "moved", "truncated"):
            (outside / name).write_text("secret")
        self.program = Path(shutil.copy(Path(attempts.__file__), folder / "code" / "attempts.py"))
        self.own = own
        self._sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
        tcp, unix, abstract = self._sockets
        name = f"interlock-{uuid.uuid4()}"
        for listener, address in ((tcp, ("127.0.0.1", 0)), (unix, str(outside / "unix")), (abstract, f"\0{name}")):
            listener.bind(address)
            listener.listen()
            threading.Thread(target=self._greet, args=(listener,), daemon=True).start()
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        threading.Thread(target=self._echo, args=(udp,), daemon=True).start()
        datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagram.bind(str(outside / "datagram"))
        self._sockets += [udp, datagram]
        waiting = "import signal\nsignal.signal(10, lambda *_: 0)\nprint(flush=True)\nwhile True: signal.pause()"
        self.victim = subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE)
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self.inherited = os.open(outside / "secret", os.O_RDONLY)
        os.set_inheritable(self.inherited, True)
        self.targets: dict[str, Any] = {
            "outside": str(outside),
            "own": str(own),
            "secret": str(outside / "secret"),
            "moved": str(outside / "moved"),
            "truncated": str(outside / "truncated"),
            "program": str(self.program),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": str(outside / "unix"),
            "datagram": str(outside / "datagram"),
            "abstract": name,
            "queue": f"/{name}",
            "shared": uuid.uuid4().int & 0x7FFFFFFF,
            "pid": self.victim.pid,
            "processors": os.cpu_count(),
            "forks": 200,
            "megabytes": 3 * MEMORY_MB,
        }

    def close(self) -> None:
        self.victim.kill()
        self.victim.communicate()
        os.close(self.inherited)
        for one in self._sockets:
            one.close()

    def plainly(self, names: list[str]) -> dict[str, str]:
        """Make the attempts in a plain process."""
        done = subprocess.run(self._command(names, True), stdout=subprocess.PIPE, close_fds=False, check=True)
        return _results(names, done.stdout)

    def filtered(self, names: list[str]) -> dict[str, str]:
        """Make the attempts in a plain process below the filter that bubblewrap installs, without its namespaces."""
        below = "from interlock.containment import bubblewrap, seccomp; seccomp.install(bubblewrap.filter_below())"
        command = [sys.executable, "-c", f"{below}; import os, sys; os.execv(sys.argv[1], sys.argv[1:])"]
        done = subprocess.run([*command, *self._command(names, True)], stdout=subprocess.PIPE, check=True)
        return _results(names, done.stdout)

    def contained(self, names: list[str], backend: BackendName, **changed: Any) -> dict[str, str]:
        """Make the attempts in a contained process."""
        command = self._command([attempts.WORK, *names], False)
        process = start_contained(self.containment(backend, **changed), command, {"PATH": os.defpath}, None)
        process.stdin.close()
        with process.stdout, process.stderr:
            written = process.stdout.read()
            complaints = process.stderr.read()
        process.wait()
        assert written.startswith(f"{attempts.WORK} escaped\n".encode()), complaints
        return _results(names, written)

    def containment(self, backend: BackendName, **changed: Any) -> Containment:
        settings: dict[str, Any] = {
            "folder": str(self.folder / "hub" / "contained" / "server"),
            "backend": backend,
            "read": (str(self.program.parent),),
            "write": (str(self.own),),
            "hosts": (),
            "memory_bytes": MEMORY_MB << 20,
            "cpus": 1,
            "processes": PROCESSES,
            "time_s": 300.0,
        }
        return Containment(**(settings | changed))

    def _command(self, names: list[str], plain: bool) -> tuple[str, ...]:
        return PYTHON, str(self.program), ",".join(names), json.dumps(self.targets | {"plain": plain})

    def _greet(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as peer:
                    peer.sendall(b"x")

    def _echo(self, udp: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                _, peer = udp.recvfrom(10)
                udp.sendto(b"x", peer)


def _results(names: list[str], written: bytes) -> dict[str, str]:
    """The outcome of each attempt. An attempt that says nothing was ended before it got out."""
    lines = dict(line.split(" ", 1) for line in written.decode().splitlines())
    return {name: lines.get(name, "held: ended") for name in names}
