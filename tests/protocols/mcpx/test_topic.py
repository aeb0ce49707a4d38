"""The specification's Implementation Checklist, for everything that needs no socket."""

from __future__ import annotations

import json

import pytest

from cases import each_case
from interlock.protocols.mcpx.capabilities import PROFILES, CapabilitySet
from interlock.protocols.mcpx.envelopes import decode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.proposals import ProposalState
from interlock.protocols.mcpx.routing import ReceiveMode, TopicParticipant, recipients
from interlock.protocols.mcpx.system import GATEWAY, WelcomePayload, error, presence, welcome
from interlock.protocols.mcpx.topic import Topic, TopicRules

from .vectors import CHAT, FULFILMENT, FULFILMENT_RESPONSE, PROPOSAL, REQUEST, RESPONSE, envelope, written


def participant(
    id: str, profile: str = "full-access", principal_id: str = "", mode: ReceiveMode = ReceiveMode.ALL
) -> TopicParticipant:
    return TopicParticipant(id, principal_id or f"principal of {id}", CapabilitySet(PROFILES[profile]), mode)


def room(rules: TopicRules | None = None) -> Topic:
    """The participants of the specification's examples."""
    topic = Topic(rules or TopicRules())
    topic.join(participant("trusted-agent"))
    topic.join(participant("human-user"))
    topic.join(participant("target-agent", "response-only"))
    topic.join(participant("untrusted-agent", "proposal-only", mode=ReceiveMode.DIRECTED))
    topic.join(participant("user-alice", "response-only"))
    return topic


def refused(topic: Topic, data: bytes, sender: str, now: float = 0) -> EnvelopeRefused:
    with pytest.raises(EnvelopeRefused) as caught:
        topic.accept(decode(data), sender, now)
    assert caught.value.envelope_id == json.loads(data)["id"], "the refusal is correlated"
    assert caught.value.attempted_kind == json.loads(data)["kind"]
    assert caught.value.fix
    return caught.value


STRICT = TopicRules(strict=True)


@each_case("rules", [TopicRules(), STRICT], ids=["lazy", "strict"])
def test_the_examples_of_the_specification_make_a_conversation(rules: TopicRules) -> None:
    topic = room(rules)
    assert "target-agent" in topic.accept(decode(REQUEST.encode()), "trusted-agent", 0).recipients
    assert "trusted-agent" in topic.accept(decode(RESPONSE.encode()), "target-agent", 1).recipients
    opened = topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 2).proposal
    assert opened is not None
    assert opened.state is ProposalState.OPEN
    ended = topic.accept(decode(FULFILMENT.encode()), "human-user", 3).proposal
    assert ended is not None
    assert ended.state is ProposalState.FULFILLED
    assert "untrusted-agent" in topic.accept(decode(FULFILMENT_RESPONSE.encode()), "target-agent", 4).recipients
    assert topic.accept(decode(CHAT.encode()), "user-alice", 5).recipients == (
        "trusted-agent", "human-user", "target-agent", "untrusted-agent",
    )  # fmt: skip


# Gateway: Capability Enforcement


def test_gateway_blocks_kinds_that_no_capability_covers_and_answers_with_the_capabilities() -> None:
    topic = room()
    data = written("mcp/request:tools/call", "untrusted-agent")
    refusal = refused(topic, data, "untrusted-agent")
    assert refusal.reason is RefusalReason.CAPABILITY_VIOLATION
    assert refusal.message == "You lack capability for 'mcp/request:tools/call'"
    sender = topic.participant("untrusted-agent")
    assert sender is not None
    said = json.loads(error("e", sender.id, refusal, sender.capabilities.texts))
    assert said["to"] == ["untrusted-agent"]
    assert said["correlation_id"] == json.loads(data)["id"]
    assert said["payload"]["attempted_kind"] == "mcp/request:tools/call"
    assert said["payload"]["your_capabilities"] == ["mcp/proposal:*", "mcp/response:*", "chat"]


def test_gateway_takes_a_dropped_context_for_no_way_around_a_limit() -> None:
    topic = Topic()
    topic.join(TopicParticipant("bob", "o", CapabilitySet(["mcp/request:tools/call:safe"])))
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dangerous"}}
    assert (
        refused(topic, written("mcp/request:tools/call", "bob", payload), "bob").reason
        is RefusalReason.CAPABILITY_VIOLATION
    )
    topic.accept(envelope("mcp/request:tools/call:safe", "bob", payload), "bob", 0)


# Gateway: System Messages


@each_case("kind", ["system/welcome", "system/presence", "system/error", "system/anything"])
def test_gateway_alone_sends_system_messages(kind: str) -> None:
    topic = Topic()
    topic.join(TopicParticipant("bob", "o", CapabilitySet(["*"])))
    refusal = refused(topic, written(kind, "bob"), "bob")
    assert refusal.reason is RefusalReason.CAPABILITY_VIOLATION
    assert "gateway" in refusal.fix


def test_gateway_sends_the_welcome_to_the_newcomer_and_presence_to_all() -> None:
    topic = room()
    newcomer = participant("new", "response-only")
    others = tuple(one.info for one in topic.participants)
    assert topic.join(newcomer)
    said = decode(welcome("w", newcomer.info, others))
    assert recipients(topic.participants, GATEWAY, said.to) == ("new",)
    joined = decode(presence("p", "join", newcomer.info))
    assert recipients(topic.participants, GATEWAY, joined.to) == tuple(one.id for one in topic.participants)
    assert topic.leave("new") == newcomer
    assert topic.leave("new") is None
    assert "new" not in recipients(topic.participants, GATEWAY, ())


def test_gateway_sees_a_second_connection_of_one_participant_as_no_newcomer() -> None:
    topic = room()
    assert not topic.join(participant("human-user", "read-only"))
    changed = topic.participant("human-user")
    assert changed is not None
    assert changed.capabilities.texts == PROFILES["read-only"]


# Gateway: identity and message routing


@each_case("claimed", ["human-user", "system:gateway", "nobody"])
def test_gateway_never_lets_a_participant_name_itself(claimed: str) -> None:
    assert refused(room(), written(sender=claimed), "user-alice").reason is RefusalReason.FROM_MISMATCH


def test_gateway_refuses_envelopes_of_those_who_left() -> None:
    topic = room()
    topic.leave("user-alice")
    assert refused(topic, written(sender="user-alice"), "user-alice").reason is RefusalReason.INVALID_PARTICIPANT


def test_gateway_routes_by_recipients_and_by_mode() -> None:
    topic = room()
    assert topic.accept(envelope(sender="user-alice", to=["human-user"]), "user-alice", 0).recipients == (
        "trusted-agent", "human-user", "target-agent",
    )  # fmt: skip
    assert "untrusted-agent" in topic.accept(envelope(sender="user-alice"), "user-alice", 0).recipients


def test_gateway_delivers_an_answer_to_a_directed_proposer_that_nobody_named() -> None:
    topic = room()
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    topic.accept(decode(FULFILMENT.encode()), "human-user", 0)
    response = json.dumps({**json.loads(FULFILMENT_RESPONSE), "to": ["human-user"]}).encode()
    assert "untrusted-agent" in topic.accept(decode(response), "target-agent", 0).recipients
    other = envelope("mcp/response:tools/call", "target-agent", to=["human-user"], correlation_id="elsewhere")
    assert "untrusted-agent" not in topic.accept(other, "target-agent", 0).recipients


def test_gateway_reads_no_payload_unless_the_topic_is_strict() -> None:
    spoof = REQUEST.replace('"name": "dangerous_operation"', '"name": "other"').encode()
    room().accept(decode(spoof), "trusted-agent", 0)
    assert refused(room(STRICT), spoof, "trusted-agent").reason is RefusalReason.CONTEXT_MISMATCH


def test_gateway_refuses_an_id_that_was_used_in_the_topic() -> None:
    topic = room(TopicRules(ids_for=10))
    data = written(sender="user-alice", id="same")
    topic.accept(decode(data), "user-alice", 0)
    assert refused(topic, data, "user-alice", 9).reason is RefusalReason.DUPLICATE_ID
    assert refused(topic, written(sender="human-user", id="same"), "human-user", 9).reason is RefusalReason.DUPLICATE_ID
    topic.accept(decode(data), "user-alice", 10)
    topic.note("own", GATEWAY, 10)
    assert refused(topic, written(sender="user-alice", id="own"), "user-alice", 11).reason is RefusalReason.DUPLICATE_ID


def test_gateway_keeps_the_id_of_an_open_proposal_longer_than_other_ids() -> None:
    topic = room(TopicRules(ids_for=1))
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    assert refused(topic, PROPOSAL.encode(), "untrusted-agent", 100).reason is RefusalReason.DUPLICATE_ID


def test_gateway_takes_an_id_again_that_it_refused() -> None:
    topic = room()
    refused(topic, written("mcp/request:tools/call", "user-alice", id="again"), "user-alice")
    topic.accept(envelope(sender="user-alice", id="again"), "user-alice", 0)


def test_gateway_refuses_a_proposal_with_a_correlation() -> None:
    data = written("mcp/proposal:tools/call", "untrusted-agent", correlation_id="x")
    assert refused(room(), data, "untrusted-agent").reason is RefusalReason.CORRELATION_FORBIDDEN


@each_case("kind", ["mcp/response:tools/call", "mcp/withdraw", "mcp/reject"])
def test_gateway_refuses_what_does_not_say_what_it_refers_to(kind: str) -> None:
    assert refused(room(), written(kind, "trusted-agent"), "trusted-agent").reason is RefusalReason.CORRELATION_MISSING


def test_gateway_bounds_the_participants_of_a_topic() -> None:
    topic = Topic(TopicRules(participants=1))
    topic.join(participant("a"))
    topic.join(participant("a"))
    with pytest.raises(EnvelopeRefused) as caught:
        topic.join(participant("b"))
    assert caught.value.reason is RefusalReason.TOPIC_FULL


@each_case("id", ["system:inbox", "server:files"])
def test_gateway_maps_no_token_to_a_reserved_id_and_adds_its_own(id: str) -> None:
    topic = Topic()
    with pytest.raises(EnvelopeRefused) as caught:
        topic.join(participant(id))
    assert caught.value.reason is RefusalReason.INVALID_PARTICIPANT
    assert topic.join(participant(id), internal=True)


# Participants: MCP integration and proposals


def test_participants_answer_only_what_was_asked_in_a_strict_topic() -> None:
    topic = room(STRICT)
    assert refused(topic, RESPONSE.encode(), "target-agent").reason is RefusalReason.UNKNOWN_REQUEST
    topic.accept(decode(REQUEST.encode()), "trusted-agent", 0)
    forged = json.dumps({**json.loads(RESPONSE), "from": "user-alice"}).encode()
    assert refused(topic, forged, "user-alice").reason is RefusalReason.RESPONSE_MISMATCH
    topic.accept(decode(RESPONSE.encode()), "target-agent", 10_000)


def test_participants_withdraw_and_reject_without_a_capability_for_it() -> None:
    topic = room()
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    withdrawal = envelope("mcp/withdraw", "untrusted-agent", correlation_id="env-req-1")
    ended = topic.accept(withdrawal, "untrusted-agent", 1).proposal
    assert ended is not None
    assert ended.state is ProposalState.WITHDRAWN
    assert refused(topic, FULFILMENT.encode(), "human-user", 2).reason is RefusalReason.PROPOSAL_WITHDRAWN


def test_participants_that_could_not_fulfil_cannot_reject() -> None:
    topic = room()
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    data = written("mcp/reject", "user-alice", correlation_id="env-req-1")
    assert refused(topic, data, "user-alice").reason is RefusalReason.CANNOT_REJECT
    assert topic.accept(envelope("mcp/reject", "human-user", correlation_id="env-req-1"), "human-user", 0).proposal


def test_participants_fulfil_a_proposal_once() -> None:
    topic = room()
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    topic.accept(decode(FULFILMENT.encode()), "human-user", 1)
    second = json.dumps({**json.loads(FULFILMENT), "id": "second", "from": "trusted-agent"}).encode()
    assert refused(topic, second, "trusted-agent", 2).reason is RefusalReason.PROPOSAL_ALREADY_FULFILLED


def test_participants_cannot_fulfil_for_their_own_principal() -> None:
    topic = room()
    topic.join(participant("sibling", principal_id="principal of untrusted-agent"))
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    data = json.dumps({**json.loads(FULFILMENT), "from": "sibling"}).encode()
    assert refused(topic, data, "sibling").reason is RefusalReason.OWN_PROPOSAL


def test_participants_thread_requests_onto_other_envelopes() -> None:
    topic = room()
    topic.accept(decode(CHAT.encode()), "user-alice", 0)
    threaded = json.dumps({**json.loads(FULFILMENT), "correlation_id": "env-chat-1"}).encode()
    assert topic.accept(decode(threaded), "human-user", 1).proposal is None


def test_participants_track_proposals_themselves_where_the_gateway_does_not_arbitrate() -> None:
    topic = room(TopicRules(arbitrate=False))
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    assert topic.accept(decode(FULFILMENT.encode()), "human-user", 1).proposal is None
    second = json.dumps({**json.loads(FULFILMENT), "id": "second", "from": "trusted-agent"}).encode()
    topic.accept(decode(second), "trusted-agent", 2)
    data = written("mcp/withdraw", "untrusted-agent", correlation_id="env-req-1")
    assert refused(topic, data, "untrusted-agent").reason is RefusalReason.CAPABILITY_VIOLATION


def test_participants_learn_their_id_and_capabilities_from_the_welcome() -> None:
    import msgspec

    said = decode(welcome("w", participant("bob", "response-only").info, ()))
    learned = msgspec.json.decode(said.payload, type=WelcomePayload)
    assert learned.you.id == "bob"
    assert isinstance(learned.you.capabilities, tuple)
    capabilities = CapabilitySet(learned.you.capabilities)
    assert capabilities.covers("mcp/response:tools/call")
    assert not capabilities.covers("mcp/request:tools/call")


def test_a_proposal_expires_when_its_time_has_passed() -> None:
    topic = room()
    topic.accept(decode(PROPOSAL.encode()), "untrusted-agent", 0)
    assert [ended.id for ended in topic.expire(300)] == ["env-req-1"]
    assert refused(topic, FULFILMENT.encode(), "human-user", 301).reason is RefusalReason.PROPOSAL_EXPIRED
    found = topic.proposal("env-req-1", 302)
    assert found is not None
    assert found.state is ProposalState.EXPIRED
