"""Masks secrets and chosen patterns in text that a model or a server would read: `[masked: github_token]`.

`Masker.mask` takes a whole text. `MaskedStream` takes it in pieces and gives out the same text, piece by piece: it
holds back the end of a piece while a secret may go on in the next. Pure: neither knows where a text comes from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from interlock.judge.regexes import RegexError, compile_regex
from interlock.judge.secrets import Secret, find_secrets

MAX_OWN_MATCH_CHARS: Final = 4096
"""Characters that a stream holds back for expressions of the operator. A longer match may be found in parts."""
MAX_HELD_CHARS: Final = 65_536
"""Characters of one word that a stream holds back. A longer word is given out unless it begins like a token."""
MAX_NAME_CHARS: Final = 40
MAX_KEY_END_CHARS: Final = 80

KNOWN: Final[Mapping[str, str]] = {
    "email": r"\b[A-Za-z0-9._%+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){0,8}\.[A-Za-z]{2,24}\b",
    "card": r"\b[0-9](?:[ \-]?[0-9]){12,18}\b",
}
"""Patterns that an operator can choose by name."""


class MaskedText(NamedTuple):
    """A text without what was masked, and how much was masked by kind."""

    text: str
    counts: Mapping[str, int]


class Masker:
    """The values to mask: secrets of every known form, the named patterns, and expressions of the operator."""

    def __init__(self, named: Iterable[str] = (), own: Mapping[str, str] | None = None) -> None:
        """`own` has expressions by the name that is shown in their place. Raises RegexError."""
        unknown = sorted(set(named) - KNOWN.keys())
        if unknown:
            raise RegexError(f"There is no pattern named {unknown[0]}; there are {', '.join(KNOWN)}.")
        self._patterns = [(name, compile_regex(KNOWN[name])) for name in KNOWN if name in set(named)]
        self._patterns += [(name, compile_regex(text)) for name, text in (own or {}).items()]
        self.held_for_own = MAX_OWN_MATCH_CHARS if own else 0
        """Characters that a stream must hold back in any case."""

    def mask(self, text: str) -> MaskedText:
        """Mask a whole text."""
        found = self.find(text)
        if not found:
            return MaskedText(text, {})
        return MaskedText(_replaced(text, found, 0, len(text)), Counter(each.kind for each in found))

    def mask_value(self, value: object) -> tuple[object, Counter[str]]:
        """Mask every text in a JSON value, the names of members included. A name can make its value a secret."""
        counts: Counter[str] = Counter()
        return self._masked(value, counts), counts

    def find(self, text: str) -> list[Secret]:
        """Everything that is to be masked, in order and without overlap."""
        found = list(find_secrets(text, None))
        for name, regex in self._patterns:
            spans = regex.spans(text)
            found += [Secret(name, *span) for span in spans if name != "card" or _is_card(text[slice(*span)])]
        if not self._patterns:
            return found
        placed: list[Secret] = []
        for each in sorted(found, key=lambda each: (each.start, -each.end)):
            if each.end == each.start:
                continue
            if placed and each.start < placed[-1].end:
                # Two overlap: all that either covers is masked.
                placed[-1] = placed[-1]._replace(end=max(placed[-1].end, each.end))
            else:
                placed.append(each)
        return placed

    def _masked(self, value: object, counts: Counter[str], name: str = "") -> object:
        if isinstance(value, str):
            masked = self.mask(value)
            counts.update(masked.counts)
            if not masked.counts and name and self._is_named_secret(name, value):
                counts["assigned_secret"] += 1
                return shown("assigned_secret")
            return masked.text
        if isinstance(value, dict):
            return {self._masked(key, counts): self._masked(each, counts, str(key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._masked(each, counts, name) for each in value]
        if isinstance(value, int) and not isinstance(value, bool) and self._patterns:
            masked = self.mask(str(value))
            counts.update(masked.counts)
            return masked.text if masked.counts else value
        return value

    def _is_named_secret(self, name: str, value: str) -> bool:
        """Whether a member with this name and value is a secret, as `name="value"` would be in a text."""
        return any(each.kind == "assigned_secret" for each in find_secrets(f'{name[-MAX_NAME_CHARS:]}="{value[:512]}"'))


class MaskedStream:
    """Masks a text that comes in pieces. The pieces that it gives out make the text that `Masker.mask` would."""

    def __init__(self, masker: Masker) -> None:
        self.counts: Counter[str] = Counter()
        self._masker = masker
        self._before = ""
        """The last character that left the buffer: whether a word begins depends on it."""
        self._tail = ""
        self._skipping: re.Pattern[str] | None = None
        """Where the secret ends whose beginning was masked already."""

    def feed(self, piece: str) -> str:
        """Take the next piece. Returns the text that can be shown by now."""
        self._tail += piece
        if not self._skip() or not self._tail:
            return ""
        found, before = self._find(), self._tail
        text = self._give(found, self._safe_end(found))
        if self._skipping is not None:
            # The mark of a secret's end may be split as well.
            self._tail = before[-MAX_KEY_END_CHARS:]
        return text

    def end(self) -> str:
        """The rest, when no more pieces come."""
        return self._give(self._find(), len(self._tail)) if self._skip() else ""

    def _find(self) -> list[Secret]:
        at = len(self._before)
        found = self._masker.find(self._before + self._tail)
        return [Secret(each.kind, max(0, each.start - at), each.end - at) for each in found if each.end > at]

    def _safe_end(self, found: list[Secret]) -> int:
        """The number of characters that can leave the buffer: no match that begins in them continues in the next
        piece."""
        tail = self._tail
        last = found[-1] if found else None
        if last is not None and last.kind == "private_key" and last.end == len(tail) and not _KEY_END.search(tail):
            self._skipping = _KEY_END
            return last.end
        end = len(tail) - self._masker.held_for_own
        while (earlier := self._earlier(found, end)) != end:
            end = earlier
        if len(tail) - end <= max(MAX_HELD_CHARS, self._masker.held_for_own):
            return end
        # One word without an end. Its parts cannot be told apart from a token's, so its beginning decides.
        if (last is not None and last.end == len(tail)) or _TOKEN_BEGINS.search(tail, end):
            self._skipping = _WORD_END
            if last is None or last.end < len(tail):
                found.append(Secret("json_web_token", end, len(tail)))
        return len(tail)

    def _earlier(self, found: list[Secret], end: int) -> int:
        """The last place before `end` where a secret, a word, or the beginning of a secret is not cut in two."""
        if end <= 0:
            return 0
        end = min((each.start for each in found if each.start < end < each.end), default=end)
        end = _LAST_WORD.search(self._tail, 0, end).start()  # type: ignore[union-attr]
        opening = _OPENING.search(self._tail, max(0, end - 512), end)
        return end if opening is None else opening.start()

    def _give(self, found: list[Secret], end: int) -> str:
        leaving = [each for each in found if each.start < end]
        self.counts.update(each.kind for each in leaving)
        text = _replaced(self._tail, leaving, 0, end)
        self._before = self._tail[end - 1 : end] or self._before
        self._tail = self._tail[end:]
        return text

    def _skip(self) -> bool:
        """Drop the rest of a secret that was masked already. False while its end has not come."""
        if self._skipping is None:
            return True
        match = self._skipping.search(self._tail)
        if match is None:
            self._tail = self._tail[-MAX_KEY_END_CHARS:]
            return False
        at = match.end() if self._skipping is _KEY_END else match.start()
        self._before, self._tail, self._skipping = self._tail[:at][-1:], self._tail[at:], None
        return True


def shown(kind: str) -> str:
    """The text that replaces a masked value."""
    return f"[masked: {kind}]"


def _replaced(text: str, found: Iterable[Secret], start: int, end: int) -> str:
    parts: list[str] = []
    for each in found:
        parts += (text[start : each.start], shown(each.kind))
        start = each.end
    parts.append(text[start:end])
    return "".join(parts)


def _is_card(text: str) -> bool:
    """Whether the check digit of a card number fits (Luhn)."""
    digits = [int(each) for each in text if each.isdigit()]
    doubled = (sum(divmod(2 * each, 10)) for each in digits[-2::-2])
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_LAST_WORD = re.compile(r"[^ \t\n\f\r\"'<>]*\Z")
_WORD_END = re.compile(r"[ \t\n\f\r\"'<>]")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]+-----")
_TOKEN_BEGINS = re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}")
_OPENING = re.compile(
    r"(?:(?:passw(?:or)?d|passphrase|secret|api[_\-]?key|access[_\-]?key|auth[_\-]?token|access[_\-]?token|private[_\-]?key"
    r"|client[_\-]?secret|credential|encryption[_\-]?key)[A-Za-z0-9_\-]{0,20}[\"']?\s*(?:(?::=|=>|[:=])\s*[\"']?)?"
    r"|\bauthorization[\"']?\s*(?:[:=]\s*[\"']?)?(?:bearer|basic|token)?\s*|\bbearer\s*"
    r"|-----BEGIN (?:[A-Z0-9]+ )*|\b[0-9](?:[ \-]?[0-9]){0,18}[ \-]?)\Z",
    re.IGNORECASE | re.ASCII,
)
"""The beginning of something that goes on in the next word."""
