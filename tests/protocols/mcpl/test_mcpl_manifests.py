"""Manifests: the canonical digest against vectors, and what differs between two."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each_case
from interlock.protocols.mcpl.manifests import canonical, digest, sorted_set
from interlock.wire.errors import Fault

DEMO: dict[str, Any] = {
    "version": "0.5",
    "pushEvents": True,
    "contextHooks": {"beforeInference": True},
    "inferenceLifecycle": True,
    "channels": {"register": True, "publish": True, "incoming": True},
    "featureSets": {
        "demo.messaging": {
            "description": "Demo",
            "uses": ["channels.publish", "channels.incoming", "pushEvents", "tools"],
        }
    },
}
DEMO_DIGEST = "sha256:_YZTS0h1tqTAMZI6eElCszSQE2WNx3xhAhmgUvNI9H4"


def with_sets(**sets: object) -> dict[str, object]:
    return {"version": "0.5", "featureSets": sets}


def declared(**members: object) -> dict[str, object]:
    return {"description": "d", "uses": ["tools"], **members}


def test_the_worked_example_of_the_specification_is_reproduced() -> None:
    assert digest(DEMO) == DEMO_DIGEST
    reordered = json.loads(json.dumps(DEMO, sort_keys=True))
    reordered["featureSets"]["demo.messaging"]["uses"] = [
        "tools",
        "tools",
        *reversed(DEMO["featureSets"]["demo.messaging"]["uses"]),
    ]
    assert digest({**reordered, "revision": "sha256:" + "A" * 43}) == DEMO_DIGEST


def test_the_empty_object_has_the_digest_everybody_knows() -> None:
    assert digest({}) == "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o"


@each_case(
    ("manifest", "expected"),
    [
        ({"a": {"revision": 1}, "revision": "gone"}, b'{"a":{"revision":1}}'),
        ({"n": [1e21, 1e20, 1e-7, 0.000001, -0.0, 2**53, 1.0, 100]}, None),
        ({"featureSets": {"f": {"uses": ["b", 1, "a", "b"]}}}, b'{"featureSets":{"f":{"uses":["b",1,"a","b"]}}}'),
        ({"featureSets": {"f": {"uses": "tools"}}}, b'{"featureSets":{"f":{"uses":"tools"}}}'),
        ({"featureSets": [{"uses": ["b", "a"]}]}, b'{"featureSets":[{"uses":["b","a"]}]}'),
        ({"x": True, "a.b": None}, b'{"a.b":null,"x":true}'),
        (
            {
                "featureSets": {
                    "f": {"tagOntology": {"coreTags": ["chat:b", "chat:a"], "tags": {"x:y": {"implies": ["b", "a"]}}}}
                }
            },
            b'{"featureSets":{"f":{"tagOntology":{"coreTags":["chat:a","chat:b"],"tags":{"x:y":{"implies":["a","b"]}}}}}}',
        ),
        (
            {"featureSets": {"f": {"tagOntology": {"keyed": {"k": {"values": ["b", "a"]}}}}}},
            b'{"featureSets":{"f":{"tagOntology":{"keyed":{"k":{"values":["b","a"]}}}}}}',
        ),
        (
            {"featureSets": {"f": {"description": 'é\u2028\t"\\\x1f'}}},
            '{"featureSets":{"f":{"description":"é\u2028\\t\\"\\\\\\u001f"}}}'.encode(),
        ),
    ],
)
def test_the_canonical_form_sorts_sets_and_members_and_nothing_else(manifest: object, expected: bytes | None) -> None:
    if expected is None:
        expected = b'{"n":[1e+21,100000000000000000000,1e-7,0.000001,0,9007199254740992,1,100]}'
    assert canonical(manifest) == expected


@each_case(
    "manifest",
    [
        with_sets(**{"a/b": declared()}),
        with_sets(naïve=declared()),
        with_sets(a=declared(uses=["tools "])),
        with_sets(a=declared(uses=[""])),
        with_sets(a=declared(tagOntology={"coreTags": ["chat:é"]})),
        with_sets(a=declared(tagOntology={"tags": {"x y": {}}})),
        with_sets(a=declared(tagOntology={"tags": {"x:y": {"implies": ["a b"]}}})),
        with_sets(a=declared(tagOntology={"tags": {"x:y": {"facet": "a b"}}})),
        with_sets(a=declared(tagOntology={"keyed": {"k k": {}}})),
        with_sets(a=declared(tagOntology={"keyed": {"k": {"values": ["a b"]}}})),
        with_sets(a=declared(tagOntology={"suggestedTreatment": [{"tagsAny": ["a b"]}]})),
        {"context hooks": True},
        {"contextHooks": {"beforeInference": {"before user": True}}},
    ],
)
def test_an_identifier_outside_its_characters_has_no_digest(manifest: object) -> None:
    with pytest.raises(Fault, match="identifier_charset"):
        digest(manifest)


@each_case("manifest", [[], None, "x", {"a": "x" * 70_000}, {"a": 10**400}])
def test_a_manifest_that_cannot_be_hashed_is_refused(manifest: object) -> None:
    with pytest.raises(Fault):
        digest(manifest)


def test_a_manifest_nested_too_deeply_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(Fault):
        digest(deep)


def test_sets_sort_by_their_bytes_beyond_the_basic_plane() -> None:
    assert sorted_set(["\U00010000", "\ufffd", "a", "B", "a"]) == ["B", "a", "\ufffd", "\U00010000"]
