"""Which connection is cut off first when clients leave too much unread.

Real sockets are in `http/test_unread_bytes.py`. Which of their clients read last cannot be asked there: a loaded kernel
may take the bytes of a client that reads nothing later than those of another.
"""

from __future__ import annotations

import pytest

from interlock.transports.unread_bytes import MAX_LOOKS, UnreadBytes


class Reader:
    """A client that was sent bytes."""

    client = None

    def __init__(self, peer: str, unread_bytes: int) -> None:
        self.peer = peer
        self.size = unread_bytes
        self.looks = 0
        self.is_open = True

    @property
    def unread_bytes(self) -> int:
        self.looks += 1
        return self.size

    def give_up(self) -> None:
        self.is_open = False


class Readers:
    """Clients of one listener, in the order in which they came."""

    def __init__(self, max_bytes: int, max_bytes_per_peer: int) -> None:
        self.unread = UnreadBytes(max_bytes, max_bytes_per_peer)

    def add(self, peer: str = "one", size: int = 10) -> Reader:
        reader = Reader(peer, size)
        self.unread.count(reader)
        return reader


def test_t37_of_clients_that_read_nothing_the_oldest_is_cut_off_first() -> None:
    readers = Readers(1000, 30)
    made = [readers.add() for _ in range(8)]
    assert [each.is_open for each in made] == [False] * 5 + [True] * 3
    assert (readers.unread.bytes, readers.unread.closed) == (30, 5)


def test_t37_the_client_that_read_longest_ago_is_cut_off_first() -> None:
    readers = Readers(1000, 30)
    reading, deaf, last = (readers.add() for _ in range(3))
    reading.size = 9
    newest = readers.add()
    assert [each.is_open for each in (reading, deaf, last, newest)] == [True, False, True, True]


def test_t37_beyond_the_bound_of_all_the_peer_with_most_loses_its_oldest() -> None:
    readers = Readers(50, 1000)
    modest = readers.add("modest")
    greedy = [readers.add("greedy") for _ in range(4)]
    newest = readers.add("third")
    assert (modest.is_open, newest.is_open) == (True, True)
    assert [each.is_open for each in greedy] == [False, True, True, True]


def test_t37_a_connection_that_was_cut_off_costs_no_other_while_it_ends() -> None:
    readers = Readers(1000, 30)
    made = [readers.add() for _ in range(4)]
    readers.unread.count(made[0])
    assert [each.is_open for each in made] == [False, True, True, True]
    assert (readers.unread.bytes, readers.unread.closed) == (30, 1)


def test_a_client_that_went_or_caught_up_is_not_counted() -> None:
    readers = Readers(1000, 30)
    one, two = readers.add(), readers.add("two")
    readers.unread.forget(one)
    two.size = 0
    readers.unread.count(two)
    assert readers.unread.bytes == 0


@pytest.mark.parametrize("peers", [1, 4_000])
def test_a_further_answer_is_counted_without_a_look_at_every_slow_reader(peers: int) -> None:
    readers = Readers(4_000_000, 4_000_000)
    made = [readers.add(f"agent:{number % peers}", 1_000) for number in range(4_000)]
    assert not readers.unread.closed
    for reader in made:
        reader.looks = 0
    # Those that were counted first have read meanwhile.
    for reader in made[:2]:
        reader.size = 999
    readers.add("agent:0", 1_500)
    assert sum(reader.looks for reader in made) <= MAX_LOOKS
    assert readers.unread.bytes <= 4_000_000
    assert readers.unread.closed >= 1
    assert made[0].is_open
    if peers == 1:
        assert made[1].is_open
        assert [reader.is_open for reader in made[2:5]] == [False, False, True]
