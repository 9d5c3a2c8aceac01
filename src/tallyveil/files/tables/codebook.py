"""The codebook: what the columns of a table mean. It holds public facts only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError
from tallyveil.files.tables.form import PLAIN, FileForm
from tallyveil.nouns.codes import refuse_controls
from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Grouping, Schema

FILL_IN = "FILL_IN"  # stands for what a person must write in a draft
Layout = Literal["wide", "long", "persons"]
COUNTS = (
    *("count", "counts", "n", "persons", "people", "population", "pop", "freq", "_freq", "frequency"),
    *("effectif", "effectifs", "población", "poblacion", "habitantes", "anzahl", "einwohner", "bevölkerung"),
)
TOTALS = ("total", "tot", "total_population", "pop", "population", "persons")  # names of columns that hold numbers


@final
@dataclass(frozen=True, kw_only=True)
class Codebook:
    """What a table's columns mean.

    Attributes
    ----------
    levels
        The geographic levels, coarse to fine: columns of codes, or cuts of ``code``.
    attributes
        Labels of each attribute, in order. With an empty list they are taken from the data, and releases are stamped.
        A table of totals has no attributes.
    root
        The name of a level above the first column.
    code, lengths
        One column with a whole code, and how many of its characters name each level.
    pad
        Columns of numbers that lost their leading zeros, and how many digits to restore.
    relative
        Whether codes repeat under parents (county 001 in every state), so that a unit is known by its path.
    names
        For some levels, the column with the names of their units, such as ``{"county": "county_name"}``.
    labels
        Words for the codes of an attribute, such as ``{"sex": {"1": "male", "2": "female"}}``. The table has the codes,
        which ``attributes`` lists, and the schema has the words. Codes with the same word are one label; the code
        ``""`` is an empty cell.
    bands
        For columns of numbers, such as ages in years, where the labels begin: ``{"age": (0, 18, 65)}``. They need no
        words in ``labels``.
    layout
        ``"wide"``, ``"long"`` or ``"persons"``.
    column
        Wide tables: the pattern of the column names of cells, such as ``"{age}_{race}"``. Attributes that it does not
        name are columns of labels. Without attributes, the column with the number of people (by default ``total``).
    count
        Long tables: the column with the count.
    where, total, ignore
        Rows to keep; a column that the cells must sum to; further columns to ignore without a warning.
    person, at_most
        Tables of persons: the column with identifiers of persons, and how many rows a person may have (by default 1).
        More are refused, and the guarantee is for a person with all these rows.
    sheet
        Excel workbooks: the sheet with the table.
    where_is_public
        Whether it is public who passes ``where`` and what else is left out (``filter``), so that the number of people
        who remain may be published exactly.
    form
        Rows of the file that are not part of the table, merged cells, and how numbers are written.
    labels_from, units_from
        ``"data"`` if labels or units were drafted from the data; counts are stamped until a person removes the mark.
    stamps
        The stamps that the counts had when they were written.
    filtered
        Which rows were counted before the table was written, if not all.
    rows_per_person
        How many rows a person had at most when the table was written, if that was checked.
    """

    levels: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    zeros: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    root: str | None = None
    code: str | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)
    pad: Mapping[str, int] = field(default_factory=dict)
    relative: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bands: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layout: Layout = "wide"
    column: str | None = None
    count: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    total: str | None = None
    ignore: tuple[str, ...] = ()
    person: str | None = None
    at_most: int | None = None
    sheet: str | None = None
    form: FileForm = PLAIN
    where_is_public: bool = False
    labels_from: Literal["data"] | None = None
    units_from: Literal["data"] | None = None
    stamps: tuple[str, ...] = ()
    filtered: Filter | None = None
    rows_per_person: int | None = None

    def __post_init__(self) -> None:
        for name in ("levels", "ignore", "stamps"):
            if isinstance(getattr(self, name), str):
                raise DataError(f"{name} = {getattr(self, name)!r} must be a list. Write [{getattr(self, name)!r}].")
        for name in ("attributes", "groupings", "lengths", "pad", "names", "labels", "bands", "where"):
            object.__setattr__(self, name, Frozen(getattr(self, name)))
        for name in ("levels", "zeros", "ignore", "stamps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_marks()
        self._take_bands()
        self._take_words()
        if self.code is not None:
            if not self.lengths:
                raise DataError(f"[geography] code = {self.code!r} needs lengths: how many characters name each level.")
            object.__setattr__(self, "levels", tuple(self.lengths))
        if not self.levels:
            raise DataError('[geography] names no levels. Add levels = ["state", "county", ...], coarse to fine.')
        self._check_names()
        if self.layout not in ("wide", "long", "persons"):
            raise DataError(f'[table] layout must be "wide", "long" or "persons". Got {self.layout!r} instead.')
        if self.layout == "wide":
            self._check_pattern()
        if self.layout == "long" and not self.count:
            raise DataError('[table] layout = "long" needs count = the column with the counts.')
        if self.layout == "persons" and self.form.total_rows:
            raise DataError(
                '[file] total_rows repeat people of other rows, but layout = "persons" has one row per person. Remove '
                "total_rows; to count only some people, use where in [table]."
            )
        if self.layout == "persons" and self.form.fill_down:
            raise DataError(
                '[file] fill_down lets one row decide how others are read, but layout = "persons" has one row per '
                "person. Fill the empty cells in the file, and remove fill_down."
            )
        self._check_person()
        self._note_what_rows_have()
        if self.layout == "persons" and self.count is not None:
            raise DataError(
                f'[table] layout = "persons" counts each row as one person and would ignore count = "{self.count}". '
                f'Use layout = "long" to add up that column, or remove count.'
            )

    @property
    def schema(self) -> Schema:
        """The schema that the codebook declares."""
        return Schema(attributes=self.words, groupings=self.groupings, zeros=self.zeros)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The labels of each attribute as they are published: words, where ``labels`` has them for the codes."""
        return {
            name: tuple(dict.fromkeys(self.labels[name][code] for code in codes)) if name in self.labels else codes
            for name, codes in self.attributes.items()
        }

    def word_of_code(self, name: str) -> Integers:
        """For each code of an attribute the position of its word."""
        codes, words = self.attributes[name], self.words[name]
        place = {word: i for i, word in enumerate(words)}
        spoken = self.labels.get(name, {})
        return np.array([place[spoken.get(code, code)] for code in codes], dtype=np.int64)

    @property
    def in_columns(self) -> tuple[str, ...]:
        """The attributes whose labels are in the names of columns; the others are columns of labels."""
        named = re.findall(r"\{(.*?)\}", self.column or "") if self.layout == "wide" else []
        return tuple(name for name in self.attributes if name in named)

    @property
    def in_rows(self) -> tuple[str, ...]:
        """The attributes that are columns of labels."""
        return tuple(name for name in self.attributes if name not in self.in_columns)

    @property
    def row_per_unit(self) -> bool:
        """Whether the table has one row per leaf: a wide table without columns of labels."""
        return self.layout == "wide" and not self.in_rows

    @property
    def geography(self) -> tuple[str, ...]:
        """The columns with geographic codes."""
        return self.levels if self.code is None else (self.code,)

    @property
    def spine_levels(self) -> tuple[str, ...]:
        """The levels of the spine: the root, where it is a level of its own, and those of the table."""
        return (*([self.root] if self.root else []), *self.levels)

    @property
    def filter(self) -> Filter | None:
        """Which rows are counted, if not all: by ``where``, and by what was filtered before the table was written.

        Rows that are left out as totals are not compared with the rest, nor texts that are read as 0 (a column of
        totals may have them too).
        """
        others = [f"rows with {c} = {' or '.join(map(repr, v))} are left out" for c, v in self.form.total_rows.items()]
        if self.form.zeros and self.layout != "persons":
            others.append(f"counts written as {' or '.join(map(repr, self.form.zeros))} are read as 0")
        if not self.where and not others:
            return self.filtered
        if self.filtered is None:
            return Filter(where=self.where, public=self.where_is_public, others=tuple(others))
        before, public = self.filtered, self.where_is_public and self.filtered.public
        twice = [name for name, value in self.where.items() if before.where.get(name, str(value)) != str(value)]
        if twice:
            raise DataError(
                f"[table] where keeps {twice[0]} = {str(self.where[twice[0]])!r}, but [filtered] says that the table "
                f"has only rows with {before.where[twice[0]]!r}. Remove one of them."
            )
        others = list(dict.fromkeys([*before.others, *others]))
        return Filter(where={**before.where, **self.where}, public=public, others=tuple(others))

    @property
    def rows_of_person(self) -> int | None:
        """How many rows a person has at most: by ``person``, or when the table was written; None if unchecked."""
        return self.rows_per_person if self.person is None else self.at_most or 1

    def refuse_unfilled(self) -> None:
        """Refuse a draft in which something is left for a person to write."""
        places = {
            "[geography] levels": self.levels,
            "[attributes]": (*self.attributes, *(label for labels in self.attributes.values() for label in labels)),
            "[table] count": (self.count,),
            "[table] where": tuple(self.where.values()),
            "[file] total_rows": tuple(value for values in self.form.total_rows.values() for value in values),
        }
        unfilled = [place for place, values in places.items() if FILL_IN in values]
        if unfilled:
            raise DataError(
                f"the codebook still has {FILL_IN} under {', '.join(unfilled)}. The comment there says what to write."
            )

    def _check_marks(self) -> None:
        for name in ("labels_from", "units_from"):
            if getattr(self, name) not in (None, "data"):
                raise DataError(
                    f'{name} must be "data". Got {getattr(self, name)!r} instead. '
                    f"Remove the line where they are public."
                )
        if not isinstance(self.where_is_public, bool):
            raise DataError(f"where_is_public must be true or false. Got {self.where_is_public!r} instead.")
        wrong = [stamp for stamp in self.stamps if not isinstance(stamp, str) or not stamp.strip()]
        if wrong:
            raise DataError(f"stamps must be a list of texts. Got {wrong[0]!r} among them.")
        for name, codes in self.attributes.items():
            refuse_controls(f"[attributes] {name!a}", (name, *codes))

    def _check_person(self) -> None:
        """Check what is said about the rows of a person."""
        if self.person is not None and self.layout != "persons":
            raise DataError(
                f'[table] person = {self.person!r} needs layout = "persons". Correct the layout, or remove it.'
            )
        if self.at_most is not None and (self.person is None or self.at_most < 1):
            raise DataError(f"[table] at_most = {self.at_most} must be 1 or more, and needs person = a column.")
        if self.rows_per_person is not None and self.rows_per_person < 1:
            raise DataError(f"rows_per_person = {self.rows_per_person} must be 1 or more.")

    def _note_what_rows_have(self) -> None:
        """Tell the form which cells a row of the table has, so that none is left out as a title or a note."""
        named = [*self.geography, *(name for name in self.in_rows if "" not in self.attributes[name])]
        columns = [name for name in named if name not in self.form.fill_down] or self.geography[-1:]
        cells = {name: () if name in self.bands else self.attributes.get(name, ()) for name in columns}
        object.__setattr__(self, "form", replace(self.form, cells=cells, counts=self.layout != "persons"))

    def _check_names(self) -> None:
        for level, column in self.names.items():
            if level not in self.levels:
                raise DataError(
                    f"[geography] names: {level!r} is not a level ({', '.join(self.levels)}). Correct it here "
                    f"or in levels."
                )
            if column in self.levels or list(self.names.values()).count(column) > 1:
                raise DataError(
                    f"[geography] names: column {column!r} of level {level!r} is used twice, or has the name of a "
                    f"level. Give each level a column of its own."
                )

    def _take_bands(self) -> None:
        """Check the bands of numbers, and list their labels first among those of their attributes."""
        for name, bounds in self.bands.items():
            if name not in self.attributes:
                raise DataError(f"[bands] {name}: there is no attribute {name!r}. Add {name} = [] to [attributes].")
            if name in self.in_columns:
                raise DataError(f"[bands] {name}: its labels are names of columns. Bands are for a column of numbers.")
            labels = band_labels(bounds, name)
            others = [label for label in self.attributes[name] if label not in labels]
            object.__setattr__(self, "attributes", Frozen({**self.attributes, name: (*labels, *others)}))

    def _take_words(self) -> None:
        """Check the words for codes, and list the codes of an attribute that has words and no list of its own."""
        for name, words in self.labels.items():
            place = f"[labels.{name}]" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'[labels."{name}"]'
            if name not in self.attributes:
                raise DataError(f"{place}: there is no attribute {name!r}. Known are {', '.join(self.attributes)}.")
            if not isinstance(words, Mapping):
                raise DataError(f'{place} = {words!r} is not a section. Write {place} and lines such as 1 = "male".')
            if name in self.bands:
                words = {label: label for label in band_labels(self.bands[name], name)} | dict(words)
                object.__setattr__(self, "labels", Frozen({**self.labels, name: words}))
            codes = self.attributes[name] or tuple(words)
            if unspoken := [code for code in codes if code not in words]:
                listed, lines = ", ".join(map(repr, unspoken)), "; ".join(f'"{code}" = "..."' for code in unspoken)
                several = "codes" if len(unspoken) > 1 else "code"
                raise DataError(f"{place} has no word for {several} {listed}. Add {lines}.")
            for code in words:
                if code not in codes:
                    raise DataError(f"{place}: code {code!r} is not among those of [attributes] {name}. Add it there.")
                if not isinstance(words[code], str) or not words[code]:
                    raise DataError(f"{place}: the word for code {code!r} must be text. Got {words[code]!r} instead.")
            object.__setattr__(self, "attributes", Frozen({**self.attributes, name: codes}))

    def _check_pattern(self) -> None:
        if not self.attributes and self.column is None:
            object.__setattr__(self, "column", self.total)
        example = "_".join(f"{{{name}}}" for name in self.attributes) or "population"
        if self.column is None:
            raise DataError(f'[table] layout = "wide" needs column = a pattern such as "{example}".')
        named = re.findall(r"\{(.*?)\}", self.column)
        if sorted(named) != sorted(self.in_columns) or bool(named) != bool(self.attributes):
            raise DataError(
                f'[table] column = "{self.column}" must name attributes, each once '
                f'({", ".join(self.attributes) or "there are none"}), such as "{example}". Attributes that it does not '
                f"name are columns of labels."
            )
        empty = [name for name in self.in_columns if not self.attributes[name]]
        if empty:
            raise DataError(f"[attributes] {empty[0]} has no labels. A wide table needs them: they name its columns.")


def band_labels(bounds: Sequence[int], name: str) -> tuple[str, ...]:
    """The labels of bands that begin at these whole numbers; the last one is open.

    >>> band_labels((0, 1, 18, 65), "age")
    ('0', '1-17', '18-64', '65+')
    """
    if not bounds or bounds[0] < 0 or any(above <= below for below, above in pairwise(bounds)):
        raise DataError(f"[bands] {name} = {list(bounds)} must be whole numbers that rise, such as [0, 18, 65].")
    closed = [f"{low}-{high - 1}" if high - low > 1 else f"{low}" for low, high in pairwise(bounds)]
    return (*closed, f"{bounds[-1]}+")
