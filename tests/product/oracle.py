"""What a release gives away, by brute force: from its public files alone, over all records and all pairs of records.

Nothing of the package is used. The files of the folder say what was measured and with which budget; the noise of every
single count follows from that, and so does the loss between any two records.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

Record = tuple[tuple[str, ...], tuple[str, ...]]  # the path of a leaf, and a label of each attribute
# how many counts with which parameter of the noise differ, and by how much if not by one
Pair = tuple[tuple[Fraction, int] | tuple[Fraction, int, int], ...]

Couple = tuple[int, int | None]  # the numbers of two records, or of one and nobody


@dataclass(frozen=True)
class Folder:
    """The public files of a release."""

    levels: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    measured: dict[tuple[str, ...], tuple[str, ...]]  # the path on the measured spine, by the published one
    strategy: dict
    labels: dict[str, tuple[str, ...]]
    zeros: tuple[dict[str, list[str]], ...]
    facilities: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Folder:
        book = tomllib.loads((folder / "codebook.toml").read_text())
        strategy = tomllib.loads((folder / "strategy.toml").read_text())
        levels = (book["geography"]["root"], *book["geography"]["levels"])
        published = _paths(folder / "spine.parquet", levels)
        optimised = folder / "measurements" / "spine.parquet"
        second = _paths(optimised, levels) if optimised.is_file() else published
        leaf = {path[-1]: path for path in second}
        built = folder / "facilities.parquet"
        rows = pd.read_parquet(built).itertuples(index=False) if built.is_file() else ()
        return cls(
            levels=levels,
            paths=published,
            measured={path: leaf[path[-1]] for path in published},
            strategy=strategy,
            labels={name: tuple(labels) for name, labels in book["attributes"].items()},
            zeros=tuple(book.get("zeros", ())),
            facilities={(str(row[0]), str(row[1])): int(row[2]) for row in rows},
        )

    @property
    def pure(self) -> bool:
        return self.strategy["mechanism"] == "geometric"

    @property
    def replace(self) -> bool:
        return self.strategy["neighbours"] == "replace-one"

    @property
    def checked(self) -> bool:
        return self.strategy.get("check_constraints", True)

    @property
    def delta(self) -> float:
        return float(Fraction(self.strategy["delta"]))

    @cached_property
    def cells(self) -> list[tuple[str, ...]]:
        return list(itertools.product(*self.labels.values()))

    @cached_property
    def records(self) -> list[Record]:
        return [(path, cell) for path in self.paths for cell in self.cells]

    def constraints(self, kind: str) -> list[dict]:
        return [rule for rule in self.strategy.get("constraints", []) if kind in rule]

    def rows(self, query: str) -> list[tuple[str, ...]]:
        """The rows of a query, as the labels of its attributes."""
        return list(itertools.product(*(self.labels[name] for name in self.factors(query))))

    def factors(self, query: str) -> list[str]:
        if query == "total":
            return []
        return list(self.labels) if query == "detailed" else [name.strip() for name in query.split("*")]

    def inside(
        self, level: int, unit: tuple[str, ...], query: str, row: tuple[str, ...], *, measured: bool = False
    ) -> np.ndarray:
        """Which records a count counts."""
        where = [list(self.labels).index(name) for name in self.factors(query)]
        path_of = self.measured if measured else {path: path for path in self.paths}
        return np.array(
            [path_of[path][: level + 1] == unit and tuple(cell[i] for i in where) == row for path, cell in self.records]
        )

    def units(self, level: int, *, measured: bool = False) -> list[tuple[str, ...]]:
        return list(dict.fromkeys(path[: level + 1] for path in (self.measured.values() if measured else self.paths)))

    def impossible(self, *, enforced: bool) -> np.ndarray:
        """Records that cannot exist: in the data, or, if `enforced`, in the release."""
        zeros = list(self.zeros) + [rule["zero"] for rule in self.constraints("zero") if enforced or self.checked]
        names = list(self.labels)
        found = np.array(
            [
                any(all(cell[names.index(n)] in labels for n, labels in zero.items()) for zero in zeros)
                for _, cell in self.records
            ]
        )
        for rule in self.constraints("facilities") if enforced or self.checked else ():
            where = names.index(rule["facilities"])
            found |= np.array([not self.facilities.get((path[-1], cell[where])) for path, cell in self.records])
        return found


def _paths(file: Path, levels: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    table = pd.read_parquet(file)
    columns = [table[level].astype(str) if level in table else pd.Series([level] * len(table)) for level in levels]
    return tuple(zip(*columns, strict=True))


@dataclass(frozen=True)
class Measured:
    """Every noisy count of one release: which records it counts, and the parameter of its noise."""

    folder: Folder
    counts: np.ndarray  # counts by records
    parameter: list[Fraction]  # z of a geometric count, the variance of a Gaussian one
    where: list[tuple[str, str]]  # level and query

    @classmethod
    def of(cls, folder: Folder) -> Measured:
        plan = folder.strategy
        total = Fraction(plan["rho"] if "rho" in plan else plan["epsilon"])
        counts, parameter, where = [], [], []
        for level, name in enumerate(folder.levels):
            queries = plan["queries"].get(name) or {q: s for q, s in plan["queries"].items() if isinstance(s, str)}
            for unit in folder.units(level, measured=True):
                share = _share(folder, level, unit)
                for query, part in queries.items() if share else ():
                    loss = total * share * Fraction(part)
                    for row in folder.rows(query):
                        counts.append(folder.inside(level, unit, query, row, measured=True))
                        parameter.append(_parameter(folder, loss))
                        where.append((name, query))
        return cls(folder, np.array(counts), parameter, where)

    def noise(self, loss: Fraction) -> Fraction:
        """The parameter of the noise of a count with this share of the budget."""
        return _parameter(self.folder, loss)

    def pair(self, one: int, other: int | None = None) -> Pair:
        """The counts that differ if a record is replaced by another, or left out."""
        differ = self.counts[:, one] if other is None else self.counts[:, one] != self.counts[:, other]
        return tuple(sorted(Counter(self.parameter[i] for i in np.flatnonzero(differ)).items()))


def _share(folder: Folder, level: int, unit: tuple[str, ...]) -> Fraction:
    """The share of the budget that a unit is measured with: with the only-child rule its only child's too."""
    share = Fraction(folder.strategy["levels"][folder.levels[level]])
    if not folder.strategy.get("only_child"):
        return share
    if level and sum(other[:level] == unit[:level] for other in folder.units(level, measured=True)) == 1:
        return Fraction(0)
    while level + 1 < len(folder.levels):
        level += 1
        below = [child for child in folder.units(level, measured=True) if child[: len(unit)] == unit]
        if len(below) != 1:
            break
        share += Fraction(folder.strategy["levels"][folder.levels[level]])
    return share


def _parameter(folder: Folder, loss: Fraction) -> Fraction:
    if folder.pure:
        return loss / 2 if folder.replace else loss
    return 1 / loss if folder.replace else 1 / (2 * loss)


def size(pair: Pair, *, pure: bool) -> Fraction:
    """The pure loss of the counts that differ, or their rho."""
    parts = ((parameter, n, *by) if by else (parameter, n, 1) for parameter, n, *by in pair)
    return sum((p * n * by if pure else n * by**2 / (2 * p) for p, n, by in parts), Fraction(0))


@lru_cache(maxsize=4096)
def losses(pair: Pair, pure: bool) -> tuple[np.ndarray, np.ndarray]:
    """The distribution of the privacy loss, on a fine grid; each value is divided between the two points beside it."""
    groups = [_one_group(float(parameter), n, pure, *by) for parameter, n, *by in pair]
    spread = math.sqrt(sum(float(np.dot(p, (v - np.dot(p, v)) ** 2)) for v, p in groups)) or 1.0
    step, half = spread / 1500, 1 << 15
    spectrum = np.ones(half + 1, complex)
    offset = 0
    for values, chances in groups:
        low = np.floor(values / step).astype(np.int64)
        part = values / step - low
        here = np.zeros(2 * half)
        np.add.at(here, (low - low.min()) % (2 * half), chances * (1 - part))
        np.add.at(here, (low - low.min() + 1) % (2 * half), chances * part)
        spectrum *= np.fft.rfft(here)
        offset += int(low.min())
    together = np.maximum(np.fft.irfft(spectrum, 2 * half), 0)
    middle = sum(float(np.dot(p, v)) for v, p in groups) / step
    index = offset + np.arange(2 * half)
    index += 2 * half * np.round((middle - index) / (2 * half)).astype(np.int64)
    order = np.argsort(index)
    return index[order] * step, together[order]


def _one_group(parameter: float, n: int, pure: bool, by: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The loss of n counts that differ by a number, and its probabilities."""
    if pure:
        less = math.exp(-parameter)
        middle = [(1 - less) / (1 + less) * less**k for k in range(1, by)]
        one = np.array([1 / (1 + less), *middle, less**by / (1 + less)])
    else:
        reach = math.ceil(9.5 * math.sqrt(parameter)) + 1
        one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * parameter))
        one /= one.sum()
    chances = one
    for _ in range(n - 1):
        chances = np.convolve(chances, one)
    if pure:
        return parameter * (by * n - 2 * np.arange(by * n + 1)), chances
    return by * (by * n - 2 * np.arange(-reach * n, reach * n + 1)) / (2 * parameter), chances


def delta_at(pair: Pair, epsilon: float, *, pure: bool) -> float:
    """The hockey-stick divergence: how much of the probability is not covered by a factor of e^epsilon."""
    value, chance = losses(pair, pure)
    above = value > epsilon
    return float(np.sum(chance[above] * -np.expm1(epsilon - value[above])))


def chance_beyond(pair: Pair, epsilon: float, *, pure: bool, either: bool = False) -> float:
    """The probability that the loss is larger; with `either`, that likelihoods differ by more in either direction."""
    value, chance = losses(pair, pure)
    return float(chance[value > epsilon].sum() + (chance[value < -epsilon].sum() if either else 0))


def epsilon_at(pair: Pair, delta: float, *, pure: bool) -> float:
    """The smallest epsilon that holds at delta; with delta 0, which only pure noise has, the sum."""
    if delta == 0:
        return float(size(pair, pure=True))
    low, high = 0.0, float(losses(pair, pure)[0][-1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(pair, middle, pure=pure) > delta else (low, middle)
    return min(high, float(size(pair, pure=True))) if pure else high


def even_odds(pair: Pair, *, pure: bool) -> float:
    """How likely the truth becomes on average to someone who begins with two equally likely possibilities."""
    value, chance = losses(pair, pure)
    return float(np.sum(chance / (1 + np.exp(-np.clip(value, -700, 700)))))


def from_rho(rho: float, delta: float) -> float:
    """The smallest epsilon that rho implies at delta (Canonne, Kamath and Steinke 2020, Corollary 13)."""

    def at(log: float) -> float:
        a = 1 + math.exp(log)
        return a * rho + (math.log(1 / (a * delta)) + (a - 1) * math.log1p(-1 / a)) / (a - 1)

    return max(
        0.0,
        min(
            minimize_scalar(at, bounds=(low, low + 4), method="bounded", options={"xatol": 1e-12}).fun
            for low in range(-6, 14)
        ),
    )


def but_for_chance(rho: float, delta: float) -> float:
    """An epsilon that the loss exceeds with a probability of at most delta (Bun and Steinke 2016, Proposition 1.3)."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@dataclass(frozen=True)
class Truth:
    """What releases about the same people give away together; neighbours share the counts whose rows are in `fixed`."""

    measured: list[Measured]
    fixed: np.ndarray
    strict: bool = True  # leave out records that the checked constraints exclude
    rows: int = 1  # records of a person, which are all equal in the worst case

    @property
    def folder(self) -> Folder:
        return self.measured[0].folder

    @cached_property
    def possible(self) -> np.ndarray:
        return (
            np.flatnonzero(~self.folder.impossible(enforced=False))
            if self.strict
            else np.arange(len(self.folder.records))
        )

    def union(self, one: int, other: int | None = None) -> Pair:
        parts: Counter[Fraction] = Counter()
        for release in self.measured:
            parts.update(dict(release.pair(one, other)))
        return tuple(sorted((p, n, self.rows) if self.rows > 1 else (p, n) for p, n in parts.items()))

    def neighbours(self) -> list[Couple]:
        return self.between(lambda *_: True) if self.folder.replace else self.alone()

    def alone(self) -> list[Couple]:
        return [(i, None) for i in self.possible if not self.fixed[:, i].any()]

    def between(self, keep: Callable[[Record, Record], bool]) -> list[Couple]:
        """Two possible records of one person that agree on what neighbours share."""
        records = self.folder.records
        return [
            (i, j)
            for i, j in itertools.combinations(self.possible, 2)
            if keep(records[i], records[j]) and (self.fixed[:, i] == self.fixed[:, j]).all()
        ]

    def attribute(self, name: str) -> list[Couple]:
        where = list(self.folder.labels).index(name)
        return self.between(
            lambda a, b: a[0] == b[0] and a[1][:where] == b[1][:where] and a[1][where + 1 :] == b[1][where + 1 :]
        )

    def place(self, level: str) -> list[Couple]:
        depth = self.folder.levels.index(level) + 1
        return self.between(lambda a, b: a[1] == b[1] and a[0][:depth] == b[0][:depth])

    def worst(self, pairs: set[Pair]) -> list[Pair]:
        """The pairs with the largest losses: those that can decide."""
        return sorted(pairs, key=lambda pair: size(pair, pure=self.folder.pure))[-3:]

    def loss(self, pairs: set[Pair]) -> float:
        """The largest pure loss, or rho."""
        return float(max((size(pair, pure=self.folder.pure) for pair in pairs), default=Fraction(0)))

    def epsilon(self, pairs: set[Pair], delta: float) -> float:
        return max((epsilon_at(pair, delta, pure=self.folder.pure) for pair in self.worst(pairs)), default=0.0)

    def chance(self, pairs: set[Pair], epsilon: float, *, either: bool = False) -> float:
        pure = self.folder.pure
        if pure:
            return float(any(size(pair, pure=True) > epsilon for pair in pairs))
        return max((chance_beyond(pair, epsilon, pure=pure, either=either) for pair in self.worst(pairs)), default=0.0)

    def average(self, pairs: set[Pair]) -> float:
        pure = self.folder.pure
        return max((even_odds(pair, pure=pure) for pair in self.worst(pairs)), default=0.5)


def counts_of(
    folder: Folder, queries: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], str, tuple[str, ...], np.ndarray]]:
    """Every published count: level, unit, query, row, and which records it counts."""
    for level, name in enumerate(folder.levels):
        for unit in folder.units(level):
            for query in queries:
                for row in folder.rows(query):
                    yield name, unit, query, row, folder.inside(level, unit, query, row)
