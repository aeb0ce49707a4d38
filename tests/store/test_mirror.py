"""A mirror ends up with the latest of everything, in whatever order and however often it hears of it."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from interlock.store.documents import Change
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


@given(HISTORY, st.data())
def test_a_look_at_the_whole_collection_undoes_nothing_that_is_newer(
    history: list[tuple[str, bool]], data: st.DataObject
) -> None:
    changes = changes_of(history)
    looked = data.draw(st.integers(0, len(changes)))
    mirror = Mirror(THINGS)
    mirror.loading += 1
    heard = data.draw(st.integers(0, len(changes)))
    for change in changes[:heard]:
        mirror.apply(change)
        mirror.settle(change.revision)
    latest = {change.key: change for change in changes[:looked]}
    mirror.take([change for change in latest.values() if change.body is not None], looked)
    assert sizes(mirror) == state_after(changes[: max(heard, looked)])


def test_a_deletion_heard_while_loading_is_not_undone_by_the_older_moment_that_was_read() -> None:
    put, deleted = changes_of([("a", False), ("a", True)])
    mirror = Mirror(THINGS)
    mirror.loading += 1
    mirror.apply(put)
    mirror.apply(deleted)
    mirror.settle(deleted.revision)
    mirror.take([put], put.revision)
    mirror.loading -= 1
    assert mirror.get("a") is None
    mirror.settle(deleted.revision)
    assert mirror._known == {}


def test_a_deletion_that_comes_again_after_it_was_forgotten_is_told_once() -> None:
    put, deleted = changes_of([("a", False), ("a", True)])
    mirror = Mirror(THINGS)
    heard: list[str] = []
    mirror.apply(put)
    mirror.on_change(lambda key, _: heard.append(key))
    mirror.apply(deleted)
    mirror.settle(deleted.revision)
    mirror.apply(deleted)
    assert (heard, mirror.generation) == (["a"], 2)
