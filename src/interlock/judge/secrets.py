"""Secrets in text: recognised by the form their issuers give them, or by the name they are assigned to; and redacted.

Obvious placeholders are left alone.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from math import log2
from typing import NamedTuple

from interlock.judge.command_secrets import find_command_secrets, may_hold_command_secrets
from interlock.judge.findings import Finding
from interlock.judge.regexes import OctetRegexes

MAX_FINDINGS = 64
SHORTEST = 11
"""Octets of the shortest text that one of the forms matches: most names and words are shorter."""


class Secret(NamedTuple):
    """A secret and its place in the text."""

    kind: str
    start: int
    end: int


def find_secrets(text: str, most: int | None = 1024) -> tuple[Secret, ...]:
    """Every secret in the text, in order and without overlap; at most so many, or all."""
    octets = text.encode("utf-8", "replace")
    if len(octets) < SHORTEST:
        return ()
    found = []
    for index, regex in _forms().matching(octets):
        kind = FORMS[index][0]
        for match in regex.finditer(octets):
            start, end = match.span(1 if kind in _NAMED else 0)
            value = octets[start:end]
            if kind in _NAMED and not _is_secret(value.decode("utf-8", "replace"), guessed=kind == "assigned_secret"):
                continue
            found.append(Secret(kind, start, end))
            if most is not None and len(found) >= most:
                break
    return _placed(found, octets, ascii_only=len(octets) == len(text))


def may_hold_secrets(octets: bytes) -> bool:
    """Whether `redact` may find a secret anywhere in these bytes. Placeholders count, too."""
    return any(True for _ in _forms().matching(octets)) or may_hold_command_secrets(octets)


def redact(text: str) -> str:
    """The text with each secret, also those of command lines, replaced by its kind: `[secret: github_token]`."""
    octets = text.encode("utf-8", "replace")
    in_commands = [Secret("password", start, end) for start, end in find_command_secrets(octets)]
    parts = []
    at = 0
    for secret in _merged(find_secrets(text), _placed(in_commands, octets, ascii_only=len(octets) == len(text))):
        parts.append(text[at : secret.start])
        parts.append(f"[secret: {secret.kind}]")
        at = secret.end
    parts.append(text[at:])
    return "".join(parts)


def _merged(issued: tuple[Secret, ...], in_commands: tuple[Secret, ...]) -> list[Secret]:
    """All of them in order. A secret of a known kind is named by it, also where a command line has more around it."""
    merged: list[Secret] = []
    for secret in sorted((*issued, *in_commands), key=lambda secret: (secret.start, -secret.end)):
        if merged and secret.start < merged[-1].end:
            last = merged[-1]
            kind = secret.kind if last.kind == "password" else last.kind
            merged[-1] = Secret(kind, last.start, max(last.end, secret.end))
        else:
            merged.append(secret)
    return merged


def judge_secrets(text: str) -> tuple[Finding, ...]:
    """One finding for each secret; the secret itself is never part of the message."""
    return tuple(
        Finding(
            f"secret.{secret.kind}",
            f"The text holds what looks like a secret ({secret.kind.replace('_', ' ')}).",
            "Take it out, replace it at its issuer, and pass secrets by reference.",
            (secret.start, secret.end),
        )
        for secret in find_secrets(text)[:MAX_FINDINGS]
    )


FORMS = (
    ("private_key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|\z)"),
    ("interlock_key", r"\bilk_[A-Za-z0-9_\-]{43}"),
    ("aws_access_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})\b"),
    ("gitlab_token", r"\bgl(?:pat|ptt|dt|rt|soat|cbt)-[A-Za-z0-9_\-]{20,64}"),
    ("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,250}|\bxapp-[0-9]-[A-Za-z0-9\-]{20,200}"),
    ("slack_webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_\-]{20,120}"),
    ("discord_webhook", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[0-9]{15,20}/[A-Za-z0-9_\-]{50,80}"),
    ("stripe_key", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,247}\b|\bwhsec_[A-Za-z0-9+/]{24,64}"),
    ("google_key", r"\bAIza[A-Za-z0-9_\-]{35}\b|\bya29\.[A-Za-z0-9_\-]{20,400}|\bGOCSPX-[A-Za-z0-9_\-]{20,40}"),
    ("anthropic_key", r"\bsk-ant-[A-Za-z0-9_\-]{20,250}"),
    ("openai_key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_\-]{32,250}\b"),
    ("huggingface_token", r"\bhf_[A-Za-z0-9]{30,60}\b"),
    ("npm_token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi_token", r"\bpypi-[A-Za-z0-9_\-]{50,250}"),
    ("sendgrid_key", r"\bSG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,64}"),
    ("twilio_key", r"\b(?:SK|AC)[0-9a-f]{32}\b"),
    ("telegram_token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{32,35}\b"),
    ("discord_token", r"\b[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}\b"),
    ("digitalocean_token", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    ("databricks_token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    ("vault_token", r"\bhv[sbr]\.[A-Za-z0-9_\-]{24,300}"),
    ("shopify_token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b"),
    ("linear_key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,64}\b"),
    ("notion_token", r"\b(?:secret|ntn)_[A-Za-z0-9]{43,50}\b"),
    ("mailgun_key", r"\bkey-[0-9a-f]{32}\b"),
    ("azure_storage_key", r"\bAccountKey=[A-Za-z0-9+/]{80,90}={0,2}"),
    ("azure_signature", r"[?&]sig=[A-Za-z0-9%+/]{40,120}"),
    ("age_key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    ("json_web_token", r"\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}"),
    ("url_password", r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@\"'<>]{0,64}:([^\s/@\"'<>?#\\]{3,200})@[A-Za-z0-9\[]"),
    ("authorization", r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/\-]{12,}=*)"),
    ("bearer_token", r"\b[Bb]earer\s+([A-Za-z0-9._~+/\-]{20,}=*)"),
    (
        "assigned_secret",
        r"(?i)(?:passw(?:or)?d|passphrase|secret|api[_\-]?key|access[_\-]?key|auth[_\-]?token"
        r"|access[_\-]?token|private[_\-]?key|client[_\-]?secret|credential|encryption[_\-]?key)[A-Za-z0-9_\-]{0,20}[\"']?\s*(?::=|=>|[:=])\s*"
        r"[\"']?([^\"'\s,;<>(){}\[\]]{8,512})",
    ),
)  # fmt: skip
_NAMED = frozenset(("url_password", "authorization", "bearer_token", "assigned_secret"))
_PLACEHOLDER = re.compile(
    r"(?i)^(?:[x*.\-_#•]+|<.*>|\$?\{.*\}?|\$\w+|%\w+%|\[.*\]|your[\w\-]*|my[_\-]?\w*|example[\w\-]*|change[_\-]?me|placeholder"
    r"|pass(?:word|wd)?\d{0,3}|secret|token|redacted|null|none|undefined|true|false|string|env[.:].*|process\.env.*|os\.environ.*"
    r"|test\w*|dummy\w*|fake\w*|sample\w*|.*(?:example|placeholder|your[_\-]|xxxx|\.\.\.).*"
    r"|(?-i:(?:[A-Z]+_)+(?:TOKEN|SECRET|KEY|PASSWORD|CREDENTIALS?)))$"
)


@lru_cache(maxsize=1)
def _forms() -> OctetRegexes:
    return OctetRegexes(pattern for _, pattern in FORMS)


def _is_secret(value: str, guessed: bool) -> bool:
    """Whether the value behind a telling name is a secret, and not a placeholder or a word about one."""
    # The cheapest question first: most values are words, and a text may be full of them.
    if guessed and not (any(map(str.isdigit, value)) and any(map(str.isalpha, value))):
        return False
    if _PLACEHOLDER.match(value):
        return False
    if not guessed:
        return True
    counts = Counter(value)
    return -sum(count / len(value) * log2(count / len(value)) for count in counts.values()) > 2.8


def _placed(found: list[Secret], octets: bytes, ascii_only: bool) -> tuple[Secret, ...]:
    """In order, without overlap, and counted in characters instead of bytes."""
    placed: list[Secret] = []
    at_octet = at_char = last = 0
    for secret in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        if secret.start < last:
            continue
        last = secret.end
        if ascii_only:
            placed.append(secret)
            continue
        at_char += len(octets[at_octet : secret.start].decode("utf-8", "replace"))
        length = len(octets[secret.start : secret.end].decode("utf-8", "replace"))
        placed.append(Secret(secret.kind, at_char, at_char + length))
        at_octet, at_char = secret.end, at_char + length
    return tuple(placed)
