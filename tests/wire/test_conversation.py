"""A conversation against a simple model: every request is answered once, to whoever asked it, or said to be lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from cases import each_case
from interlock.wire.conversation import (
    Answered,
    Notified,
    Progressed,
    RefusedMessage,
    RequestReceived,
    RpcConversation,
    UnmatchedMessage,
    Withdrawn,
)
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import encode_notification, encode_request, encode_result

FOREVER = float("inf")


class ConversationMachine(RuleBasedStateMachine):
    """Our requests by id, theirs by id: two sets that the conversation must agree with."""

    ours = Bundle("ours")
    theirs = Bundle("theirs")

    def __init__(self) -> None:
        super().__init__()
        self.conversation: RpcConversation[str, None] = RpcConversation(Limits(pending=20))
        self.waiting: dict[int, tuple[str, float]] = {}
        self.owed: set[int] = set()
        self.count = 0

    @rule(target=ours, deadline=st.integers(1, 100))
    def ask(self, deadline: int) -> int:
        if len(self.waiting) == 20:
            with pytest.raises(Fault):
                self.conversation.reserve()
            return -1
        id_ = self.conversation.reserve()
        self.count += 1
        waiter = f"w{self.count}"
        self.conversation.waiting[id_] = waiter, deadline
        self.waiting[id_] = (waiter, deadline)
        return id_

    @rule(id_=ours)
    def answer(self, id_: int) -> None:
        received = self.conversation.receive(encode_result(id_, b"{}"))
        if id_ in self.waiting:
            assert isinstance(received, Answered)
            assert received.waiter == self.waiting.pop(id_)[0]
        else:
            assert isinstance(received, UnmatchedMessage)

    @rule(id_=ours)
    def progress(self, id_: int) -> None:
        params = json.dumps({"progressToken": id_, "progress": 1}).encode()
        received = self.conversation.receive(encode_notification("notifications/progress", params))
        if id_ in self.waiting:
            assert isinstance(received, Progressed)
            assert received.waiter == self.waiting[id_][0]
        else:
            assert isinstance(received, UnmatchedMessage)

    @rule(id_=consumes(ours))
    def withdraw(self, id_: int) -> None:
        told = self.conversation.withdraw(id_, "enough")
        assert (told is not None) == (self.waiting.pop(id_, None) is not None)

    @rule(now=st.integers(0, 101))
    def expire(self, now: int) -> None:
        expected = {(id_, waiter) for id_, (waiter, deadline) in self.waiting.items() if deadline <= now}
        assert set(self.conversation.expire(now)) == expected

    @rule(target=theirs, id_=st.integers(1, 30))
    def asked(self, id_: int) -> int:
        received = self.conversation.receive(encode_request(id_, "m", b"{}"))
        if id_ in self.owed or len(self.owed) == 20:
            assert isinstance(received, RefusedMessage)
        else:
            assert isinstance(received, RequestReceived)
            self.owed.add(id_)
        return id_

    @rule(id_=theirs)
    def settle(self, id_: int) -> None:
        assert self.conversation.settle(id_) == (id_ in self.owed)
        self.owed.discard(id_)

    @rule(id_=theirs, number=st.sampled_from([int, float]))
    def cancelled(self, id_: int, number: type[int] | type[float]) -> None:
        params = json.dumps({"requestId": number(id_), "reason": "r"}).encode()
        received = self.conversation.receive(encode_notification("notifications/cancelled", params))
        assert received == Withdrawn(id_, "r") if id_ in self.owed else isinstance(received, UnmatchedMessage)
        self.owed.discard(id_)

    @rule()
    def abandon(self) -> None:
        assert sorted(self.conversation.abandon()) == sorted(waiter for waiter, _ in self.waiting.values())
        self.waiting.clear()
        self.owed.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.conversation.waiting) == len(self.waiting)
        assert set(self.conversation.owed) == self.owed


TestTalk = ConversationMachine.TestCase


@each_case("line", [b"rubbish", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":null,"method":"x"}'])
def test_a_bad_message_is_refused_and_changes_nothing(line: bytes) -> None:
    conversation: RpcConversation[str, None] = RpcConversation()
    conversation.waiting[conversation.reserve()] = "w", FOREVER
    assert isinstance(conversation.receive(line), RefusedMessage)
    assert len(conversation.waiting) == 1


@each_case("method", ["notifications/progress", "notifications/cancelled"])
@each_case(
    "params", [b"{}", b'{"progressToken":{}}', b'{"requestId":[]}', b'{"requestId":1.5}', b'{"requestId":1e300}']
)
def test_unreadable_talk_about_other_messages_is_stray(method: str, params: bytes) -> None:
    assert isinstance(RpcConversation[str, None]().receive(encode_notification(method, params)), UnmatchedMessage)


def test_other_notifications_are_handed_on() -> None:
    received = RpcConversation[str, None]().receive(encode_notification("notifications/message", b'{"level":"info"}'))
    assert isinstance(received, Notified)
    assert received.notification.params == b'{"level":"info"}'


@each_case("method", ["notifications/progress", "notifications/cancelled", "notifications/mgp.stream.chunk"])
def test_no_depth_of_nesting_ends_a_conversation(method: str) -> None:
    conversation = RpcConversation[str, None]()
    for depth in range(600, 1100):
        nested = b'{"requestId":1,"progressToken":1,"x":%b%b}' % (b"[" * depth, b"]" * depth)
        conversation.receive(encode_notification(method, nested))
