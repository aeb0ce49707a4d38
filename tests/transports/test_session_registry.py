"""The registry of sessions: its table of states, its limits against a simple model, and how sessions end."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from cases import each_case
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.transports.sessions.registry import SessionLimits, SessionRegistry
from interlock.transports.sessions.session import SessionChannel, SessionEnd, TransportSession, handle_of
from interlock.transports.sessions.states import (
    ENDS,
    TRANSITIONS,
    SessionEvent,
    SessionState,
    step,
)
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker, new_node, read_id
from interlock.wire.transitions import ImpossibleTransition
from memory_kept import kept_by

WORKER = Worker(new_node())


class Named(msgspec.Struct, frozen=True):
    principal_name: str


class Channel(SessionChannel):
    transport = "memory"

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.calls = 0
        self.closed = ""

    @property
    def open_calls(self) -> int:
        return self.calls

    @property
    def open_streams(self) -> int:
        return 0

    def notify(self, method: str, params: bytes) -> None:
        assert not self.closed

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise AssertionError

    def close(self, end: SessionEnd) -> None:
        assert not self.closed, "closed twice"
        self.closed = end.reason


def session_of(principal_name: str, now: float = 0.0) -> TransportSession:
    return TransportSession(WORKER.new_id(), Channel(now), Named(principal_name), Dialect(R2025_11_25))


class Registry(RuleBasedStateMachine):
    """The model is a plain list; the longest idle is found by looking at all."""

    sessions: Any = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.limits = SessionLimits(total=6, per_principal=3)
        self.ended: list[TransportSession] = []
        self.opened: list[TransportSession] = []
        self.model: list[tuple[TransportSession, Channel]] = []
        self.registry: SessionRegistry[TransportSession] = SessionRegistry(
            self.limits, lambda: self.now, self.opened.append, lambda session, _: self.ended.append(session)
        )

    def tick(self) -> float:
        self.now += 1
        return self.now

    def longest_idle(self, principal_name: str | None) -> tuple[TransportSession, Channel] | None:
        idle = [
            (session, channel)
            for session, channel in self.model
            if not channel.calls and principal_name in (None, session.caller.principal_name)
        ]
        return min(idle, key=lambda each: each[1].last_used, default=None)

    @rule(target=sessions, principal_name=st.sampled_from("abc"))
    def open(self, principal_name: str) -> tuple[TransportSession, Channel]:
        channel = Channel(self.tick())
        session = TransportSession(WORKER.new_id(), channel, Named(principal_name), Dialect(R2025_11_25))
        scopes: list[str | None] = []
        if sum(each.caller.principal_name == principal_name for each, _ in self.model) >= self.limits.per_principal:
            scopes = [principal_name]
        elif len(self.model) >= self.limits.total:
            scopes = [None]
        displaced = [self.longest_idle(scope) for scope in scopes]
        if None in displaced:
            with pytest.raises(Fault) as fault:
                self.registry.open(session)
            assert fault.value.name == "RESOURCE_EXHAUSTED"
        else:
            self.registry.open(session)
            self.model = [each for each in self.model if each not in displaced] + [(session, channel)]
        return session, channel

    @rule(of=sessions)
    def use(self, of: tuple[TransportSession, Channel]) -> None:
        of[1].last_used = self.tick()

    @rule(of=sessions)
    def begin_call(self, of: tuple[TransportSession, Channel]) -> None:
        if not of[0].over and of in self.model:
            of[1].calls += 1
            of[1].last_used = self.tick()

    @rule(of=sessions)
    def finish_call(self, of: tuple[TransportSession, Channel]) -> None:
        if of[1].calls:
            of[1].calls -= 1
            of[1].last_used = self.tick()

    @rule(of=sessions)
    def confirm(self, of: tuple[TransportSession, Channel]) -> None:
        of[0].confirm()

    @rule(of=consumes(sessions), event=st.sampled_from(ENDS))
    def end(self, of: tuple[TransportSession, Channel], event: SessionEvent) -> None:
        known = of in self.model
        if known:
            self.model.remove(of)
            assert self.registry.end(of[0], event, "over")
            assert of[1].closed == "over"
        assert not known or not self.registry.end(of[0], event, "again")

    @rule(valid=st.sampled_from("abc"))
    def revoke_others(self, valid: str) -> None:
        self.registry.end_revoked(lambda session: session.caller.principal_name == valid)
        self.model = [each for each in self.model if each[0].caller.principal_name == valid]

    @invariant()
    def the_registry_has_what_the_model_has(self) -> None:
        assert {session.handle for session in self.registry} == {session.handle for session, _ in self.model}
        assert len(self.registry) == len(self.model)
        for principal_name in "abc":
            assert self.registry.count(principal_name) == sum(
                each.caller.principal_name == principal_name for each, _ in self.model
            )
        assert all(not session.over for session in self.registry)
        assert len(self.opened) == len(self.ended) + len(self.registry)
        assert len(set(map(id, self.ended))) == len(self.ended)


TestRegistry = Registry.TestCase


@each_case(("state", "event"), list(itertools.product(SessionState, SessionEvent)))
def test_every_event_in_every_state_does_what_the_table_says(state: SessionState, event: SessionEvent) -> None:
    after = TRANSITIONS[state].get(event)
    if after is None:
        with pytest.raises(ImpossibleTransition, match="cannot happen"):
            step(state, event)
    else:
        assert step(state, event) is after
    assert (after is SessionState.ENDED) == (event in ENDS and state is not SessionState.ENDED)


def test_an_ended_session_drops_notifications_and_refuses_questions() -> None:
    registry: SessionRegistry[TransportSession] = SessionRegistry(SessionLimits(), lambda: 0.0)
    session = session_of("a")
    registry.open(session)
    registry.end(session, SessionEvent.LEAVE, "gone")
    session.notify("notifications/message", b"{}")
    with pytest.raises(Fault, match="ended"):
        session.ask("roots/list", b"{}")


def test_the_handle_of_a_session_does_not_give_its_id_away() -> None:
    session = session_of("a")
    secret = read_id(session.id)
    assert secret is not None
    assert session.handle == handle_of(session.id)
    assert session.handle.startswith(WORKER.prefix)
    assert secret[1] not in session.handle


def test_entries_of_ended_sessions_do_not_pile_up() -> None:
    registry: SessionRegistry[TransportSession] = SessionRegistry(SessionLimits(), lambda: 0.0)
    stays = session_of("a")
    registry.open(stays)

    def come_and_go() -> None:
        for _ in range(5000):
            session = session_of("a")
            registry.open(session)
            registry.end(session, SessionEvent.LEAVE, "gone")

    # The entries of so many sessions are a megabyte.
    assert kept_by(come_and_go) < 50_000


def test_a_search_for_an_idle_session_uses_none() -> None:
    registry: SessionRegistry[TransportSession] = SessionRegistry(SessionLimits(2, 2), lambda: 9.0)
    busy, idle = session_of("a", 1.0), session_of("a", 2.0)
    registry.open(busy)
    registry.open(idle)
    channel = busy.channel
    assert isinstance(channel, Channel)
    channel.calls = 1
    registry.open(session_of("a", 3.0))
    assert (idle.over, busy.over) == (True, False)
    assert channel.last_used == 1.0


def test_a_place_is_found_at_once_though_all_sessions_were_used_since() -> None:
    registry: SessionRegistry[TransportSession] = SessionRegistry(SessionLimits(10_000, 10_000), lambda: 20_000.0)
    sessions = [session_of("a", float(number)) for number in range(10_000)]
    for session in sessions:
        registry.open(session)
    for number, session in enumerate(sessions):
        session.channel.last_used = 10_000.0 + number
    registry.open(session_of("b", 20_000.0))
    assert sessions[0].over
    assert len(registry) == 10_000


@each_case("text", ["", "x", "n1.w0", "n1.w00.x", "n1.w-1.x", "N1.w0.x", "n.w0.x", "1.w0.x", "n1.w٣.x"])
def test_a_text_that_names_no_worker_is_no_id(text: str) -> None:
    assert read_id(text) is None


def test_an_id_names_its_node_and_worker() -> None:
    assert read_id(Worker("n7k2", 3).new_id()) is not None
    assert read_id("n7k2.w3.abc.def") == (Worker("n7k2", 3), "abc.def")
