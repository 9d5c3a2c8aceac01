"""Random tables of people with their codebooks, mutations of both, and plain sums of what a table says.

``plain_sums`` is written apart from the product: pandas and Python only.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

LEVELS = ("state", "county", "tract", "región", "block group")
NAMES = ("age", "sex", "home type", "größe", "a'b")
LABELS = (
    "child",
    "adult",
    "A*",
    "a,b",
    'say "x"',
    "é",
    " lead",
    "0",
    "007",
    "x|y",
    "line\nbreak",
    "\u202egnp",
    "z" * 300,
)
ODD = ("", " ", "-1", "1.5", "NaN", "1e3", "9" * 30, "١٢", "+3", "0x1F", "TRUE", "\x1b[31m", "n\nn", "é" * 2000, "3.0")


@dataclass
class Case:
    """A table as a frame of text, and the parts of its codebook."""

    levels: list[str]
    attributes: dict[str, list[str]]
    layout: str
    frame: pd.DataFrame
    root: str | None
    count: str = "count"
    column: str = ""
    where: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)  # lines of the codebook's [table]

    def codebook(self) -> str:
        root = [f"root = {quoted(self.root)}"] if self.root else []
        lines = ["[geography]", f"levels = [{', '.join(map(quoted, self.levels))}]", *root, "[attributes]"]
        lines += [f"{quoted(name)} = [{', '.join(map(quoted, ls))}]" for name, ls in self.attributes.items()]
        lines += ["[table]", f"layout = {quoted(self.layout)}"]
        lines += [f"count = {quoted(self.count)}"] if self.layout == "long" else []
        lines += [f"column = {quoted(self.column)}"] if self.layout == "wide" else []
        where = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in self.where.items())
        return "\n".join([*lines, *([f"where = {{{where}}}"] if where else []), *self.extra]) + "\n"


def quoted(text: str) -> str:
    """A TOML string."""
    plain = "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    return f'"{plain}"'


def random_case(random: Random) -> Case:
    levels = random.sample(LEVELS, random.randint(1, 3))
    attributes = {
        name: random.sample(LABELS, random.randint(1, 3)) for name in random.sample(NAMES, random.randint(0, 2))
    }
    paths = [()]
    for depth in range(len(levels)):
        paths = [(*p, "".join(p[-1:]) + str(i)) for p in paths for i in range(random.randint(1, 3 if depth else 2))]
    root = None if len({p[0] for p in paths}) == 1 and random.random() < 0.7 else "us"
    layout = random.choice(["long", "persons", "wide"])
    cells = list(product(*attributes.values()))
    counts = {(p, c): random.choice([0, 0, 1, 2, 7, 120]) for p in paths for c in cells}
    case = Case(levels=levels, attributes=attributes, layout=layout, frame=pd.DataFrame(), root=root)
    names = [*levels, *attributes]
    if layout == "long":
        case.frame = pd.DataFrame([[*p, *c, str(n)] for (p, c), n in counts.items()], columns=[*names, "count"])
    elif layout == "persons":
        rows = [[*p, *c] for (p, c), n in counts.items() for _ in range(min(n, 5))] or [[*paths[0], *cells[0]]]
        case.frame = pd.DataFrame(rows, columns=names)
    else:
        case.column = "|".join(f"{{{name}}}" for name in attributes) or "people"
        wide = [case.column.format(**dict(zip(attributes, c, strict=True))) for c in cells]
        rows = [[*p, *(str(counts[p, c]) for c in cells)] for p in paths]
        case.frame = pd.DataFrame(rows, columns=[*levels, *wide])
    case.frame = case.frame.astype(object)
    return case


def mutate(case: Case, random: Random) -> None:
    """Change a cell, a row, a column or the codebook."""
    frame = case.frame
    if frame.shape[1] == 0:
        return
    what = random.choice(
        [
            *("cell", "cell", "row twice", "drop row", "drop column", "extra column", "rename", "shuffle", "no rows"),
            *("where", "count name", "layout", "label", "root", "level", "extra line", "blank row"),
        ]
    )
    row, column = random.randrange(max(len(frame), 1)), random.randrange(frame.shape[1])
    if what == "cell" and len(frame):
        frame.iat[row, column] = random.choice(ODD)
    elif what == "row twice" and len(frame):
        case.frame = pd.concat([frame, frame.iloc[[row]]], ignore_index=True)
    elif what == "drop row":
        case.frame = frame.drop(index=[row] if len(frame) else []).reset_index(drop=True)
    elif what == "drop column":
        case.frame = frame.drop(columns=[frame.columns[column]])
    elif what == "extra column":
        case.frame = frame.assign(**{random.choice(["note", "count", "total", "pop", "z" * 700]): "1"})
    elif what == "rename":
        case.frame = frame.rename(columns={frame.columns[column]: random.choice(["x", "", "count", " state "])})
    elif what == "shuffle":
        case.frame = frame.sample(frac=1, random_state=random.randrange(1000)).reset_index(drop=True)
    elif what == "no rows":
        case.frame = frame.iloc[:0]
    elif what == "where" and len(frame):
        case.where = {frame.columns[column]: str(frame.iat[row, column])}
    elif what == "count name":
        case.count = random.choice(["", "n", *frame.columns])
    elif what == "layout":
        case.layout = random.choice(["wide", "long", "persons", "LONG"])
    elif what == "label" and case.attributes:
        case.attributes[random.choice(list(case.attributes))].append(random.choice([*LABELS, ""]))
    elif what == "root":
        case.root = random.choice([None, "us", *case.levels[:1], "z" * 400])
    elif what == "level":
        case.levels = random.choice([case.levels[::-1], case.levels[1:], [*case.levels, "age"], case.levels * 2])
    elif what == "extra line":
        lines = [
            'total = "count"',
            'total = "note"',
            'ignore = ["note"]',
            "ignore = 3",
            'sheet = "s"',
            "where_is_public = true",
        ]
        case.extra.append(random.choice(lines))
    elif what == "blank row" and len(frame):
        frame.iloc[row] = ""


def as_arrow(case: Case, random: Random) -> pa.Table:
    """The table with columns of various types; what a value says stays the same."""
    columns = []
    for name in case.frame.columns:
        values = case.frame.loc[:, name] if list(case.frame.columns).count(name) == 1 else case.frame.iloc[:, 0]
        array = pa.array([str(v) for v in values], pa.string())
        kind = random.choice(["text", "text", "coded", "large", "whole", "float", "view"])
        try:
            if kind == "coded":
                array = array.dictionary_encode()
            elif kind == "large":
                array = array.cast(pa.large_string())
            elif kind == "view":
                array = array.cast(pa.string_view())
            elif kind == "whole" and name not in case.levels:
                array = array.cast(random.choice([pa.int64(), pa.int32(), pa.uint8(), pa.uint64()]))
            elif kind == "float" and name not in case.levels and name not in case.attributes:
                array = array.cast(random.choice([pa.float64(), pa.float32()]))
        except pa.ArrowException:
            pass
        columns.append(array)
    return pa.table(columns, names=[str(name) for name in case.frame.columns])


NESTED: list[Any] = [
    pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.duration("s"), pa.bool_(), pa.null(), pa.binary(),
    pa.timestamp("s"), pa.date32(), pa.time32("s"), pa.decimal128(20, 2), pa.float16(), pa.map_(pa.string(), pa.int8()),
]  # fmt: skip


def with_odd_type(table: pa.Table, random: Random, *, intervals: bool = False) -> pa.Table:
    """The table with one column of a type that no count, code or label has, or with a column twice."""
    if table.num_columns == 0:
        return table
    place = random.randrange(table.num_columns)
    name = table.column_names[place]
    if random.random() < 0.3:  # Parquet has no intervals
        return table.append_column(name, table.column(place))
    kind = random.choice([*NESTED, *([pa.month_day_nano_interval()] if intervals else [])])
    return table.set_column(place, name, pa.nulls(table.num_rows, kind))


def plain_sums(frame: pd.DataFrame, case: Case) -> dict[tuple[str, ...], int]:
    """People by path and labels, as the frame says; without empty cells."""
    for name, value in case.where.items():
        frame = frame[frame[name].map(str) == value]
    sums: dict[tuple[str, ...], int] = {}
    names = list(case.attributes)
    for _, row in frame.iterrows():
        path = tuple(str(row[level]) for level in case.levels)
        if case.layout == "wide":
            for cell in product(*case.attributes.values()):
                number = row[case.column.format(**dict(zip(names, cell, strict=True)))]
                sums[path + cell] = sums.get(path + cell, 0) + int(float(number))
        else:
            key = path + tuple(str(row[name]) for name in names)
            sums[key] = sums.get(key, 0) + (int(float(row[case.count])) if case.layout == "long" else 1)
    return {key: number for key, number in sums.items() if number}


def read_plainly(content: bytes, delimiter: str) -> pd.DataFrame:
    """CSV as pandas reads it, everything as text."""
    return pd.read_csv(io.BytesIO(content), sep=delimiter, dtype=str, keep_default_na=False, encoding="utf-8-sig")
