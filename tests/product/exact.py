"""Which published counts have one possible value, by integer programmes over all tables that public facts allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from oracle import Folder, Measured, counts_of
from scipy.optimize import Bounds, LinearConstraint, milp

MANY = 10_000
EVERY = ("total", "age", "home", "detailed")  # the queries of all combinations


@dataclass(frozen=True)
class Facts:
    """Conditions that every table satisfies: rows of records with a least and a most, and records that cannot exist."""

    folder: Folder
    rows: np.ndarray
    least: np.ndarray
    most: np.ndarray
    zero: np.ndarray

    @classmethod
    def of(cls, folder: Folder, truth: np.ndarray, *, enforced: bool) -> Facts:
        """What holds for the release (`enforced`), or for the data that neighbours share."""
        rows, least, most = [np.zeros(len(folder.records), bool)], [0.0], [0.0]
        for row in invariant_rows(folder):
            rows, least, most = [*rows, row], [*least, row @ truth], [*most, row @ truth]
        for inside, low, high in _bounds(folder) if enforced or folder.checked else ():
            rows, least, most = [*rows, inside], [*least, low], [*most, high]
        return cls(folder, np.array(rows), np.array(least), np.array(most), folder.impossible(enforced=enforced))

    @cached_property
    def single(self) -> list[tuple[str, tuple[str, ...], str, tuple[str, ...], np.ndarray]]:
        """The counts of total, single attributes and cells that are the same in every table."""
        every = list(counts_of(self.folder, ("total", *self.folder.labels, "detailed")))
        tables = [self._extreme(np.array(weights)) for weights in _directions(len(self.folder.records))]
        left = [count for count in every if all(count[-1] @ table == count[-1] @ tables[0] for table in tables)]
        found = []
        while left:
            count, *left = left
            low, high = self._extreme(count[-1]), self._extreme(-1.0 * count[-1])
            if count[-1] @ low == count[-1] @ high:
                found.append(count)
            left = [other for other in left if other[-1] @ low == other[-1] @ high == other[-1] @ tables[0]]
        return found

    def _extreme(self, weights: np.ndarray) -> np.ndarray:
        found = milp(
            weights.astype(float),
            integrality=np.ones(len(weights)),
            bounds=Bounds(0, np.where(self.zero, 0, MANY)),
            constraints=LinearConstraint(self.rows.astype(float), self.least, self.most),
        )
        assert found.success, found.message
        return np.round(found.x)


def _directions(size: int) -> list[list[float]]:
    """Different directions to look for tables in; they only save time."""
    return [[((7 * i * i + 3 * i * k) % 11) - 5.0 for i in range(size)] for k in range(1, 6)]


def invariant_rows(folder: Folder) -> np.ndarray:
    """The counts that neighbours share because they are published as they are, as rows of records."""
    found = [np.ones(len(folder.records), bool)] if folder.replace else []
    for rule in folder.constraints("invariant"):
        level = folder.levels.index(rule["level"])
        found += [
            folder.inside(level, unit, rule["invariant"], row)
            for unit in folder.units(level)
            for row in folder.rows(rule["invariant"])
        ]
    return np.array(found, dtype=bool).reshape(-1, len(folder.records))


def _bounds(folder: Folder) -> list[tuple[np.ndarray, float, float]]:
    found = []
    for rule in folder.constraints("bound"):
        level = folder.levels.index(rule["level"])
        units = [unit for unit in folder.units(level) if "units" not in rule or unit[-1] in rule["units"]]
        for unit in units:
            for row in folder.rows(rule["bound"]):
                name = "*".join(row) or "total"
                low, high = (
                    _of(rule.get(side), name, other) for side, other in (("least", 0.0), ("most", float(MANY)))
                )
                found.append((folder.inside(level, unit, rule["bound"], row), low, high))
    for rule in folder.constraints("facilities"):
        level, leaf = folder.levels.index(rule["level"]), len(folder.levels) - 1
        for unit in folder.units(level):
            below = [path[-1] for path in folder.units(leaf) if path[: level + 1] == unit]
            for (kind,) in folder.rows(rule["facilities"]):
                built = sum(folder.facilities.get((code, kind), 0) for code in below)
                low, high = (
                    _of(rule.get(side), kind, other) * built for side, other in (("least", 0.0), ("most", float(MANY)))
                )
                found.append((folder.inside(level, unit, rule["facilities"], (kind,)), low, high))
    return found


def _of(values: Mapping[str, float] | float | None, name: str, other: float) -> float:
    if isinstance(values, Mapping):
        return float(values.get(name, values.get("*", other)))
    return other if values is None else float(values)


def best_errors(measured: Measured, *, enforced: bool) -> dict[tuple[str, str], list[float]]:
    """Standard deviations of the best linear unbiased estimates of every count, by level and query.

    They know which records cannot exist in the data or, if `enforced`, in the release.
    """
    folder = measured.folder
    kept = ~folder.impossible(enforced=enforced)
    counts = measured.counts[:, kept].astype(float)
    weight = np.array([1 / variance(float(p), pure=folder.pure) for p in measured.parameter])
    free = _null_space(invariant_rows(folder)[:, kept].astype(float))
    spread = free @ np.linalg.pinv(free.T @ (counts.T * weight) @ counts @ free, hermitian=True) @ free.T
    found: dict[tuple[str, str], list[float]] = {}
    for level, _, query, _, inside in counts_of(folder, ("total", *folder.labels)):
        row = inside[kept].astype(float)
        found.setdefault((level, query), []).append(float(np.sqrt(max(row @ spread @ row, 0.0))))
    return found


def _null_space(rows: np.ndarray) -> np.ndarray:
    if not len(rows):
        return np.eye(rows.shape[1])
    _, values, vectors = np.linalg.svd(rows)
    return vectors[int((values > 1e-9).sum()) :].T


def variance(parameter: float, *, pure: bool) -> float:
    """The variance of two-sided geometric noise with a parameter, or of the discrete Gaussian."""
    if pure:
        return 2 * np.exp(-parameter) / (1 - np.exp(-parameter)) ** 2
    reach = int(12 * np.sqrt(parameter)) + 2
    whole = np.arange(-reach, reach + 1)
    chance = np.exp(-(whole**2) / (2 * parameter))
    return float((chance * whole**2).sum() / chance.sum())
