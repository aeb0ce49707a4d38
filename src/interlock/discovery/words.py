"""Turns text into search terms: splits identifiers, folds case, drops stop words and cuts regular endings.

Rule: tool definitions and queries use the same functions, so that equal words always match. Only file names and
addresses of a query are replaced before (`query_terms`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from interlock.wire.unicode_forms import normalize

MAX_TEXT = 65_536
"""Characters of one text that are read. Of a longer text, the first and the last half of this number."""

MAX_WORD = 40
"""Characters of a word. Longer ones are keys, hashes and encoded data."""


def split(text: str, *, wholes: bool = True) -> list[str]:
    """The words of a text in order, lower case: `getUserID2` and `get_user_id_2` both give get, user, id, 2.

    A name also gives joined forms of its parts: `GitHub` gives git, hub and github. Scripts without spaces give
    overlapping pairs of characters. UUIDs, hashes and long numbers give no words.
    """
    text = _APOSTROPHE.sub("", bounded(text))
    if not text.isascii():
        text = bounded(_without_marks(text))  # Normalizing can turn one character into eighteen.
    if "-" in text:
        text = _UUID.sub(" ", text)
    words: list[str] = []
    for found in _WORD.finditer(text):
        word = found.group()
        if word.isascii():
            if word.islower() and word.isalpha():
                words.append(word[:MAX_WORD])
            elif len(word) < _LEAST_CODE or not _CODE.fullmatch(word):
                words.extend(_parts(word[:MAX_WORD], wholes))
        elif found.lastgroup == "dense":
            words.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            words.append(word[:MAX_WORD].lower())
    return words


def terms(text: str) -> list[str]:
    """The search terms of a text in order: its words without stop words, stemmed."""
    return [stem(word) for word in split(text) if word not in STOP_WORDS]


def identifiers(text: str) -> list[str]:
    """The identifiers of a text, such as `get_user`, `getUser` or `crm__get_user`, each as one term.

    A query that contains a tool's name means that tool.
    """
    text = bounded(text)
    if _MAY_NAME.search(text) is None:
        return []
    found = (part for name in _IDENTIFIER.findall(text) for part in dict.fromkeys((name, name.rpartition("__")[2])))
    return [joined(name) for name in found if name]


def joined(name: str) -> str:
    """A name as one term, whatever separates its words."""
    return stem(re.sub(r"[\W_]+", "", name)[:MAX_WORD].lower())


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without its plural or verb ending, so that `invoices`, `invoicing` and `invoiced` match."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and any(c in "aeiouy" for c in root):
            return _tidy(root)
    return _tidy(word)


def bounded(text: str, most: int = MAX_TEXT) -> str:
    """The part of a text that is read: its beginning and its end, where a long request often states its need."""
    half = most // 2
    return text if len(text) <= most else f"{text[: half - 1]} {text[-half:]}"


def _parts(word: str, wholes: bool) -> list[str]:
    """The parts of a word, and joined forms of them: for `MySQLQuery` also mysql and mysqlquery."""
    parts = [part.lower() for part in _PART.findall(word)]
    if len(parts) < 2 or not wholes:
        return parts
    letters = [part for part in parts if not part.isdigit()]
    short = [a + b for a, b in pairwise(letters) if min(len(a), len(b)) <= _SHORT]
    whole = [word.lower()] if len(letters) <= 2 else []
    return [*parts, *dict.fromkeys(whole + short)]


def _without_marks(text: str) -> str:
    """The text with unified compatibility forms, and without accents of Latin letters (`café` matches `cafe`)."""
    return normalize("NFC", _ACCENTED.sub(r"\1", normalize("NFKD", text)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _tidy(root: str) -> str:
    """The normal form of a stem: without silent e, doubled consonant and final y."""
    if len(root) > 3 and root.endswith("e"):
        root = root[:-1]
    if len(root) > 3 and root[-1] == root[-2] and root[-1] in "bdgmnprt":
        root = root[:-1]
    if len(root) > 2 and root.endswith("y"):
        root = root[:-1] + "i"
    return root


_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_LEAST_CODE = 7
_CODE = re.compile(r"[0-9]{7,}|(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{10,}")
"""Long numbers, hashes and keys. They are values for a tool, and say nothing about it."""
_SHORT = 3
"""Letters of a part that is seldom a word of its own: My in MySQL, Git in GitHub, O in OAuth."""
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts without spaces between words."""
_WORD = re.compile(rf"(?P<dense>[{_DENSE}]+)|[A-Za-z0-9]+|[^\W\d_A-Za-z{_DENSE}]+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])['’](?:s|re|ve|ll|d|m|t)\b")
_MAY_NAME = re.compile(r"[A-Za-z0-9][_.-]+[A-Za-z0-9]|[a-z][A-Z]")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-]+[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+")
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")

_STOP_WORDS = """
    a about after all also am an and any are as at be because been before being both but by can could did do does doing
    done each either for from further had has have having he her here hers him his how i if in into is it its itself
    just let like may me might mine more most must my no nor not now of off on once only or other ought our ours out
    over own please same shall she should so some such than that the their theirs them then there these they this those
    through to too under until up us very was we were what when where which while who whom whose why will with within
    without would yes you your yours
    give given gives getting got help helps need needs needed provide provided provides tell use used uses
    using want wants wanted
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Function words, and verbs that begin every request. They do not help to find a tool."""
