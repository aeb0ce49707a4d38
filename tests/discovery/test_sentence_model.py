"""The sentence model against a slow and plain reading of the same arithmetic, and against its published figures."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.config.home import home_folder
from interlock.discovery import model_files, sentence_model
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.sentence_model import DIMENSIONS, SentenceModel
from interlock.discovery.wordpiece import WordPieces, read_vocabulary

VOCABULARY = read_vocabulary("[PAD]\n[UNK]\n[CLS]\n[SEP]\nread\n##ing\nfile\n##s\na\n.\n_\n\u6587\ncafe")
PIECES = WordPieces(VOCABULARY)


def words(text: str, most: int = 32) -> list[str]:
    names = {number: piece for piece, number in VOCABULARY.items()}
    return [names[number] for number in PIECES(text, most)]


@each_case(
    ("text", "expected"),
    [
        ("Reading a file.", "read ##ing a file ."),
        ("read_files", "read _ file ##s"),
        ("caf\u00e9 \u6587\u6587", "cafe \u6587 \u6587"),
        ("zebra files", "[UNK] file ##s"),
        ("files\u00b0 a\u2014a", "[UNK] a [UNK] a"),
        ("f" * 101, "[UNK]"),
        ("", ""),
    ],
)
def test_words_fall_into_the_longest_known_pieces(text: str, expected: str) -> None:
    assert words(text) == ["[CLS]", *expected.split(), "[SEP]"]


@given(st.text(max_size=200), st.integers(3, 40))
def test_any_text_gives_a_bounded_number_of_known_pieces(text: str, most: int) -> None:
    found = PIECES(text, most)
    assert 2 <= len(found) <= most
    assert set(found) <= set(VOCABULARY.values())
    assert found[0] == VOCABULARY["[CLS]"]
    assert found[-1] == VOCABULARY["[SEP]"]


def test_a_vocabulary_without_its_marks_is_refused() -> None:
    with pytest.raises(DiscoveryError):
        WordPieces({"read": 0})


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    chance = np.random.default_rng(1)

    def table(*shape: int) -> Any:
        return (chance.standard_normal(shape) * 0.05).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": table(len(VOCABULARY), DIMENSIONS),
        "embeddings.position_embeddings.weight": table(sentence_model.MAX_PIECES, DIMENSIONS),
        "embeddings.token_type_embeddings.weight": table(2, DIMENSIONS),
        "embeddings.LayerNorm.weight": 1 + table(DIMENSIONS),
        "embeddings.LayerNorm.bias": table(DIMENSIONS),
    }
    for layer in range(6):
        for name, rows, columns in (
            ("attention.self.query", DIMENSIONS, DIMENSIONS),
            ("attention.self.key", DIMENSIONS, DIMENSIONS),
            ("attention.self.value", DIMENSIONS, DIMENSIONS),
            ("attention.output.dense", DIMENSIONS, DIMENSIONS),
            ("intermediate.dense", 4 * DIMENSIONS, DIMENSIONS),
            ("output.dense", DIMENSIONS, 4 * DIMENSIONS),
        ):
            found[f"encoder.layer.{layer}.{name}.weight"] = table(rows, columns)
            found[f"encoder.layer.{layer}.{name}.bias"] = table(rows)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found[f"encoder.layer.{layer}.{name}.weight"] = 1 + table(DIMENSIONS)
            found[f"encoder.layer.{layer}.{name}.bias"] = table(DIMENSIONS)
    return found


def plainly(tensors: dict[str, Any], numbers: list[int]) -> Any:
    """The same in double precision, one head and one piece after the other, with the exact gate."""
    t = {name: value.astype(np.float64) for name, value in tensors.items()}

    def norm(row: Any, name: str) -> Any:
        return (row - row.mean()) / math.sqrt(row.var() + 1e-12) * t[name + ".weight"] + t[name + ".bias"]

    def dense(row: Any, name: str) -> Any:
        return t[name + ".weight"] @ row + t[name + ".bias"]

    rows = [
        norm(
            t["embeddings.word_embeddings.weight"][number]
            + t["embeddings.position_embeddings.weight"][at]
            + t["embeddings.token_type_embeddings.weight"][0],
            "embeddings.LayerNorm",
        )
        for at, number in enumerate(numbers)
    ]
    for layer in range(6):
        here = f"encoder.layer.{layer}."
        query, key, value = (
            [dense(row, here + f"attention.self.{part}") for row in rows] for part in ("query", "key", "value")
        )
        after = []
        for at, row in enumerate(rows):
            heard = np.zeros(DIMENSIONS)
            for head in range(12):
                part = slice(head * 32, head * 32 + 32)
                seen = np.exp([query[at][part] @ other[part] / math.sqrt(32) for other in key])
                heard[part] = sum(s * v[part] for s, v in zip(seen / seen.sum(), value, strict=True))
            row = norm(row + dense(heard, here + "attention.output.dense"), here + "attention.output.LayerNorm")
            wide = dense(row, here + "intermediate.dense")
            wide = np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in wide])
            after.append(norm(row + dense(wide, here + "output.dense"), here + "output.LayerNorm"))
        rows = after
    return np.mean(rows, axis=0)


def test_it_computes_what_the_architecture_says(tensors: dict[str, Any]) -> None:
    found = SentenceModel(tensors, PIECES)(["reading a file"])[0]
    assert found is not None
    assert np.abs(found - plainly(tensors, PIECES("reading a file", 128))).max() < 2e-3


def test_a_text_has_the_same_vector_alone_and_among_others(tensors: dict[str, Any]) -> None:
    model = SentenceModel(tensors, PIECES)
    texts = ["a file", "reading files.", "", "a cafe", "files a " * 12]
    for text, among in zip(texts, model(texts), strict=True):
        alone = model([text])[0]
        assert among is not None
        assert alone is not None
        assert np.allclose(alone, among, atol=1e-5)


def test_the_layers_use_the_tables_where_they_were_read(tensors: dict[str, Any]) -> None:
    """Copies of them would take 42 MB."""
    tracemalloc.start()
    model = SentenceModel(tensors, PIECES)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model(["a file"])[0] is not None
    assert grown < 200_000


def test_only_the_published_weights_are_run(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    (tmp_path / "vocab.txt").write_text("[UNK]")
    with pytest.raises(DiscoveryError, match="as it was published"):
        sentence_model.load(tmp_path)
    with pytest.raises(DiscoveryError, match="cannot be read"):
        sentence_model.load(tmp_path / "nowhere")


@pytest.mark.skipif(model_files.installed(home_folder()) is None, reason="no model is installed")
def test_the_published_model_gives_the_published_vectors() -> None:
    folder = model_files.installed(home_folder())
    assert folder is not None
    first = sentence_model.load(folder)(["This is an example sentence"])[0]
    assert first is not None
    unit = first / np.linalg.norm(first)
    assert unit[:4] == pytest.approx([0.0677, 0.0635, 0.0487, 0.0793], abs=1e-3)
