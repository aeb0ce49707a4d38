"""A system call filter for processes that a C library forks from this one, but not for this one.

Sandlock forks the server itself. The C library calls a registered function in the new process before sandlock
continues there.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

from interlock.containment.seccomp import SeccompFilter

FAILED: Final = 126
"""The exit code of a process that could not be filtered."""
_REGISTER: Final = {"__register_atfork": 4, "pthread_atfork": 3}
"""The functions of glibc, which programs link as `pthread_atfork`, and of musl, with their numbers of arguments."""
_CALLBACK: Final = ctypes.CFUNCTYPE(None)

_kept: list[Any] = []
"""The callbacks, kept alive because the C library may call them until this process ends."""


def filter_forks(filter: bytes) -> None:
    """Filter every process that C code forks from now on. This cannot be undone. Raises OSError."""
    ready = SeccompFilter(filter)

    def in_child() -> None:
        try:
            ready.install()
        except BaseException:
            os._exit(FAILED)  # C code continues in the new process, so an exception would not stop it.

    callback = _CALLBACK(in_child)
    library = ctypes.CDLL(None)
    for name, arguments in _REGISTER.items():
        if hasattr(library, name):
            if getattr(library, name)(None, None, callback, *[None] * (arguments - 3)) != 0:
                break
            _kept.append(callback)
            return
    raise OSError("the C library calls nothing in new processes")


def filters_of(pid: int) -> int:
    """How many filters a process has. Raises OSError."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("Seccomp_filters:"):
                return int(line.split()[1])
    raise OSError("the kernel does not count filters")
