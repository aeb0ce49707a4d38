"""Learns the table of `interlock.judge.errands`: which words tell an errand from the description of a tool.

`python bench/errands.py CLEAN.jsonl [--orders FILE] --out TABLE` takes definitions of tools that are known to be clean,
one a line, and sentences that order something, one a line; the sentences that `errands.txt` and `usage.txt` make are
always among them. The same input makes the same table.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from interlock.judge.errands import CERTAIN, sentences, stem

ROUNDS = 5
EACH = 100
"""Sentences made from each line of a grammar."""
FEW = 5
"""How often a line counts that leaves nothing to choose."""
SHARE_OF_ALARMS = 0.004
"""Clean definitions of the last fifth, not learnt from, that may score as certain."""
SMALLEST = 0.2
"""A weight below this is left out."""

Example = tuple[tuple[int, ...], int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clean", type=Path)
    parser.add_argument("--orders", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    chance = random.Random(7)
    lines = Counter(options.clean.read_bytes().splitlines())
    kinds = sorted(lines)
    chance.shuffle(kinds)
    apart = kinds[: len(kinds) // 5]
    clean = [msgspec.json.decode(line) for line in kinds[len(apart) :] for _ in range(lines[line])]
    checked = [msgspec.json.decode(line) for line in apart for _ in range(lines[line])]
    orders = [line for path in options.orders for line in path.read_text().splitlines() if line]
    features, examples = gathered(clean, orders, chance)
    weights, bias = learnt(examples, len(features), chance)
    table = {feature: weight for feature, weight in zip(features, weights, strict=True) if abs(weight) >= SMALLEST}
    scores = sorted(max((score(found, table) for text in texts_of(each) for found in features_of(text)), default=-99.0)
                    for each in checked)  # fmt: skip
    certain = scores[int(len(scores) * (1 - SHARE_OF_ALARMS))]
    for share in (0.01, 0.02, 0.03):
        reached = CERTAIN + 100 * (scores[int(len(scores) * (1 - share))] - certain)
        print(f"{share:.0%} of clean definitions at {reached:.0f}")
    rows = [f"=\t{round(CERTAIN - 100 * certain)}"]
    rows += [f"{feature}\t{round(100 * table[feature])}" for feature in sorted(table)]
    options.out.write_text("\n".join(rows) + "\n")
    print(f"{len(table)} weights, bias {bias:.2f}")


def texts_of(definition: object) -> Iterator[str]:
    """Each text of a definition that speaks; names and types do not."""
    if isinstance(definition, str):
        yield definition
    elif isinstance(definition, dict):
        for key, value in definition.items():
            if key not in ("name", "type", "enum", "required", "default", "format", "pattern"):
                yield from texts_of(value)
    elif isinstance(definition, list):
        for value in definition:
            yield from texts_of(value)


def gathered(clean: list[object], orders: list[str], chance: random.Random) -> tuple[list[str], list[Example]]:
    """The features worth a weight, and the sentences as examples: 0 for clean, 1 for an order."""
    here = Path(__file__).parent
    names = dict(_grammar(here / "errands.txt")[0])
    made = made_from(here / "errands.txt", {}, chance)
    plain = made_from(here / "usage.txt", names, chance)
    seen: list[tuple[set[str], int]] = []
    for definition in clean:
        seen += [(found, 0) for text in texts_of(definition) for found in features_of(text)]
    for kind, sentence in plain:
        seen += [(found, 0) for found in _as_read(sentence, first=kind == "clean1")]
    for sentence in (*orders * 3, *(sentence for _, sentence in made)):
        # An order may be all that a text says, but mostly it comes after something harmless.
        seen += [(found, 1) for found in _as_read(sentence, first=chance.random() < 0.2)]
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for found, label in seen:
        counts[label].update(found)
    features = sorted(
        feature
        for feature in counts[0].keys() | counts[1].keys()
        if counts[0][feature] >= (12 if " " in feature else 6) or counts[1][feature] >= (12 if " " in feature else 6)
    )
    places = {feature: place for place, feature in enumerate(features)}
    return features, [(tuple(sorted(places[one] for one in found if one in places)), label) for found, label in seen]


def features_of(text: str) -> Iterator[set[str]]:
    """What has a weight in each sentence: its words, their stems, and its pairs of neighbours."""
    for _, words, pairs in sentences(text):
        yield words | {f"~{stem(word)}" for word in words} | {" ".join(pair) for pair in pairs}


def _as_read(sentence: str, *, first: bool) -> list[set[str]]:
    if first:
        return list(features_of(sentence))
    return list(features_of(f"It is so. {sentence}"))


def learnt(examples: list[Example], size: int, chance: random.Random) -> tuple[list[float], float]:
    """Weights by logistic regression, with a step of its own for each."""
    weights, squares, bias = [0.0] * size, [0.01] * size, 0.0
    orders = sum(label for _, label in examples)
    times = max(1, round(0.4 * (len(examples) - orders) / max(1, orders)))
    examples = examples + [each for each in examples if each[1]] * (times - 1)
    for _ in range(ROUNDS):
        chance.shuffle(examples)
        for places, label in examples:
            total = bias + sum([weights[place] for place in places])
            error = 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))) - label
            if abs(error) < 0.001:
                continue
            bias -= 0.01 * error
            for place in places:
                squares[place] += error * error
                weight = weights[place] - 0.2 * error / math.sqrt(squares[place])
                weights[place] = weight - math.copysign(min(abs(weight), 0.001), weight)
    return weights, bias


def score(found: set[str], table: dict[str, float]) -> float:
    return sum(table[feature] for feature in found if feature in table)


def made_from(path: Path, names: dict[str, list[str]], chance: random.Random) -> list[tuple[str, str]]:
    """Sentences made by a grammar, each with its kind."""
    own, lines = _grammar(path)
    choices = {**names, **dict(own)}
    return [
        (kind, _expanded(line, choices, chance))
        for kind, line in lines
        for _ in range(EACH if _CHOICE.search(line) else 5)
    ]


_CHOICE = re.compile(r"[{<]")


def _grammar(path: Path) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    names, lines = [], []
    for line in path.read_text().splitlines():
        if named := re.match(r"<(\w+)> = (.*)", line):
            names.append((named[1], named[2].split("|")))
        elif line and line[0] != "#":
            kind, _, rest = line.partition("|")
            lines.append((kind, rest))
    return names, lines


def _expanded(line: str, choices: dict[str, list[str]], chance: random.Random) -> str:
    while True:
        if group := re.search(r"\{([^{}]*)\}", line):
            chosen = chance.choice(group[1].split("|"))
            line = line[: group.start()] + chosen + line[group.end() :]
        elif (name := re.search(r"<(\w+)>", line)) and name[1] in choices:
            line = line[: name.start()] + chance.choice(choices[name[1]]) + line[name.end() :]
        else:
            return line[0].upper() + line[1:]


if __name__ == "__main__":
    main()
