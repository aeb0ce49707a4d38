"""A mirror ends with the newest version of each document, in any order and with any repetition of changes."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.store.documents import Change
from interlock.store.errors import StoreDamaged
from interlock.store.mirror import Mirror

from .things import THINGS, Thing

HISTORY = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12)


def changes_of(history: list[tuple[str, bool]]) -> list[Change]:
    """Documents put and deleted one after the other."""
    versions: dict[str, int] = {}
    changes = []
    for revision, (key, deleted) in enumerate(history, 1):
        versions[key] = versions.get(key, 0) + 1
        body = None if deleted else THINGS.encode(Thing(key, size=revision))
        changes.append(Change("things", key, versions[key], revision, body))
    return changes


@given(HISTORY.flatmap(lambda history: st.permutations(changes_of(history))))
def test_its_revision_is_that_of_the_newest_change_in_any_order(changes: list[Change]) -> None:
    mirror = Mirror(THINGS)
    for change in changes:
        mirror.apply(change)
    assert mirror.revision == max((change.revision for change in changes), default=0)


def state_after(changes: list[Change]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for change in changes:
        sizes.pop(change.key, None)
        if change.body is not None:
            sizes[change.key] = change.revision
    return sizes


def sizes(mirror: Mirror[Thing]) -> dict[str, int]:
    return {thing.id: thing.size for thing in mirror.values()}


@given(HISTORY, st.data())
def test_order_and_repetition_do_not_matter(history: list[tuple[str, bool]], data: st.DataObject) -> None:
    changes = changes_of(history)
    mirror = Mirror(THINGS)
    for change in data.draw(st.permutations(changes + changes)):
        mirror.apply(change)
    assert sizes(mirror) == state_after(changes)
    mirror.settle(sys.maxsize)
    assert sizes(mirror) == state_after(changes)
    assert len(mirror) == len(state_after(changes))


def test_a_change_that_arrives_twice_is_passed_on_once() -> None:
    mirror, passed = Mirror(THINGS), list[str]()
    mirror.on_change(lambda key, thing: passed.append(key))
    (change,) = changes_of([("a", False)])
    mirror.apply(change)
    mirror.apply(change)
    assert passed == ["a"]


@given(HISTORY, st.data())
def test_loading_the_whole_collection_replaces_no_newer_version(
    history: list[tuple[str, bool]], data: st.DataObject
) -> None:
    changes = changes_of(history)
    loaded = data.draw(st.integers(0, len(changes)))
    mirror = Mirror(THINGS)
    mirror.loading += 1
    applied = data.draw(st.integers(0, len(changes)))
    for change in changes[:applied]:
        mirror.apply(change)
        mirror.settle(change.revision)
    latest = {change.key: change for change in changes[:loaded]}
    mirror.load([change for change in latest.values() if change.body is not None], loaded)
    assert sizes(mirror) == state_after(changes[: max(applied, loaded)])


def test_a_document_that_cannot_be_decoded_fails_reads_until_it_is_replaced_or_deleted() -> None:
    mirror, heard = Mirror(THINGS), list[tuple[str, bool]]()
    mirror.on_change(lambda key, thing: heard.append((key, thing is not None)))
    good, replaced, deleted = (Change("things", "a", n, n, THINGS.encode(Thing("a", size=n))) for n in (1, 3, 5))
    unreadable = Change("things", "b", 1, 2, "[]")
    for change in (good, unreadable):
        mirror.apply(change)
    mirror.settle(sys.maxsize)
    with pytest.raises(StoreDamaged):
        mirror.get("a")
    with pytest.raises(StoreDamaged):
        mirror.values()
    assert ([thing.id for thing in mirror.readable()], [*mirror.problems]) == (["a"], ["b"])
    mirror.apply(replaced)
    assert mirror.problem is not None, "another document is no reason to read this one"
    mirror.apply(Change("things", "b", 2, 4, THINGS.encode(Thing("b", size=4))))
    assert (mirror.problem, sizes(mirror)) == (None, {"a": 3, "b": 4})
    mirror.apply(Change("things", "b", 3, 5, "[]"))
    mirror.apply(Change("things", "b", 4, 6, None))
    assert (mirror.problem, sizes(mirror)) == (None, {"a": 3})
    mirror.apply(Change("things", "c", 1, 7, "[]"))
    mirror.load([deleted], 8)
    assert (mirror.problem, sizes(mirror)) == (None, {"a": 5}), "the store has no such document any more"
    assert heard == [
        ("a", True), ("b", False), ("a", True), ("b", True), ("b", False), ("b", False), ("c", False), ("a", True),
        ("c", False),
    ]  # fmt: skip


def test_a_listener_that_cannot_read_the_mirror_keeps_no_change_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mirror, heard = Mirror(THINGS), list[str]()
    mirror.on_change(lambda key, thing: heard.append(f"{key} of {len(list(mirror.values()))}"))
    mirror.on_change(lambda key, thing: heard.append(key))
    mirror.apply(Change("things", "a", 1, 1, "[]"))
    mirror.apply(Change("things", "b", 1, 2, THINGS.encode(Thing("b", size=2))))
    mirror.apply(Change("things", "a", 2, 3, None))
    assert heard == ["a", "b", "a of 1", "a"]
    assert caplog.text.count("a change of things could not be followed") == 2


def test_an_older_snapshot_does_not_undo_a_deletion_that_arrived_while_loading() -> None:
    put, deleted = changes_of([("a", False), ("a", True)])
    mirror = Mirror(THINGS)
    mirror.loading += 1
    mirror.apply(put)
    mirror.apply(deleted)
    mirror.settle(deleted.revision)
    mirror.load([put], put.revision)
    mirror.loading -= 1
    assert mirror.get("a") is None
    mirror.settle(deleted.revision)
    mirror.apply(put)
    assert mirror.get("a") is not None, "the deletion is forgotten once no older change can arrive"


def test_listeners_are_called_once_for_a_deletion_that_arrives_twice() -> None:
    put, deleted = changes_of([("a", False), ("a", True)])
    mirror = Mirror(THINGS)
    changed: list[str] = []
    mirror.apply(put)
    mirror.on_change(lambda key, _: changed.append(key))
    mirror.apply(deleted)
    mirror.settle(deleted.revision)
    mirror.apply(deleted)
    assert (changed, mirror.generation) == (["a"], 2)
