"""The search terms of a query: its words, and general terms for file names and addresses.

A query needs a tool for files or pages, seldom one for `config.yaml`. The parts of such a name are values for the tool;
as words they would find unrelated tools. The host of an address stays, since it may name a service, and so do the name
of a document (`reviews.csv`), which tells its subject, and that of a script (`deploy.sh`). `math.log` is a function.
"""

from __future__ import annotations

import re

from interlock.discovery import words


def query_terms(text: str) -> list[str]:
    """The terms of a query, or of one step of it, in order."""
    return words.terms(_FILE.sub(" file ", _SCRIPT.sub(r" script \1 ", _ADDRESS.sub(_read_address, text))))


def _read_address(found: re.Match[str]) -> str:
    host = found["host"] or found["bare"]
    named = [label for label in host.split(".")[:-1] if label.lower() != "www"]
    # Plain words of the path tell the subject (`…/issues/5`). Numbers and codes are values for a tool.
    named += _PLAIN_PART.findall(_QUERY.split(found["rest"] or found["bare_rest"] or "", maxsplit=1)[0])
    return f" url {' '.join(named)} "


_REST = r"[^\s<>\"']*"
_ADDRESS = re.compile(
    rf"\b(?:https?://(?:[^\s/?#@<>\"']{{0,255}}@)?|(?=www\.))(?P<host>[^\s/?#:<>\"']{{1,255}})(?P<rest>{_REST})"
    rf"|(?<![\w@./-])(?P<bare>(?:[a-z0-9-]{{1,63}}\.){{1,4}}(?:com|org|net|io|dev))\b(?P<bare_rest>/{_REST})?",
    re.IGNORECASE,
)
_QUERY = re.compile(r"[?#]")
_PLAIN_PART = re.compile(r"(?<=/)[A-Za-z]{3,20}(?=/|$)")
_ENDINGS = "bmp cfg conf cpp cs css env go gz htm ini java log md php py rb rs rst tar toml tsv txt yaml yml"
"""Endings of texts, settings and programs. `js` and `c` are missing, because `Node.js` and `Washington D.C.` are not
files."""
_FUNCTION = r"(?!(?:console|math|cmath|np|numpy|torch|tf|jax|jnp|logger|logging)\.log\b)"
_SCRIPT = re.compile(r"(?<![\w/@.-])([\w-]{1,64})\.(?:sh|bash|zsh)(?![\w/(-]|\.\w)", re.IGNORECASE)
_FILE = re.compile(
    rf"(?<![\w/@.-]){_FUNCTION}"
    r"[\w-]{0,64}(?:\.[\w-]{1,64}){0,3}"
    rf"\.(?:{'|'.join(_ENDINGS.split())})(?![\w/(-]|\.\w)",
    re.IGNORECASE,
)
