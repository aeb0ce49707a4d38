"""From text to search terms: identifiers split, case folded, stop words dropped, endings cut.

The one rule: a tool definition and a query go through the same functions, so that equal words always meet.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_TEXT = 16_384
"""Characters of one text that are looked at; the rest is ignored, so that a huge description costs no more."""

MAX_WORD = 40
"""Characters of one word that count; longer ones are keys, hashes and encoded data."""


def split(text: str) -> list[str]:
    """The words of a text in order, lower case: `getUserID2` and `get_user_id_2` both give get, user, id, 2.

    Scripts written without spaces give overlapping pairs of characters.
    """
    if not text.isascii():
        text = _without_marks(text[:MAX_TEXT])
    words: list[str] = []
    for found in _WORD.finditer(text[:MAX_TEXT]):
        word = found.group()
        if found.lastgroup == "dense":
            words.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            words.append(word[:MAX_WORD].lower())
    return words


def terms(text: str) -> list[str]:
    """The search terms of a text in order: its words without stop words, stemmed."""
    return [stem(word) for word in split(text) if word not in STOP_WORDS]


def identifiers(text: str) -> list[str]:
    """The identifiers that a text holds, such as `get_user`, `getUser` or `crm__get_user`, each as one term: whoever
    names a tool means that tool."""
    found = (
        part
        for name in _IDENTIFIER.findall(text[:MAX_TEXT])
        for part in dict.fromkeys((name, name.rpartition("__")[2]))
    )
    return [joined(name) for name in found if name]


def joined(name: str) -> str:
    """A name as one term, however its words are set apart."""
    return stem("".join(split(name))[:MAX_WORD])


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without its common English endings, so that `invoices`, `invoicing` and `invoiced` meet."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending, replacement, shortest in _ENDINGS:
        if word.endswith(ending):
            root = word[: -len(ending)]
            if len(root) >= shortest and _has_vowel(root):
                return _tidy(root + replacement)
            break
    return _tidy(word)


def sentences(text: str, most: int = 12) -> list[str]:
    """The parts of a query that may each ask for a tool of their own."""
    parts = (part.strip() for part in _SENTENCE_END.split(text[:MAX_TEXT]))
    return [part for part in parts if part][:most]


def _without_marks(text: str) -> str:
    """Compatibility forms unified, accents of Latin letters dropped (`café` meets `cafe`); other scripts stay whole."""
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFKD", text)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _tidy(root: str) -> str:
    """One spelling for a root whatever was cut from it: no silent e, no doubled consonant, no final y."""
    if len(root) > 3 and root.endswith("e"):
        root = root[:-1]
    if len(root) > 3 and root[-1] == root[-2] and root[-1] in "bdgmnprt":
        root = root[:-1]
    if len(root) > 2 and root.endswith("y"):
        root = root[:-1] + "i"
    return root


def _has_vowel(root: str) -> bool:
    return any(c in "aeiouy" for c in root)


_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts that put no space between words."""

_WORD = re.compile(
    rf"(?P<dense>[{_DENSE}]+)"
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+"
    rf"|[^\W\d_A-Za-z{_DENSE}]+"
)

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-]+[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+")

_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")

# Ending, what takes its place, and the shortest root that may remain; the first ending that fits decides.
_ENDINGS: tuple[tuple[str, str, int], ...] = (
    ("ization", "ize", 3),
    ("isation", "ize", 3),
    ("ational", "ate", 3),
    ("fulness", "ful", 3),
    ("iveness", "ive", 3),
    ("ation", "ate", 3),
    ("ition", "it", 3),
    ("ments", "", 4),
    ("ment", "", 4),
    ("ness", "", 4),
    ("ingly", "", 4),
    ("edly", "", 4),
    ("ally", "al", 3),
    ("ical", "ic", 3),
    ("ially", "", 4),
    ("ial", "", 4),
    ("al", "", 4),
    ("ive", "", 4),
    ("able", "", 4),
    ("ible", "", 4),
    ("ist", "", 4),
    ("ings", "", 3),
    ("ing", "", 3),
    ("ied", "y", 2),
    ("ion", "", 4),
    ("ise", "ize", 4),
    ("ator", "ate", 3),
    ("er", "", 4),
    ("or", "", 4),
    ("ed", "", 3),
    ("ly", "", 4),
)

_STOP_WORDS = """
    a about after all also am an and any are as at be because been before being both but by can could did do does doing
    done each either for from further had has have having he her here hers him his how i if in into is it its itself
    just let like may me might mine more most must my no nor not now of off on once only or other ought our ours out
    over own please same shall she should so some such than that the their theirs them then there these they this those
    through to too under until up us very was we were what when where which while who whom whose why will with within
    without would yes you your yours
    give given gives get gets getting got help helps need needs needed provide provided provides tell use used uses
    using want wants wanted
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Function words, and the verbs with which every request begins; they say nothing about which tool is meant."""
