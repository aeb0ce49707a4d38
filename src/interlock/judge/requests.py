"""Requests in results: sentences that ask their reader to act.

A result reports. A sentence in it is weighed by itself, by its parts in `requests.txt`: an opening in the imperative or
a polite one, then an owner ("my account"), a recipient, an amount, a secret, the reader's answer. A manual asks its
reader for much, so a sentence among several imperatives needs more. A finding quotes the sentence and names the parts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

from interlock.judge.disguises import Readings, unfold
from interlock.judge.findings import Finding
from interlock.judge.regexes import OctetRegexes
from interlock.judge.tables import read_table

ENOUGH = 1.25
"""The weight at which a sentence counts as a request."""
ENOUGH_IN_A_MANUAL = 2.0
FEW_IMPERATIVES = 3
MAX_NOTE_CHARS = 1_500
"""A longer text, or one with more sentences that open like a request, is a manual."""
ENOUGH_ABOVE_ALL = 2.0
"""The weight at which a sentence puts a task above all others."""


class Sentence(NamedTuple):
    """A sentence with its weight and the parts that weighed in."""

    weight: float
    words: str = ""
    parts: tuple[str, ...] = ()


class _Part(NamedTuple):
    name: str
    weight: float
    pattern: str


class Grammar:
    """The rows of the table, compiled by kind."""

    def __init__(self) -> None:
        rows: dict[str, list[_Part]] = {}
        for row in read_table("interlock.judge.signals", "requests.txt"):
            name, weight, kind = row.head
            rows.setdefault(kind, []).append(_Part(name, float(weight), row.one("=")))
        self._weights = {part.name: part.weight for parts in rows.values() for part in parts}
        self._openings = [*rows["ask"], *rows["verb"]]
        ask, verb = ("|".join(f"({part.pattern})" for part in rows[kind]) for kind in ("ask", "verb"))
        self._opening = re.compile(rf"(?i)(?:(?:{ask})\s+{_ADVERBS})?(?:{verb}){_VERB_ENDS}")
        self._inner = re.compile(rf"(?i)\b(?:{ask})\s+{_ADVERBS}(?:{verb}){_VERB_ENDS}")
        self._when = _Parts(rows["when"])
        self._with = _Parts(rows["with"])
        self._above = _Parts([*rows["task"], *rows["above"]])

    def request(self, sentence: str) -> Sentence | None:
        """The sentence as a request; none if it does not open like one."""
        lead = _LEAD.match(sentence)
        found = self._opening.match(sentence, lead.end() if lead is not None else 0)
        condition = lead["when"] if found is not None and lead is not None else None
        if found is None and _may_ask(sentence):
            found = self._inner.search(sentence)
        if found is None or sentence.count(" ", found.start()) < _FEWEST_BLANKS:
            return None
        parts = [part.name for part, words in zip(self._openings, found.groups(), strict=True) if words is not None]
        parts += self._when.found(f"{condition},") if condition else []
        return self._weighed(sentence, parts + self._with.found(sentence[found.start() :]))

    def above_all(self, sentence: str) -> Sentence | None:
        """The sentence as one that puts a task above others; none if it names no task or no reader."""
        parts = self._above.found(sentence.lstrip(_BLANKS))
        if _TASK not in parts or _TO_A_READER.isdisjoint(parts):
            return None
        return self._weighed(sentence, parts)

    def _weighed(self, sentence: str, parts: list[str]) -> Sentence:
        return Sentence(sum(self._weights[part] for part in parts), sentence.strip(), tuple(parts))


class _Parts:
    """Parts of sentences, searched together."""

    def __init__(self, parts: list[_Part]) -> None:
        self._names = [part.name for part in parts]
        self._regexes = OctetRegexes(f"(?i){part.pattern}" for part in parts)

    def found(self, sentence: str) -> list[str]:
        return [self._names[index] for index, _ in self._regexes.matching(sentence.encode("utf-8", "replace"))]


def _may_ask(sentence: str) -> bool:
    lowered = sentence.lower()
    return any(word in lowered for word in _POLITE)


_ADVERBS = r"(?:(?:now|also|first|then|immediately|always|secretly|silently|quietly|just|simply|directly)\s+){0,2}"
_VERB_ENDS = r"(?=[ ,(]|: |$)(?! (?:of|is|was|are|were|has|had|will|can|payments?|tags?)\b)"
"""A verb ends here, and is no noun ("Transfer of …", "Wire payment …")."""
_POLITE = ("you", "please", "pls", "plz", "kindly", "make sure", "be sure", "remember to", "go ahead", "proceed to")
_FEWEST_BLANKS = 2
_TO_A_READER = frozenset(("yours", "banner"))
_TASK = "task"
_BLANKS = " \t"
_SENTENCE = re.compile(r"""(?:[^\n.!?<>|]|[.!?](?=[^\s"'])|<(?=[\w@.]{1,64}@)){3,420}""")
_LEAD = re.compile(
    r"[\s\W_0-9]{0,24}(?:[\w -]{1,40}[\])}]+\s*)?(?:[^\n:]{2,60}?\s?:\s+)?[\s\W_]{0,6}"
    r"(?:(?P<when>(?:(?:right|immediately|just) )?(?:to|when|whenever|before|after|once|if|as|for|while|in|upon|during"
    r"|since|following|prior to|midway through|at the (?:start|beginning|end|top|outset) of|along(?:side| with)|by)"
    r"\s[^,\n]{3,80}),\s+)?"
    r"(?:(?:and|then|also|now|next|finally|first|firstly|afterwards|additionally|after that|immediately|urgently"
    r"|simply|just|instead|do|always|quickly|silently|quietly|secretly|hey|hi|hello|ok|okay|so|but|directly|actually"
    r"|in addition|lastly|furthermore|moreover|clearly|politely|courteously|naturally|casually|seamlessly|subtly"
    r"|briefly|gently|by the way)[,;:]?\s+){0,3}",
    re.IGNORECASE,
)


@lru_cache(maxsize=1)
def grammar() -> Grammar:
    return Grammar()


def judge_requests(text: str | Readings, where: str = "The text") -> tuple[Finding, ...]:
    """Findings for text of a result that asks its reader to act, or that puts a task above all others."""
    readings = Readings(text) if isinstance(text, str) else text
    judgement = _Judgement(readings.size)
    for disguise, reading in readings:
        request, above = judgement.heaviest(reading)
        found = []
        if request is not None:
            found.append(Finding("instruction.request", f"{where} asks its reader to act{_quoted(request, disguise)}"))
        if above is not None:
            message = f"{where} puts a task above all others{_quoted(above, disguise)}"
            found.append(Finding("instruction.priority", message))
        if found:
            return tuple(found)
    return ()


class _Judgement:
    """The sentences of one text in all its readings. Most sentences are the same in each, so each is weighed once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._weighed: dict[str, tuple[Sentence | None, Sentence | None]] = {}

    def heaviest(self, reading: str) -> tuple[Sentence | None, Sentence | None]:
        """The heaviest request, and the heaviest sentence that puts a task above others; each if it weighs enough."""
        request, above = Sentence(0.0), Sentence(0.0)
        imperatives = 0
        for sentence in _sentences(reading):
            asked, put = self._weigh(sentence)
            if asked is not None:
                imperatives += 1
                request = max(request, asked, key=_weight)
            if put is not None:
                above = max(above, put, key=_weight)
        is_manual = imperatives > FEW_IMPERATIVES or self._size > MAX_NOTE_CHARS
        enough = ENOUGH_IN_A_MANUAL if is_manual else ENOUGH
        return request if request.weight >= enough else None, above if above.weight >= ENOUGH_ABOVE_ALL else None

    def _weigh(self, sentence: str) -> tuple[Sentence | None, Sentence | None]:
        found = self._weighed.get(sentence)
        if found is None:
            known = grammar()
            found = self._weighed[sentence] = known.request(sentence), known.above_all(sentence)
        return found


def _weight(sentence: Sentence) -> float:
    return sentence.weight


def _quoted(sentence: Sentence, disguise: str) -> str:
    hidden = f", {disguise}" if disguise else ""
    return f"{hidden} ({', '.join(sentence.parts)}): {sentence.words[:120]!r}."


def _sentences(text: str) -> list[str]:
    """The sentences of a text, and of every text inside it if it is JSON, in their order."""
    return [
        match[0]
        for part in _embedded(text.strip())
        for match in _SENTENCE.finditer(part)
        if match[0].count(" ") >= _FEWEST_BLANKS
    ]


def _embedded(text: str) -> list[str]:
    """The texts in a JSON document in their order, names of members included; the text itself if it is none."""
    if not _is_document(text):
        return [text]
    texts: list[str] = []
    stack: list[object] = [text]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            inner = _decoded(value) if _is_document(value) else value
            if isinstance(inner, str):
                texts.append(unfold(inner))
            else:
                stack.append(inner)
        elif isinstance(value, dict):
            stack += [each for member in reversed(value.items()) for each in reversed(member)]
        elif isinstance(value, list):
            stack += reversed(value)
    return texts


def _is_document(text: str) -> bool:
    return text[:1] in ("{", "[") and text[-1:] in ("}", "]")


def _decoded(text: str) -> object:
    """The value of a JSON document. Of one that is broken, as a disguise may leave it, each text on its own line."""
    try:
        value: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text.replace('"', "\n")
    return value
