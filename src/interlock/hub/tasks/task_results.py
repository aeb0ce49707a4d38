"""Delivers the answers of servers about tasks to the principals of the tasks.

Text of the server in an answer is processed as that of a call: its result, its error, and all other text.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from interlock.hub.calls.bridges.retries import QUESTIONS
from interlock.hub.calls.call import Call, Caller, Deliver
from interlock.hub.calls.plan import CallPolicy
from interlock.hub.catalog.cleaned_results import cleaned
from interlock.hub.catalog.links import exposed_questions, with_exposed_uris
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import Exchange
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.tasks.running_task import renamed
from interlock.hub.tasks.tracker import Tracker
from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import Members, members
from interlock.protocols.mcp.reserved_names import has_reserved, params_of_server
from interlock.wire.errors import TABLE, ErrorObject
from interlock.wire.json_values import decode_json_or

INTERNAL_ERROR: Final = TABLE["INTERNAL_ERROR"].mcp


class TaskResults:
    """Processes the answers about the tasks of one hub."""

    def __init__(self, policy: CallPolicy, tracker: Tracker) -> None:
        self._policy = policy
        self._tracker = tracker

    def deliver(
        self,
        exchange: Exchange,
        caller: Caller,
        task: StoredTask,
        target: Target,
        answer: bytes,
        deliver: Deliver,
    ) -> None:
        """Deliver a server's answer about a task to its principal. A result or an error in it is processed like any."""
        texts = self._tracker.texts.checked(caller, task.server, task.tool, params_of_server(answer))
        fields = members(renamed(texts, task))
        if QUESTIONS not in fields:
            self._put(exchange, caller, target, fields, deliver)
            return
        if not caller.view.bare:
            fields[QUESTIONS] = msgspec.Raw(exposed_questions(task.server, bytes(fields[QUESTIONS])))
        # Questions are judged once, and count for taints each time that the client gets them.
        put = partial(self._put, exchange, caller, target, fields, deliver)
        self._policy.note_text(caller, task.server, task.tool, put, exchange)

    def _put(self, exchange: Exchange, caller: Caller, target: Target, fields: Members, deliver: Deliver) -> None:
        """Deliver the state of a task, once the error and the result in it are processed."""
        error, processor = fields.get("error", msgspec.Raw(b"null")), self._policy.processor_of(caller, target)

        def put_error(error: ErrorObject) -> None:
            fields["error"] = msgspec.Raw(msgspec.json.encode(error))
            self._put_result(exchange, caller, target, fields, deliver)

        if processor is None or bytes(error) == b"null":
            self._put_result(exchange, caller, target, fields, deliver)
        else:
            read = decode_json_or(error, ErrorObject, ErrorObject(INTERNAL_ERROR, "", error))
            processor.error(Call.of(exchange, caller, target, {}), read, put_error)

    def _put_result(
        self, exchange: Exchange, caller: Caller, target: Target, fields: Members, deliver: Deliver
    ) -> None:
        """Deliver the state of a task, once the result in it is postprocessed."""
        result = bytes(fields.get("result", b"null"))
        if result == b"null":
            deliver(msgspec.json.encode(fields))
        else:
            self.finish(exchange, caller, target, result, partial(_put, fields, deliver))

    def finish(self, exchange: Exchange, caller: Caller, target: Target, result: bytes, deliver: Deliver) -> None:
        """Deliver the result of a task, processed like any result."""
        read = read_members(result)
        if has_reserved(read, result):
            result = cleaned(result)
        if not caller.view.bare and read.has_addresses(result):
            result = with_exposed_uris(target.server, result)
        processor = self._policy.processor_of(caller, target)
        if processor is None:
            deliver(result)
        else:
            processor.finish(Call.of(exchange, caller, target, {}), result, deliver)


def _put(fields: Members, deliver: Deliver, result: bytes) -> None:
    deliver(msgspec.json.encode({**fields, "result": msgspec.Raw(result)}))
