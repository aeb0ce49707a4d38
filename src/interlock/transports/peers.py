"""The user at the other end of a local socket, as the operating system reports it."""

from __future__ import annotations

import socket
import struct
import sys


def peer_uid(sock: socket.socket) -> int | None:
    """The user at the other end; None where the system does not say. Raises OSError if the peer has gone."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    if sys.platform == "darwin":
        # struct xucred of LOCAL_PEERCRED (SOL_LOCAL 0, option 1): version, uid, then the groups.
        raw = sock.getsockopt(0, 1, 76)
        return int(struct.unpack_from("=II", raw)[1])
    return None
