"""Every item of the specification's Implementation Checklist, with the tests that hold it."""

from __future__ import annotations

import re
from pathlib import Path

from cases import each_case

TESTS = Path(__file__).parents[1]
GATEWAY, ATTACKS, PROPOSALS = "rooms/test_gateway.py", "rooms/test_attacks.py", "rooms/test_proposals.py"
PARTICIPANT, TOPIC, PAYLOADS = (
    "rooms/test_participant.py",
    "protocols/mcpx/test_topic.py",
    "protocols/mcpx/test_payloads.py",
)
INBOX = "rooms/test_inbox.py"
ANSWERED = "test_a_proposal_is_fulfilled_by_one_and_answered_by_another"
SPOOFED = "test_a_spoofed_envelope_never_reaches_the_application"
CHECKLIST: dict[str, tuple[str, str]] = {
    # Gateway Requirements
    "WebSocket server at GET /ws?topic=<name>": (ATTACKS, "test_upgrades_are_refused_before_they_happen"),
    "Bearer token validation from Authorization header": (ATTACKS, "test_upgrades_are_refused_before_they_happen"),
    "Token-to-participant-ID mapping": (TOPIC, "test_gateway_maps_no_token_to_a_reserved_id_and_adds_its_own"),
    "Connection state tracking per participant": (
        "rooms/test_changes.py",
        "test_operators_see_topics_and_who_is_there",
    ),
    "Pattern matching engine for wildcard capabilities": (
        "protocols/mcpx/test_capabilities.py",
        "test_matching_agrees_with_the_model",
    ),
    "Validate message kind against sender's capabilities": (
        TOPIC,
        "test_gateway_blocks_kinds_that_no_capability_covers_and_answers_with_the_capabilities",
    ),
    "Block messages that don't match capabilities": (
        ATTACKS,
        "test_a_violation_names_the_kind_and_the_capabilities_and_is_recorded",
    ),
    "Return system/error for capability violations": (
        ATTACKS,
        "test_a_violation_names_the_kind_and_the_capabilities_and_is_recorded",
    ),
    "Send system/welcome with participant ID and capabilities": (
        GATEWAY,
        "test_a_newcomer_is_welcomed_first_and_then_everyone_learns_of_it",
    ),
    "Broadcast system/presence for join/leave events": (
        GATEWAY,
        "test_a_newcomer_is_welcomed_first_and_then_everyone_learns_of_it",
    ),
    "Generate system/error for protocol violations": (
        ATTACKS,
        "test_t33_a_bad_envelope_is_answered_and_the_connection_kept",
    ),
    "Ensure only gateway can send system/* messages": (TOPIC, "test_gateway_alone_sends_system_messages"),
    "Route messages based on to field": (GATEWAY, "test_directed_participants_receive_only_what_is_theirs"),
    "Support participant routing preferences": (GATEWAY, "test_directed_participants_receive_only_what_is_theirs"),
    "Preserve envelope structure without modification": (
        GATEWAY,
        "test_an_envelope_passes_byte_for_byte_and_not_to_its_sender",
    ),
    "NO payload parsing or validation": (TOPIC, "test_gateway_reads_no_payload_unless_the_topic_is_strict"),
    # Participant Requirements
    "Verify envelope structure before processing": (PARTICIPANT, "test_presence_may_come_before_the_welcome"),
    "Validate kind METHOD matches payload.method": (PAYLOADS, "test_the_specifications_spoof_is_refused"),
    "Validate kind CONTEXT matches payload content": (PAYLOADS, "test_context_equals_what_the_method_operates_on"),
    "Drop messages that fail validation": (PARTICIPANT, SPOOFED),
    "Track/report misbehaving participants": (PARTICIPANT, SPOOFED),
    "Implement MCP server capabilities": (PARTICIPANT, "test_it_answers_as_an_mcp_server"),
    "Handle incoming MCP requests/responses": (PARTICIPANT, ANSWERED),
    "Generate proper correlation IDs for responses": (PARTICIPANT, ANSWERED),
    "Include correlation ID in all response messages": (
        TOPIC,
        "test_gateway_refuses_what_does_not_say_what_it_refers_to",
    ),
    "Recognize mcp/proposal:* messages": (
        INBOX,
        "test_a_person_fulfils_a_proposal_from_the_inbox_and_a_real_tool_runs",
    ),
    "Implement fulfillment logic for approved proposals": (
        INBOX,
        "test_a_person_fulfils_a_proposal_from_the_inbox_and_a_real_tool_runs",
    ),
    "Include proposal ID as correlation_id when fulfilling": (
        PROPOSALS,
        "test_the_first_fulfilment_wins_and_its_answer_reaches_the_proposer",
    ),
    "Process system/welcome to learn own ID and capabilities": (
        TOPIC,
        "test_participants_learn_their_id_and_capabilities_from_the_welcome",
    ),
    "Handle system/presence to track other participants": (PARTICIPANT, ANSWERED),
    "Respect capability restrictions from welcome message": (
        PARTICIPANT,
        "test_a_participant_that_may_not_respond_runs_no_tool",
    ),
}


@each_case("item", CHECKLIST)
def test_the_item_has_its_test(item: str) -> None:
    file, name = CHECKLIST[item]
    assert re.search(rf"^(?:async )?def {name}\(", (TESTS / file).read_text(), re.MULTILINE), item


def test_the_checklist_is_whole() -> None:
    assert len(CHECKLIST) == 16 + 15
