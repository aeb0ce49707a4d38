"""Which network addresses are public, from a table of our own, in every notation an address can be written.

An address is public only if nothing in the table names it. Metadata services are a kind of their own, which no rule
allows.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from interlock.judge.findings import Finding

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = "metadata"
"""Metadata services of clouds. No rule allows them, because they hand out the credentials of the machine."""
INSTEAD_OF_METADATA = "Pass what is needed from it through the configuration."

_METADATA_ADDRESSES = (
    "169.254.169.254",  # AWS, Azure, Google, OpenStack, DigitalOcean, Hetzner, Oracle and most others
    "169.254.170.2",  # AWS ECS task credentials
    "169.254.170.23",  # AWS EKS pod identity
    "169.254.42.42",  # Scaleway
    "169.254.0.23",  # Tencent
    "169.254.10.10",  # Tencent
    "100.100.100.200",  # Alibaba
    "168.63.129.16",  # Azure wire server, inside a public range
    "192.0.0.192",  # Oracle Cloud classic
    "fd00:ec2::254",  # AWS
    "fd00:ec2::23",  # AWS EKS pod identity
    "fd20:ce::254",  # Google
    "fd00:42::42",  # Scaleway
    "fe80::a9fe:a9fe",  # OpenStack
)

_KINDS_V4 = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link_local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)

# Outside 2000::/3 nothing is public but NAT64, so these rows only give the rest its proper name.
_KINDS_V6 = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("64:ff9b:1::/48", "private"),
    ("100::/64", "reserved"),
    ("2001::/32", "tunnel"),
    ("2001:2::/48", "benchmarking"),
    ("2001:10::/28", "reserved"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "reserved"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link_local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)

MESSAGES = {
    METADATA: "is a cloud metadata service, which hands out credentials of the machine",
    "loopback": "is the machine itself",
    "private": "belongs to a private network",
    "shared": "belongs to a carrier's shared range",
    "link_local": "is only valid on the local link",
    "unspecified": "names no machine, and many systems take it for the machine itself",
    "multicast": "is a multicast group",
    "documentation": "is reserved for documentation",
    "benchmarking": "is reserved for benchmarks",
    "tunnel": "is a Teredo tunnel, whose end is not visible",
    "reserved": "is not in public use",
}


def read_address(text: str) -> Address | None:
    """The address that `text` means to some program: octal, hex, dotless, mapped, with zone, in full-width digits."""
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    if ":" in bare:
        bare = bare.partition("%")[0]
    try:
        return ip_address(bare)
    except ValueError:
        return _read_as_browsers_do(bare)


def kind_of(address: Address) -> str | None:
    """The purpose an address is reserved for; None if it is public."""
    if isinstance(address, IPv4Address):
        return _kind_v4(int(address))
    return _kind_v6(int(address))


def judge_address(address: Address, networks: tuple[str, ...] = (), shown: str = "") -> tuple[Finding, ...]:
    """Refuse an address that is not public unless the operator named its network. `shown` is how it was written."""
    kind = kind_of(address)
    if kind is None:
        return ()
    if kind != METADATA and networks and _inside(address, networks):
        return ()
    name = f"{shown} ({address})" if shown and shown != str(address) else str(address)
    hint = (
        INSTEAD_OF_METADATA
        if kind == METADATA
        else "Use a public address, or let the operator add its network to the allowed ones."
    )
    return (Finding(f"address.{kind}", f"{name} {MESSAGES[kind]}.", hint),)


def read_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    """The operator's networks. Raises ValueError with the offending text, for use when a configuration is read."""
    return tuple(ip_network(text, strict=False) for text in networks)


@lru_cache(maxsize=256)
def _networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return read_networks(networks)
    except ValueError:
        return ()


def _inside(address: Address, networks: tuple[str, ...]) -> bool:
    return any(address.version == network.version and address in network for network in _networks(networks))


def _read_as_browsers_do(text: str) -> Address | None:
    # The URL parser knows every notation; anything that would end the host early is not an address.
    if not text or len(text) > 255 or any(mark in text for mark in "/\\?#@ \t\r\n"):
        return None
    import ada_url

    try:
        host: str = ada_url.URL(f"http://{text}/").hostname
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _kind_v4(number: int) -> str | None:
    if number in _METADATA_V4:
        return METADATA
    row = bisect_right(_FIRSTS_V4, number) - 1
    return _ROWS_V4[row][2] if row >= 0 and number <= _ROWS_V4[row][1] else None


def _kind_v6(number: int) -> str | None:
    if number in _METADATA_V6:
        return METADATA
    row = bisect_right(_FIRSTS_V6, number) - 1
    if row >= 0 and number <= _ROWS_V6[row][1]:
        return _ROWS_V6[row][2]
    low = number & 0xFFFFFFFF
    top = number >> 32
    if top in (0xFFFF, 0x64_FF9B << 64):  # mapped, and NAT64 (RFC 6052): as good as the address inside
        return _kind_v4(low)
    if top in (0, 0xFFFF << 16):  # compatible and translated: nobody's public address, named by what they hide
        return _kind_v4(low) or "reserved"
    if number >> 112 == 0x2002:  # 6to4
        return _kind_v4((number >> 80) & 0xFFFFFFFF)
    if (number >> 32) & 0xFDFF_FFFF == 0x5EFE:  # ISATAP, in any prefix
        return _kind_v4(low)
    return None if number >> 125 == 0b001 else "reserved"


def _rows(table: tuple[tuple[str, str], ...]) -> list[tuple[int, int, str]]:
    rows = []
    for text, kind in table:
        network = ip_network(text)
        rows.append((int(network.network_address), int(network.broadcast_address), kind))
    return sorted(rows)


_ROWS_V4 = _rows(_KINDS_V4)
_ROWS_V6 = _rows(_KINDS_V6)
_FIRSTS_V4 = [first for first, _, _ in _ROWS_V4]
_FIRSTS_V6 = [first for first, _, _ in _ROWS_V6]
_METADATA_V4 = frozenset(int(ip_address(text)) for text in _METADATA_ADDRESSES if "." in text)
_METADATA_V6 = frozenset(int(ip_address(text)) for text in _METADATA_ADDRESSES if ":" in text)
