"""A thousand random histories of a topic, against a model that keeps everything and looks through all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.ledger import LedgerBounds
from interlock.protocols.mcpx.routing import ReceiveMode, TopicParticipant
from interlock.protocols.mcpx.topic import Topic, TopicRules

from .vectors import envelope

LIFETIME = 10
OPEN_PER_PRINCIPAL = 2
OPEN = 4
PEOPLE = {
    "ann": ("o1", ("mcp/*", "chat"), ReceiveMode.ALL),
    "bob": ("o2", ("mcp/*", "chat"), ReceiveMode.DIRECTED),
    "cat": ("o2", ("mcp/proposal:*", "mcp/request:tools/call:x"), ReceiveMode.DIRECTED),
    "dan": ("o3", ("mcp/proposal:*", "chat"), ReceiveMode.ALL),
}
TOOLS = ("x", "y")


@dataclass
class Remembered:
    """A proposal in the model."""

    proposer: str
    principal_id: str
    tool: str
    expires: float
    state: str = "open"


@dataclass
class Model:
    """The rules again, without bounds that forget, indexes or classes for anything."""

    present: set[str] = field(default_factory=set)
    proposals: dict[str, Remembered] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    def open(self, now: float) -> list[Remembered]:
        return [one for one in self.proposals.values() if self.state(one, now) == "open"]

    def state(self, proposal: Remembered, now: float) -> str:
        return "expired" if proposal.state == "open" and now >= proposal.expires else proposal.state

    def may_send(self, who: str, request: bool, tool: str) -> bool:
        if who in ("ann", "bob"):
            return True
        return not request or (who == "cat" and tool == "x")

    def expected(self, action: str, who: str, id: str, tool: str, now: float) -> str | None:
        """The reason why this is refused; None if it is accepted."""
        if who not in self.present:
            return "invalid_participant"
        if action in ("propose", "fulfil") and not self.may_send(who, action == "fulfil", tool):
            return "capability_violation"
        if action == "propose":
            own = [one for one in self.open(now) if one.principal_id == PEOPLE[who][0]]
            return "too_many_proposals" if len(own) >= OPEN_PER_PRINCIPAL or len(self.open(now)) >= OPEN else None
        proposal = self.proposals.get(id)
        if proposal is None:
            return None if action == "fulfil" else "unknown_proposal"
        state = self.state(proposal, now)
        over = {"fulfilled": "proposal_already_fulfilled"}.get(state, f"proposal_{state}")
        is_own = who == proposal.proposer or PEOPLE[who][0] == proposal.principal_id
        if action == "withdraw":
            return "not_the_proposer" if who != proposal.proposer else None if state == "open" else over
        if action == "reject":
            if is_own or not self.may_send(who, True, proposal.tool):
                return "cannot_reject"
            return None if state == "open" else over
        if state != "open":
            return over
        return "own_proposal" if is_own else None if tool == proposal.tool else "proposal_mismatch"


ENDS = {"fulfil": "fulfilled", "withdraw": "withdrawn", "reject": "rejected"}
KINDS = {"propose": "mcp/proposal:tools/call:", "fulfil": "mcp/request:tools/call:"}
ACTIONS = ("join", "leave", "propose", "propose", "fulfil", "fulfil", "withdraw", "reject", "expire", "answer")
PAUSES = (0, 0, 0, 0, 1, 1, 4, LIFETIME)


def steps(drawn: bytes) -> list[tuple[str, str, int, str, int]]:
    """Three bytes a step: drawing bytes is what makes a thousand histories quick."""
    return [
        (ACTIONS[first % 10], sorted(PEOPLE)[second % 4], third, TOOLS[second // 4 % 2], PAUSES[second // 8 % 8])
        for first, second, third in zip(drawn[::3], drawn[1::3], drawn[2::3], strict=False)
    ]


@settings(max_examples=example_count(200, 1_000), deadline=None)
@given(st.binary(min_size=60, max_size=120))
def test_every_history_of_a_topic_agrees_with_the_model(drawn: bytes) -> None:
    bounds = LedgerBounds(lifetime=LIFETIME, open_per_principal=OPEN_PER_PRINCIPAL, open=OPEN)
    topic, model, now = Topic(TopicRules(ledger=bounds)), Model(), 0.0
    for who in PEOPLE:
        change(topic, model, "join", who)
    for at, (action, who, which, tool, pause) in enumerate(steps(drawn)):
        now += pause
        if action in ("join", "leave"):
            change(topic, model, action, who)
        elif action == "expire":
            late = [name for name, one in model.proposals.items() if one.state == "open" and now >= one.expires]
            assert [ended.id for ended in topic.expire(now)] == late
            for name in late:
                model.proposals[name].state = "expired"
        elif action == "answer":
            answer(topic, model, who, which, now)
        else:
            names = list(model.proposals)
            name = names[which % len(names)] if names else "nothing"
            attempt(topic, model, action, who, name, tool, now, f"e{at}")
        for name, one in model.proposals.items():
            found = topic.proposal(name, now)
            assert found is not None
            assert found.state.value == model.state(one, now)


def change(topic: Topic, model: Model, action: str, who: str) -> None:
    principal_id, capabilities, mode = PEOPLE[who]
    if action == "join":
        assert topic.join(TopicParticipant(who, principal_id, CapabilitySet(capabilities), mode)) is (
            who not in model.present
        )
        model.present.add(who)
    else:
        assert (topic.leave(who) is not None) is (who in model.present)
        model.present.discard(who)
    assert {one.id for one in topic.participants} == model.present


def attempt(topic: Topic, model: Model, action: str, who: str, id: str, tool: str, now: float, own_id: str) -> None:
    kind = KINDS[action] + tool if action in KINDS else f"mcp/{action}"
    correlation = None if action == "propose" else id
    sent = envelope(kind, who, {}, id=own_id, correlation_id=correlation)
    expected = model.expected(action, who, id, tool, now)
    try:
        accepted = topic.accept(sent, who, now)
    except EnvelopeRefused as refusal:
        assert refusal.reason == RefusalReason(expected or ""), f"{action} by {who}"
        return
    assert expected is None, f"{action} by {who} should be {expected}"
    assert set(accepted.recipients) == model.present - {who}
    if action == "propose":
        model.proposals[own_id] = Remembered(who, PEOPLE[who][0], tool, now + LIFETIME)
    elif id in model.proposals:
        model.proposals[id].state = ENDS[action]
        if action == "fulfil":
            model.answers[own_id] = model.proposals[id].proposer


def answer(topic: Topic, model: Model, who: str, which: int, now: float) -> None:
    """A response that names nobody but one who is not there: only mode *All* and the proposer receive it."""
    who = "ann" if model.may_send(who, True, "y") is False else who
    if who not in model.present or not model.answers:
        return
    request = list(model.answers)[which % len(model.answers)]
    sent = envelope("mcp/response:tools/call", who, {}, to=["nobody"], correlation_id=request)
    received = set(topic.accept(sent, who, now).recipients)
    everything = {one for one in model.present if PEOPLE[one][2] is ReceiveMode.ALL}
    assert received == (everything | ({model.answers[request]} & model.present)) - {who}
