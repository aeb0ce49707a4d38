"""Code for the shells of MongoDB that only reads: calls of known methods, on values that are written out."""

from __future__ import annotations

import re

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.tables import name_set

_MAX_CODE = 2_000
_TEXT = re.compile(r"""'[^'\\\n]*'|"[^"\\\n]*\"""")
_SHOWS = re.compile(r"\s*show\s+(?:dbs|databases|collections|tables)\s*;?\s*")
_ASKS = re.compile(
    r"""\b(?:run|admin)Command\(\s*\{\s*['"]?(?:ping|hello|serverStatus|dbStats|buildInfo|listDatabases)['"]?\s*:\s*1\s*\}\s*\)"""
)
_REFUSED = re.compile(
    r"[\\`]|=>|(?<![=!<>])=(?!=)|\+|--|//|/\*|\]\s*:|\$(?:out|merge|where|function|accumulator|eval)\b"
)
"""Functions, assignments, comments and keys that are put together, and stages that write or run code."""
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_OPENING = re.compile(r"(?:(?P<name>[\w$]+)\s*)?\(")
_INDEX = re.compile(r"[\w$)\]]\s*\[")
_ROOTS = name_set(
    "db rs sh print printjson JSON EJSON ISODate ObjectId NumberLong NumberInt Date new true false null undefined"
)
_CALLS = name_set(
    "aggregate allowDiskUse buildInfo count countDocuments dataSize distinct estimatedDocumentCount explain find"
    " findOne getCollection getCollectionInfos getCollectionNames getIndexes getName getSiblingDB hello hint hostInfo"
    " isMaster ISODate itcount limit listIndexes NumberInt NumberLong ObjectId Date pretty print"
    " printjson projection serverStatus size skip sort stats status storageSize stringify toArray totalIndexSize"
    " totalSize version"
)
_FIELDS = name_set("length n ok")
_DATABASE = re.compile(r"mongodb(?:\+srv)?://[^\s,()]+|(?!.*\.(?:[cm]?[jt]s|mongodb)$)\w[\w.-]*(?::\d+)?(?:/[\w-]+)?")
_FLAGS = name_set("--quiet --norc --json --tls --retryWrites --verbose")
_VALUES = name_set("--host --port --username -u --password -p --authenticationDatabase --authenticationMechanism")


def reads(use: ProgramUse) -> bool:
    """`mongosh app --quiet --eval 'db.users.countDocuments()'`."""
    codes: list[str] = []
    named = False
    words = iter(use.arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--eval":
            codes.append(value if equals else next(words, ""))
        elif option in _VALUES:
            _ = None if equals else next(words, "")
        elif option not in _FLAGS and not (_DATABASE.fullmatch(word) and not named):
            return False
        else:
            named = named or option not in _FLAGS
    return bool(codes) and all(map(only_reads, codes))


def only_reads(code: str) -> bool:
    """Whether code is made of values and of calls that read."""
    if len(code) > _MAX_CODE or not code.isascii():
        return False
    if _SHOWS.fullmatch(code):
        return True
    code = _ASKS.sub("hello()", code)
    if _REFUSED.search(code):
        return False
    bare = _TEXT.sub('""', code)
    if _INDEX.search(bare) or any(quote in bare.replace('""', "") for quote in "'\""):
        return False
    if any((call["name"] or "") not in _CALLS for call in _OPENING.finditer(bare)):
        return False
    return all(_is_known(bare, name) for name in _NAME.finditer(bare))


def _is_known(code: str, name: re.Match[str]) -> bool:
    """A member behind a dot, the key of a value, or one of the names to begin with."""
    before, behind = code[: name.start()].rstrip()[-1:], code[name.end() :].lstrip()[:1]
    if before == "." and behind not in ("(", ".") and name[0] not in _FIELDS:
        return False  # a function as a value, which another may call: `[1].find(db.dropDatabase)`
    return before == "." or (behind == ":" and before in ("{", ",")) or name[0] in _ROOTS
