"""What was noticed and not refused: counted by server and rule, and told in the log.

Rules and names only: what was sent or answered may hold secrets, and belongs in no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from interlock.hub.call import Call
from interlock.judge.findings import Finding


class Noticed:
    """One hub's."""

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self._log = log
        self.would_refuse: Counter[tuple[str, str]] = Counter()
        """How often calls went out that a stricter mode would have refused, by server and rule."""
        self.flagged: Counter[tuple[str, str]] = Counter()
        """How often something was flagged in results, by server and rule."""

    def call(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """A call goes out that a stricter mode would have refused."""
        rules = _count(self.would_refuse, call, findings)
        self._log(call.target.server, f"would refuse {call.target.name} of {call.caller.owner}: {rules}")

    def result(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """A result holds what should not be believed."""
        rules = _count(self.flagged, call, findings)
        self._log(call.target.server, f"flagged in a result of {call.target.name} for {call.caller.owner}: {rules}")


def _count(counter: Counter[tuple[str, str]], call: Call, findings: tuple[Finding, ...]) -> str:
    rules = sorted({finding.rule for finding in findings})
    for rule in rules:
        counter[call.target.server, rule] += 1
    return ", ".join(rules)
