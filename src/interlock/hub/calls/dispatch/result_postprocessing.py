"""Processes the results of tools as their servers' settings say: searches them, and cuts long ones.

A result never becomes a failure. A long one keeps its beginning and says where the rest can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call, Deliver
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.calls.dispatch.chunk_checks import ChunkChecks
from interlock.hub.calls.dispatch.error_search import SearchedError, search_error, unjudged, withheld
from interlock.hub.calls.dispatch.result_cutting import (
    BYTES_PER_TOKEN,
    CutResult,
    LongResult,
    cut_result,
    first_bytes,
    read_long,
)
from interlock.hub.calls.dispatch.result_masking import WITHHELD, ResultMasker, findings_of
from interlock.hub.calls.dispatch.result_pages import LIFE_S, MAX_BYTES_EACH, ResultPages
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.dispatch.text_results import text_result
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.findings import Finding
from interlock.judge.results import is_loaded, judge_result, load, made_visible
from interlock.process.fair_threads import Unwanted
from interlock.wire.errors import ErrorObject

SCAN_HERE: Final = 500
"""Bytes that are searched on the loop, once the signals are compiled; a longer result in a thread."""
LINKS_SINCE: Final = "2025-06-18"
"""The first revision with resource links; an older client gets the address in the text alone."""


class ResultPostprocessor:
    """Processes the results of one server's tools."""

    def __init__(
        self,
        settings: ServerSettings,
        pages: ResultPages,
        judging: JudgingThreads,
        tokens: ResultTokens,
        findings: ObservedFindings,
    ) -> None:
        self._max_tokens = settings.max_result_tokens
        self._tokens = tokens
        self._scans = settings.scan_results != "off"
        self._escapes = settings.scan_results == "escape"
        self._masker = ResultMasker(settings.mask) if settings.scan_results == "mask" else None
        self._withholds = self._escapes or self._masker is not None
        """Whether a result that could not be processed is withheld, as it may hold text that must be masked."""
        self._pages = pages
        self._judging = judging
        self._findings = findings
        self._tasks = BackgroundTasks()

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        """Process a result and deliver it, now or when a thread is done with it."""
        size = len(result)
        may_be_long = self._max_tokens is not None and size > self._max_tokens
        if not self._scans and not may_be_long:
            deliver(result)
        elif may_be_long or size > SCAN_HERE or not is_loaded():
            self._tasks.begin(self._process_in_thread(call, result, deliver, on_unwanted), call)
        else:
            self._deliver(call, self._searched(result), deliver)

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        """Search an error of the server as a result is searched, and deliver it, now or when a thread is done."""
        if not self._scans:
            deliver(error)
        elif len(error.message) + len(error.data) > SCAN_HERE or not is_loaded():
            self._tasks.begin(self._search_error_in_thread(call, error, deliver), call)
        else:
            self._deliver_error(call, self._searched_error(error), deliver)

    def params(self, params: bytes) -> bytes:
        """Mask the params of a notification, if results are masked."""
        return params if self._masker is None else self._masker.params(params)

    def chunks(self, call: Call) -> ChunkFilter:
        """The checks for the chunks of one call."""
        most_bytes = None if self._max_tokens is None else self._max_tokens * BYTES_PER_TOKEN
        return ChunkChecks(
            call,
            self._judging,
            self._findings,
            self._tasks,
            self._masker,
            scans=self._scans,
            escapes=self._escapes,
            most_bytes=most_bytes,
        )

    async def _process_in_thread(
        self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None
    ) -> None:
        prepared = _Prepared(result, text=WITHHELD if self._withholds else None)
        judging, principal_name = self._judging, call.caller.principal_name
        is_wanted = None if on_unwanted is None else lambda: call.exchange.can_answer_later
        try:
            with judging.holding_result(principal_name, len(result)):
                prepared = await judging.run_result(principal_name, lambda: self._prepared(result), is_wanted)
                if self._max_tokens is not None and prepared.long is not None:
                    long, max_tokens = prepared.long, self._max_tokens
                    extra = len(long.texts) > len(long.blocks)
                    division = await self._tokens.divide(long.texts, max_tokens, whole_last=extra)
                    cut = await judging.run_result(
                        principal_name, lambda: cut_result(long, division, max_tokens, extra)
                    )
                    prepared = prepared._replace(cut=cut)
        except Unwanted:
            assert on_unwanted is not None
            on_unwanted(result)
            return
        except Exception as cause:  # the tool has done its work: the call is answered, and flagged
            prepared = prepared._replace(found=(*prepared.found, unjudged(cause)))
            if self._max_tokens is not None and prepared.text is None:
                prepared = prepared._replace(text=first_bytes(prepared.result, self._max_tokens * BYTES_PER_TOKEN))
        self._deliver(call, prepared, deliver)

    async def _search_error_in_thread(
        self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]
    ) -> None:
        judging, principal_name = self._judging, call.caller.principal_name
        try:
            with judging.holding_result(principal_name, len(error.message) + len(error.data)):
                searched = await judging.run_result(principal_name, lambda: self._searched_error(error))
        except Exception as cause:  # the call is answered, and flagged
            searched = SearchedError(withheld(error) if self._withholds else error, (unjudged(cause),))
        self._deliver_error(call, searched, deliver)

    def _searched_error(self, error: ErrorObject) -> SearchedError:
        load()
        return search_error(error, self._masker, escapes=self._escapes)

    def _deliver_error(self, call: Call, searched: SearchedError, deliver: Callable[[ErrorObject], None]) -> None:
        if searched.found:
            self._findings.on_result(call, searched.found, searched.masked)
        deliver(searched.error)

    def _prepared(self, result: bytes) -> _Prepared:
        """The slow part, which is pure, so that a thread may do it."""
        if self._scans:
            load()  # so that the next short result can be judged on the loop
        searched = self._searched(result)
        if self._max_tokens is None or len(searched.result) <= self._max_tokens or searched.text is not None:
            return searched
        try:
            return searched._replace(long=read_long(searched.result, self._max_tokens))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            uncut = Finding("result.uncut", "It is too long, and not in a form that can be cut.")
            return searched._replace(found=(*searched.found, uncut))

    def _searched(self, result: bytes) -> _Prepared:
        """The result, masked and with hidden text made visible where the settings say so, and the findings."""
        if not self._scans:
            return _Prepared(result)
        masked: Mapping[str, int] = {}
        if self._masker is not None:
            shown, masked = self._masker.result(result)
            if shown is None:
                return _Prepared(result, findings_of(masked), masked, text=WITHHELD)
            result = shown
        text: str | None = None
        try:
            result, found = self._judged(result)
        except Exception as cause:  # the tool has done its work: a result that cannot be judged is flagged as that
            text, found = WITHHELD if self._escapes else None, (unjudged(cause),)
        return _Prepared(result, (*findings_of(masked), *found), masked, text=text)

    def _judged(self, result: bytes) -> tuple[bytes, tuple[Finding, ...]]:
        value = msgspec.json.decode(result, type=dict[str, object])
        judged = {key: value[key] for key in ("content", "structuredContent") if key in value}
        found = judge_result(judged)
        if self._escapes:
            # Findings are bounded, but all hidden text becomes visible: a thousand decoys hide nothing.
            visible = made_visible(judged)
            if visible != judged:
                result = msgspec.json.encode({**value, **visible})
        return result, found

    def _deliver(self, call: Call, prepared: _Prepared, deliver: Deliver) -> None:
        if prepared.found:
            self._findings.on_result(call, prepared.found, prepared.masked)
        cut = prepared.cut
        if prepared.text is not None:
            deliver(text_result(call, prepared.text))
        else:
            deliver(prepared.result if cut is None else self._with_link(call, cut))

    def _with_link(self, call: Call, cut: CutResult) -> bytes:
        """The head of a result, how much of it that is, and where the rest can be read."""
        division = cut.division
        uri, count = self._pages.keep(call.caller.principal_name, cut.rest, division.bounds, call.target.tool)
        about = "" if division.exact else "about "
        note = (
            f"[Cut here: {division.shown:,} of {about}{division.total:,} tokens are shown. "
            f"The rest can be read as a resource: {uri}"
        )
        if count > 1:
            note += f" and on to /{count}"
        if len(cut.rest) > MAX_BYTES_EACH:
            note += f", no further than {MAX_BYTES_EACH:,} bytes"
        blocks: list[object] = [*cut.shown_blocks, {"type": "text", "text": f"{note}, for {LIFE_S / 60:.0f} minutes.]"}]
        if call.exchange.dialect.revision.name >= LINKS_SINCE:
            named = {"name": f"The rest of the result ({count} pages)", "mimeType": "text/plain", "size": len(cut.rest)}
            blocks.append({"type": "resource_link", "uri": uri, **named})
        return msgspec.json.encode({**cut.fields, "content": blocks})


class _Prepared(NamedTuple):
    result: bytes
    found: tuple[Finding, ...] = ()
    masked: Mapping[str, int] = {}
    """How much was masked, by kind."""
    long: LongResult | None = None
    cut: CutResult | None = None
    text: str | None = None
    """The text in place of the result, where it is not shown."""


def postprocessor_for(
    settings: ServerSettings | None,
    pages: ResultPages,
    judging: JudgingThreads,
    tokens: ResultTokens,
    findings: ObservedFindings,
) -> ResultPostprocessor | None:
    """The postprocessor of a server's results; None if its settings need none."""
    if settings is None or (settings.max_result_tokens is None and settings.scan_results == "off"):
        return None
    return ResultPostprocessor(settings, pages, judging, tokens, findings)
