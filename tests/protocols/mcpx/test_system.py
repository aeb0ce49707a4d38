"""The gateway's own envelopes, byte for byte what the specification shows."""

from __future__ import annotations

import json

from cases import each_case
from interlock.protocols.mcpx.envelopes import decode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.system import (
    ParticipantInfo,
    capability_violation,
    error,
    presence,
    violation_notice,
    welcome,
)

from .vectors import PRESENCE, VIOLATION, WELCOME

NEWCOMER = ParticipantInfo("new-participant", ("mcp/proposal:*", "chat"))
OTHERS = (
    ParticipantInfo("agent-1", ("mcp/*", "chat")),
    ParticipantInfo("agent-2", ("mcp/response:*", "chat")),
)


def test_the_welcome_is_the_one_of_the_specification() -> None:
    assert json.loads(welcome("env-welcome-1", NEWCOMER, OTHERS)) == json.loads(WELCOME)


def test_the_presence_is_the_one_of_the_specification() -> None:
    newcomer = ParticipantInfo("new-agent", ("mcp/proposal:*", "chat"))
    assert json.loads(presence("env-presence-1", "join", newcomer)) == json.loads(PRESENCE)


def test_one_that_left_is_named_without_capabilities() -> None:
    said = json.loads(presence("e", "leave", NEWCOMER))
    assert said["payload"] == {"event": "leave", "participant": {"id": "new-participant"}}


def test_the_violation_is_the_one_of_the_specification_and_says_the_fix() -> None:
    refusal = capability_violation("mcp/request:tools/call").about("env-bad-call", "mcp/request:tools/call")
    said = json.loads(error("env-violation-1", "violator", refusal, ("mcp/proposal:*", "chat")))
    assert said["payload"].pop("fix")
    assert said == json.loads(VIOLATION)


@each_case("reason", RefusalReason)
def test_every_reason_is_told_with_its_code(reason: RefusalReason) -> None:
    refusal = EnvelopeRefused(reason, "What is wrong.", "How to fix it.")
    said = json.loads(error("e", "violator", refusal, ()))
    assert said["payload"] == {
        "error": reason.value, "message": "What is wrong.", "fix": "How to fix it.", "your_capabilities": [],
    }  # fmt: skip
    assert "correlation_id" not in said, "an envelope whose id could not be read has none to refer to"


def test_a_violation_notice_is_for_all_and_names_the_violator_but_not_its_capabilities() -> None:
    refusal = capability_violation("mcp/request:tools/call").about("bad", "mcp/request:tools/call")
    said = json.loads(violation_notice("e", "mallory", refusal))
    assert "to" not in said
    assert said["correlation_id"] == "bad"
    assert said["payload"]["participant"] == "mallory"
    assert "your_capabilities" not in said["payload"]
    assert "mallory" in said["payload"]["message"]


def test_participants_can_read_everything_that_the_gateway_sends() -> None:
    refusal = capability_violation("system/x", reserved=True).about("bad", "system/x")
    for data in (
        welcome("e", NEWCOMER, OTHERS, "2025-08-26T14:00:00Z"),
        presence("e", "join", NEWCOMER, "2025-08-26T14:00:00Z"),
        presence("e", "leave", NEWCOMER),
        error("e", "x", refusal, ("chat",), "2025-08-26T14:00:00Z"),
        violation_notice("e", "x", refusal),
    ):
        check_payload(decode(data))
