"""Schemas: attributes with their labels, groupings of labels, structural zeros, and queries.

A cell is one combination of labels; cells are numbered with the last attribute varying fastest. A query is a marginal,
written ``"votingage * hispanic"``, ``"total"`` or ``"detailed"``. Labels are public inputs. A schema without attributes
has one cell, everybody, and its detailed query is the total.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError, InputError
from tallyveil.nouns.codes import refuse_controls

TOTAL, DETAILED = "total", "detailed"


def factors_of(text: str) -> tuple[str, ...]:
    """Return the factors of a query in the order written. ``total`` has none; ``detailed`` is its own factor.

    >>> factors_of("votingage*hispanic")
    ('votingage', 'hispanic')
    """
    factors = tuple(part.strip() for part in text.split("*"))
    if not all(factors):
        raise InputError(f'query {text!r} has an empty factor. Write it like "age * race", "total" or "detailed".')
    if len(set(factors)) != len(factors):
        raise InputError(f"query {text!r} names a factor twice. Name each factor once.")
    if len(factors) > 1 and (TOTAL in factors or DETAILED in factors):
        raise InputError(f"query {text!r}: {TOTAL!r} and {DETAILED!r} cannot be part of a product. Use them alone.")
    return () if factors == (TOTAL,) else factors


def row_label(labels: Sequence[str]) -> str:
    r"""Return the labels of a row of a query as one text, ``label*label``.

    In a product, ``*`` and backslashes inside a label are preceded by a backslash, so different rows stay different.

    >>> row_label(["adult", "f"]), row_label(["A*", "f"]), row_label(["A*"])
    ('adult*f', 'A\\**f', 'A*')
    """
    if len(labels) == 1:
        return labels[0]
    return "*".join(label.replace("\\", "\\\\").replace("*", "\\*") for label in labels)


def row_labels(label: str) -> list[str]:
    r"""Return the labels that :func:`row_label` joined; the row is one of a product.

    >>> row_labels("adult*f"), row_labels(r"A\**f")
    (['adult', 'f'], ['A*', 'f'])
    """
    return [re.sub(r"\\(.)", r"\1", part) for part in re.findall(r"(?:^|\*)((?:\\.|[^\\*])*)", label, re.DOTALL)]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """A coarser version of an attribute: each label of the attribute belongs to one group."""

    of: str
    groups: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        groups = {str(name): as_labels(name, labels) for name, labels in self.groups.items()}
        object.__setattr__(self, "groups", Frozen(groups))


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """A marginal of a schema: each cell belongs to one row."""

    name: str
    factors: tuple[str, ...]
    row_labels: tuple[tuple[str, ...], ...]  # the labels of each factor
    row_of_cell: NDArray[np.int32]
    schema: str  # the canonical text of the schema

    def __post_init__(self) -> None:
        self.row_of_cell.flags.writeable = False

    @property
    def size(self) -> int:
        """The number of rows of the answer."""
        return math.prod(len(labels) for labels in self.row_labels)

    def labels(self) -> list[str]:
        """Return the labels of the rows as ``label*label``, in order."""
        return [row_label(row) for row in product(*self.row_labels)] if self.factors else [TOTAL]


@dataclass(frozen=True, kw_only=True, eq=False)
class Schema:
    """Named attributes with their labels, groupings of labels, and structural zeros (cells that cannot exist).

    Examples
    --------
    >>> schema = Schema(
    ...     attributes={"age": ["child", "adult"], "home": ["household", "nursing", "prison"]},
    ...     groupings={"kind": Grouping(of="home", groups={"household": ["household"], "gq": ["nursing", "prison"]})},
    ...     zeros=[{"age": ["child"], "home": ["nursing"]}],
    ... )
    >>> schema.cells, int(schema.possible.sum())
    (6, 5)
    >>> schema.query("kind * age").labels()
    ['child*household', 'child*gq', 'adult*household', 'adult*gq']
    """

    attributes: Mapping[str, Sequence[str]]
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    zeros: Sequence[Mapping[str, Sequence[str]]] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.canonical() == other.canonical()

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        attributes = {name: as_labels(name, labels) for name, labels in self.attributes.items()}
        zeros = tuple(Frozen({name: as_labels(name, labels) for name, labels in zero.items()}) for zero in self.zeros)
        object.__setattr__(self, "attributes", Frozen(attributes))
        object.__setattr__(self, "groupings", Frozen(dict(self.groupings)))
        object.__setattr__(self, "zeros", zeros)
        for name, labels in attributes.items():
            _check_name(name)
            _check_labels(name, labels)
        for name, grouping in self.groupings.items():
            _check_name(name)
            self._check_grouping(name, grouping)
        for zero in zeros:
            if not zero:
                raise DataError("a structural zero names no attribute, so nobody could exist. Name labels, or drop it.")
            for name, labels in zero.items():
                self._check_known(name, labels, f"structural zero on {name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels of each attribute."""
        return tuple(len(labels) for labels in self.attributes.values())

    @property
    def cells(self) -> int:
        """The number of combinations of labels, including the impossible ones."""
        return math.prod(self.shape)

    @cached_property
    def possible(self) -> Bools:
        """Whether each cell is possible, that is, not a structural zero."""
        possible = np.ones(self.shape, dtype=np.bool_)
        for zero in self.zeros:
            # an attribute that the zero does not name is included with all its labels
            member = [np.isin(labels, zero.get(name, labels)) for name, labels in self.attributes.items()]
            possible[np.ix_(*member)] = False
        flat = possible.reshape(-1)
        flat.flags.writeable = False
        return flat

    def possible_rows(self, query: Query) -> Bools:
        """Return whether each row of a query has a possible cell."""
        rows = np.zeros(query.size, dtype=np.bool_)
        rows[query.row_of_cell[self.possible]] = True
        return rows

    def sums_up(self, coarse: Query, fine: Query) -> bool:
        """Return whether each row of one query is a sum of rows of the other, over possible cells.

        >>> schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
        >>> schema.sums_up(schema.query("age"), schema.query("age * sex"))
        True
        """
        row, finer_row = coarse.row_of_cell[self.possible], fine.row_of_cell[self.possible]
        row_above = np.zeros(fine.size, dtype=row.dtype)
        row_above[finer_row] = row
        return bool((row_above[finer_row] == row).all())

    def query(self, text: str) -> Query:
        """Return the query written as text, with its factors in the order of the schema."""
        wanted = tuple(self.attributes) if text.strip() == DETAILED else factors_of(text)
        known = {
            **{name: name for name in self.attributes},
            **{name: g.of for name, g in self.groupings.items()},
        }
        for factor in wanted:
            if factor not in known:
                names = ", ".join([*known, TOTAL, DETAILED])
                raise InputError(f"query {text!r}: unknown factor {factor!r}. Known are {names}.")
        of = {known[factor]: factor for factor in wanted}
        if len(of) != len(wanted):
            twice = next(name for name in self.attributes if [known[f] for f in wanted].count(name) > 1)
            raise InputError(
                f"query {text!r} names an attribute and its grouping, or two groupings of it ({twice!r}). "
                f"Keep only the finer one."
            )
        factors = tuple(of[name] for name in self.attributes if name in of)
        row_labels, row = [], np.zeros(self.shape, dtype=np.int32)
        for axis, name in enumerate(self.attributes):
            if name in of:
                labels, place = self._levels_of(of[name])
                row = row * len(labels) + place.reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
                row_labels.append(labels)
        name = TOTAL if not factors else DETAILED if factors == tuple(self.attributes) else " * ".join(factors)
        return Query(
            name=name,
            factors=factors,
            row_labels=tuple(row_labels),
            row_of_cell=row.reshape(-1).astype(np.int32),
            schema=self.canonical(),
        )

    def cell(self, **labels: str) -> int:
        """Return the number of the cell with these labels, one for each attribute.

        >>> Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]}).cell(age="adult", sex="f")
        2
        """
        if set(labels) != set(self.attributes):
            raise DataError(f"a cell needs one label for each of {', '.join(self.attributes)}. Got {labels}.")
        for name, label in labels.items():
            self._check_known(name, [label], "cell")
        place = [levels.index(labels[name]) for name, levels in self.attributes.items()]
        return int(np.ravel_multi_index(place, self.shape)) if place else 0

    def canonical(self) -> str:
        """Return the schema as canonical text. It depends on the order of attributes, labels and groups only."""
        groupings = {
            name: (grouping.of, [(group, sorted(labels)) for group, labels in grouping.groups.items()])
            for name, grouping in sorted(self.groupings.items())
        }
        zeros = sorted(sorted((name, sorted(labels)) for name, labels in zero.items()) for zero in self.zeros)
        return repr((list(self.attributes.items()), groupings, zeros))

    def positions(self, factor: str) -> NDArray[np.int32]:
        """Return, for each label of a factor's attribute, its position among the labels of the factor.

        >>> gq = Grouping(of="home", groups={"household": ["house"], "gq": ["prison", "ship"]})
        >>> Schema(attributes={"home": ["house", "prison", "ship"]}, groupings={"kind": gq}).positions("kind").tolist()
        [0, 1, 1]
        """
        return self._levels_of(factor)[1]

    def _levels_of(self, factor: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Return the labels of a factor, and the position among them of each label of its attribute."""
        if factor in self.attributes:
            labels = tuple(self.attributes[factor])
            return labels, np.arange(len(labels), dtype=np.int32)
        grouping = self.groupings[factor]
        group_of = {label: i for i, group in enumerate(grouping.groups.values()) for label in group}
        place = [group_of[label] for label in self.attributes[grouping.of]]
        return tuple(grouping.groups), np.array(place, dtype=np.int32)

    def _check_known(self, name: str, labels: Sequence[str], place: str) -> None:
        if name not in self.attributes:
            raise DataError(f"{place}: unknown attribute {name!r}. Known are {', '.join(self.attributes)}.")
        for label in labels:
            if label not in self.attributes[name]:
                raise DataError(f"{place}: {label!r} is not a label of {name!r} ({', '.join(self.attributes[name])}).")

    def _check_grouping(self, name: str, grouping: Grouping) -> None:
        if name in self.attributes:
            raise DataError(f"{name!r} is both an attribute and a grouping. Rename one.")
        grouped = [label for labels in grouping.groups.values() for label in labels]
        self._check_known(grouping.of, grouped, f"grouping {name!r}")
        _check_labels(name, grouped)
        _check_labels(name, list(grouping.groups))
        missing = [label for label in self.attributes[grouping.of] if label not in grouped]
        if missing:
            raise DataError(
                f"grouping {name!r} of {grouping.of!r} omits {', '.join(missing)}. Put each label in a group."
            )


def as_labels(name: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Convert labels to a tuple of strings, and refuse a single string in place of a list."""
    if isinstance(labels, str):
        raise DataError(f"{name!r}: labels {labels!r} are a single string. Give a list of labels.")
    return tuple(str(label) if isinstance(label, str) else label for label in labels)  # converts numpy.str_


def _check_name(name: str) -> None:
    if not name or "*" in name or name != name.strip() or name in (TOTAL, DETAILED):
        raise DataError(
            f"{name!r} cannot name an attribute or grouping. Use a name without * and without outer spaces, "
            f"other than {TOTAL!r} and {DETAILED!r}."
        )
    refuse_controls("names of attributes", [name])


def _check_labels(name: str, labels: Sequence[str]) -> None:
    if not labels:
        raise DataError(f"{name!r} has no labels. Give at least one.")
    refuse_controls(f"labels of {name!r}", labels)
    seen = set()
    for label in labels:
        if not isinstance(label, str) or label.strip() == "*":
            raise DataError(f"{name!r}: label {label!r} must be text, and not * alone, which means all other labels.")
        if label in seen:
            raise DataError(f"{name!r}: label {label!r} is used twice. Give each label once.")
        seen.add(label)
