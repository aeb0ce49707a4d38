"""A filter of system calls for the processes that a C library forks from this one, but not for this one.

Sandlock forks the server itself. The C library calls back in the new process before sandlock continues there.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

from interlock.containment.seccomp import Installation

FAILED: Final = 126
"""Exit code of a process that could not be filtered."""
_REGISTER: Final = {"__register_atfork": 4, "pthread_atfork": 3}
"""The function of glibc, which programs link as `pthread_atfork`, and that of musl, with the number of arguments."""
_CALLBACK: Final = ctypes.CFUNCTYPE(None)

_kept: list[Any] = []
"""The callbacks. The C library calls them as long as this process lives."""


def filter_forks(filter: bytes) -> None:
    """Filter every process that C code forks from now on. It cannot be taken back. Raises OSError."""
    ready = Installation(filter)

    def in_child() -> None:
        try:
            ready.install()
        except BaseException:
            os._exit(FAILED)  # nobody above could stop the new process: it is C code that continues

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
