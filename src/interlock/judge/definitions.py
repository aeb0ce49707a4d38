"""Definitions of tools, prompts and resources, judged before any model sees them: every text in them, and every schema.

A definition describes. Text that instructs the model, hides from the person, or carries a secret
is a reason for quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from interlock.judge.findings import Finding
from interlock.judge.instructions import ENOUGH, is_calm, weigh
from interlock.judge.names import judge_name
from interlock.judge.schemas import judge_schema
from interlock.judge.secrets import find_secrets, judge_secrets
from interlock.judge.signals import RULE_MESSAGES
from interlock.judge.structures import PlacedText, texts_of
from interlock.judge.text import judge_text
from interlock.judge.urls import judge_url

MAX_TEXTS = 4_000
MAX_CHARACTERS = 262_144
MAX_FINDINGS = 64
ENOUGH_TOGETHER = 3.0
"""The weight at which weak signals, spread over several fields, count as an instruction."""


def judge_definition(definition: object) -> tuple[Finding, ...]:
    """Everything that should keep a definition (of a tool, prompt, resource or template) from being listed and used."""
    if not isinstance(definition, Mapping):
        return (Finding("definition.shape", "A definition is an object.", "Send an object with a name."),)
    found = list(_judge_frame(definition))
    texts, complete = texts_of(definition, MAX_TEXTS, MAX_CHARACTERS)
    if not complete:
        found.append(_TOO_LARGE)
    for key in ("inputSchema", "outputSchema"):
        if key in definition:
            found.extend(judge_schema(definition[key], key))
    found.extend(_judge_texts(texts))
    return tuple(found[:MAX_FINDINGS])


_TOO_LARGE = Finding(
    "definition.too_large", "The definition is too large to be read as a whole.", "Describe the tool more briefly."
)


def _judge_frame(definition: Mapping[object, object]) -> Iterator[Finding]:
    name = definition.get("name")
    if isinstance(name, str):
        yield from judge_name(name)
    icons = definition.get("icons")
    for icon in icons[:16] if isinstance(icons, list | tuple) else ():
        source = icon.get("src") if isinstance(icon, Mapping) else None
        if isinstance(source, str):
            yield from _judge_icon(source)


def _judge_icon(source: str) -> tuple[Finding, ...]:
    if _IMAGE_DATA.match(source):
        return ()
    if source[:5].lower() == "data:":
        return (Finding("definition.icon", "The icon is no image.", "Use an image, or leave the icon out."),)
    return judge_url(source)


_IMAGE_DATA = re.compile(r"(?i)data:image/(?:png|jpe?g|gif|webp|svg\+xml|x-icon|vnd\.microsoft\.icon|avif|bmp)[;,]")


def _judge_texts(texts: list[PlacedText]) -> Iterator[Finding]:
    whole = "\n".join([text for _, text, _ in texts])
    if is_calm(whole) and _is_plain(whole) and not any(_name_weighs(text) for _, text, _ in texts):
        return
    instructed = False
    for where, text, is_name in texts:
        for finding in (*judge_text(text), *judge_secrets(text)):
            yield msgspec.structs.replace(finding, message=f"{where}: {finding.message}")
        if padding := _padding(text):
            message = f"{where}: a long stretch of blank space pushes what follows out of sight."
            yield Finding("definition.padding", message, "Take the blank space out.", padding)
        if markup := _hidden_markup(text):
            message = f"{where}: markup keeps a part of the text out of sight: {text[slice(*markup)][:80]!r}."
            yield Finding(
                "definition.hidden_markup", message, "Write what everybody shall see, or leave it out.", markup
            )
        if len(text) < _SHORTEST:
            continue
        weighed = weigh(text, where, name=is_name or bool(_IDENTIFIER.fullmatch(text)), nearby=True)
        if not weighed.complete:
            yield _TOO_LARGE
        if weighed.acts and weighed.weight >= ENOUGH:
            instructed = True
            yield from _each_phrase_once(weighed.findings)
    prose = [text for _, text, is_name in texts if not is_name and len(text) >= _SHORTEST]
    if not instructed and len(prose) > 1:
        together = weigh("\n".join(prose), "The whole definition")
        if together.acts and together.weight >= ENOUGH_TOGETHER:
            yield from _each_phrase_once(together.findings)


def _each_phrase_once(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """The findings without those whose words are part of another one of the same rule: several signals, one phrase."""
    longest_first = sorted(range(len(findings)), key=lambda at: -len(findings[at].message))
    kept: list[int] = []
    for at in longest_first:
        phrase = _quoted(findings[at])
        if not any(findings[at].rule == findings[other].rule and phrase in _quoted(findings[other]) for other in kept):
            kept.append(at)
    yield from (findings[at] for at in sorted(kept))


def _quoted(finding: Finding) -> str:
    """The words that gave a finding, as its message quotes them."""
    _, _, rest = finding.message.partition(RULE_MESSAGES[finding.rule.removeprefix("instruction.")])
    return rest.partition(": ")[2].strip("'\". ")


def _is_plain(whole: str) -> bool:
    """Whether no text of a definition has hidden characters, a secret or padding. Nearly every definition is plain."""
    return (
        whole.isascii()
        and not judge_text(whole)
        and not find_secrets(whole)
        and _padding(whole) is None
        and _hidden_markup(whole) is None
    )


def _name_weighs(text: str) -> bool:
    return _SHORTEST <= len(text) <= _MAX_NAME_CHARS and _weight_of_name(text) > 0


@lru_cache(maxsize=16_384)
def _weight_of_name(name: str) -> float:
    """The weight of a name read as words. Names repeat from tool to tool."""
    return weigh(name, name=True).weight if _IDENTIFIER.fullmatch(name) else 0.0


_SHORTEST = 8
_MAX_NAME_CHARS = 256
_IDENTIFIER = re.compile(r"[\w.\-]+")
_BLANK = re.compile(r"\s{30,}+")


def _padding(text: str) -> tuple[int, int] | None:
    """Where thirty blank lines or a hundred and fifty blanks in a row stand before more text."""
    for match in _BLANK.finditer(text):
        lines = match[0].split("\n")
        if match.end() < len(text) and (len(lines) > 30 or max(map(len, lines)) >= 150):
            return match.span()
    return None


def _hidden_markup(text: str) -> tuple[int, int] | None:
    """Where an invisible HTML element holds text. A text may mention such styles, as those of tools for pages do."""
    if "<" not in text or not (match := _UNSEEN_ELEMENT.search(text)):
        return None
    return match.span()


_UNSEEN_ELEMENT = re.compile(
    r"(?i)<(?:template|noscript|desc)\b[^<>]{0,200}>\s*[^<\s]"
    r"|<[a-z][a-z0-9]{0,9}\b[^<>]{0,120}?(?:\shidden(?=[\s>=])|\ssize\s*=\s*[\"']?0\b"
    r"|style\s*=[^<>=]{0,80}?(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*[01](?:px|pt|em|%)?\s*[;\"']"
    r"|opacity\s*:\s*0\s*[;\"']|(?:left|top|text-indent)\s*:\s*-\d{3,}|clip\s*:\s*rect\(0"
    r"|color\s*:\s*(?P<ink>\#?\w+)\s*;[^<>=;]{0,20};?[^<>=;]{0,20}background(?:-color)?\s*:\s*(?P=ink)\b))[^<>]{0,200}>\s*[^<\s]"
)
