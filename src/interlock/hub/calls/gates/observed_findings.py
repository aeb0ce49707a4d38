"""What was noticed and not refused: counted by server and rule, told in the log, and kept in the record.

Rules and names only: what was sent or answered may hold secrets, and belongs in neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from interlock.hub.audit.record import FLAGGED, WOULD_REFUSE
from interlock.hub.calls.call import Call
from interlock.judge.findings import Finding


class ObservedFindings:
    """One hub's."""

    def __init__(self, log: Callable[[str, str], None], record: Callable[[str, Call, list[str]], None]) -> None:
        self._log = log
        self._record = record
        self.would_refuse: Counter[tuple[str, str]] = Counter()
        """How often calls went out that a stricter mode would have refused, by server and rule."""
        self.flagged: Counter[tuple[str, str]] = Counter()
        """How often something was flagged in results, by server and rule."""

    def call(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """A call goes out that a stricter mode would have refused."""
        rules = _count(self.would_refuse, call, findings)
        self._log(call.target.server, f"would refuse {call.target.name} of {call.caller.owner}: {', '.join(rules)}")
        self._record(WOULD_REFUSE, call, rules)

    def result(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """A result holds what should not be believed."""
        rules = _count(self.flagged, call, findings)
        told = f"flagged in a result of {call.target.name} for {call.caller.owner}: {', '.join(rules)}"
        self._log(call.target.server, told)
        self._record(FLAGGED, call, rules)


def _count(counter: Counter[tuple[str, str]], call: Call, findings: tuple[Finding, ...]) -> list[str]:
    rules = sorted({finding.rule for finding in findings})
    for rule in rules:
        counter[call.target.server, rule] += 1
    return rules
