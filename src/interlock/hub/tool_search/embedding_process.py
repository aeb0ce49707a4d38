"""The embedding process: reads a list of texts from each line and writes a list of vectors.

Its argument is the folder of the sentence model, or a file of word vectors. It ends with its input.
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys
from pathlib import Path

import msgspec

from interlock.discovery import sentence_model, static_vectors
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.semantic import Embedder


def main() -> None:
    """Answer every line of standard input."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.nice(5)  # calls have priority
    try:
        embed = load(Path(sys.argv[1]))
    except DiscoveryError as cause:
        _write({"problem": str(cause)})
        return
    _write({"problem": ""})
    for line in sys.stdin.buffer:
        _write(
            [None if vector is None else packed(vector) for vector in embed(msgspec.json.decode(line, type=list[str]))]
        )


def load(path: Path) -> Embedder:
    """Load a model: a folder has the sentence model, a file has word vectors."""
    return sentence_model.load(path) if path.is_dir() else static_vectors.read(path)


def packed(vector: object) -> str:
    """A vector as text. Half precision is exact enough for a search."""
    import numpy as np

    return base64.b64encode(np.asarray(vector, "<f2").tobytes()).decode()


def _write(answer: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
