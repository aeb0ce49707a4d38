"""T34: whoever edits, drops, reorders, moves or cuts records is found out, and where."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.hub.audit.chain import follow
from interlock.hub.audit.head import ChainHead, HeadDamaged, HeadFile, read_head
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.verify import Finding, verify
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store
from interlock.store.connect import connect
from interlock.store.database import Database

COUNT = 30
TOOL = Target("tool", "s", "t")
NUMBERS = st.integers(1, COUNT)
FEW = settings(
    max_examples=example_count(30, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound chain of records 1 to COUNT, and a second chain."""
    folder = tmp_path_factory.mktemp("chain")

    async def make() -> None:
        store = await Store.open(folder / "hub.db")
        for chain in ("node", "other"):
            recorder = await Recorder.open(store, chain, folder / f"{chain}.head")
            for number in range(COUNT - 2):
                recorder.refusal(Principal(f"a{number % 3}", "agent"), TOOL, f"{number + 1:032x}", "g", str(number))
            await recorder.close()
        await store.close()

    asyncio.run(make())
    database = connect(str(folder / "hub.db"))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return folder


class Copy:
    """A copy to do harm to."""

    def __init__(self, original: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copy(original / "hub.db", folder / "hub.db")
        self.database: Database = connect(str(folder / "hub.db"))
        self.heads = {name: read_head(original / f"{name}.head") for name in ("node", "other")}

    def findings(self) -> list[tuple[int, str]]:
        heads = {name: head for name, head in self.heads.items() if head is not None}
        found: tuple[Finding, ...] = verify(self.database, heads).findings
        assert {finding.chain for finding in found} <= {"node"}
        return [(finding.seq, finding.problem) for finding in found]

    def row(self, seq: int) -> tuple[str, bytes]:
        body, hash_ = self.database.execute("SELECT body, hash FROM records WHERE chain = 'node' AND seq = ?", (seq,))[
            0
        ]
        assert isinstance(body, str)
        assert isinstance(hash_, bytes)
        return body, hash_

    def set(self, seq: int, column: str, value: str | int | bytes) -> None:
        self.database.execute(f"UPDATE records SET {column} = ? WHERE chain = 'node' AND seq = ?", (value, seq))

    def forge(self, seq: int) -> None:
        """Compute the hash of a record anew, as whoever changed it would."""
        before = self.row(seq - 1)[1]
        self.set(seq, "hash", follow(before, self.row(seq)[0].encode()))


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Copy:
    return Copy(original, tmp_path)


def again(copy: Copy, original: Path) -> Copy:
    """The same copy, whole again: one for each example of a property."""
    copy.database.close()
    for left in copy.folder.glob("hub.db*"):
        left.unlink()
    fresh = Copy(original, copy.folder)
    copy.database = fresh.database
    return copy


def test_a_sound_chain_verifies(copy: Copy) -> None:
    assert copy.findings() == []


@FEW
@given(seq=NUMBERS, where=st.integers(0, 10_000), what=st.characters(codec="utf-8", exclude_characters="\0"))
def test_any_character_changed_in_any_record_is_found_there(
    copy: Copy, original: Path, seq: int, where: int, what: str
) -> None:
    again(copy, original)
    body, _ = copy.row(seq)
    changed = body[: where % len(body)] + what + body[where % len(body) + 1 :]
    if changed == body:
        return
    copy.set(seq, "body", changed)
    assert (seq, "altered") in copy.findings()
    assert {at for at, _ in copy.findings()} == {seq}


@FEW
@given(seq=st.integers(2, COUNT - 1))
def test_a_record_that_was_changed_and_hashed_again_is_found_at_the_next(copy: Copy, original: Path, seq: int) -> None:
    again(copy, original)
    body, _ = copy.row(seq)
    copy.set(seq, "body", body.replace('"gate":"g"', '"gate":"h"') if '"gate"' in body else body + " ")
    copy.forge(seq)
    assert copy.findings() == [(seq + 1, "altered")]


@pytest.mark.parametrize("seq", [2, 15, COUNT - 1])
def test_a_record_that_was_changed_with_all_hashes_after_it_is_found_at_the_second_place(copy: Copy, seq: int) -> None:
    body, _ = copy.row(seq)
    copy.set(seq, "body", body.replace('"gate":"g"', '"gate":"h"'))
    for following in range(seq, COUNT + 1):
        copy.forge(following)
    assert copy.findings() == [(COUNT, "head")]


@FEW
@given(dropped=st.sets(NUMBERS, min_size=1, max_size=COUNT))
def test_any_records_dropped_are_found_where_they_were(copy: Copy, original: Path, dropped: set[int]) -> None:
    again(copy, original)
    for seq in dropped:
        copy.database.execute("DELETE FROM records WHERE chain = 'node' AND seq = ?", (seq,))
    starts = {seq for seq in dropped if seq - 1 not in dropped}
    found = copy.findings()
    assert {seq for seq, problem in found if problem in ("missing", "cut")} == starts
    cut = [seq for seq, problem in found if problem == "cut"]
    assert bool(cut) == (COUNT in dropped)


@FEW
@given(one=NUMBERS, other=NUMBERS)
def test_two_records_that_changed_places_are_both_found(copy: Copy, original: Path, one: int, other: int) -> None:
    if one == other:
        return
    again(copy, original)
    for moves in ((one, -1), (other, one), (-1, other)):
        copy.database.execute("UPDATE records SET seq = ? WHERE chain = 'node' AND seq = ?", moves[::-1])
    found = copy.findings()
    assert {(one, "misplaced"), (other, "misplaced")} <= set(found)


@FEW
@given(
    seq=NUMBERS,
    column=st.sampled_from(["at", "event", "actor", "server", "name", "trace", "result"]),
)
def test_what_a_record_is_searched_by_cannot_hide_it(copy: Copy, original: Path, seq: int, column: str) -> None:
    again(copy, original)
    copy.set(seq, column, 5 if column == "at" else "elsewhere")
    assert copy.findings() == [(seq, "columns")]


def test_a_record_moved_from_another_chain_is_found(copy: Copy) -> None:
    copy.database.execute("DELETE FROM records WHERE chain = 'node' AND seq = 9")
    copy.database.execute(
        "INSERT INTO records SELECT 'node', seq, at, event, actor, server, name, trace, result, body, hash"
        " FROM records WHERE chain = 'other' AND seq = 9"
    )
    assert copy.findings()[0] == (9, "altered")


def test_a_chain_that_is_gone_as_a_whole_is_found(copy: Copy) -> None:
    copy.database.execute("DELETE FROM records WHERE chain = 'node'")
    assert copy.findings() == [(1, "cut")]


def test_a_recorded_gap_excuses_only_the_hole_it_names(copy: Copy) -> None:
    body, _ = copy.row(10)
    gap = msgspec.json.decode(body) | {"event": "dev.interlock.audit_gap", "details": {"from": 8, "to": 9, "lost": 2}}
    for seq in (7, 8, 9):
        copy.database.execute("DELETE FROM records WHERE chain = 'node' AND seq = ?", (seq,))
    copy.set(10, "body", msgspec.json.encode(gap).decode())
    assert (7, "missing") in copy.findings()


def test_the_head_file_survives_a_torn_copy_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "audit.head"
    file = HeadFile(path, ChainHead("node", 0, b"0" * 32, 1, 0))
    file.move(5, b"5" * 32, 4)
    file.move(9, b"9" * 32, 8)
    file.issue(12)
    file.close()
    assert read_head(path) == ChainHead("node", 9, b"9" * 32, 8, 12)
    page = bytearray(path.read_bytes())
    torn = page.index(b"9" * 32)
    page[torn] ^= 1
    path.write_bytes(page)
    assert read_head(path) == ChainHead("node", 5, b"5" * 32, 4, 12)
    page[page.index(b"5" * 32)] ^= 1
    path.write_bytes(page)
    with pytest.raises(HeadDamaged):
        read_head(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_there_is_no_head_before_there_is_a_chain(tmp_path: Path) -> None:
    assert read_head(tmp_path / "nowhere") is None
