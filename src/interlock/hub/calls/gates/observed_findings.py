"""Findings that did not refuse a call: counted by server and rule, logged, and recorded in the audit log.

For arguments, only rules go there: the audit log has the arguments beside them. For a result, which nothing else
records, the findings go there with their quotes. Log and audit log redact secrets in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from interlock.hub.audit.record import FLAGGED, WOULD_REFUSE
from interlock.hub.calls.call import Call
from interlock.hub.calls.recording import Recording
from interlock.hub.upstreams.logs import Logs
from interlock.judge.findings import Finding

MAX_REASON_CHARS = 1000


class ObservedFindings:
    """The findings of one hub."""

    def __init__(self, logs: Logs, recording: Recording) -> None:
        self._logs = logs
        self._recording = recording
        self.would_refuse: Counter[tuple[str, str]] = Counter()
        """Calls that a stricter mode refuses, by server and rule."""
        self.flagged: Counter[tuple[str, str]] = Counter()
        """Flagged results, by server and rule."""

    def on_call(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """Note findings about a call for which a stricter mode refuses it."""
        rules = _count(self.would_refuse, call, findings)
        self._log(call, f"would refuse {call.target.name} of {call.caller.principal.id}: {', '.join(rules)}")
        self._recording.found(WOULD_REFUSE, call, rules)

    def on_result(self, call: Call, findings: tuple[Finding, ...], masked: Mapping[str, int]) -> None:
        """Note findings in a result, and how much was masked in it by kind."""
        rules = _count(self.flagged, call, findings)
        reason = " ".join(dict.fromkeys(finding.message for finding in findings))[:MAX_REASON_CHARS]
        caller = call.caller.principal.id
        self._log(call, f"flagged in a result of {call.target.name} for {caller}: {', '.join(rules)}. {reason}")
        self._recording.found(FLAGGED, call, rules, masked, reason)

    def _log(self, call: Call, text: str) -> None:
        self._logs.add(call.target.server, "hub", text)


def _count(counter: Counter[tuple[str, str]], call: Call, findings: tuple[Finding, ...]) -> list[str]:
    rules = sorted({finding.rule for finding in findings})
    for rule in rules:
        counter[call.target.server, rule] += 1
    return rules
