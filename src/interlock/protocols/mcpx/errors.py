"""The reasons for which a topic refuses an envelope. A refusal has a reason, a message and a fix.

`system/error` contains the reason (MCPx, Capability Violation), so that a participant can branch on it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class RefusalReason(enum.StrEnum):
    """Why an envelope was refused."""

    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    DUPLICATE_MEMBER = "duplicate_member"
    WRONG_CASE = "wrong_case"
    MISSING_MEMBER = "missing_member"
    WRONG_TYPE = "wrong_type"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    INVALID_ID = "invalid_id"
    INVALID_PARTICIPANT = "invalid_participant"
    TOO_MANY_RECIPIENTS = "too_many_recipients"
    INVALID_TIMESTAMP = "invalid_timestamp"
    INVALID_KIND = "invalid_kind"
    FROM_MISMATCH = "from_mismatch"
    CAPABILITY_VIOLATION = "capability_violation"
    CORRELATION_MISSING = "correlation_missing"
    CORRELATION_FORBIDDEN = "correlation_forbidden"
    DUPLICATE_ID = "duplicate_id"
    INVALID_PAYLOAD = "invalid_payload"
    METHOD_MISMATCH = "method_mismatch"
    CONTEXT_MISMATCH = "context_mismatch"
    UNCHECKABLE_KIND = "uncheckable_kind"
    UNKNOWN_REQUEST = "unknown_request"
    RESPONSE_MISMATCH = "response_mismatch"
    UNKNOWN_PROPOSAL = "unknown_proposal"
    PROPOSAL_ALREADY_FULFILLED = "proposal_already_fulfilled"
    PROPOSAL_WITHDRAWN = "proposal_withdrawn"
    PROPOSAL_REJECTED = "proposal_rejected"
    PROPOSAL_EXPIRED = "proposal_expired"
    PROPOSAL_MISMATCH = "proposal_mismatch"
    OWN_PROPOSAL = "own_proposal"
    NOT_THE_PROPOSER = "not_the_proposer"
    CANNOT_REJECT = "cannot_reject"
    TOO_MANY_PROPOSALS = "too_many_proposals"
    TOPIC_FULL = "topic_full"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    REPLACED = "replaced"
    TOO_SLOW = "too_slow"
    HISTORY_LOST = "history_lost"
    ACCESS_ENDED = "access_ended"


MEANINGS: Final[Mapping[RefusalReason, str]] = {
    RefusalReason.TOO_LARGE: "The envelope, or what stands in it beside the payload, has too many bytes",
    RefusalReason.NOT_JSON: "The bytes are not JSON in UTF-8",
    RefusalReason.NOT_AN_OBJECT: "The envelope or its payload is not a JSON object",
    RefusalReason.DUPLICATE_MEMBER: "A member stands twice, so that two readers could take different ones",
    RefusalReason.WRONG_CASE: "A member differs from a known one in upper and lower case alone",
    RefusalReason.MISSING_MEMBER: "A member that every envelope has is absent",
    RefusalReason.WRONG_TYPE: "A member has a value of the wrong type; null counts as one",
    RefusalReason.NESTED_TOO_DEEPLY: "Arrays and objects are nested too deeply",
    RefusalReason.UNSUPPORTED_PROTOCOL: "`protocol` is not `mcpx/v0.1`",
    RefusalReason.INVALID_ID: "`id` or `correlation_id` is empty, too long or has control characters",
    RefusalReason.INVALID_PARTICIPANT: "A participant id is empty, too long, has control characters, or is reserved",
    RefusalReason.TOO_MANY_RECIPIENTS: "`to` names too many participants",
    RefusalReason.INVALID_TIMESTAMP: "`ts` is not an RFC 3339 timestamp",
    RefusalReason.INVALID_KIND: "`kind` is not TYPE[:METHOD[:CONTEXT]] of this version",
    RefusalReason.FROM_MISMATCH: "`from` is not the participant id of the connection",
    RefusalReason.CAPABILITY_VIOLATION: "No capability of the sender covers the kind; none covers `system/`",
    RefusalReason.CORRELATION_MISSING: "A response, withdrawal or rejection does not say what it refers to",
    RefusalReason.CORRELATION_FORBIDDEN: "A proposal has a `correlation_id`",
    RefusalReason.DUPLICATE_ID: "The id was used in this topic already",
    RefusalReason.INVALID_PAYLOAD: "The payload is not what the kind says it is",
    RefusalReason.METHOD_MISMATCH: "METHOD of the kind is not the payload's method",
    RefusalReason.CONTEXT_MISMATCH: "CONTEXT of the kind is not what the payload operates on",
    RefusalReason.UNCHECKABLE_KIND: "The kind cannot be checked against its payload",
    RefusalReason.UNKNOWN_REQUEST: "The response refers to no request that this topic remembers",
    RefusalReason.RESPONSE_MISMATCH: "The response does not fit the request it refers to",
    RefusalReason.UNKNOWN_PROPOSAL: "The withdrawal or rejection refers to no proposal that this topic remembers",
    RefusalReason.PROPOSAL_ALREADY_FULFILLED: "Another fulfilment of the proposal came first",
    RefusalReason.PROPOSAL_WITHDRAWN: "The proposer withdrew the proposal",
    RefusalReason.PROPOSAL_REJECTED: "A participant rejected the proposal",
    RefusalReason.PROPOSAL_EXPIRED: "The proposal is too old",
    RefusalReason.PROPOSAL_MISMATCH: "The request is for another operation than the proposal it refers to",
    RefusalReason.OWN_PROPOSAL: "A proposer, or a participant of the same principal, cannot fulfil the proposal",
    RefusalReason.NOT_THE_PROPOSER: "Only the proposer can withdraw a proposal",
    RefusalReason.CANNOT_REJECT: "Only a participant that could fulfil a proposal can reject it",
    RefusalReason.TOO_MANY_PROPOSALS: "The principal of the proposer, or the topic, has too many open proposals",
    RefusalReason.TOPIC_FULL: "The topic has as many participants as it may",
    RefusalReason.RATE_LIMITED: "The participant sends more than the topic takes",
    RefusalReason.UNAVAILABLE: "The gateway cannot judge or record envelopes at the moment",
    RefusalReason.REPLACED: "The same participant connected again; this connection ends",
    RefusalReason.TOO_SLOW: "The participant left too much unread; its connection ends",
    RefusalReason.HISTORY_LOST: "The envelopes since the cursor are not kept any more, or never were",
    RefusalReason.ACCESS_ENDED: "The credential, the membership or the topic has ended; the connection ends",
}


class EnvelopeRefused(Exception):
    """An envelope that is not passed on."""

    def __init__(self, reason: RefusalReason, message: str, fix: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.fix = fix
        self.envelope_id: str | None = None
        """The refused envelope's id, where it could be read, for the `correlation_id` of the answer."""
        self.attempted_kind: str | None = None

    def about(self, envelope_id: str | None, kind: str | None) -> EnvelopeRefused:
        """This refusal with the id and kind of the envelope that it refers to."""
        self.envelope_id, self.attempted_kind = envelope_id, kind
        return self
