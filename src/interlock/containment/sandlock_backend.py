"""The backend `sandlock`: Landlock for files, network and signals, and where needed a supervisor of system calls.

A server without `hosts` whose memory is bounded by a control group needs no supervisor: it has no sockets, and the
kernel alone contains it. For other servers, a separate process answers system calls. That process has only the server's
pipes, and drops its capabilities before the server starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import socket
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

from interlock.containment import capabilities, seccomp
from interlock.containment.fork_filter import filter_forks, filters_of
from interlock.containment.plan import DEVICES, SETTINGS, SYSTEM
from interlock.containment.policy import OPEN_FILES, StartPlan
from interlock.containment.syscalls import machine, number

if TYPE_CHECKING:
    from sandlock import Sandbox
    from sandlock.sandbox import Process

if sys.platform != "linux":
    raise ImportError("containment needs Linux")


_REFUSED: Final = (
    "memfd_create", *seccomp.METADATA, *seccomp.SHARED, *seccomp.OTHER_PROCESSES, *seccomp.LISTENING
)  # fmt: skip
"""System calls that the server may not use, but its supervisor may. The supervisor cannot count memory of a memfd."""


_prepared: bool | None = None
"""Whether this process was prepared for a server with network; None before the preparation."""
_alone = False
"""Whether this process was prepared for a server without a supervisor."""


OWN_FACTS: Final = ("stat", "statm", "status", "maps", "cmdline", "limits")
"""The files that a process may read about itself. Its whole folder would also show other processes' connections."""
FACTS: Final = tuple(f"/proc/{name}" for name in ("cpuinfo", "loadavg", "meminfo", "stat", "uptime", "version"))
"""The files that every process may read about the machine, as with bubblewrap."""
_SET_SUBREAPER: Final = 36


def needs_supervisor(plan: StartPlan, *, bounded: bool) -> bool:
    """Whether the server needs a supervisor. `bounded`: a control group bounds the memory."""
    return bool(plan.hosts) or not bounded


def pin(server: int) -> list[int]:
    """Open descriptors that keep the /proc files of a server in memory, because Landlock identifies files by inode."""
    found = []
    for path in (*FACTS, *(f"/proc/{server}/{name}" for name in OWN_FACTS)):
        with contextlib.suppress(OSError):
            found.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
    return found


def prepare(network: bool) -> None:
    """Give up all rights that no server needs. Started processes inherit that. Raises OSError."""
    global _prepared
    if len(os.listdir("/proc/self/task")) != 1:
        raise OSError("a second thread would keep its rights")
    capabilities.drop_all()
    seccomp.install(filter_below(network))
    filter_forks(filter_of_forks())
    _prepared = network


def warm_up(network: bool, *, bounded: bool) -> None:
    """Prepare this process, and run the rest of a start once without effect, because a first run takes twice as long.

    Without a supervisor, it makes rules that are not applied. With a supervisor, it runs a harmless program.
    """
    from sandlock.exceptions import SandlockError

    read = tuple(filter(os.path.exists, SYSTEM))
    if bounded and not network:
        _prepare_alone()
        with contextlib.suppress(AttributeError):  # This function is not public.
            _rules((*read, *SETTINGS), ("/",))._ensure_native()
        return
    prepare(network)
    plan = StartPlan("sandlock", ("/bin/true",), {}, "/", read, (), "/", (), 64 << 20, 1, 1, OPEN_FILES, 1.0)
    with contextlib.suppress(SandlockError, RuntimeError, OSError):
        _popen(plan, sorted(os.sched_getaffinity(0))[:1], bounded=bounded).wait()


def become(plan: StartPlan, processors: list[int], *, bounded: bool) -> int:
    """Start the server and supervise it until it ends. Returns its exit code. Raises OSError or sandlock's errors.

    `bounded`: a control group bounds the memory.
    """
    if not needs_supervisor(plan, bounded=bounded):
        _replace(plan)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for one in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(one, lambda *_: None)
    os.environ.clear()
    os.environ.update(plan.env)
    network = bool(plan.hosts)
    if _prepared is None:
        prepare(network)
    elif _prepared != network:
        raise OSError("the process was prepared for another server")
    try:
        process = _popen(plan, processors, bounded=bounded)
    except Exception:
        _check_hosts(plan.hosts)
        raise
    server = process.pid
    # The supervisor must close the pipes, because the hub reads them until all writers have closed them.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    ended = os.pidfd_open(server)
    while True:
        ready, _, _ = select.select([reading, ended], [], [])
        if ended in ready:
            return _exit_code(process.wait())
        if signal.SIGTERM in os.read(reading, 64):
            os.killpg(server, signal.SIGTERM)
        _reap_orphans(server)


def _check_hosts(hosts: tuple[str, ...]) -> None:
    """Raise OSError for a host that cannot be resolved. Sandlock would only say that it failed."""
    for host in hosts:
        name, _, port = host.rpartition(":")
        try:
            socket.getaddrinfo(name.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except OSError as cause:
            raise OSError(f"the host {name} of `hosts` cannot be found: {cause.strerror}") from None


def _replace(plan: StartPlan) -> None:
    """Replace this process by the contained server. Raises OSError or sandlock's errors."""
    from sandlock import confine

    if not _alone:
        _prepare_alone()
    # The launcher ends processes that the server leaves behind.
    ctypes.CDLL(None).prctl(_SET_SUBREAPER, 0, 0, 0, 0)
    confine(_rules(plan.read, plan.write))
    os.execve(plan.argv[0], plan.argv, plan.env)


def _prepare_alone() -> None:
    """Give up all rights that a server without a supervisor does not need. Raises OSError."""
    global _alone
    capabilities.drop_all()
    seccomp.install(filter_of_server())
    _alone = True


def _rules(read: tuple[str, ...], write: tuple[str, ...]) -> Sandbox:
    """The files of a server without a supervisor."""
    from sandlock import Sandbox

    facts = filter(os.path.exists, (*FACTS, *(f"/proc/self/{name}" for name in OWN_FACTS)))
    return Sandbox(fs_readable=[*read, *facts], fs_writable=[*write, *DEVICES])


@cache
def filter_of_server() -> bytes:
    """The system call filter for a server without a supervisor. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    refused = [*seccomp.METADATA, *seccomp.SHARED, *seccomp.OTHER_PROCESSES, *seccomp.LISTENING]
    return seccomp.program(on, refused, sockets=False)


def _popen(plan: StartPlan, processors: list[int], *, bounded: bool) -> Process:
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    from sandlock import Sandbox, StdioMode

    box = Sandbox(
        fs_readable=list(plan.read),
        fs_writable=[*plan.write, *DEVICES],
        fs_denied=[],
        net_allow=[f"tcp://{host}" for host in plan.hosts],
        net_deny=[],
        net_allow_bind=[],
        extra_deny_syscalls=[name for name in _REFUSED if number(name, on) is not None],
        extra_allow_syscalls=[],
        # To count memory, the supervisor must handle every `mmap`, `munmap` and `brk`.
        max_memory=None if bounded else plan.memory_bytes,
        max_processes=plan.processes,
        max_open_files=plan.open_files,
        cpu_cores=processors,
        no_coredump=True,
        clean_env=True,
        env=plan.env,
        cwd=plan.cwd,
        name=_name(os.getpid()),
    )
    process = box.popen(list(plan.argv), StdioMode.INHERIT, StdioMode.INHERIT, StdioMode.INHERIT)
    _check_filters(process)
    return process


def _check_filters(process: Process) -> None:
    """End a server that lacks sandlock's filter, or the fork filter of this process. Raises OSError."""
    try:
        if filters_of(process.pid) >= filters_of(os.getpid()) + 2:
            return
    except FileNotFoundError:  # The server has ended.
        return
    os.killpg(process.pid, signal.SIGKILL)
    raise OSError("the server has no filter of its own")


@cache
def filter_of_forks() -> bytes:
    """The system call filter for a server, not for its supervisor. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.without_openat2(on)


@cache
def filter_below(network: bool) -> bytes:
    """The system call filter for a supervisor and its server. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.program(on, network=network, supervised=True)


def forget(supervisor: int) -> None:
    """Remove the control socket of a supervisor that was killed."""
    shutil.rmtree(f"/dev/shm/sandlock-{os.getuid()}/{_name(supervisor)}", ignore_errors=True)  # noqa: S108 - its own


def _name(supervisor: int) -> str:
    return f"interlock-{supervisor}"


def _reap_orphans(server: int) -> None:
    """Reap orphans of the server. Sandlock itself reaps the server."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == server:
            return
        os.waitpid(found.si_pid, os.WNOHANG)


def _exit_code(result: object) -> int:
    code = getattr(result, "exit_code", 1)
    return code if isinstance(code, int) and 0 <= code <= 255 else 137
