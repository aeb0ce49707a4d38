"""Credentials in command lines: `curl -u name:password`, `mysql -pPASSWORD`, `PGPASSWORD=x`, `--token x` and the like.

They have no form of their own, only a place. Ordinary prose has such places too, so these are looked for where hiding
too much does no harm: in the audit log and in logs, not in results.
"""

from __future__ import annotations

import re
from base64 import b64decode
from functools import lru_cache
from typing import Final

from interlock.judge.regexes import OctetRegexes

SHORTEST: Final = 5

_GAP = r"[\s\"',]+"
"""Between two words of a command, also where they are items of a JSON array."""
_REST = r"[^\n|;&]*?[\s\"',]"
"""The words between a program and its flag."""
_VALUE = r"(\"[^\"\n\f]+\"|'[^'\n\f]+'|[^\s\"']+)"
_FORMS: Final = (
    # name:password
    rf"(?:^|[\s\"',\[])(?:-[uU][\s\"',=]*|--(?:proxy-)?user(?:=|{_GAP})|-a{_GAP}|--auth(?:=|{_GAP}))"
    rf"[\"']?[^\s:\"']+:{_VALUE}",
    rf"(?:^|[\s\"',\[])(?:-U|--user)(?:=|{_GAP})?[^\s%\"']+%{_VALUE}",
    # programs with flags of their own
    rf"\b(?:mysql|mariadb|7z|7za|7zr|sshpass|xtrabackup|rar|unrar)[\w-]*\b{_REST}-p{_VALUE}",
    rf"\b(?:sshpass|mongo\w*|(?:docker|podman|az|oc|helm|skopeo|nerdctl){_GAP}(?:registry{_GAP})?login)\b{_REST}"
    rf"-p{_GAP}{_VALUE}",
    rf"\b(?:redis|valkey|keydb)-cli\b{_REST}(?:-a|--pass){_GAP}{_VALUE}",
    rf"\bldap\w+\b{_REST}-w{_GAP}{_VALUE}",
    rf"\b(?:zip|unzip){_GAP}(?:{_REST})?-P{_GAP}{_VALUE}",
    rf"\bhtpasswd\b{_REST}-\w*b\w*{_GAP}[^\s\"']+{_GAP}[^\s\"']+{_GAP}{_VALUE}",
    rf"\bpass:{_VALUE}",  # openssl
    # options and variables that are named like a secret
    r"(?i)(?:^|[\s\"',\[(])--?[\w-]*(?:password|passwd|passphrase|passcode|secret|token|api-?key|access-?key|credentials?)"
    rf"(?:=|{_GAP}){_VALUE}",
    r"\b(?:[A-Z][A-Z0-9_]*)?(?:PASSWORD|PASSWD|PASSPHRASE|PASS|_PWD|SECRET|TOKEN|API_?KEY|(?:ACCESS|SECRET|PRIVATE)_?KEY)"
    rf"={_VALUE}",
    r"\b[Bb]asic\s+([A-Za-z0-9+/_-]+={0,2})",
)  # fmt: skip
_BASIC: Final = len(_FORMS) - 1
_REFERENCE = re.compile(rb"[\"']?(?:\$\{?[A-Z_][A-Z0-9_]*\}?|%\w+%|<[^>]*>|\*+|-.*|//.*|\d{1,5})[\"',]*", re.DOTALL)
"""The name of a variable, a gap to fill in, another flag, the rest of an address, or a number of a group."""


def find_command_secrets(octets: bytes) -> list[tuple[int, int]]:
    """The places of credentials in a text, in octets. One of them may lie within another."""
    if len(octets) < SHORTEST:
        return []
    found = []
    for index, regex in _forms().matching(octets):
        for match in regex.finditer(octets):
            start, end = match.span(1)
            value = octets[start:end]
            if not _REFERENCE.fullmatch(value) and (index != _BASIC or _holds_password(value)):
                found.append((start, end))
    return found


def may_hold_command_secrets(octets: bytes) -> bool:
    """Whether a credential may be anywhere in these bytes."""
    return any(True for _ in _forms().matching(octets))


def _holds_password(value: bytes) -> bool:
    """Whether the text is `name:password` in Base64, and not a word after "basic"."""
    try:
        return b":" in b64decode(value + b"=" * (-len(value) % 4), altchars=b"-_" if b"-" in value else None)
    except ValueError:
        return False


@lru_cache(maxsize=1)
def _forms() -> OctetRegexes:
    return OctetRegexes(_FORMS)
