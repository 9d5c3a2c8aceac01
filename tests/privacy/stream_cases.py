"""Many measurements under one key, with every word of the keystream that each draw was made of.

Run as a program (``stream_cases.py BASES FILE``, under some PYTHONHASHSEED), it pickles the fields of a list of
:class:`Drawn`: the same cases whatever the hash seed. Words are seen where a draw gets them, and each is looked up
again in an independent ChaCha20, so that the place noted for it is the place it came from.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import InputError
from tallyveil.mechanisms import averaged, geometric, raked, total_and_strata, with_invariant
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.schema import Grouping
from tallyveil.privacy import Invariant, RunKey
from tallyveil.privacy.stream_words import Stream

measuring = importlib.import_module("tallyveil.mechanisms.measure")
answering = importlib.import_module("tallyveil.mechanisms.unit_answers")
MODULES = [importlib.import_module(f"tallyveil.mechanisms.{name}") for name in ("geometric", "raked", "averaged")]
MODULES.append(importlib.import_module("tallyveil.mechanisms.reconciled"))
KEY = RunKey.from_seed(14)
SPINE = Spine.from_columns(
    {
        "state": ["1", "1", "1", "2"],
        "group": ["1a", "1a", "1b", "2a"],
        "block": ["1a1", "1a2", "1b1", "2a1"],
    },
    root="land",
)
OPTIMISED = SPINE.optimised(place=Areas.from_codes(SPINE, leaf=["1a2", "1b1"], area=["Troy", "Troy"]))
SCHEMA = Schema(
    attributes={"age": ["a", "b", "c"], "sex": ["f", "m"], "home": ["h", "i"]},
    groupings={
        "cat": Grouping(of="age", groups={"a": ["a"], "bc": ["b", "c"]}),
        "kind": Grouping(of="age", groups={"ab": ["a", "b"], "c": ["c"]}),
    },
)
GROUPINGS = {name: grouping.of for name, grouping in SCHEMA.groupings.items()}
QUERIES = ("total", "age", "sex", "cat", "age * sex", "cat * sex", "kind * sex", "age * home", "home * sex", "detailed")
PEOPLE = {
    "ours": Histogram.from_entries(SPINE, SCHEMA, unit=[0, 0, 1, 2, 3], cell=[0, 5, 11, 3, 7], count=[4, 1, 2, 9, 1]),
    "one moved": Histogram.from_entries(
        SPINE, SCHEMA, unit=[0, 0, 1, 2, 3], cell=[0, 5, 11, 3, 7], count=[3, 1, 3, 9, 1]
    ),
}

Block = tuple[bytes, int, int, int, int]  # key, counter and the three words of the nonce
Asking = tuple[str, str, str, bytes]  # people, spine, level, and what the query means: the row of each cell


@dataclass(frozen=True)
class Drawn:
    """The noise of one measurement."""

    case: str
    same_as: str | None  # the case that measures the same, if one does
    askings: list[Asking]
    questions: list[tuple[int, int, int, int]]  # number of the asking, replicate, unit, row
    noises: list[str]
    values: list[int]
    words: list[list[tuple[Block, int]]]  # of each draw: blocks, and which word of each


@dataclass
class Recorder:
    """Notes what is drawn, for which question, from which words."""

    askings: list[Asking] = field(default_factory=list)
    questions: list[tuple[int, int, int, int]] = field(default_factory=list)
    noises: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    words: list[list[tuple[Block, int]]] = field(default_factory=list)
    used: dict[tuple[int, int], list[tuple[Block, int]]] = field(default_factory=dict)
    asking: Asking | None = None
    rows: int = 0

    def drawing(self, draw: Callable) -> Callable:
        """A ``draw`` that notes what it is asked for and what it gives."""

        def recorded(noise, stream, index, *, level, query, replicate):
            assert self.asking is not None
            self.used.clear()
            values = draw(noise, stream, index, level=level, query=query, replicate=replicate)
            replicates = [replicate] if isinstance(replicate, int) else list(replicate)
            self.askings.append(self.asking)
            for number, row in zip(replicates, np.asarray(values).reshape(len(replicates), -1), strict=True):
                for place, value in zip(np.asarray(index).tolist(), row.tolist(), strict=True):
                    self.questions.append((len(self.askings) - 1, number, place // self.rows, place % self.rows))
                    self.noises.append(repr(noise))
                    self.values.append(value)
                    self.words.append(self.used[place, number])
            return values

        return recorded

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See every word that a stream gives."""
        first, further = Stream.words, Stream.further_words

        def words(stream, index, *, level, query, replicate):
            out = first(stream, index, level=level, query=query, replicate=replicate)
            for place, number, word in zip(index.tolist(), replicate.tolist(), out.tolist(), strict=True):
                block = _block(stream, place >> 3, number, level, query, 0)
                assert _words_of(block)[place & 7] == word
                self.used.setdefault((place, number), []).append((block, place & 7))
            return out

        def further_words(stream, index, *, level, query, replicate, part=1):
            out = further(stream, index, level=level, query=query, replicate=replicate, part=part)
            for place, number, eight in zip(index.tolist(), replicate.tolist(), out.tolist(), strict=True):
                block = _block(stream, place, number, level, query, part)
                assert _words_of(block) == eight
                self.used.setdefault((place, number), []).extend((block, at) for at in range(8))
            return out

        with mock.patch.object(Stream, "words", words), mock.patch.object(Stream, "further_words", further_words):
            yield

    def drawn(self, case: str, same_as: str | None) -> Drawn:
        """What was noted, under the name of a case."""
        return Drawn(case, same_as, self.askings, self.questions, self.noises, self.values, self.words)


def _block(stream: Stream, counter: int, replicate: int, level: int, query: int, part: int) -> Block:
    low, high = counter & 0xFFFFFFFF, counter >> 32
    return stream._key.tobytes(), low, high, replicate, level << 24 | query << 12 | part


_seen: dict[Block, list[int]] = {}


def _words_of(block: Block) -> list[int]:
    """The eight words of a ChaCha20 block, by another implementation than ours."""
    if block not in _seen:
        key, *numbers = block
        place = b"".join(number.to_bytes(4, "little") for number in numbers)
        out = Cipher(ChaCha20(key, place), mode=None).encryptor().update(bytes(64))
        _seen[block] = [int.from_bytes(out[i : i + 8], "little") for i in range(0, 64, 8)]
    return _seen[block]


def measured(case: str, strategy: Strategy, *, people="ours", optimised=None, replicate=0, same_as=None) -> Drawn:
    """Everything that a strategy measures."""
    noted = Recorder()
    with noted.watching(), mock.patch.object(answering, "draw", noted.drawing(answering.draw)):
        noisy = measuring.measure(PEOPLE[people], strategy, KEY, replicate=replicate, optimised=optimised)
        for level in noisy.strategy.levels:
            for query in noisy.strategy.queries[level]:
                meaning = SCHEMA.query(query)
                noted.rows = meaning.size
                where = "optimised" if optimised else "standard"
                noted.asking = (people, where, level, meaning.row_of_cell.tobytes())
                for unit in range(noisy.spine.size(level)):
                    try:
                        noisy.ask(level, query, np.arange(unit * meaning.size, (unit + 1) * meaning.size))
                    except InputError as problem:
                        if "not measured" not in str(problem):
                            raise
    return noted.drawn(case, same_as)


def simple(case: str, run: Callable[..., object], *, people="ours", **arguments) -> Drawn:
    """Everything that one of the papers' simple mechanisms measures."""
    noted = Recorder()
    noisy = importlib.import_module("tallyveil.mechanisms.noisy")
    answers = noisy.noisy_answers

    def noisy_answers(counts, stream, *, z, query, level, replicate, number=0):
        meaning = SCHEMA.query(query)
        noted.rows = meaning.size
        noted.asking = (people, "standard", level, meaning.row_of_cell.tobytes())
        return answers(counts, stream, z=z, query=query, level=level, replicate=replicate, number=number)

    with ExitStack() as patches:
        patches.enter_context(noted.watching())
        patches.enter_context(mock.patch.object(noisy, "draw", noted.drawing(noisy.draw)))
        for module in MODULES:
            if hasattr(module, "noisy_answers"):
                patches.enter_context(mock.patch.object(module, "noisy_answers", noisy_answers))
        run(PEOPLE[people], key=KEY, **arguments)
    return noted.drawn(case, None)


def cases(bases: int) -> Iterator[Drawn]:
    """Random strategies, each with others that are nearly or quite the same; then the simple mechanisms."""
    for number in range(bases):
        yield from _family(number)
    for query in ("total", "age*sex", "sex * age", "detailed"):
        for epsilon in (1, 2):
            for neighbours in ("replace-one", "add-or-remove"):
                for run in (geometric, raked, averaged):
                    name = f"{run.__name__} {query} {epsilon} {neighbours}"
                    yield simple(name, run, epsilon=epsilon, query=query, neighbours=neighbours)
        yield simple(f"with invariant {query}", with_invariant, epsilon=1, query=query, above="group")
        yield simple(f"strata {query}", total_and_strata, epsilon_total=1, epsilon_strata=1, query=query)
        yield simple(f"other strata {query}", total_and_strata, epsilon_total=1, epsilon_strata=2, query=query)
        yield simple(f"two replicates {query}", geometric, epsilon=1, query=query, replicate=range(2))
        yield simple(f"one moved {query}", geometric, people="one moved", epsilon=1, query=query)


def _family(number: int) -> Iterator[Drawn]:
    rng = Random(number)
    tables = {level: _weights(rng, rng.sample(QUERIES, rng.randint(2, 4))) for level in SPINE.levels}
    base = {
        "levels": _weights(rng, SPINE.levels),
        "queries": tables,
        "mechanism": rng.choice(["geometric", "gaussian"]),
        "budget": rng.choice([1, 2, Fraction(1, 100_000)]),  # the last so wide that draws need further words
        "neighbours": rng.choice(["replace-one", "add-or-remove"]),
        "only_child": rng.random() < 0.5,
        "attributes": tuple(SCHEMA.attributes),
        "groupings": GROUPINGS,
    }
    name = f"strategy {number}"

    def again(how: str, *, same: bool = False, run: dict | None = None, **changed) -> Drawn:
        strategy = Strategy.proportional(**(base | changed))
        return measured(f"{name}, {how}", strategy, same_as=name if same else None, **(run or {}))

    yield measured(name, Strategy.proportional(**base))
    for time in range(3):
        respelled = {
            level: {_spelled(rng, query): weight for query, weight in table.items()} for level, table in tables.items()
        }
        yield again(f"spelled otherwise {time}", same=True, queries=respelled)
    yield again("in another order", same=True, queries={level: _shuffled(rng, tables[level]) for level in tables})
    yield again("levels in another order", same=True, queries=_shuffled(rng, tables))
    after: dict = {"rounding": "cells", "delta": "1e-6", "name": "other"}
    if base["neighbours"] == "replace-one":
        after["constraints"] = (Invariant(query="sex*age", level="state"),)
    yield again("other post-processing", same=True, **after)

    level = rng.choice(SPINE.levels)
    query = rng.choice(list(tables[level]))
    new = rng.choice([query for query in QUERIES if query not in tables[level]])
    yield again("one share changed", queries=tables | {level: tables[level] | {query: tables[level][query] + 1}})
    yield again("one query added", queries=tables | {level: tables[level] | {new: 1}})
    yield again("one query added first", queries=tables | {level: {new: 1} | tables[level]})
    yield again("one query for another", queries=tables | {level: _renamed(tables[level], query, new)})
    yield again("a level's share changed", levels=base["levels"] | {level: base["levels"][level] + 1})
    yield again("queries of two levels exchanged", queries=dict(zip(tables, reversed(tables.values()), strict=True)))
    yield again("another mechanism", mechanism={"geometric": "gaussian", "gaussian": "geometric"}[base["mechanism"]])
    yield again("another budget", budget=3 * base["budget"])
    neighbours = {"replace-one": "add-or-remove", "add-or-remove": "replace-one"}[base["neighbours"]]
    yield again("other neighbours", neighbours=neighbours)
    yield again("the only-child rule the other way", only_child=not base["only_child"])
    yield again("other people", run={"people": "one moved"})
    yield again("another replicate", run={"replicate": 1})
    yield again("the optimised spine", run={"optimised": OPTIMISED})
    # These name the same question in two ways; whether they measure the same is the strategy's business.
    written = {"detailed": "home * age * sex"}
    long = {level: {written.get(query, query): n for query, n in table.items()} for level, table in tables.items()}
    yield again("detailed written out", queries=long)
    used = {factor for table in tables.values() for query in table for factor in query.split(" * ")}
    yield again("attributes found", attributes=(), groupings={g: of for g, of in GROUPINGS.items() if g in used})


def _weights(rng: Random, names) -> dict[str, int]:
    return {name: rng.choice([1, 1, 2]) for name in names}


def _shuffled(rng: Random, table: dict) -> dict:
    return dict(sorted(table.items(), key=lambda _: rng.random()))


def _spelled(rng: Random, query: str) -> str:
    factors = query.split(" * ")
    rng.shuffle(factors)
    return rng.choice(["*", " * ", "* ", "  *"]).join(factors)


def _renamed(table: dict[str, int], old: str, new: str) -> dict[str, int]:
    return {new if query == old else query: weight for query, weight in table.items()}


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(pickle.dumps([vars(drawn) for drawn in cases(int(sys.argv[1]))]))
