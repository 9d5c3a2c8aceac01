"""Kinds of fuzz cases about input: tables, TOML, numbers, small trees and release folders.

Each takes a seeded random generator and an empty folder, and fails if a thing is wrong.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import tables
from outcomes import attempted, check_message

import tallyveil as tv
from tallyveil.files.published.write_tables import write_tables
from tallyveil.files.tables.codebook_toml import codebook_from_toml
from tallyveil.privacy import Bound, Invariant, StructuralZero
from tallyveil.privacy.budget import exact, exact_delta
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml


def readers(random: Random, folder: Path) -> None:
    """Tables in every layout and format, with mutations; an accepted table has the sums that plain code finds."""
    case = tables.random_case(random)
    for _ in range(random.choice([0, 1, 1, 2])):
        tables.mutate(case, random)
    source, frame = _written(case, random, folder)
    people = attempted(lambda: tv.read_counts(source, codebook_from_toml(case.codebook())))
    if frame is not None:
        found = attempted(people.to_pandas)
        keys = found[[*case.levels, *case.attributes]].astype(str).itertuples(index=False, name=None)
        ours = dict(zip(keys, found["count"].tolist(), strict=True))
        assert ours == tables.plain_sums(frame, case), "sums differ"


def _written(case: tables.Case, random: Random, folder: Path) -> tuple[Any, Any]:
    """The table in some format, and the frame to compare with (None where plain code cannot read it)."""
    form = random.choice(["csv", "csv", "csv", "bytes", "parquet", "arrow", "pandas", "odd", "parquet bytes", "xlsx"])
    path, delimiter = folder / f"people.{form}", random.choice(",,;\t|")
    if form in ("csv", "bytes"):
        content = case.frame.to_csv(index=False, sep=delimiter).encode()
        if form == "bytes":
            content = broken(content, random)
        path.write_bytes(content)
        with contextlib.suppress(Exception):
            return path, tables.read_plainly(content, delimiter) if form == "csv" else None
        return path, None
    if form == "pandas":
        return case.frame, case.frame
    if form == "xlsx":
        path = folder / "people.xlsx"
        with contextlib.suppress(Exception):  # a workbook cannot hold every text
            case.frame.to_excel(path, index=False)
            return path, None
    table = tables.as_arrow(case, random)
    if form == "odd":
        table = tables.with_odd_type(table, random, intervals=True)
    if form == "arrow" or random.random() < 0.2:
        return table, case.frame if form != "odd" else None
    try:
        pyarrow.parquet.write_table(table, path)
    except pyarrow.ArrowException:  # Parquet does not have every type of Arrow
        return table, None
    if form == "parquet bytes":
        path.write_bytes(broken(path.read_bytes(), random))
    return path, case.frame if form == "parquet" else None


def broken(content: bytes, random: Random) -> bytes:
    """Bytes with a few of them changed, removed or added."""
    data = bytearray(content)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(data) + 1)
        action = random.choice(["flip", "cut", "insert", "delete", "repeat"])
        if action == "flip" and place < len(data):
            data[place] ^= 1 << random.randrange(8)
        elif action == "cut":
            del data[place:]
        elif action == "insert":
            data[place:place] = random.choice(
                [b"\0", b"\xff", b'"', b"\n", b"\r", b",", b"\xef\xbb\xbf", b"-", b"[", b"9" * 400]
            )
        elif action == "delete":
            del data[place : place + random.randint(1, 20)]
        else:
            data[place:place] = data[place : place + 40] * random.choice([1, 50])
    return bytes(data)


VALUES: list[Any] = [
    1, 0, -1, 1.5, True, "", "x", "total", [], ["a"], [1], [[]], {}, {"a": 1}, {"age": ["child"]}, "1/0",
    "1e99999999999", "1e-99999999999", "9" * 5000, "٣", "nan", "inf", "1/3", 10**400, -(10**30), float("nan"),
    float("inf"), "\x00\n\x1b", "é" * 3000,
]  # fmt: skip


@cache
def small_people() -> tv.Histogram:
    spine = tv.Spine.from_columns({"county": ["1", "1", "2"], "block": ["11", "12", "21"]}, root="us")
    schema = tv.Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    return tv.Histogram.from_entries(spine, schema, unit=[0, 1, 2, 2], cell=[0, 3, 1, 2], count=[5, 9, 4, 1])


BOOK = """labels_from = "data"
stamps = ["seeded"]
[geography]
levels = ["county", "block"]
root = "us"
pad = {county = 2}
names = {county = "county_name"}
[attributes]
age = ["child", "adult"]
sex = ["f", "m"]
size = ["", "0-1", "2+"]
[labels.sex]
f = "female"
m = "male"
[bands]
size = [0, 2]
[groupings.any]
of = "age"
groups = {all = ["child", "adult"]}
[[zeros]]
age = ["child"]
[table]
layout = "long"
count = "count"
where = {kind = "person"}
ignore = ["x"]
[file]
encoding = "cp1252"
title_rows = 2
header_rows = 2
note_rows = 1
fill_down = ["county"]
total_rows = {block = ["All"]}
thousands = "."
"""


@cache
def _strategy_text() -> str:
    plan = tv.Strategy.default(small_people().spine, small_people().schema, rho="2.56")
    constraints = (
        Invariant(query="total", level="county"),
        Bound(query="age", level="block", most={"adult": 50, "*": 60}, units=("11",)),
        StructuralZero(cells={"age": ("child",), "sex": ("m",)}),
    )
    passes = {"county": (("total",), ("*",))}
    return strategy_to_toml(
        replace(plan, constraints=constraints, passes=passes, estimator="tree", information_from="block")
    )


def toml(random: Random, folder: Path) -> None:  # noqa: ARG001
    """Codebooks and strategies with values of other types anywhere in them, or broken text."""
    is_book = random.random() < 0.5
    source = BOOK if is_book else _strategy_text()
    if random.random() < 0.3:
        text = broken(source.encode(), random).decode(errors="replace")
    else:
        import tomllib

        import tomli_w

        content = tomllib.loads(source)
        for _ in range(random.randint(1, 2)):
            put_somewhere(content, random)
        text = tomli_w.dumps(content)
    if is_book:
        book = attempted(lambda: codebook_from_toml(text))
        attempted(lambda: book.schema)
        attempted(lambda: book.filter)
        return
    strategy = attempted(lambda: strategy_from_toml(text))
    assert sum(strategy.levels.values()) == 1
    assert all(sum(shares.values()) == 1 for level, shares in strategy.queries.items() if strategy.levels[level])
    assert strategy_from_toml(strategy_to_toml(strategy)) == strategy
    attempted(lambda: strategy.check(small_people().spine, small_people().schema))


def put_somewhere(table: Any, random: Random) -> None:
    """Replace, remove or add a value at a random place of nested tables and lists."""
    while True:
        keys = list(table) if isinstance(table, dict) else range(len(table))
        if not keys:
            return
        key = random.choice(list(keys))
        if isinstance(table[key], dict | list) and table[key] and random.random() < 0.7:
            table = table[key]
            continue
        action = random.random()
        if action < 0.75:
            table[key] = copy.deepcopy(random.choice(VALUES))
        elif action < 0.9:
            del table[key]
        elif isinstance(table, dict):
            table[random.choice(["units", "most", "zero", "root", "x", ""])] = copy.deepcopy(random.choice(VALUES))
        return


def numbers(random: Random, folder: Path) -> None:  # noqa: ARG001
    """Budgets, shares, deltas, priors, fractions and seeds as text and as Python's numbers."""
    parts = [
        "1",
        "0",
        "9" * random.choice([1, 20, 5000]),
        ".",
        "e",
        "E-",
        "e+",
        "/",
        "-",
        "+",
        "_",
        " ",
        "٣",
        "²",
        "x",
        "99999999999",
    ]
    text: Any = "".join(random.choice(parts) for _ in range(random.randint(1, 6)))
    value = random.choice(
        [text, text, text, random.choice(VALUES), random.uniform(-1, 3), Fraction(random.randint(-2, 99), 7)]
    )
    schema, spine = small_people().schema, small_people().spine
    doors: list[Callable[[Any], Any]] = [
        lambda v: exact(v, "epsilon"),
        exact_delta,
        lambda v: tv.Strategy.default(spine, schema, epsilon=v),
        lambda v: tv.Strategy.preset("pl94-2020-us-persons", epsilon=v),
        lambda v: tv.Strategy.preset("e2e-2018", epsilon=v),
        lambda v: tv.risk.Intruder(prior=v),
        lambda v: tv.privacy.RunKey.from_seed(v),
        lambda v: tv.mechanisms.sample(small_people(), fraction=v, seed=1),
        lambda v: tv.mechanisms.swap(small_people(), rate=v, match="total", level="county", seed=1),
    ]
    door = random.choice(doors)
    found = attempted(lambda: door(value))
    if door is doors[0]:
        assert found == Fraction(str(value) if isinstance(value, float) else value)


def engine(random: Random, folder: Path) -> None:
    """Random small trees, strategies and constraints; an accepted release keeps what was promised."""
    people = random_people(random)
    budget = {random.choice(["epsilon", "rho"]): random.choice(["1/100", "1", "30"])}
    invariants = _random_invariants(people, random)
    plan = attempted(lambda: tv.Strategy.default(people.spine, people.schema, invariants=invariants, **budget))
    bounds = tuple(_random_bound(people, random) for _ in range(random.choice([0, 0, 1, 2])))
    plan = attempted(
        lambda: replace(
            plan, constraints=(*plan.constraints, *bounds), only_child=random.random() < 0.4,
            rounding=random.choice(["margins", "cells"]), check_constraints=random.random() < 0.7,
        )
    )  # fmt: skip
    keep = None if random.random() < 0.3 else ()
    release = attempted(lambda: tv.protect(people, plan, seed=random.randrange(1000), threads=1, measurements=keep))
    check_release(people, release.histogram, invariants, bounds)
    if random.random() < 0.4:
        attempted(lambda: tv.write_release(release, folder / "r"))
        wrong = [finding for finding in tv.verify_release(folder / "r") if finding.holds is False]
        assert not wrong, wrong
        assert tv.read_release(folder / "r").histogram == release.histogram


def random_people(random: Random) -> tv.Histogram:
    paths = [()]
    for _ in range(random.randint(1, 3)):
        paths = [(*p, "".join(p[-1:]) + str(i)) for p in paths for i in range(random.choice([1, 1, 2, 3]))]
    names = ["county", "tract", "block"][: len(paths[0])]
    columns = {name: [path[i] for path in paths] for i, name in enumerate(names)}
    attributes = {n: list("abc")[: random.randint(1, 3)] for n in random.sample(["age", "sex"], random.randint(0, 2))}
    zeros = []
    if attributes and random.random() < 0.3:
        name = random.choice(list(attributes))
        zeros = [{name: random.sample(attributes[name], random.randint(1, len(attributes[name])))}]
    schema = tv.Schema(attributes=attributes, zeros=zeros)
    spine = tv.Spine.from_columns(columns, root="us")
    entries = [(u, c) for u in range(len(paths)) for c in range(schema.cells) if schema.possible[c]]
    counts = [random.choice([0, 0, 1, 3, 40]) for _ in entries]
    return tv.Histogram.from_entries(
        spine, schema, unit=[u for u, _ in entries], cell=[c for _, c in entries], count=counts
    )


def _queries(people: tv.Histogram) -> list[str]:
    return ["total", "detailed", *people.schema.attributes]


def _random_invariants(people: tv.Histogram, random: Random) -> list[Invariant]:
    return [
        Invariant(query=random.choice(_queries(people)), level=random.choice(people.spine.levels))
        for _ in range(random.choice([0, 0, 1, 2]))
    ]


def _random_bound(people: tv.Histogram, random: Random) -> Bound:
    limits = random.choice(
        [{"most": 500}, {"most": random.choice([0, 1, 50])}, {"least": random.choice([0, 1])}, {"least": 1, "most": 90}]
    )
    return Bound(query=random.choice(_queries(people)), level=random.choice(people.spine.levels), **limits)


def check_release(truth: tv.Histogram, released: tv.Histogram, invariants: Any, bounds: Any = ()) -> None:
    """Plain checks from the released leaves alone: whole, not negative, children sum to parents, constraints kept."""
    levels = truth.spine.levels
    leaves = {name: _leaf_cells(people) for name, people in (("truth", truth), ("released", released))}
    assert np.issubdtype(leaves["released"].dtype, np.integer)
    assert (leaves["released"] >= 0).all()
    assert (leaves["released"][:, ~truth.schema.possible] == 0).all()
    assert leaves["released"].sum() == leaves["truth"].sum()  # the root's total is exact under replace-one
    for level in levels:
        summed = _sums(leaves["released"], truth.spine, level)
        assert (released.answer("detailed", level=level).dense() == summed).all(), level
    for kept in invariants:
        row = truth.schema.query(kept.query).row_of_cell
        exactly, got = (_rows(_sums(leaves[name], truth.spine, kept.level), row) for name in ("truth", "released"))
        assert (exactly == got).all(), kept
    for bound in bounds:
        got = _rows(_sums(leaves["released"], truth.spine, bound.level), truth.schema.query(bound.query).row_of_cell)
        possible = truth.schema.possible_rows(truth.schema.query(bound.query))
        assert (got >= bound.least.get("*", 0))[:, possible].all(), bound
        assert (got <= bound.most.get("*", 1 << 60)).all(), bound


def _leaf_cells(people: tv.Histogram) -> Any:
    return people.answer("detailed", level=people.spine.leaf).dense()


def _sums(leaves: Any, spine: tv.Spine, level: str) -> Any:
    """Units of a level x cells, added up along the codes of the leaves."""
    parent = np.arange(len(leaves))
    names = list(spine.levels)
    for name in reversed(names[names.index(level) + 1 :]):
        parent = spine.parents(name)[parent]
    summed = np.zeros((spine.size(level), leaves.shape[1]), dtype=np.int64)
    np.add.at(summed, parent, leaves)
    return summed


def _rows(table: Any, row_of_cell: Any) -> Any:
    rows = np.zeros((len(table), int(row_of_cell.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(rows.T, row_of_cell, table.T)
    return rows


@cache
def good_folder() -> Path:
    """A release folder with everything in it, made once per process."""
    made = Path(tempfile.mkdtemp(prefix="tallyveil-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    place = made / "good"
    people = small_people()
    plan = tv.Strategy.default(
        people.spine, people.schema, rho=1, invariants=[Invariant(query="total", level="county")]
    )
    tv.write_release(tv.protect(people, plan, seed=3, measurements=None), place, measurements=None)
    return place


def folders(random: Random, folder: Path) -> None:
    """Release folders with changed files. Nothing that reads them breaks, and a change is found or changes nothing."""
    place = folder / "r"
    shutil.copytree(good_folder(), place)
    good = tv.read_release(good_folder()).histogram
    files = sorted(path for path in place.rglob("*") if path.is_file())
    path = random.choice(files)
    before = path.read_bytes()
    action = random.choice(["break", "break", "break", "remove", "swap", "folder", "empty", "json", "toml", "table"])
    if action == "json":
        path = place / "certificate.json"
        import json

        content = json.loads(path.read_text())
        put_somewhere(content, random)
        path.write_text(json.dumps(content))
    elif action == "toml":
        import tomllib

        import tomli_w

        path = place / random.choice(["codebook.toml", "strategy.toml"])
        content = tomllib.loads(path.read_text())
        put_somewhere(content, random)
        path.write_text(tomli_w.dumps(content))
    elif action == "table":
        path = random.choice([file for file in files if file.suffix == ".parquet"])
        pyarrow.parquet.write_table(tables.with_odd_type(pyarrow.parquet.read_table(path), random), path)
    elif action == "remove":
        path.unlink()
    elif action == "swap":
        path.write_bytes(random.choice(files).read_bytes())
    elif action == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(b"" if action == "empty" else broken(before, random))
    same = path.is_file() and path.read_bytes() == (good_folder() / path.relative_to(place)).read_bytes()
    findings = attempted(lambda: tv.verify_release(place))
    for finding in findings:
        check_message(finding.words + " " * 10) if finding.words else None
    assert same or any(finding.holds is False for finding in findings), f"{path.name} was changed, and verify holds"
    release = attempted(lambda: tv.read_release(place))
    attempted(lambda: tv.evaluate.error(good, release))
    attempted(lambda: write_tables(place, folder / "tables", format=random.choice(["csv", "parquet", "sdmx-csv"])))
