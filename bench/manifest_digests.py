"""Check manifest digests against a file of conformance vectors: `python bench/manifest_digests.py FILE`.

The file holds `vectors` (an `input` with its `digest` and `canonicalJson`, or the error expected) and `sortVectors`.
Ends with 1 if any vector is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from interlock.protocols.mcpl.manifests import canonical, digest, sorted_set
from interlock.wire.errors import Fault


def outcome(manifest: object) -> tuple[str, str]:
    """The digest and the canonical form of a manifest, or the name of its error and nothing."""
    try:
        return digest(manifest), canonical(manifest).decode()
    except Fault as fault:
        return fault.message.partition(":")[0], ""


def missed(document: dict[str, Any]) -> list[str]:
    """The names of the vectors whose outcome is another."""
    found = []
    for vector in document["vectors"]:
        expected = (vector.get("digest") or vector["expectError"], vector.get("canonicalJson", ""))
        if outcome(vector["input"]) != expected:
            found.append(vector["name"])
    order = document.get("sortVectors", ())
    return found + [vector["name"] for vector in order if sorted_set(vector["input"]) != vector["sorted"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    document = msgspec.json.decode(parser.parse_args().file.read_bytes())
    began = time.perf_counter()
    found = missed(document)
    took = time.perf_counter() - began
    count = len(document["vectors"]) + len(document.get("sortVectors", ()))
    print(f"{count - len(found)} of {count} vectors hold, {took * 1e3:.1f} ms")
    for name in found:
        print(f"missed: {name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
