"""The receivers of an envelope."""

from __future__ import annotations

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.routing import ReceiveMode, TopicParticipant, recipients
from interlock.protocols.mcpx.system import GATEWAY

NOTHING = CapabilitySet([])
PEOPLE = [
    TopicParticipant("ann", "o1", NOTHING),
    TopicParticipant("bob", "o2", NOTHING, ReceiveMode.DIRECTED),
    TopicParticipant("cat", "o3", NOTHING, ReceiveMode.DIRECTED),
    TopicParticipant("dan", "o4", NOTHING),
]


def test_a_broadcast_reaches_everyone_but_its_sender() -> None:
    assert recipients(PEOPLE, "ann", ()) == ("bob", "cat", "dan")
    assert recipients(PEOPLE, "bob", []) == ("ann", "cat", "dan")


def test_mode_all_receives_everything_and_mode_directed_what_names_it() -> None:
    assert recipients(PEOPLE, "ann", ("bob",)) == ("bob", "dan")
    assert recipients(PEOPLE, "bob", ("nobody",)) == ("ann", "dan")
    assert recipients(PEOPLE, "dan", ("cat", "bob", "cat")) == ("ann", "bob", "cat")


def test_a_sender_never_receives_its_own_envelope() -> None:
    assert recipients(PEOPLE, "bob", ("bob", "cat")) == ("ann", "cat", "dan")
    assert "bob" not in recipients(PEOPLE, "bob", ("ann",), proposer="bob")


def test_an_answer_reaches_the_proposer_though_the_sender_did_not_name_it() -> None:
    assert recipients(PEOPLE, "ann", ("dan",), proposer="cat") == ("cat", "dan")


def test_what_the_gateway_addresses_reaches_nobody_else() -> None:
    assert recipients(PEOPLE, GATEWAY, ("bob",)) == ("bob",)
    assert recipients(PEOPLE, GATEWAY, ()) == ("ann", "bob", "cat", "dan")
