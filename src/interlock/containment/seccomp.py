"""The system call filter of every contained server, as a program for the kernel (seccomp BPF).

A backend isolates files, network and processes. The filter closes ways around that: limits and priorities of other
processes, keyrings, io_uring, namespaces, other socket families and protocols, connections without `connect`, and
unknown system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from interlock.containment.syscalls import LAST_KNOWN, Machine, number

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16

NEW_NAMESPACES: Final = 0x7E020000
"""Flags of `clone` that make a namespace."""
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
"""The allowed families. Others (vsock, packet, Bluetooth, SMC, …) ignore namespaces or Landlock."""
SOCK_STREAM, SOCK_SEQPACKET = 1, 5
PROTOCOLS: Final = {1: (0, 6), 2: (0, 17)}
"""Allowed protocols of an internet socket: TCP for streams, UDP for datagrams. Landlock checks no others, so multipath
TCP or SCTP would reach every host."""
_TYPE_BITS: Final = 0xF
"""The bits of a socket type. The other bits are flags of the descriptor."""
MSG_FASTOPEN: Final = 0x20000000
"""The flag that connects while sending, without a `connect` that could be checked."""
SENDING: Final = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""The argument positions of the flags."""
IPPROTO_TCP: Final = 6
TCP_OPTIONS: Final = (23, 30, 31)
"""TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, and TCP_ULP, which replaces the protocol below the socket."""
TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal."""

ALWAYS: Final = [
    "add_key",
    "request_key",
    "keyctl",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "mount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "setns",
    "unshare",
    "chroot",
    "swapon",
    "swapoff",
    "reboot",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "sethostname",
    "setdomainname",
    "lookup_dcookie",
    "name_to_handle_at",
    "open_by_handle_at",
    "fanotify_init",
    "fanotify_mark",
    "migrate_pages",
    "move_pages",
    "kcmp",
    "vhangup",
    "iopl",
    "ioperm",
    "modify_ldt",
    "memfd_secret",
    "mq_open",
    "mq_unlink",
    "ioprio_set",
]
"""System calls that are refused with every backend, also to a supervisor."""

SHARED: Final = [
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semctl",
    "semop",
    "semtimedop",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
]
"""Shared memory and queues of System V. The supervisor of sandlock needs them."""

OTHER_PROCESSES: Final = [
    "sched_setaffinity",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "process_madvise",
    "process_mrelease",
]
"""Refused to every server. The processor set limits processor time, so a server must not change it."""

LISTENING: Final = ["listen"]
"""Refused to every server: `listen` without `bind` gets a port, so no `bind` would be checked."""

METADATA: Final = [
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "file_setattr",
    "inotify_add_watch",
]
"""Calls that Landlock does not check, so that they would reach files outside the named folders."""


SET_ID_BITS: Final = 0o6000
"""The set-user-ID and set-group-ID bits. A server's files belong to the hub's user, so whoever runs such a file outside
would get that user's rights."""
MODES: Final = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""The argument positions of the mode."""
OPENING: Final = {"open": 1, "openat": 2}
"""The argument positions of the flags. The mode follows, and counts only if a file is created."""
MAKES_A_FILE: Final = 0x400040
"""O_CREAT, and the bit that only O_TMPFILE has."""


Line = tuple[int, int, int, int]
_PASS: Final[Line] = (_RETURN, 0, 0, ALLOW)


def _fail(code: int) -> Line:
    return (_RETURN, 0, 0, _ERRNO | code)


def program(
    machine: Machine,
    refused: Iterable[str] = (),
    *,
    network: bool = False,
    sockets: bool = True,
    supervised: bool = False,
) -> bytes:
    """The filter: `ALWAYS`, `refused`, and calls refused by their arguments. Internet sockets need `network`.

    Without `sockets` there are none, only connected pairs that cannot send elsewhere. A filter of a `supervised` server
    is that of its supervisor too, which opens files with `openat2`: such a server needs `without_openat2` as well.
    """
    lines = [*_known(machine), (_AT_LEAST, 0, 1, LAST_KNOWN + 1), _fail(errno.ENOSYS)]
    # The C library falls back to `clone`, whose flags are a register and not memory that another thread can change.
    lines += _refuse(number("clone3", machine), errno.ENOSYS)
    if not supervised:
        lines += _openat2(machine)
    for name in (*ALWAYS, *refused):
        lines += _refuse(number(name, machine), errno.EPERM)
    for name, position in MODES.items():
        mode = _ARGS_AT + 8 * position
        lines += _for(number(name, machine), [_load(mode), (_ANY_BIT, 1, 0, SET_ID_BITS), *_either()])
    for name, position in OPENING.items():
        lines += _for(number(name, machine), _new_files(_ARGS_AT + 8 * position))
    own_process = [_load(_ARGS_AT), (_EQUAL, 0, 1, 0), *_either()]
    for name in ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        lines += _for(number(name, machine), own_process)
    lines += _for(number("setpriority", machine), _own_priority())
    lines += _for(number("clone", machine), [_load(_ARGS_AT), (_ANY_BIT, 1, 0, NEW_NAMESPACES), *_either()])
    if sockets:
        lines += _for(number("socket", machine), _sockets(network))
        lines += _for(number("socketpair", machine), [_load(_ARGS_AT), *_one_of((AF_UNIX,), errno.EAFNOSUPPORT)])
    else:
        lines += _refuse(number("socket", machine), errno.EAFNOSUPPORT)
        lines += _for(number("socketpair", machine), _connected_pairs())
    for name, position in SENDING.items():
        flags = _ARGS_AT + 8 * position
        lines += _for(number(name, machine), [_load(flags), (_ANY_BIT, 1, 0, MSG_FASTOPEN), *_either()])
    lines += _for(number("setsockopt", machine), _socket_options())
    lines += _for(number("ioctl", machine), [_load(_ARGS_AT + 8), *_none_of(TERMINAL_INPUT)])
    return _packed(lines)


def without_openat2(machine: Machine) -> bytes:
    """The filter that refuses `openat2` alone."""
    return _packed([*_known(machine), *_openat2(machine)])


def _packed(lines: list[Line]) -> bytes:
    """The packed program. It allows every call that no earlier line has decided."""
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, _PASS])


def _known(machine: Machine) -> list[Line]:
    """Kill on a call of another architecture, and load the number of the call."""
    return [_load(_ARCH_AT), (_EQUAL, 1, 0, machine.audit), (_RETURN, 0, 0, KILL), _load(_NUMBER_AT)]


def _openat2(machine: Machine) -> list[Line]:
    """Refuse `openat2`: it passes the mode in memory, which no filter can read. Callers fall back to `openat`."""
    return _refuse(number("openat2", machine), errno.ENOSYS)


def _load(offset: int) -> Line:
    return (_LOAD, 0, 0, offset)


def _refuse(call: int | None, code: int) -> list[Line]:
    return [] if call is None else [(_EQUAL, 0, 1, call), _fail(code)]


def _for(call: int | None, lines: list[Line]) -> list[Line]:
    """Check one call by its arguments. The lines must return on every path, because they overwrite the number."""
    return [] if call is None else [(_EQUAL, 0, len(lines), call), *lines]


def _either() -> list[Line]:
    return [_PASS, _fail(errno.EPERM)]


def _new_files(flags: int) -> list[Line]:
    return [
        _load(flags),
        (_ANY_BIT, 1, 0, MAKES_A_FILE),
        _PASS,
        _load(flags + 8),
        (_ANY_BIT, 1, 0, SET_ID_BITS),
        *_either(),
    ]


def _own_priority() -> list[Line]:
    """Allow only `setpriority(PRIO_PROCESS, 0, …)`. Every other form reaches other processes of the user."""
    return [
        _load(_ARGS_AT),
        (_EQUAL, 0, 3, 0),
        _load(_ARGS_AT + 8),
        (_EQUAL, 0, 1, 0),
        *_either(),
    ]


def _sockets(network: bool) -> list[Line]:
    """Allow Unix sockets, route queries, and with `network` the protocols that a backend checks."""
    family, type_, protocol = (_ARGS_AT + 8 * position for position in range(3))
    lines = [_load(family), (_EQUAL, 0, 1, AF_UNIX), _PASS]
    # NETLINK_ROUTE is 0. Other protocols list connections of other processes, for example.
    routes = [_load(protocol), *_one_of((0,), errno.EPROTONOSUPPORT)]
    lines += [(_EQUAL, 0, len(routes), AF_NETLINK), *routes]
    if network:
        inner = [_load(type_), (_AND, 0, 0, _TYPE_BITS)]
        for kind, protocols in PROTOCOLS.items():
            judged = [_load(protocol), *_one_of(protocols, errno.EPROTONOSUPPORT)]
            inner += [(_EQUAL, 0, len(judged), kind), *judged]
        inner.append(_fail(errno.EPROTONOSUPPORT))
        lines += [(_EQUAL, 1, 0, AF_INET), (_EQUAL, 0, len(inner), AF_INET6), *inner]
    lines.append(_fail(errno.EAFNOSUPPORT))
    return lines


def _connected_pairs() -> list[Line]:
    """Allow socket pairs of streams and ordered packets. A datagram pair could send to any socket by its path."""
    kind = [_load(_ARGS_AT + 8), (_AND, 0, 0, _TYPE_BITS), *_one_of((SOCK_STREAM, SOCK_SEQPACKET), errno.EPROTOTYPE)]
    return [_load(_ARGS_AT), (_EQUAL, 0, len(kind), AF_UNIX), *kind, _fail(errno.EAFNOSUPPORT)]


def _socket_options() -> list[Line]:
    level, option = _ARGS_AT + 8, _ARGS_AT + 16
    return [
        _load(level),
        (_EQUAL, 1, 0, IPPROTO_TCP),
        _PASS,
        _load(option),
        *_none_of(TCP_OPTIONS),
    ]


def _one_of(values: tuple[int, ...], code: int) -> Iterator[Line]:
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield (_EQUAL, left, 0, value)
    yield _fail(code)
    yield _PASS


def _none_of(values: tuple[int, ...]) -> Iterator[Line]:
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield (_EQUAL, left, 0, value)
    yield from _either()


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_void_p))


class SeccompFilter:
    """A filter that is ready for the kernel. Installing it allocates no memory and takes no lock of the C library."""

    def __init__(self, filter: bytes) -> None:
        self._text = ctypes.create_string_buffer(filter, len(filter))
        self._lines = _Program(len(filter) // 8, ctypes.addressof(self._text))
        self._library = ctypes.CDLL(None, use_errno=True)

    def install(self) -> None:
        """Apply the filter to this thread and everything it will start. Raises OSError."""
        no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
        for call in ((no_new_privileges, 1, 0, 0, 0), (set_seccomp, filter_mode, ctypes.byref(self._lines), 0, 0)):
            if self._library.prctl(*call) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))


def install(filter: bytes) -> None:
    """Apply a filter to this process and everything it will start. Raises OSError."""
    SeccompFilter(filter).install()
