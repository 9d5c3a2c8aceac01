"""The brute force of one combination: computed from the public files of its folders when asked for, and kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from exact import Facts, best_errors, invariant_rows, variance
from making import Pages
from oracle import Couple, Folder, Measured, Pair, Record, Truth, but_for_chance, from_rho

Count = tuple[str, tuple[str, ...], str, tuple[str, ...], np.ndarray]
Releases = tuple[int, ...]


def _any(_one: Record, _other: Record) -> bool:
    return True


class Truths:
    """What is true of the releases of a combination; `releases` are the numbers of those that are meant together."""

    def __init__(self, pages: Pages, rows: int | None = None):
        self.pages = pages
        person = pages.case.get("person", "none")
        self.rows = rows or (1 if person == "none" else int(person))  # records of a person
        self.folders = [Folder.read(folder) for folder in pages.folders]
        self.measured = [Measured.of(folder) for folder in self.folders]
        self.kept: dict[tuple, Any] = {}

    def once(self, key: tuple, made: Callable[[], Any]) -> Any:
        if key not in self.kept:
            self.kept[key] = made()
        return self.kept[key]

    @property
    def folder(self) -> Folder:
        return self.folders[0]

    @property
    def pure(self) -> bool:
        return self.folder.pure

    @cached_property
    def truth(self) -> np.ndarray:
        """The true counts of all records."""
        return np.array([self.pages.truth.get((path[-1], *cell), 0) for path, cell in self.folder.records])

    def released(self, number: int) -> np.ndarray:
        """The released counts of all records."""

        def made() -> np.ndarray:
            table = pd.read_parquet(self.pages.folders[number] / "release.parquet")
            names = [self.folder.levels[-1], *self.folder.labels]
            rows = table[[*names, "count"]].itertuples(index=False)
            counts = {tuple(map(str, row[:-1])): row[-1] for row in rows}
            return np.array([counts.get((path[-1], *cell), 0) for path, cell in self.folder.records])

        return self.once(("released", number), made)

    @cached_property
    def single(self) -> list[Count]:
        """Counts with one possible value in the release."""
        return Facts.of(self.folder, self.truth, enforced=True).single

    @cached_property
    def single_in_data(self) -> list[Count]:
        """Counts that all data of neighbours have in common: what is exact, and what checked constraints fix."""
        return Facts.of(self.folder, self.truth, enforced=False).single

    @cached_property
    def shared(self) -> np.ndarray:
        return np.vstack([invariant_rows(self.folder), *(count[-1] for count in self.single_in_data)])

    def of(self, releases: Releases, kind: str = "strict") -> Truth:
        """Neighbours; with `invariants` they differ in counts that only rules fix, with `any` in all of them, and with
        `loose` in records that are impossible."""
        nothing = np.zeros((0, len(self.folder.records)), bool)
        fixed = {"strict": self.shared, "invariants": invariant_rows(self.folder)}.get(kind, nothing)
        return self.once(
            ("truth", releases, kind),
            lambda: Truth([self.measured[i] for i in releases], fixed, strict=kind != "loose", rows=self.rows),
        )

    def couples(self, releases: Releases, scope: str, kind: str = "strict") -> list[Couple]:
        """The possibilities that a claim is about."""
        truth = self.of(releases, kind)
        name = scope.partition(" ")[2]

        def made() -> list[Couple]:
            if scope.startswith("attribute"):
                names = list(self.folder.labels) if scope == "attributes" else [name]
                return [couple for each in names for couple in truth.attribute(each)]
            if scope.startswith("place"):
                return truth.place(name)
            if scope == "records":
                return truth.between(_any)
            return truth.alone() if scope == "in or out" else truth.neighbours()

        return self.once(("couples", releases, scope, kind), made)

    def pairs(self, releases: Releases, scope: str, kind: str = "strict") -> set[Pair]:
        """What differs between them."""
        return self.once(
            ("pairs", releases, scope, kind),
            lambda: {self.of(releases, kind).union(*couple) for couple in self.couples(releases, scope, kind)},
        )

    def agree(self, releases: Releases, scope: str, kind: str = "strict") -> bool:
        """Whether all possibilities of a scope have the same exact counts, so that none of them can be ruled out."""
        return len(self.couples(releases, scope, kind)) == len(self.couples(releases, scope, "any"))

    def epsilon(self, releases: Releases, scope: str, delta: float) -> float:
        pairs = self.pairs(releases, scope)
        return self.once(("epsilon", releases, scope, delta), lambda: self.of(releases).epsilon(pairs, delta))

    def loosest(self, releases: Releases, scope: str) -> float:
        """The loss if nothing were exact and no record impossible, by the loosest way to compute it."""

        def made() -> float:
            loss = self.of(releases, "loose").loss(self.pairs(releases, scope, "loose"))
            if self.pure:
                return loss
            return from_rho(loss if " " in scope else max(loss, self.nominal(releases)), self.folder.delta)

        return self.once(("loosest", releases, scope), made)

    def loosest_but_for_chance(self, releases: Releases, scope: str) -> float:
        """The epsilon of that rho that holds but for a chance of delta."""
        rho = self.of(releases, "loose").loss(self.pairs(releases, scope, "loose"))
        two = 1 if self.folder.replace or scope != "records" else 2
        known = scope.startswith(("attribute", "place"))
        return but_for_chance(rho if known else max(rho, two * self.nominal(releases)), self.folder.delta)

    def nominal(self, releases: Releases) -> float:
        """The budget that the strategies state, as epsilon or rho, for all records of a person."""
        return self.times * float(sum(_budget(self.folders[i].strategy) for i in releases))

    @property
    def times(self) -> int:
        """How many times the loss of one record a person's is."""
        return self.rows if self.pure else self.rows**2

    def deviation(self, where: str, number: int) -> float | None:
        """The noise of `query@level` in a unit that has no only child: the largest of its level."""
        measured, plan = self.measured[number], self.folders[number].strategy
        query, level = where.split("@")
        found = [p for p, at in zip(measured.parameter, measured.where, strict=True) if at == (level, query)]
        if plan.get("only_child"):
            found = [
                measured.noise(
                    _budget(plan) * Fraction(plan["levels"][level]) * Fraction(plan["queries"][level][query])
                )
            ]
        pick = min if self.pure else max
        return math.sqrt(variance(float(pick(found)), pure=self.pure)) if found else None

    def best(self, number: int, *, enforced: bool) -> dict[tuple[str, str], float]:
        """Errors of the best linear estimates, which know what is impossible in the data or (`enforced`) release."""

        def made() -> dict[tuple[str, str], float]:
            best = best_errors(self.measured[number], enforced=enforced)
            return {where: float(np.sqrt(np.mean(np.square(values)))) for where, values in best.items()}

        return self.once(("best", number, enforced), made)


def _budget(plan: dict) -> Fraction:
    return Fraction(plan["rho"] if "rho" in plan else plan["epsilon"])
