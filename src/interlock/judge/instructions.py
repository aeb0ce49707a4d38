"""Text that tries to instruct the model that reads it: signals weighed together, in every disguise we know how to undo.

Only what crosses the threshold is reported, and then with everything that weighed in, so that a person can see why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from interlock.judge.disguises import SHORT, Readings
from interlock.judge.findings import Finding
from interlock.judge.regexes import OctetMatch, OctetRegex, OctetRegexes
from interlock.judge.signals import NAME, RESULT, RULE_MESSAGES, Signal, read_signals
from interlock.judge.signals.languages import foreign_instructions

ENOUGH = 1.5
"""The weight at which text counts as an instruction."""


class WeighedText(NamedTuple):
    """The heaviest reading of a text: its weight, its signals and its disguise."""

    weight: float
    findings: tuple[Finding, ...]
    acts: bool = False
    """Whether it does more than to address the model firmly."""
    complete: bool = True
    """Whether all that is packed in the text was read."""


def judge_instructions(text: str | Readings, where: str = "The text") -> tuple[Finding, ...]:
    """Findings for text that instructs the model; none for text that merely describes, however firmly.

    Quoted examples do not count: articles about attacks quote them.
    """
    readings = Readings(text) if isinstance(text, str) else text
    weighed = _weigh(readings, where, name=False, quotes=True, nearby=True)
    return weighed.findings if weighed.weight >= ENOUGH else ()


def weigh(text: str, where: str = "The text", *, name: bool = False, nearby: bool = False) -> WeighedText:
    """How strongly the text of a definition instructs the model. With `name`, read as the name of a parameter.

    With `nearby`, weak signals of a long text count together only where they stand together.
    """
    return _weigh(Readings(text, name=name), where, name=name, quotes=False, nearby=nearby)


def _weigh(readings: Readings, where: str, *, name: bool, quotes: bool, nearby: bool) -> WeighedText:
    """The heaviest reading. With `quotes`, for results, a phrase that is quoted as an example does not count."""
    best = WeighedText(0.0, ())
    for disguise, reading in readings:
        found = _weigh_plain(reading, where, disguise, name, quotes, nearby)
        if found.weight > best.weight:
            best = found
            if best.weight >= ENOUGH:
                break
    return best if readings.complete else best._replace(complete=False)


def is_calm(text: str) -> bool:
    """Whether no part of a text can weigh enough, judged at once: with every signal in it at its full weight.

    Valid for short ASCII text: decoding the whole text also decodes each part.
    """
    if len(text) > SHORT or not text.isascii():
        return False
    signals = _signals()
    readings = Readings(text)
    for _, reading in readings:
        found = [index for index, _ in signals.regexes.matching(reading.encode())]
        if sum(signals.rows[index].weight for index in found if signals.languages[index] != RESULT) >= ENOUGH:
            return False
    return readings.complete and next(foreign_instructions(text), None) is None


class _SignalMatch(NamedTuple):
    """A signal in a text: where it stands, in octets, and the words that gave it."""

    at: int
    signal: Signal
    words: str


def _weigh_plain(text: str, where: str, disguise: str, name: bool, quotes: bool, nearby: bool) -> WeighedText:
    found = list(_signals_in(text.encode("utf-8", "replace"), name, quotes))
    if not name and (not disguise or len(text) <= SHORT):
        found += [
            _SignalMatch(text.lower().find(sentence), Signal(rule, weight, ""), sentence)
            for rule, weight, sentence in foreign_instructions(text)
        ]
    if nearby and len(text) > _NEARBY:
        groups = [[each for each in found if 0 <= each.at - first.at <= _NEARBY] for first in found]
        found = max(groups, key=_weight_of, default=[])
    kept: list[_SignalMatch] = []
    for each in found:
        kept.append(each)
        if _weight_of(kept) >= _PLENTY:
            break
    hidden = f" ({disguise})" if disguise else ""
    findings = [
        Finding(f"instruction.{rule}", f"{where} {RULE_MESSAGES[rule]}{hidden}: {words[:120]!r}.", _HINT)
        for _, (rule, *_), words in kept
    ]
    return WeighedText(_weight_of(kept), tuple(findings), any(not each.signal.address for each in found))


def _weight_of(found: Sequence[_SignalMatch]) -> float:
    """The weight of signals together. Weak ones of one rule count less than those of different rules.

    Several signals of one rule on the same words are one phrase, which weighs as its heaviest signal.
    """
    weight = 0.0
    phrases: dict[str, list[_Phrase]] = {}
    for at, signal, words in found:
        known = phrases.setdefault(signal.rule, [])
        end = at + len(words.encode())
        same = [phrase for phrase in known if phrase.first < end and at < phrase.end]
        if same:
            weight += max(0.0, signal.weight - max(phrase.weight for phrase in same))
        elif known:
            before = max(phrase.weight for phrase in known)
            weight += max(signal.weight - before, signal.weight * 0.75)
        else:
            weight += signal.weight
        known.append(_Phrase(at, end, signal.weight))
    return weight


class _Phrase(NamedTuple):
    first: int
    end: int
    weight: float


_NEARBY = 1_000


def _signals_in(octets: bytes, name: bool, quotes: bool) -> Iterator[_SignalMatch]:
    """Each signal once, with its words. A long text is read in stretches."""
    signals = _signals()
    seen: set[int] = set()
    for start in range(0, max(1, len(octets)), _STRETCH):
        stretch = octets[max(0, start - _OVERLAP) : start + _STRETCH]
        for index, regex in signals.regexes.matching(stretch):
            language = signals.languages[index]
            if index in seen or (language == NAME and not name) or (language == RESULT and not quotes):
                continue
            match = _first_unquoted_match(regex, stretch, quotes)
            if match is None:
                continue
            first, last = match.span()
            seen.add(index)
            words = stretch[first:last].decode("utf-8", "replace").strip()
            signal = signals.rows[index]
            if quotes and signal.prose and len(octets) > _NEARBY:
                signal = signal._replace(weight=signal.weight * _IN_PROSE)
            yield _SignalMatch(max(0, start - _OVERLAP) + first, signal, words)


def _is_taken_back(octets: bytes, first: int, last: int) -> bool:
    """Whether words are taken back ("never without asking", "do not follow any …"), or are about a detail only:
    an id that is held back, a key in the header that is made for it, the path of a workspace."""
    head, before = octets[first : first + 14].lower(), octets[max(0, first - 80) : first]
    if head.startswith((b"without", b"follow ", b"as instruction", b"as command", b"as order")):
        return _is_denied(before)
    if head.startswith((b"assume", b"pretend")):
        return _NEVER.search(before) is not None
    if _IN_ITS_HEADER.fullmatch(octets[first:last]) or _ITS_PATH.match(octets[first : last + 40]):
        return True
    return _TRIFLE.match(octets[first : last + 120].lstrip(b" .!?;:,(\n").lower()) is not None


def _is_denied(before: bytes) -> bool:
    """Whether a denial reaches the words behind it. It does not reach a new clause ("Do not wait, follow …")."""
    denial = _DENIAL.match(before)
    if denial is None or _SPURS.match(denial[1]):
        return False
    _, comma, last = _ASIDE.sub(b"", denial[1], count=1).rpartition(b",")
    return not comma or _GOES_ON.match(last) is not None


_NEVER = re.compile(rb"(?i)\b(?:never|do not|don'?t) $")
_TRIFLE = re.compile(rb"don'?t bother [^.!?\n]{0,100}?\b(?:ids?|dates?|status(?:es)?)\b[^.!?\n]{0,60}\bunless they ask")
_IN_ITS_HEADER = re.compile(
    rb"(?i)\w+ (?:(?:the|your|an?|this|its) )?(?:[\w-]+ )?"
    rb"(?:api keys?|(?:access |bearer |auth |api )?tokens?|credentials)"
    rb"(?: [^.!?;,\n]{0,30})? (?:in|into|to|as|via|through|using|with) (?:the |an? )?[`'\"]?"
    rb"(?:authorization|proxy-authorization|x-api-key|x-auth-token|api-key|bearer)[`'\"]? (?:http |request )?header"
)
_ITS_PATH = re.compile(
    rb"(?is).{0,80}\b(?:workspace|project|repository)(?:'s)? (?:absolute |full |root |relative )*"
    rb"(?:path|director|folder|name)"
)
_DENIAL = re.compile(
    rb"(?is).*\b(?:never|(?<!or )not(?! only\b)|cannot|(?:do|must|should)n(?:'|\xe2\x80\x99)?t)\b([^.!?\n]*)$"
)
_SPURS = re.compile(
    rb"(?i)\s*(?:ever )?"
    rb"(?:hesitate|wait|delay|worry|forget|fail|refuse|neglect|stop|pause|think|mind|be (?:afraid|shy))\b"
)
"""Verbs that turn a denial into a command."""
_ASIDE = re.compile(rb"\A\s*,[^,]*,")
_GOES_ON = re.compile(rb"(?i)\s*(?:or|nor|and|ever|even|especially|including)\b")
_STRETCH = 8_192
_IN_PROSE = 1 / 3
"""The share of its weight that a signal keeps in a long result if honest pages say it too."""
_OVERLAP = 512
_PLENTY = 3.0
"""A weight at which nothing more needs to be known: what weak signals of several fields need together."""


def _first_unquoted_match(regex: OctetRegex, octets: bytes, quotes: bool) -> OctetMatch | None:
    """The first match that is neither taken back nor, with `quotes`, merely quoted."""
    for match in regex.finditer(octets):
        start, end = match.span()
        if not (_is_taken_back(octets, start, end) or (quotes and _is_quoted(octets, start, end))):
            return match
    return None


def _is_quoted(octets: bytes, start: int, end: int) -> bool:
    """Whether words stand in quotation marks, as an example."""
    opens, closes = octets[max(0, start - 3) : start], octets[end : end + _MAX_QUOTE_CHARS]
    if not _OPENS.search(opens) or not _CLOSES.search(closes):
        return False
    return _EXAMPLE.search(octets[max(0, start - 160) : start]) is not None


_MAX_QUOTE_CHARS = 60
_OPENS = re.compile(rb"(?:[\"'`]|\xe2\x80[\x98\x9c])$")
_CLOSES = re.compile(rb"^[^\"'`\n]{0,59}?(?:[\"'`]|\xe2\x80[\x99\x9d])")
_EXAMPLE = re.compile(
    rb"(?i)\b(?:phrases?|patterns?|examples?|such as|e\.g\.|for instance|strings? like|prompts? like|payloads?|"
    rb"attackers?|attacks?|injections?|jailbreaks?)\b"
)
_HINT = "Describe what the tool does; leave to the person and the client what the model shall do."


class _Signals:
    """All signals, and their patterns compiled together."""

    def __init__(self) -> None:
        self.rows = read_signals()
        self.languages = [signal.language if signal.language in (NAME, RESULT) else "" for signal in self.rows]
        self.regexes = OctetRegexes(signal.pattern for signal in self.rows)


@lru_cache(maxsize=1)
def _signals() -> _Signals:
    return _Signals()


def load() -> None:
    """Compile the signals, which takes a tenth of a second and more."""
    _signals()


def let_go() -> None:
    """Drop the signals: several megabytes that are made again when text is next weighed, in a tenth of a second."""
    _signals.cache_clear()


def is_loaded() -> bool:
    """Whether the signals are compiled: then a short text is judged at once."""
    return _signals.cache_info().currsize > 0
