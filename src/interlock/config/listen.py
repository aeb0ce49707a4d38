"""The address that the hub listens on."""

from __future__ import annotations

import ipaddress

DEFAULT_LISTEN = "127.0.0.1:7420"


def split_listen(listen: str) -> tuple[str, int]:
    """`127.0.0.1:7420` or `[::1]:7420` as host and port. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address needs brackets")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError("host and port are needed")
    if len(port) > 5 or int(port) > 65_535:
        raise ValueError("a port is at most 65535")
    return host, int(port)


def names_this_machine(allowed: str) -> bool:
    """Whether a `Host` header names the loopback address."""
    host = allowed.rpartition(":")[0] if allowed.rpartition(":")[2].isdigit() else allowed
    return is_loopback(host.strip("[]"))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
