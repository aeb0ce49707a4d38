"""Masks secrets and chosen patterns in a server's messages about a call: results, errors, progress and log messages.

It fails closed: text that cannot be read is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.config.settings import MaskSettings
from interlock.judge.findings import Finding
from interlock.judge.masking import MaskedStream, Masker
from interlock.wire.errors import ErrorObject

WITHHELD: Final = "[masked: the result could not be read]"
"""The text in place of a result that cannot be read."""
NOT_TEXT: Final = frozenset(("requestState", "resultType", "taskId"))
"""Members that no model reads, and that must come back as they are."""
_RULE: Final = "masked."


class ResultMasker:
    """Masks as the settings of one server say."""

    def __init__(self, settings: MaskSettings) -> None:
        self._masker = Masker(settings.patterns, settings.own)

    def result(self, result: bytes) -> tuple[bytes | None, Counter[str]]:
        """The masked result, and how much was masked by kind. None for one that cannot be read."""
        try:
            value = msgspec.json.decode(result, type=dict[str, object])
            kept = {key: value.pop(key) for key in NOT_TEXT & value.keys()}
            masked, counts = self._masker.mask_value(value)
            assert isinstance(masked, dict)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None, Counter({"unreadable": 1})
        return (msgspec.json.encode({**kept, **masked}) if counts else result), counts

    def stream(self) -> MaskedStream:
        """Masks the text of one call that comes in pieces."""
        return MaskedStream(self._masker)

    def block(self, block: dict[str, object]) -> tuple[dict[str, object], Counter[str]]:
        """The masked content block, and how much was masked by kind."""
        masked, counts = self._masker.mask_value(block)
        assert isinstance(masked, dict)
        return masked, counts

    def error(self, error: ErrorObject) -> tuple[ErrorObject, Counter[str]]:
        """The masked error, and how much was masked by kind."""
        text, in_text = self._masker.mask(error.message)
        data, counts = self._value(bytes(error.data)) if bytes(error.data) else (bytes(error.data), Counter[str]())
        return msgspec.structs.replace(error, message=text, data=msgspec.Raw(data)), counts + Counter(in_text)

    def params(self, params: bytes) -> bytes:
        """The masked params of a notification, or another JSON value; `null` if it cannot be read."""
        return self._value(params)[0]

    def _value(self, raw: bytes) -> tuple[bytes, Counter[str]]:
        try:
            masked, counts = self._masker.mask_value(msgspec.json.decode(raw))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return b"null", Counter({"unreadable": 1})
        return (msgspec.json.encode(masked) if counts else raw), counts


def findings_of(counts: Mapping[str, int]) -> tuple[Finding, ...]:
    """The masked values for the audit log: the kinds, each with its number."""
    return tuple(Finding(f"{_RULE}{kind}", f"{count} masked.") for kind, count in sorted(counts.items()))
