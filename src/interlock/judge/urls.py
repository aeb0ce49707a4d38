"""Where a URL really leads, parsed as browsers parse it (WHATWG), judged before anything is resolved or opened.

Nothing here resolves a name. The caller resolves `names_to_resolve`, has the answers judged with `judge_resolved`,
connects to a judged address and to no other, and asks `judge_redirect` at every hop.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from interlock.judge.addresses import INSTEAD_OF_METADATA, Address, judge_address, read_address
from interlock.judge.findings import Finding
from interlock.judge.regexes import find_in_pieces

MAX_URL_CHARS = 16_384

# Ports that no browser will fetch from (the Fetch standard's list), and two databases that answer to anything.
_BAD_PORTS = """
    0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135
    137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719
    1720 1723 2049 3659 4045 4190 5060 5061 6000 6379 6566 6665 6666 6667 6668 6669 6679 6697 10080 11211
"""
BAD_PORTS = frozenset(map(int, _BAD_PORTS.split()))

METADATA_NAMES = frozenset(
    (
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.ec2.internal",
        "metadata.tencentyun.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.service.consul",
        "instance-data",
        "instance-data.ec2.internal",
    )
)

# Names of the machine itself or of a private network. A name without a dot is refused too: no public name lacks one.
_LOCAL = """
    localhost localdomain localdomain4 localdomain6 localnet local internal intranet lan home corp private home.arpa svc
    consul in-addr.arpa ip6.arpa invalid onion fritz.box
"""
_LOCAL_SUFFIXES = frozenset(_LOCAL.split())

# Services that answer with whatever address the name spells, or always with the machine itself.
_ANY_ADDRESS = """
    nip.io sslip.io xip.io xip.name 1u.ms rbndr.us rebind.it lvh.me localtest.me vcap.me lacolhost.com localho.st fuf.me
    local.gd traefik.me
"""
_ANY_ADDRESS_SUFFIXES = frozenset(_ANY_ADDRESS.split())


class UrlRules(msgspec.Struct, frozen=True):
    """The rules for URLs. The defaults are right for a URL that came from outside."""

    schemes: tuple[str, ...] = ("http", "https")
    ports: tuple[int, ...] | None = None
    """Only these ports; None means any but those that no browser fetches from."""
    credentials: bool = True
    """Whether `user:password@` may stand before the host."""
    hosts: tuple[str, ...] | None = None
    """Only these names and addresses (`*.example.com` for names below one); None means any public one."""
    allowed_names: tuple[str, ...] = ()
    """Local names that the operator vouches for. They are still resolved, and their addresses judged by `networks`."""
    networks: tuple[str, ...] = ()
    """Networks that the operator vouches for, as CIDR. Metadata addresses stay refused."""
    most_redirects: int = 5


DEFAULT_RULES = UrlRules()


def judge_url(url: str, rules: UrlRules = DEFAULT_RULES) -> tuple[Finding, ...]:
    """Everything that is wrong with the URL before its name is resolved."""
    found = _judge_url(url, rules)
    return found and tuple(msgspec.structs.replace(each, span=_place(url, each.rule)) for each in found)


def _judge_url(url: str, rules: UrlRules) -> tuple[Finding, ...]:
    if len(url) > MAX_URL_CHARS:
        return (Finding("url.too_long", f"The URL has {len(url)} characters.", f"Keep it under {MAX_URL_CHARS}."),)
    parsed = _parse(url, None)
    if parsed is None:
        return (Finding("url.invalid", "This is not a URL that a browser would open.", "Write https://host/path."),)
    if parsed.scheme not in rules.schemes:
        allowed = ", ".join(rules.schemes)
        return (Finding("url.scheme", f"The scheme {parsed.scheme}: is not allowed.", f"Use one of: {allowed}."),)
    found = list(_judge_host(parsed.host, rules))
    if not url.isprintable() and _CONTROLS.search(url.strip(_STRIPPED)):
        found.append(
            Finding("url.control", "The URL holds control characters, which programs read differently.", _ENCODE)
        )
    if parsed.port is not None:
        found.extend(_judge_port(parsed.port, rules))
    if parsed.userinfo:
        found.extend(_judge_userinfo(parsed.userinfo, rules))
    if "@" in url and ("\\" in url or "#" in url or "?" in url):
        found.extend(_judge_authority(url))
    return tuple(found)


def names_to_resolve(url: str) -> tuple[str, ...]:
    """The names whose addresses the caller must have judged before it connects: none for an address, one otherwise."""
    parsed = _parse(url, None) if len(url) <= MAX_URL_CHARS else None
    if parsed is None or not parsed.host or _address_of(parsed.host) is not None:
        return ()
    return (parsed.host.rstrip("."),)


def judge_resolved(name: str, addresses: tuple[str, ...], rules: UrlRules = DEFAULT_RULES) -> tuple[Finding, ...]:
    """Every address that a name resolved to must be allowed: one bad one refuses the name."""
    if not addresses:
        return (Finding("url.unresolved", f"{name} does not resolve.", "Check the spelling of the name."),)
    found: list[Finding] = []
    for text in addresses:
        address = read_address(text)
        if address is None:
            found.append(Finding("url.unresolved", f"{name} resolves to {text!r}, which is not an address."))
        else:
            found.extend(judge_address(address, rules.networks, shown=name))
    return tuple(found)


def judge_redirect(
    url: str, location: str, rules: UrlRules = DEFAULT_RULES, hop: int = 1
) -> tuple[str, tuple[Finding, ...]]:
    """The URL that `location` means when `url` redirects to it (empty if none), and what is wrong with it."""
    if hop > rules.most_redirects:
        message = f"More than {rules.most_redirects} redirects."
        return "", (Finding("url.redirects", message, "Ask for the final address directly."),)
    if len(location) > MAX_URL_CHARS or len(url) > MAX_URL_CHARS:
        return "", judge_url(location + " " * MAX_URL_CHARS, rules)
    target = _parse(location, url)
    if target is None:
        return "", (Finding("url.invalid", "The redirect leads to something that is not a URL."),)
    # The text as sent is judged too: a laxer client may read it differently.
    absolute = _parse(location, None) is not None
    found = judge_url(location if absolute else target.href, rules)
    return target.href, found


def judge_urls_in_text(text: str, rules: UrlRules = DEFAULT_RULES) -> tuple[Finding, ...]:
    """Judge each URL that stands inside a longer text; spans are places in that text."""
    found = []
    for match in find_in_pieces(_BARE_METADATA, text, _REACH):
        message = f"{match[1]} is a cloud metadata service, which hands out credentials of the machine."
        found.append(Finding("address.metadata", message, INSTEAD_OF_METADATA, match.span()))
        if len(found) >= _MAX_FINDINGS:
            return tuple(found)
    for start, end in urls_in_text(text):
        for finding in judge_url(text[start:end], rules):
            found.append(msgspec.structs.replace(finding, span=(start, end)))
            if len(found) >= _MAX_FINDINGS:
                return tuple(found)
    return tuple(found)


def urls_in_text(text: str) -> tuple[tuple[int, int], ...]:
    """Where URLs stand in a text, as places in it. Punctuation that ends a sentence is not part of a URL."""
    places = []
    for match in find_in_pieces(_URL_IN_TEXT, text, _REACH):
        start, end = match.span()
        while end > start and text[end - 1] in ".,;:!?'\")>*_`" and not _closes_bracket(text, start, end):
            end -= 1
        places.append((start, end))
        if len(places) >= _MAX_FINDINGS:
            break
    return tuple(places)


class _Parsed(NamedTuple):
    href: str
    scheme: str
    userinfo: str
    host: str
    port: int | None


_MAX_FINDINGS = 1000
_REACH = 4_200
"""No URL that is found in a text is longer."""
_ENCODE = "Percent-encode them, or leave them out."
_STRIPPED = "".join(map(chr, range(33)))
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_URL_IN_TEXT = re.compile(
    r"(?i)(?<![a-z0-9+.\-])(?:[a-z][a-z0-9+.\-]{0,30}:[/\\]{2}|https?:[/\\]?(?=[\w\[]))[^\s<>\"`]{1,4096}"
)
# Without a scheme only an address that nothing allows is taken for a URL, and only with a path or port behind it.
_BARE_METADATA = re.compile(
    r"(?<![\w./:@\-])(169\.254\.16[89]\.\d{1,3}|169\.254\.170\.2|100\.100\.100\.200|metadata\.google\.internal)"
    r"(?=:\d|/(?!\d{1,3}\b(?!/)))"
)
_USERINFO_TRICK = re.compile(r"[\[\]\\/?#;\s\x00-\x1f]")


def _parse(url: str, base: str | None) -> _Parsed | None:
    import ada_url

    try:
        href = ada_url.normalize_url(url) if base is None else ada_url.join_url(base, url)
    except ValueError:  # UnicodeEncodeError, for lone surrogates, is one too
        return None
    scheme, _, rest = href.partition(":")
    if not rest.startswith("//"):
        return _Parsed(href, scheme, "", "", None)
    authority = rest[2:].partition("/")[0].partition("?")[0].partition("#")[0]
    userinfo, _, host = authority.rpartition("@")
    port = None
    if not host.endswith("]"):
        bare, colon, digits = host.rpartition(":")
        if colon and digits.isdigit():
            host, port = bare, int(digits)
    return _Parsed(href, scheme, userinfo, host, port)


def _judge_host(host: str, rules: UrlRules) -> tuple[Finding, ...]:
    if not host:
        return (Finding("url.invalid", "The URL names no host.", "Write https://host/path."),)
    if (address := _address_of(host)) is not None:
        found = judge_address(address, rules.networks, shown=host)
        if not found and rules.hosts is not None and not _listed(str(address), rules.hosts):
            return (Finding("url.host", f"{host} is not among the allowed hosts.", "Use an allowed host."),)
        return found
    name = host.lower().rstrip(".")
    if name in METADATA_NAMES:
        message = f"{name} is a cloud metadata service, which hands out credentials of the machine."
        return (Finding("address.metadata", message, INSTEAD_OF_METADATA),)
    if rules.hosts is not None and not _listed(name, rules.hosts):
        return (Finding("url.host", f"{name} is not among the allowed hosts.", "Use an allowed host."),)
    if rules.allowed_names and _listed(name, rules.allowed_names):
        return ()
    return _judge_name(name)


def _address_of(host: str) -> Address | None:
    # The parser has made every notation plain: a host that ends in a letter is a name, and needs no closer look.
    if host[-1].isalpha() and host.isascii() and "%" not in host and host[1:2] not in ("x", "X"):
        return None
    return read_address(host)


@lru_cache(maxsize=2048)
def _judge_name(name: str) -> tuple[Finding, ...]:
    labels = name.split(".")
    hint = "Use a public name, or let the operator allow this one."
    if any(not label or len(label) > 63 for label in labels) or len(name) > 253:
        return (Finding("url.invalid", f"{name[:80]} is not a name that can be resolved.", "Check the spelling."),)
    if len(labels) == 1:
        return (Finding("url.local_name", f"{name} has no dot, so it names a machine of a private network.", hint),)
    if any(".".join(labels[at:]) in _LOCAL_SUFFIXES for at in range(len(labels))):
        return (Finding("url.local_name", f"{name} names the machine itself or a private network.", hint),)
    if any(".".join(labels[at:]) in _ANY_ADDRESS_SUFFIXES for at in range(len(labels))):
        return (Finding("url.any_address_name", f"{name} resolves to whatever address it spells.", hint),)
    return ()


def _listed(name: str, patterns: tuple[str, ...]) -> bool:
    for pattern in patterns:
        wanted = pattern.lower().rstrip(".")
        if name == wanted or (wanted.startswith("*.") and name.endswith(wanted[1:]) and len(name) >= len(wanted)):
            return True
    return False


def _judge_port(port: int, rules: UrlRules) -> tuple[Finding, ...]:
    if rules.ports is not None:
        if port in rules.ports:
            return ()
        allowed = ", ".join(map(str, rules.ports))
        return (Finding("url.port", f"Port {port} is not allowed.", f"Use one of: {allowed}."),)
    if port in BAD_PORTS:
        return (Finding("url.port", f"Port {port} belongs to something that is not a web server.", "Use a web port."),)
    return ()


def _judge_userinfo(userinfo: str, rules: UrlRules) -> tuple[Finding, ...]:
    if not rules.credentials:
        return (Finding("url.credentials", "The URL carries a user name or password.", "Leave them out of the URL."),)
    # A careless parser takes the part before the @ for the host, so it must not look like one.
    plain = unquote(userinfo)
    whole = plain.strip("[];:/\\?# ")
    pieces = {whole, *(piece.strip("[];/\\?# ") for piece in re.split(r"[@:;\\/?#]", plain))}
    if _looks_like_host_syntax(userinfo) or any(_would_be_refused(piece) for piece in pieces if piece):
        message = "The text before the @ could be taken for the host."
        return (Finding("url.ambiguous", message, "Leave out what stands before the @."),)
    return ()


def _looks_like_host_syntax(userinfo: str) -> bool:
    name = unquote(userinfo.partition(":")[0])
    return bool(_USERINFO_TRICK.search(name))


def _would_be_refused(piece: str) -> bool:
    if not piece or (piece.isdigit() and len(piece) < 8):  # a short number is a password far more often than an address
        return False
    address = read_address(piece) if piece[0].isdigit() or ":" in piece or not piece.isascii() else None
    if address is not None:
        return bool(judge_address(address))
    name = piece.lower().rstrip(".")
    return name in METADATA_NAMES - {"metadata"} or name == "localhost" or ("." in name and bool(_judge_name(name)))


def _judge_authority(url: str) -> tuple[Finding, ...]:
    """Whether a program that does not end the host where a browser does would go somewhere else.

    A browser ends it at \\, # and ?; some programs read on to the @, and take what follows for the host.
    """
    authority = url.partition("//")[2].partition("/")[0]
    before, at, after = authority.rpartition("@")
    if not at or not re.search(r"[\\#?]", before):
        return ()
    if "\\" in before or _would_be_refused(re.split(r"[\\?#:]", after)[0].strip("[]") or "."):
        return (Finding("url.ambiguous", "The part before the @ hides where this leads.", _ENCODE),)
    return ()


_PARTS = re.compile(r"\s*([A-Za-z][\w+.\-]*:)?[/\\\s]*(?:([^/\\?#]*)@)?([^/\\?#]*?)(?::(\d*)\s*)?(?=[/\\?#]|$)")
"""Roughly what a browser takes for scheme, user, host and port."""


def _place(url: str, rule: str) -> tuple[int, int]:
    """The part of a URL that a rule is about; all of it when that cannot be told."""
    if rule == "url.control" and (control := _CONTROLS.search(url.strip(_STRIPPED))):
        lead = len(url) - len(url.lstrip(_STRIPPED))
        return control.start() + lead, control.end() + lead
    parts = _PARTS.match(url[:MAX_URL_CHARS])
    group = {"url.scheme": 1, "url.credentials": 2, "url.ambiguous": 2, "url.port": 4}.get(
        rule, 3 if rule.startswith("address.") or rule in _ABOUT_HOST else 0
    )
    if parts is None or not group or not parts[group]:
        return 0, len(url)
    return parts.span(group)


_ABOUT_HOST = frozenset({"url.host", "url.local_name", "url.any_address_name"})


def _closes_bracket(text: str, start: int, end: int) -> bool:
    return text[end - 1] == ")" and text.count("(", start, end) >= text.count(")", start, end)
