"""Columns of counts, one per cell: which attributes their names combine, and which column holds the total."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import LABELS, is_total, plain, says_total

SEPARATORS = (" - ", ": ", "; ", ", ", "_", " ", "-", ".", "|", "/")
_AGE = r"([<>]? ?[0-9]|(ages?|aged|under|over|moins|plus|unter|uber|menos|mas)\b.*[0-9])"
_SAMPLE = 5_000  # rows in which sums are compared
_MOST_RUNS = 300  # columns among which runs are searched


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read columns of counts: the labels of each attribute, and the pattern of the names between them."""

    labels: tuple[tuple[str, ...], ...]
    separators: tuple[str, ...] = ()
    total: str | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names = list(self.labels[0])
        for separator, labels in zip(self.separators, self.labels[1:], strict=True):
            names = [f"{name}{separator}{label}" for name in names for label in labels]
        return names

    def pattern(self, attributes: Sequence[str]) -> str:
        """The pattern of the columns' names for attributes of these names."""
        parts = [f"{{{name}}}" for name in attributes]
        ends = zip(self.separators, parts[1:], strict=True)
        return parts[0] + "".join(f"{separator}{part}" for separator, part in ends)


def read_cells(columns: Sequence[Column], *, total: str | None = None) -> Reading:
    """How to read columns of counts: as a product of labels if they have that form, and so that they sum to a total."""
    names = {column.name: _values(column) for column in columns}
    total = total or next((column.name for column in columns if is_total(column.name)), None)
    cells = [name for name in names if name != total] or list(names)
    if len(names) == 1:
        return Reading(labels=(tuple(names),))
    whole = Reading(labels=(tuple(cells),))
    for reading in (*_products(cells), whole, *_runs(cells, names, total)):
        if total is not None and fits(names, reading.columns, total):
            return Reading(labels=reading.labels, separators=reading.separators, total=total)
        if total is None and (found := _sum_of(names, reading.columns)):
            return Reading(labels=reading.labels, separators=reading.separators, total=found)
    largest = next(_products(cells), None)
    covers = largest is not None and total is None and len(largest.columns) > 0.6 * len(cells)
    return largest if largest is not None and covers else _without_total(whole, names)


def fits(values: dict[str, Floats], columns: Sequence[str], total: str) -> bool:
    """Whether columns sum to the total in most rows; the reader will report the rows in which they do not."""
    sums = np.sum([values[name] for name in columns], axis=0)
    return bool(np.mean(sums == values[total]) > 0.5)


def attribute_names(reading: Reading, taken: Sequence[str]) -> list[str]:
    """A name for each set of labels: a known word, or a number."""
    names: list[str] = []
    for i, labels in enumerate(reading.labels):
        words = {plain(label) for label in labels}
        known = [name for name, some in LABELS.items() if some & words and name not in (*names, *taken)]
        if not known and _look_like_ages(labels) and "age" not in (*names, *taken):
            known = ["age"]
        if not known and (word := _first_word(labels)) not in (None, *names, *taken):
            known = [str(word)]
        race = known and any("white" in word for word in words)
        names.append(known[-1] if race else known[0] if known else f"attribute_{i + 1}")
    return names


def _first_word(labels: Sequence[str]) -> str | None:
    """The word that all labels begin with.

    >>> _first_word(["Grade 1", "Grade 2"]), _first_word(["Boys", "Girls"])
    ('grade', None)
    """
    firsts = {label.partition(" ")[0].lower() for label in labels if " " in label}
    return firsts.pop() if len(labels) > 1 and len(firsts) == 1 and all(" " in label for label in labels) else None


def _look_like_ages(labels: Sequence[str]) -> bool:
    return len(labels) > 1 and all(re.match(_AGE, plain(label)) for label in labels)


def _values(column: Column) -> Floats:
    """The numbers in the first rows, NaN where a value is not a number."""
    return column.numbers[column.of_row[:_SAMPLE]]


def _sum_of(values: dict[str, Floats], columns: Sequence[str]) -> str | None:
    """Another column that is the sum of these in nearly every row."""
    sums = np.sum([values[name] for name in columns], axis=0)
    others = [name for name in values if name not in set(columns)]
    if len(columns) < 2 or not (sums > 0).any():
        return None
    return next((name for name in others if np.mean(sums == values[name]) > 0.9), None)


def _without_total(whole: Reading, values: dict[str, Floats]) -> Reading:
    """All columns as one attribute, except one that is the sum of the others, whatever it is called."""
    (cells,) = whole.labels
    sums = np.sum([values[name] for name in cells], axis=0)
    for name in cells if len(cells) > 2 and (sums > 0).any() else ():
        if np.mean(sums - values[name] == values[name]) > 0.9:
            return Reading(labels=(tuple(cell for cell in cells if cell != name),), total=name)
    return whole


def _products(columns: Sequence[str]) -> Iterator[Reading]:
    """Ways to read column names as products of labels with all combinations present, the largest first."""
    found = [reading for separator in SEPARATORS for reading in _products_by(columns, separator)]
    yield from map(_split_further, sorted(found, key=lambda reading: -len(reading.columns)))


def _products_by(columns: Sequence[str], separator: str) -> Iterator[Reading]:
    seconds: dict[str, list[str]] = {}
    for name in columns:
        parts = name.split(separator)
        for i in range(1, len(parts)):
            before, after = separator.join(parts[:i]), separator.join(parts[i:])
            if before and after:
                seconds.setdefault(before, []).append(after)
    sets = [tuple(values) for values in seconds.values()]
    sets += [tuple(value for value in values if not says_total(value)) for values in sets]
    for second in dict.fromkeys(values for values in sets if len(values) > 1):
        firsts = tuple(name for name, values in seconds.items() if set(second) <= set(values))
        if len(firsts) > 1:
            yield Reading(labels=(firsts, second), separators=(separator,))


def _split_further(reading: Reading) -> Reading:
    """A product of two sets of labels, each of them split again if it is a product of its own without a rest."""
    labels: list[tuple[str, ...]] = []
    separators: list[str] = []
    for i, part in enumerate(reading.labels):
        separators += [reading.separators[i - 1]] if i else []
        whole = [
            product
            for separator in SEPARATORS
            for product in _products_by(part, separator)
            if sorted(product.columns) == sorted(part)
        ]
        labels += whole[0].labels if whole else [part]
        separators += whole[0].separators if whole else []
    return Reading(labels=tuple(labels), separators=tuple(separators))


def _runs(cells: Sequence[str], values: dict[str, Floats], total: str | None) -> Iterator[Reading]:
    """Neighbouring columns that sum to the total, the longest run first: files may have several sets of them."""
    if total is None or len(cells) > _MOST_RUNS:
        return
    sums = np.cumsum([np.zeros(len(values[total])), *(values[name] for name in cells)], axis=0)
    for length in range(len(cells) - 1, 1, -1):
        for first in range(len(cells) - length + 1):
            if np.mean(sums[first + length] - sums[first] == values[total]) > 0.5:
                yield Reading(labels=(tuple(cells[first : first + length]),))
