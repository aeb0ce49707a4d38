"""How well and how fast tools are found: `python bench/discovery.py DIR --json FILE`.

DIR holds `tools.jsonl` (`id`, `server`, `name`, `description`, `params`) and `queries.jsonl` (`query`, `gold`: for each
needed tool a list of interchangeable ids). Every strategy is measured next to a plain BM25F, alone and with the same
model, SQLite FTS5 and FastMCP's BM25 in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
from numpy.typing import NDArray

from interlock.config.home import home_folder
from interlock.discovery import fuse, model_files, sentence_model, static_vectors, words
from interlock.discovery.budget import fit
from interlock.discovery.entries import ToolEntry, from_definition
from interlock.discovery.index import LEXICAL_WEIGHT, ToolIndex
from interlock.discovery.semantic import Embedder, VectorIndex
from interlock.discovery.tokens import TokenCounter

DEPTH = 50
TOKEN_LIMITS = (500, 1_000, 2_000)
Scores = NDArray[np.float32]
Ranker = Callable[[str], list[str]]
Scorer = Callable[[str], Scores]
"""A score for each tool of the set, in its order."""


def main() -> None:
    arguments = _arguments()
    tools = _read(arguments.dir / "tools.jsonl")
    queries = _answerable(_read(arguments.dir / "queries.jsonl"), {tool["id"] for tool in tools})
    if arguments.sample:
        random.Random(7).shuffle(queries)
        queries = queries[: arguments.sample]
    counter = TokenCounter()
    started = time.perf_counter()
    tokens = {tool["id"]: counter(json.dumps(_definition(tool), separators=(",", ":"))) for tool in tools}
    counting = time.perf_counter() - started
    counter.release()
    report: dict[str, Any] = {
        "set": arguments.dir.name,
        "tools": len(tools),
        "queries": len(queries),
        "token_count_us_per_tool": round(counting / max(1, len(tools)) * 1e6, 1),
        "systems": {},
    }
    embedder = _embedder(arguments.model)
    for name, ranker in _rankers(tools, embedder).items():
        report["systems"][name] = measure(ranker, queries, tokens)
        print(line(name, report["systems"][name]), flush=True)
    if embedder is None:
        report["systems"]["semantic"] = "not measured (run `interlock search-model install`, or pass --model)"
        print(line("semantic", report["systems"]["semantic"]))
    report["systems"]["fastmcp_bm25"] = fastmcp(arguments, tools, queries, tokens)
    print(line("fastmcp_bm25", report["systems"]["fastmcp_bm25"]))
    if arguments.scale:
        report["scale"] = [scale(size, tools, queries) for size in arguments.scale]
        for row in report["scale"]:
            print(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(ranker: Ranker, queries: Sequence[dict[str, Any]], tokens: dict[str, int]) -> dict[str, float]:
    """Quality and latency of one system."""
    rankings: list[list[str]] = []
    times: list[float] = []
    for query in queries:
        started = time.perf_counter()
        rankings.append(ranker(query["query"]))
        times.append((time.perf_counter() - started) * 1e3)
    return judge(rankings, times, queries, tokens)


def judge(
    rankings: Sequence[list[str]], times: list[float], queries: Sequence[dict[str, Any]], tokens: dict[str, int]
) -> dict[str, float]:
    sums: dict[str, float] = {}
    for ranking, query in zip(rankings, queries, strict=True):
        gold = [set(alternatives) for alternatives in query["gold"]]
        for depth in (1, 5, 10):
            _add(sums, f"recall@{depth}", _recall(ranking[:depth], gold))
        gain, first = _gain(ranking[:10], gold)
        _add(sums, "ndcg@10", gain)
        _add(sums, "mrr@10", 1 / first if first else 0.0)
        for limit in TOKEN_LIMITS:
            kept = fit([(name, tokens[name]) for name in ranking], limit).kept
            _add(sums, f"recall_under_{limit}_tokens", _recall(kept, gold))
    result = {name: round(100 * total / len(queries), 2) for name, total in sums.items()}
    ordered = sorted(times)
    return result | {f"p{share}_ms": round(ordered[int(len(ordered) * share / 100)], 3) for share in (50, 95, 99)}


def line(name: str, result: dict[str, float] | str) -> str:
    if isinstance(result, str):
        return f"{name:14} {result}"
    return f"{name:14} " + "  ".join(f"{key} {value:g}" for key, value in result.items())


def _embedder(path: Path | None) -> Embedder | None:
    """The sentence model of a folder or of the hub's home, or a file of word vectors."""
    found = path or model_files.installed(home_folder())
    if found is None:
        return None
    return sentence_model.load(found) if found.is_dir() else static_vectors.read(found)


def _rankers(tools: Sequence[dict[str, Any]], embedder: Embedder | None) -> dict[str, Ranker]:
    plain = _index(tools, None)
    rankers = {
        "hybrid": _searcher(plain, "hybrid", tools),
        "keyword": _searcher(plain, "keyword", tools),
        "category": _searcher(plain, "category", tools),
    }
    bm25f = _bm25f(tools)
    if embedder is not None:
        known = _at_once(embedder, tools)
        least = sentence_model.LEAST_ALONE if isinstance(embedder, sentence_model.SentenceModel) else 0.0
        vectors = _index(tools, known, least)
        rankers["hybrid+vectors"] = _searcher(vectors, "hybrid", tools)
        rankers["semantic"] = _searcher(vectors, "semantic", tools)
        rankers["plain_bm25f+vectors"] = _best_of(tools, _with_meaning(tools, bm25f, known))
    rankers["plain_bm25f"] = _best_of(tools, bm25f)
    rankers["sqlite_fts5"] = _fts5(tools)
    return rankers


def _at_once(embedder: Embedder, tools: Sequence[dict[str, Any]]) -> Embedder:
    """The tools embedded together, which costs less than one by one; each query once, for all rankers."""
    texts = [_entry(tool, number).text for number, tool in enumerate(tools)]
    known = dict(zip(texts, embedder(texts), strict=True))

    def vectors(asked: Sequence[str]) -> list[Any]:
        for text in asked:
            if text not in known:
                known[text] = embedder([text])[0]
        return [known[text] for text in asked]

    return vectors


def _index(tools: Sequence[dict[str, Any]], embedder: Embedder | None, least_alone: float = 0.0) -> ToolIndex:
    index = ToolIndex(embedder, least_alone)
    for number, tool in enumerate(tools):
        index.put(_entry(tool, number))
    return index


def _entry(tool: dict[str, Any], number: int) -> ToolEntry:
    """An entry whose identity is unique even where a set repeats names on one server."""
    declared = [tool["category"]] if tool.get("category") else []
    entry = from_definition(tool.get("server") or "", _definition(tool), declared_categories=declared)
    return _Numbered(**{name: getattr(entry, name) for name in entry.__struct_fields__}, number=number)


class _Numbered(ToolEntry, frozen=True):
    number: int = 0

    @property
    def identity(self) -> tuple[str, str]:
        return (self.server, f"{self.name}#{self.number}")


def _searcher(index: ToolIndex, strategy: str, tools: Sequence[dict[str, Any]]) -> Ranker:
    def rank(query: str) -> list[str]:
        hits = index.search(query, strategy, DEPTH).hits
        return [tools[hit.entry.number]["id"] for hit in hits if isinstance(hit.entry, _Numbered)]

    return rank


def _best_of(tools: Sequence[dict[str, Any]], scorer: Scorer) -> Ranker:
    def rank(query: str) -> list[str]:
        scores = scorer(query)
        best = sorted(np.flatnonzero(scores > 0).tolist(), key=lambda number: (-scores[number], number))
        return [tools[number]["id"] for number in best[:DEPTH]]

    return rank


def _with_meaning(tools: Sequence[dict[str, Any]], scorer: Scorer, embedder: Embedder) -> Scorer:
    """Scores by words and cosines, each brought to 0..1 and added with the weight of ours; the query as a whole."""
    texts = [_entry(tool, number).text for number, tool in enumerate(tools)]
    index = VectorIndex()
    for number, vector in enumerate(embedder(texts)):
        if vector is not None:
            index.put(number, vector)

    def score(query: str) -> Scores:
        vector = embedder([query])[0]
        near = None if vector is None else index.score([vector], np.arange(len(tools)))
        by_words = scorer(query)
        return by_words if near is None else fuse.blend(by_words, near[0], LEXICAL_WEIGHT)

    return score


def _bm25f(tools: Sequence[dict[str, Any]]) -> Scorer:
    """BM25F as it is written in textbooks (k1 1.2, b 0.75, mean lengths of this set), over the same stemmed words."""
    weights = {"name": 3.0, "description": 1.0, "parameters": 0.7, "texts": 0.4, "server": 0.3}
    fields = [
        {
            "name": _stems(tool["name"]),
            "description": _stems(tool["description"]),
            "parameters": _stems(" ".join(tool["params"])),
            "texts": _stems(" ".join(text or "" for text in tool["params"].values())),
            "server": _stems(tool.get("server") or ""),
        }
        for tool in tools
    ]
    mean = {name: max(1e-9, sum(len(each[name]) for each in fields) / len(fields)) for name in weights}
    postings: dict[str, dict[int, float]] = {}
    for number, each in enumerate(fields):
        for name, weight in weights.items():
            for term in each[name]:
                held = postings.setdefault(term, {})
                held[number] = held.get(number, 0.0) + weight / (0.25 + 0.75 * len(each[name]) / mean[name])

    def score(query: str) -> Scores:
        scores = np.zeros(len(tools), np.float32)
        for term in sorted(set(_stems(query))):
            held = postings.get(term, {})
            rarity = math.log(1 + (len(tools) - len(held) + 0.5) / (len(held) + 0.5))
            for number, frequency in held.items():
                scores[number] += rarity * frequency * 2.2 / (frequency + 1.2)
        return scores

    return score


def _stems(text: str) -> list[str]:
    return [words.stem(word) for word in words.split(text)]


def _fts5(tools: Sequence[dict[str, Any]]) -> Ranker:
    """SQLite's full-text search with its porter stemmer, fields weighted as ours are."""
    base = sqlite3.connect(":memory:")
    base.execute("create virtual table t using fts5(name, server, description, params, tokenize='porter unicode61')")
    for tool in tools:
        params = " ".join(f"{_spaced(name)} {text or ''}" for name, text in tool["params"].items())
        row = (_spaced(tool["name"]), _spaced(tool.get("server") or ""), tool["description"], params)
        base.execute("insert into t values (?, ?, ?, ?)", row)

    def rank(query: str) -> list[str]:
        terms = list(dict.fromkeys(re.findall(r"[^\W_]{2,}", query.lower())))[:200]
        if not terms:
            return []
        match = " OR ".join(f'"{term}"' for term in terms)
        sql = "select rowid from t where t match ? order by bm25(t, 3.0, 0.3, 1.0, 0.5) limit ?"
        return [tools[row[0] - 1]["id"] for row in base.execute(sql, (match, DEPTH))]

    return rank


def fastmcp(
    arguments: argparse.Namespace,
    tools: Sequence[dict[str, Any]],
    queries: Sequence[dict[str, Any]],
    tokens: dict[str, int],
) -> dict[str, float] | str:
    """FastMCP's own ranking, run by the interpreter of an environment that has it."""
    python = _fastmcp_python(arguments)
    if python is None:
        return "not measured (pass --install-fastmcp, or --fastmcp-python with an interpreter that has it)"
    task = {"tools": [_definition(tool) for tool in tools], "queries": [q["query"] for q in queries], "depth": DEPTH}
    done = subprocess.run([python, "-c", _FASTMCP], input=json.dumps(task), capture_output=True, text=True, check=False)
    if done.returncode:
        return f"not measured: {done.stderr.strip().splitlines()[-1][:200]}"
    answer = json.loads(done.stdout)
    rankings = [[tools[number]["id"] for number in ranking] for ranking in answer["rankings"]]
    return judge(rankings, answer["times"], queries, tokens)


_FASTMCP = """
import json, sys, time
from fastmcp.server.transforms.search.bm25 import _BM25Index, _extract_searchable_text
from fastmcp.tools.base import Tool
task = json.load(sys.stdin)
index = _BM25Index()
index.build([
    _extract_searchable_text(Tool(name=t["name"], description=t["description"], parameters=t["inputSchema"]))
    for t in task["tools"]
])
rankings, times = [], []
for query in task["queries"]:
    started = time.perf_counter()
    rankings.append(index.query(query, task["depth"]))
    times.append((time.perf_counter() - started) * 1e3)
json.dump({"rankings": rankings, "times": times}, sys.stdout)
"""


def _fastmcp_python(arguments: argparse.Namespace) -> str | None:
    if arguments.fastmcp_python:
        return str(arguments.fastmcp_python)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlock-bench" / "fastmcp"
    python = cache / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists() and arguments.install_fastmcp:
        uv = shutil.which("uv")
        if uv:
            subprocess.run([uv, "venv", "--quiet", str(cache)], check=True)
            subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "fastmcp"], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", str(cache)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", "fastmcp"], check=True)
    return str(python) if python.exists() else None


def scale(size: int, tools: Sequence[dict[str, Any]], queries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Latency, cost of one more tool, and memory with `size` tools: the set repeated, its words mixed anew."""
    chance = random.Random(size)
    before = _resident()
    index = ToolIndex()
    for number in range(size):
        index.put(_varied(tools, number, chance))
    grown = _resident() - before
    asked = [query["query"] for query in chance.sample(list(queries), min(300, len(queries)))]
    index.search(asked[0])
    result: dict[str, float] = {"tools": size, "memory_mb": round(grown, 1)}
    result |= _percentiles("query", [_timed(lambda q=query: index.search(q)) for query in asked])
    added = [_varied(tools, size + number, chance) for number in range(200)]
    result |= _percentiles("add", [_timed(lambda e=entry: index.put(e)) for entry in added])
    result |= _percentiles("remove", [_timed(lambda e=entry: index.remove(e.identity)) for entry in added])
    return result


def _varied(tools: Sequence[dict[str, Any]], number: int, chance: random.Random) -> ToolEntry:
    """A tool of the set, crossed with another and given a few words of its own, so that the vocabulary grows too."""
    one, other = tools[number % len(tools)], chance.choice(tools)
    own = f"{chance.choice(_SYLLABLES)}{chance.choice(_SYLLABLES)}{chance.choice(_SYLLABLES)}"
    crossed = one | {"name": f"{one['name']}_{own}", "description": f"{one['description']} {other['name']} {own}"}
    return _entry(crossed, number)


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


def _percentiles(name: str, times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {f"{name}_p{p}_ms": round(ordered[int(len(ordered) * p / 100)], 3) for p in (50, 95, 99)}


def _resident() -> float:
    """Megabytes of memory in use; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text())
    return int(found.group(1)) / 1024 if found else 0.0


def _recall(ranking: Sequence[str], gold: Sequence[set[str]]) -> float:
    found = set(ranking)
    return sum(1 for alternatives in gold if alternatives & found) / len(gold)


def _gain(ranking: Sequence[str], gold: Sequence[set[str]]) -> tuple[float, int]:
    """Discounted gain against the best possible, each needed tool counting once; and the rank of the first hit."""
    open_needs = list(range(len(gold)))
    gain, first = 0.0, 0
    for rank, name in enumerate(ranking, 1):
        met = next((need for need in open_needs if name in gold[need]), None)
        if met is not None:
            open_needs.remove(met)
            gain += 1 / math.log2(rank + 1)
            first = first or rank
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1)), first


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": text or ""} for name, text in tool["params"].items()}
    schema = {"type": "object", "properties": properties}
    return {"name": tool["name"], "description": tool["description"], "inputSchema": schema}


def _spaced(name: str) -> str:
    return " ".join([name, *re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)])


def _answerable(queries: Sequence[dict[str, Any]], known: set[str]) -> list[dict[str, Any]]:
    """The queries whose every need has a tool in the set: a public server may not have started."""
    return [query for query in queries if all(known & set(need) for need in query["gold"])]


def _add(sums: dict[str, float], name: str, value: float) -> None:
    sums[name] = sums.get(name, 0.0) + value


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in path.read_text("utf-8").splitlines() if row.strip()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="folder with tools.jsonl and queries.jsonl")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--model", type=Path, help="folder of the sentence model, or a file of word vectors")
    parser.add_argument("--sample", type=int, metavar="N", help="measure N queries, always the same ones")
    parser.add_argument("--scale", type=int, nargs="*", default=[], help="also measure speed and memory at these sizes")
    parser.add_argument("--fastmcp-python", type=Path, help="interpreter of an environment with fastmcp")
    parser.add_argument("--install-fastmcp", action="store_true", help="build that environment in the cache folder")
    return parser.parse_args()


_SYLLABLES = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in "lmnrst"]


if __name__ == "__main__":
    main()
