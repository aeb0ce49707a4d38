"""Finds the steps of a task: "find the flights, then book one and mail it" needs three tools, one for each step."""

from __future__ import annotations

import re
from itertools import pairwise

from interlock.discovery.query_terms import query_terms

MAX_STEPS = 12


def steps(query: str) -> list[tuple[str, list[str]]]:
    """The parts of a query that may each need a different tool, with their terms; empty if there is only one."""
    parts = [(part, query_terms(part)) for part in _split(query)]
    telling = [(part, terms) for part, terms in parts if len(set(terms)) >= 2 or (terms and _BEGINS.match(part))]
    return telling if len(telling) > 1 else []


def _split(text: str) -> list[str]:
    """The parts in order, each once. Surplus parts are joined with their neighbours, so that none is lost."""
    # Long runs of spaces would take quadratic time.
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    bare = (_ANNOUNCED.sub("", part.strip()) for part in _BETWEEN.split(text))
    parts = list(dict.fromkeys(part for part in bare if part))
    if len(parts) <= MAX_STEPS:
        return parts
    at = [round(number * len(parts) / MAX_STEPS) for number in range(MAX_STEPS + 1)]
    return [" ".join(parts[first:last]) for first, last in pairwise(at)]


_VERBS = """
    add apply append approve archive arrange ask assign attach back book browse build buy calculate call cancel change
    check choose clear click close comment commit compare compute connect convert copy count create crawl delete deploy
    describe display download draft draw drop edit email enable estimate execute explain export extract fetch fill
    filter find fix forward generate get give go import insert install invite join launch let link list load locate log
    look mail make mark merge message monitor move navigate note notify open order organize pay plan play post prepare
    press print provide publish pull purchase push put query read recommend record register remember remind remove
    rename replace reply report request reserve reset resize resolve restart retrieve return review run save scale scan
    schedule scrape search select sell send set share show sort start stage stop store submit subscribe suggest
    summarize switch take tell test track transfer translate turn update upload use validate verify view visit wait
    watch write zip
"""
_VERB = rf"(?=(?:{'|'.join(_VERBS.split())})\b)"
_BEGINS = re.compile(_VERB, re.IGNORECASE)
_ORDER = "then|afterwards|after that|finally|lastly|next|also|first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth|fifth"
_ANNOUNCED = re.compile(rf"\A(?:(?:and|{_ORDER})\b[\s,:]*|[-*•]\s+)+", re.IGNORECASE)
"""Words and bullets before a step that carry no meaning."""
_BETWEEN = re.compile(
    r"(?<=[.!?;])\s+|\n+|;\s*"
    r"|,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|next|also)\s*,?\s+(?=\w)"
    rf"|,\s+(?:and\s+)?(?:{_ORDER})\s*,?\s+{_VERB}"
    rf"|,?\s+(?:and|or|but)\s+{_VERB}|,\s+{_VERB}",
    re.IGNORECASE,
)
"""The ends of sentences, words that announce the next step, and `and` or a comma before a verb."""
