"""Kinds of neighbouring datasets, each with candidates made from some data, in an order of preference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallyveil.auditing.altered_data import AlteredData, Candidate
from tallyveil.nouns.histogram import Histogram

Kinds = dict[str, Iterator[Candidate]]


def moved_or_changed(people: Histogram) -> Kinds:
    """The kinds for replace-one neighbours: one person moves to another unit or changes attributes."""
    data, attributes = AlteredData(people=people), list(people.schema.attributes)
    every = range(len(attributes))
    kinds = {
        "a person moves into an empty unit": _arrivals(data, 0),
        "a person joins the only person of a unit": _arrivals(data, 1),
        "a person of a homogeneous unit changes": _no_longer_homogeneous(data, every),
        "a person leaves a large unit": _departures(data),
        "a person moves to a sibling unit": _moves(data, siblings=True),
        "a person moves to a unit of another parent": _moves(data, siblings=False),
        **{f"a person changes {name}": _changes(data, [axis]) for axis, name in enumerate(attributes)},
    }
    if len(attributes) > 1:
        kinds["a person changes all attributes"] = _changes(data, every)
    kinds["a person moves to another parent and changes all attributes"] = _moves(data, siblings=False, axes=every)
    return kinds


def added_or_removed(people: Histogram) -> Kinds:
    """The kinds for add-or-remove neighbours: one person is added or removed."""
    data = AlteredData(people=people)
    every = range(len(people.schema.attributes))
    return {
        "a person is added to an empty unit": (c for start, unit in data.with_few(0) for c in start.added(unit)),
        "a person is added to the only person of a unit": (
            c for start, unit in data.with_few(1) for c in start.added(unit)
        ),
        "a person unlike the others is added to a homogeneous unit": (
            c for start, unit in data.homogeneous() for c in start.added(unit, axes=every)
        ),
        "a person is removed from a large unit": (c for start, unit in data.large() for c in start.removed(unit)),
        "a person is removed from an ordinary unit": (c for unit in data.ordinary() for c in data.removed(unit)),
    }


def _arrivals(data: AlteredData, people: int) -> Iterator[Candidate]:
    """A person moves into a unit that has so many people."""
    for start, unit in data.with_few(people):
        for source in (*start.siblings(unit), *start.cousins(unit)):
            yield from start.moved(source, unit)


def _departures(data: AlteredData) -> Iterator[Candidate]:
    """A person leaves a large unit."""
    for start, unit in data.large():
        for target in (*start.siblings(unit), *start.cousins(unit)):
            yield from start.moved(unit, target)


def _no_longer_homogeneous(data: AlteredData, every: Sequence[int]) -> Iterator[Candidate]:
    """A person of a homogeneous unit becomes unlike the others or, where no query sees that, moves away."""
    for start, unit in data.homogeneous():
        yield from start.moved(unit, unit, axes=every)
        for target in (*start.siblings(unit), *start.cousins(unit)):
            yield from start.moved(unit, target)


def _moves(data: AlteredData, *, siblings: bool, axes: Sequence[int] = ()) -> Iterator[Candidate]:
    """A person of an ordinary unit moves to a unit of the same parent, or of another."""
    for unit in data.ordinary():
        for target in data.siblings(unit) if siblings else data.cousins(unit):
            yield from data.moved(unit, target, axes=axes)


def _changes(data: AlteredData, axes: Sequence[int]) -> Iterator[Candidate]:
    """A person of an ordinary unit changes some attributes."""
    for unit in data.ordinary():
        yield from data.moved(unit, unit, axes=axes)
