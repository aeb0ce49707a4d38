"""The backend `sandlock`: Landlock for files, network and signals, and where needed a supervisor of system calls.

A server without `hosts` whose memory a control group bounds needs no supervisor: it has no sockets at all, and the
kernel alone contains it. For any other a process of its own answers system calls. It holds nothing but the server's
pipes, and has given up its capabilities before the server starts.
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
"""Refused to the server, not to its supervisor. Memory of a memfd belongs to no mapping that the supervisor counts."""


_prepared: bool | None = None
"""The network that this process was prepared for; None before that."""
_alone = False
"""Whether this process was prepared for a server without a supervisor."""


OWN_FACTS: Final = ("stat", "statm", "status", "maps", "cmdline", "limits")
"""The files that a process may read about itself. Its whole folder would show the connections of others too."""
FACTS: Final = tuple(f"/proc/{name}" for name in ("cpuinfo", "loadavg", "meminfo", "stat", "uptime", "version"))
"""The files that every process may read about the machine, as bubblewrap shows them too."""
_SET_SUBREAPER: Final = 36


def needs_supervisor(plan: StartPlan, *, bounded: bool) -> bool:
    """Whether the kernel alone does not suffice. `bounded`: a control group bounds the memory."""
    return bool(plan.hosts) or not bounded


def pin(server: int) -> list[int]:
    """Descriptors that keep the facts about a server in the kernel's memory. Landlock knows a file by its inode."""
    found = []
    for path in (*FACTS, *(f"/proc/{server}/{name}" for name in OWN_FACTS)):
        with contextlib.suppress(OSError):
            found.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
    return found


def prepare(network: bool) -> None:
    """Give up all rights that no server needs. Everything that this process starts inherits that. Raises OSError."""
    global _prepared
    if len(os.listdir("/proc/self/task")) != 1:
        raise OSError("a second thread would keep its rights")
    capabilities.drop_all()
    seccomp.install(filter_below(network))
    filter_forks(filter_of_forks())
    _prepared = network


def warm_up(network: bool, *, bounded: bool) -> None:
    """Do what needs no plan, and all else for nothing: at its first time it takes a process twice as long.

    A server without a supervisor gets its rules, which are not applied; one with a supervisor runs a program.
    """
    from sandlock.exceptions import SandlockError

    read = tuple(filter(os.path.exists, SYSTEM))
    if bounded and not network:
        _prepare_alone()
        with contextlib.suppress(AttributeError):  # it is not public
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
    # The supervisor must not keep the pipes open that the hub reads to the end.
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
    """Sandlock says only that it failed. Raises OSError for a host that cannot be found."""
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
    # Processes that the server leaves behind are the launcher's.
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
    """The filter of system calls for a server without a supervisor. The launcher makes it before servers start."""
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
        # To count memory, the supervisor answers every `mmap`, `munmap` and `brk`.
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
    """End a server that lacks the filter of sandlock, or that of this process for its forks. Raises OSError."""
    try:
        if filters_of(process.pid) >= filters_of(os.getpid()) + 2:
            return
    except FileNotFoundError:  # it has ended
        return
    os.killpg(process.pid, signal.SIGKILL)
    raise OSError("the server has no filter of its own")


@cache
def filter_of_forks() -> bytes:
    """The filter of system calls for a server, not for its supervisor. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.without_openat2(on)


@cache
def filter_below(network: bool) -> bytes:
    """The filter of system calls for a supervisor and its server. The launcher makes it before servers start."""
    on = machine()
    assert on is not None  # `backends.choose` has checked it
    return seccomp.program(on, network=network, supervised=True)


def forget(supervisor: int) -> None:
    """Remove the control socket that sandlock made for a supervisor which was killed."""
    shutil.rmtree(f"/dev/shm/sandlock-{os.getuid()}/{_name(supervisor)}", ignore_errors=True)  # noqa: S108 - its own


def _name(supervisor: int) -> str:
    return f"interlock-{supervisor}"


def _reap_orphans(server: int) -> None:
    """Reap what the server left to its supervisor. Its own end is sandlock's to see."""
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
