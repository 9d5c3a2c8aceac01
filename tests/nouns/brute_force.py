"""Slow and plain: random trees, schemas and entries, and the answers by Python dictionaries alone."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tallyveil.errors import InputError

LETTERS = "abZÅß京é-. "  # no digits: codes of digits have rules of their own

Path = tuple[str, ...]

patient = settings(deadline=None, max_examples=50)  # the first example may wait for the compiler


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The body is refused as bad input, in a message that has all these parts."""
    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message


@st.composite
def trees(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Path]]:
    """Names of levels, and the path of every leaf from the root, in no order."""
    depth = draw(st.integers(1, 5))
    full = draw(st.booleans())  # digits that begin with the parent's, or unrelated words
    paths: list[Path] = [("7",) if full else (draw(words),)]
    for _ in range(depth - 1):
        families = [draw(st.sampled_from([1, 1, 2, 3])) for _ in paths]
        if full:
            paths = [
                (*path, f"{path[-1]}{digit}")
                for path, size in zip(paths, families, strict=True)
                for digit in draw(st.permutations("0159"))[:size]
            ]
        else:
            total = sum(families)
            codes = iter(draw(st.lists(words, min_size=total, max_size=total, unique=True)))
            paths = [(*path, next(codes)) for path, size in zip(paths, families, strict=True) for _ in range(size)]
    return tuple(f"level {i}" for i in range(depth)), draw(st.permutations(paths))


words = st.text(LETTERS, min_size=1, max_size=4)


def columns(levels: tuple[str, ...], paths: list[Path]) -> dict[str, list[str]]:
    return {level: [path[i] for path in paths] for i, level in enumerate(levels)}


def units(paths: list[Path], depth: int) -> list[Path]:
    """The units of a level, each as its path, in the order of paths."""
    return sorted({path[: depth + 1] for path in paths})


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, dict]:
    """Attributes with labels, groupings as (attribute, groups), and structural zeros, as plain data."""
    names = draw(st.lists(st.sampled_from(["age", "race", "sexe féminin", "家"]), min_size=1, unique=True))
    attributes = {name: draw(st.lists(st.sampled_from("abcdé"), min_size=1, max_size=4, unique=True)) for name in names}
    groupings = {}
    for name, labels in attributes.items():
        if draw(st.booleans()):
            group = [draw(st.sampled_from("ZYX")) for _ in labels]
            groups = {g: [x for x, y in zip(labels, group, strict=True) if y == g] for g in dict.fromkeys(group)}
            groupings[f"{name} grouped"] = (name, groups)
    zeros = []
    for _ in range(draw(st.integers(0, 2))):
        some = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        zeros.append(
            {name: draw(st.lists(st.sampled_from(attributes[name]), min_size=1, unique=True)) for name in some}
        )
    return {"attributes": attributes, "groupings": groupings, "zeros": zeros}


def cells(plain: dict[str, dict]) -> list[dict[str, str]]:
    """Every cell as {attribute: label}, the last attribute running fastest."""
    names = list(plain["attributes"])
    return [dict(zip(names, labels, strict=True)) for labels in product(*plain["attributes"].values())]


def impossible(plain: dict[str, dict], cell: dict[str, str]) -> bool:
    return any(all(cell[name] in labels for name, labels in zero.items()) for zero in plain["zeros"])


def label_in(plain: dict[str, dict], factor: str, cell: dict[str, str]) -> str:
    """Where a cell falls in one factor, an attribute or a grouping."""
    if factor in cell:
        return cell[factor]
    name, groups = plain["groupings"][factor]
    (group,) = [group for group, labels in groups.items() if cell[name] in labels]
    return group


def all_factor_sets(plain: dict[str, dict]) -> list[tuple[str, ...]]:
    """Every valid set of factors, each in the order of the attributes."""
    choices = []
    for name in plain["attributes"]:
        groups = [g for g, (of, _) in plain["groupings"].items() if of == name]
        choices.append([None, name, *groups])
    return [tuple(f for f in row if f is not None) for row in product(*choices)]


def rows(plain: dict[str, dict], factors: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of a query, in order."""
    labels = [
        list(plain["attributes"][f]) if f in plain["attributes"] else list(plain["groupings"][f][1]) for f in factors
    ]
    return list(product(*labels))


def answer(
    people: Counter, paths: list[Path], depth: int, plain: dict[str, dict], factors: tuple[str, ...]
) -> list[list[int]]:
    """Units by rows, from people counted by (leaf path, cell number)."""
    every = cells(plain)
    sums: Counter = Counter()
    for (path, cell), count in people.items():
        row = tuple(label_in(plain, factor, every[cell]) for factor in factors)
        sums[path[: depth + 1], row] += count
    return [[sums[unit, row] for row in rows(plain, factors)] for unit in units(paths, depth)]
