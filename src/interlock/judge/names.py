"""Names of tools across servers: allowed characters, names that look alike, and the exposed name.

The identity of a tool is always `(server, name)`, so no server can answer for another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256

from interlock.judge.findings import Finding
from interlock.judge.text import judge_text, strip_hidden
from interlock.wire.unicode_forms import normalize

MAX_NAME_CHARS = 128
MAX_EXPOSED_CHARS = 48

RESERVED = frozenset(
    (
        "find_tools",
        "request_tools",
        "call_tool",
        "wait_for_events",
        "read_events",
        "mgp.tools.discover",
        "mgp_tools_discover",
        "mgp/tools/discover",
    )
)
"""Names of the hub's own tools and their aliases. A server's tool of such a name has its exposed name in every view."""


def judge_name(name: str) -> tuple[Finding, ...]:
    """The faults in the name of a tool, prompt or server."""
    if not name or len(name) > MAX_NAME_CHARS:
        return (
            Finding("name.length", f"A name has 1 to {MAX_NAME_CHARS} characters; this one has {len(name)}.", _HINT),
        )
    if found := judge_text(name):
        return found
    if match := _ODD.search(name):
        message = f"The name holds {match[0]!r}, which models and clients may take for something else."
        return (Finding("name.characters", message, _HINT, match.span()),)
    return ()


def judge_against(server: str, name: str, others: Iterable[tuple[str, str]]) -> tuple[Finding, ...]:
    """Whether a name could be mistaken for one that another server already offers. The same name is no mistake."""
    mine = skeleton(name)
    for other_server, other in others:
        if other_server != server and other != name and skeleton(other) == mine:
            message = f"{name!r} of {server} looks like {other!r} of {other_server}."
            return (Finding("name.lookalike", message, "Rename one of the two, or let the operator approve both."),)
    return ()


def skeleton(name: str) -> str:
    """The name with all look-alike characters made equal."""
    name = name[: 2 * MAX_NAME_CHARS]
    if name.isascii():
        return name.translate(_ASCII_TWINS)
    plain = normalize("NFKC", strip_hidden(name))
    decomposed = normalize("NFKD", plain.translate(_TWINS))
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return bare.translate(_TWINS).translate(_ASCII_TWINS)


def exposed_name(server: str, name: str) -> str:
    """The one name under which every client sees a tool: `server__tool`, marked by its identity if that is not exact.

    The name depends on nothing but the identity, so it never changes because other servers come and go.
    """
    plain = f"{_OUTSIDE.sub('_', server)}__{_OUTSIDE.sub('_', name)}"
    exact = plain == f"{server}__{name}" and len(plain) <= MAX_EXPOSED_CHARS
    ambiguous = "__" in server or "__" in name or server.endswith("_") or name.startswith("_")
    if exact and not ambiguous:
        return plain
    identity = f"{len(server)}:{server}{name}".encode("utf-8", "surrogatepass")
    return f"{plain[: MAX_EXPOSED_CHARS - 9]}_{sha256(identity).hexdigest()[:8]}"


_HINT = "Use letters, digits, _, - and . only."
_ODD = re.compile(r"[^A-Za-z0-9_./:\- ]")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_-]")
_ASCII_TWINS = str.maketrans({"0": "O", "1": "l", "I": "l", "|": "l", "5": "S"})
_TWINS = str.maketrans(
    "асеорхуіјѕһԁԛԝьАВСЕНІЈКМОРЅТХУҮԌοανρυικτΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսցհıłøđℓ‐‑‒–—−․⁄∕",
    "aceopxyijshdqwbABCEHIJKMOPSTXYYGoavpuiktABEZHIKMNOPTYXonughilodl------.//",
)
