"""Which connection is cut off first when clients leave too much unread.

Real sockets are in `http/test_unread_bytes.py`. Which of their clients read last cannot be asked there: a loaded kernel
may take the bytes of a client that reads nothing later than those of another.
"""

from __future__ import annotations

from interlock.transports.unread_bytes import UnreadBytes


class Reader:
    """A client that was sent bytes."""

    client = None

    def __init__(self, owner: str, unread_bytes: int) -> None:
        self.owner = owner
        self.unread_bytes = unread_bytes
        self.is_open = True

    def give_up(self) -> None:
        self.is_open = False


class Readers:
    """Clients of one listener, in the order in which they came. Each event has a moment of its own."""

    def __init__(self, max_bytes: int, max_bytes_per_owner: int) -> None:
        self._now = 0.0
        self.unread = UnreadBytes(max_bytes, max_bytes_per_owner, self._clock)

    def add(self, owner: str = "one", size: int = 10) -> Reader:
        reader = Reader(owner, size)
        self.unread.count(reader)
        return reader

    def _clock(self) -> float:
        self._now += 1
        return self._now


def test_t37_of_clients_that_read_nothing_the_oldest_is_cut_off_first() -> None:
    readers = Readers(1000, 30)
    made = [readers.add() for _ in range(8)]
    assert [each.is_open for each in made] == [False] * 5 + [True] * 3
    assert (readers.unread.bytes, readers.unread.closed) == (30, 5)


def test_t37_the_client_that_read_longest_ago_is_cut_off_first() -> None:
    readers = Readers(1000, 30)
    reading, deaf, last = (readers.add() for _ in range(3))
    reading.unread_bytes = 9
    newest = readers.add()
    assert [each.is_open for each in (reading, deaf, last, newest)] == [True, False, True, True]


def test_t37_a_client_that_read_is_known_before_room_is_made() -> None:
    readers = Readers(1000, 30)
    first, second, third = (readers.add() for _ in range(3))
    second.unread_bytes = third.unread_bytes = 0
    newest = readers.add()
    assert all(each.is_open for each in (first, second, third, newest))
    assert readers.unread.bytes == 20


def test_t37_beyond_the_bound_of_all_the_owner_with_most_loses_its_oldest() -> None:
    readers = Readers(50, 1000)
    modest = readers.add("modest")
    greedy = [readers.add("greedy") for _ in range(4)]
    newest = readers.add("third")
    assert (modest.is_open, newest.is_open) == (True, True)
    assert [each.is_open for each in greedy] == [False, True, True, True]


def test_a_client_that_went_or_caught_up_is_not_counted() -> None:
    readers = Readers(1000, 30)
    one, two = readers.add(), readers.add("two")
    readers.unread.forget(one)
    two.unread_bytes = 0
    readers.unread.count(two)
    assert readers.unread.bytes == 0
