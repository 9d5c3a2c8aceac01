"""Columns of counts, one per cell: which attributes their names combine, and which column holds the total."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.files.tables.draft.column_sums import SEPARATORS, adds_up, amounts, is_proven, sums_among
from tallyveil.files.tables.draft.view import Column
from tallyveil.files.tables.draft.words import LABELS, is_total, says_total
from tallyveil.files.tables.spellings import plain

_AGE = r"([<>]? ?[0-9]|(ages?|aged|under|over|moins|plus|unter|uber|menos|mas)\b.*[0-9])"
_MOST = 0.5  # share of rows in which cells must sum to the total; the reader reports the others
_MOST_RUNS = 300  # columns among which runs are searched


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read columns of counts: the labels of each attribute, and the pattern of the names between them."""

    labels: tuple[tuple[str, ...], ...]
    separators: tuple[str, ...] = ()
    total: str | None = None
    sums: tuple[str, ...] = ()  # columns that only add up others
    possible_sums: tuple[str, ...] = ()  # columns that may do so

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
    """How to read columns of counts: as a product of labels if they have that form, and so that they sum to a total.

    Columns that are sums of others are no cells, whatever they are called.
    """
    values = amounts(columns)
    if len(values) == 1:
        return Reading(labels=(tuple(values),))
    found = sums_among(values)
    sums = found.proven
    named = total or next((name for name in values if is_total(name)), None)
    largest = max(sums, key=lambda name: float(np.nansum(values[name])), default=None)
    for whole_row in dict.fromkeys(name for name in (named, largest) if name is not None):
        cells = [name for name in values if name != whole_row and name not in sums]
        for reading in (*_products(cells), _single(cells), *_runs(cells, values, whole_row)) if cells else ():
            fits = adds_up(values[whole_row], [values[name] for name in reading.columns], share=_MOST)
            if fits and (whole_row == named or _are_sets(cells, reading, values, whole_row)):
                return replace(reading, total=whole_row, sums=sums, possible_sums=found.possible)
    cells = [name for name in values if name != named and name not in sums] or list(values)
    product = next(_products(cells), None)
    covers = product is not None and named is None and len(product.columns) > 0.6 * len(cells)
    return replace(
        product if product is not None and covers else _single(cells), sums=sums, possible_sums=found.possible
    )


def _are_sets(cells: Sequence[str], reading: Reading, values: dict[str, Floats], total: str) -> bool:
    """Whether the cells that a reading leaves out count the same people once more, so that it leaves out nobody."""
    used, open_set = set(reading.columns), list[Floats]()
    for name in (cell for cell in cells if cell not in used):
        open_set.append(values[name])
        if adds_up(values[total], open_set):
            open_set = []
    return not open_set


def completes_product(name: str, names: Sequence[str]) -> bool:
    """Whether a name of a column joins the first part of one other name and the second part of another.

    >>> completes_product("men 85+", ["men 0-84", "women 0-84", "women 85+"])
    True
    >>> completes_product("men 85+", ["men 0-84", "women 0-84"])
    False
    """
    splits = [
        (separator, name[: match.start()], name[match.end() :])
        for separator in SEPARATORS
        for match in re.finditer(re.escape(separator), name)
    ]
    return any(
        any(other.startswith(first + separator) for other in names)
        and any(other.endswith(separator + second) for other in names)
        for separator, first, second in splits
        if first and second
    )


def _single(cells: Sequence[str]) -> Reading:
    """All columns as the labels of one attribute."""
    return Reading(labels=(tuple(cells),))


def are_alike(reading: Reading) -> bool:
    """Whether the names of columns show that they are labels of the same people: products, ages, words for sexes."""
    if len(reading.labels) > 1:
        return not any(map(_are_years, reading.labels))
    (labels,) = reading.labels
    words = {plain(label) for label in labels}
    known = any(words <= some for some in LABELS.values())
    return known or (not _are_years(labels) and (_look_like_ages(labels) or _first_word(labels) is not None))


def are_two_sets(columns: Sequence[Column], reading: Reading) -> bool:
    """Whether the first cells and the last ones sum to the same in every row, so that they count the same people."""
    values = amounts([column for column in columns if column.name in set(reading.columns)])
    names = list(values)
    ends = range(2, len(names) - 1) if len(reading.labels) == 1 else ()
    return any(is_proven(np.sum([values[n] for n in names[:i]], axis=0), [values[n] for n in names[i:]]) for i in ends)


def _are_years(labels: Sequence[str]) -> bool:
    return all(re.search(r"\b(18|19|20)[0-9]{2}\b", label) for label in labels)


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
