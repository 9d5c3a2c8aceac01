"""The codebook: a TOML file that says what a table's columns mean. It holds public facts only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, final

import tomli_w

from tallyveil._frozen import Frozen
from tallyveil.errors import DataError, InputError
from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Grouping, Schema, as_labels

Layout = Literal["wide", "long", "persons"]
FIELDS = {
    "geography": ("levels", "root", "code", "lengths", "pad", "relative"),
    "attributes": None,
    "groupings": None,
    "zeros": None,
    "table": ("layout", "column", "count", "where", "where_is_public", "total", "ignore"),
    "filtered": ("where", "public"),
}
TOP = ("labels_from", "units_from", "where_is_public", "stamps")  # fields that stand above the first section
COUNTS = ("count", "counts", "n", "persons", "people", "population", "pop", "freq", "_freq", "frequency")
TOTALS = ("total", "tot", "total_population", "pop", "population", "persons")  # names of columns that hold numbers
COMMENTS = {
    "labels_from": (
        "The labels below are those met in the data, so a label that one person has would be published.\n"
        "List every label that can occur, whether anybody has it or not, then remove labels_from.\n"
        "Until then every release is stamped: labels are not covered by the guarantee."
    ),
    "units_from": (
        "The units and levels are those met in the data, so a place where one person lives would be published.\n"
        "Use a public list of units, empty ones too (--units FILE), then remove units_from.\n"
        "Until then every release is stamped: units are not covered by the guarantee."
    ),
    "stamps": "What these counts are stamped with. Whatever is made from them has the same stamps.",
}


@final
@dataclass(frozen=True, kw_only=True)
class Codebook:
    """What a table's columns mean.

    Attributes
    ----------
    levels
        The geographic levels, coarse to fine: columns of codes, or cuts of ``code``.
    attributes
        Labels of each attribute, in order. An empty list means: take them from the data (and stamp the release).
    root
        The name of a level above the first column.
    code, lengths
        One column with a whole code, and how many of its characters name each level.
    pad
        Columns of numbers that lost their leading zeros, with the number of digits to restore.
    relative
        Whether codes repeat from parent to parent (county 001 in every state), so that the parent's is put in front.
    layout
        ``"wide"``, ``"long"`` or ``"persons"``.
    column
        Wide tables: the pattern of the cells' columns, such as ``"{age}_{race}"``.
    count
        Long tables: the column with the count.
    where, total, ignore
        Rows to keep; a column to check the cells' sum against; further columns to pass over in silence.
    where_is_public
        Whether it is public who passes ``where``, so that their number may be published exactly.
    labels_from, units_from
        ``"data"`` where labels or units were drafted from the data; what is read is stamped until a person removes it.
    stamps
        What the counts were stamped with when they were written.
    filtered
        Which rows were counted before the table was written, if not all.
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
    layout: Layout = "wide"
    column: str | None = None
    count: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    total: str | None = None
    ignore: tuple[str, ...] = ()
    where_is_public: bool = False
    labels_from: Literal["data"] | None = None
    units_from: Literal["data"] | None = None
    stamps: tuple[str, ...] = ()
    filtered: Filter | None = None

    def __post_init__(self) -> None:
        for name in ("levels", "ignore", "stamps"):
            if isinstance(getattr(self, name), str):
                raise DataError(f"{name} = {getattr(self, name)!r} must be a list. Write [{getattr(self, name)!r}].")
        for name in ("attributes", "groupings", "lengths", "pad", "where"):
            object.__setattr__(self, name, Frozen(getattr(self, name)))
        for name in ("levels", "zeros", "ignore", "stamps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_marks()
        if self.code is not None:
            if not self.lengths:
                raise DataError(f"[geography] code = {self.code!r} needs lengths: how many characters name each level.")
            object.__setattr__(self, "levels", tuple(self.lengths))
        if not self.levels:
            raise DataError('[geography] names no levels. Add levels = ["state", "county", ...], coarse to fine.')
        if self.layout not in ("wide", "long", "persons"):
            raise DataError(f'[table] layout must be "wide", "long" or "persons". Got {self.layout!r} instead.')
        if self.layout == "wide":
            self._check_pattern()
        if self.layout == "long" and not self.count:
            raise DataError('[table] layout = "long" needs count = the column with the counts.')
        if self.layout == "persons" and self.count is not None:
            raise DataError(
                f'[table] layout = "persons" counts each row as one person and would ignore count = "{self.count}". '
                f'Use layout = "long" to add up that column, or remove count.'
            )

    @property
    def schema(self) -> Schema:
        """The schema that the codebook declares."""
        return Schema(attributes=self.attributes, groupings=self.groupings, zeros=self.zeros)

    @property
    def geography(self) -> tuple[str, ...]:
        """The columns that say where."""
        return self.levels if self.code is None else (self.code,)

    @property
    def filter(self) -> Filter | None:
        """Which rows are counted, if not all: by ``where``, and by what was filtered before the table was written."""
        if not self.where:
            return self.filtered
        if self.filtered is None:
            return Filter(where=self.where, public=self.where_is_public)
        before, public = self.filtered, self.where_is_public and self.filtered.public
        twice = [name for name, value in self.where.items() if before.where.get(name, str(value)) != str(value)]
        if twice:
            raise DataError(
                f"[table] where keeps {twice[0]} = {str(self.where[twice[0]])!r}, but [filtered] says that the table "
                f"has only rows with {before.where[twice[0]]!r}. Remove one of them."
            )
        return Filter(where={**before.where, **self.where}, public=public)

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

    def _check_pattern(self) -> None:
        example = "_".join(f"{{{name}}}" for name in self.attributes)
        if self.column is None:
            raise DataError(f'[table] layout = "wide" needs column = a pattern such as "{example}".')
        named = re.findall(r"\{(.*?)\}", self.column)
        if sorted(named) != sorted(self.attributes):
            raise DataError(
                f'[table] column = "{self.column}" must name each attribute once ({", ".join(self.attributes)}), '
                f'such as "{example}".'
            )
        empty = [name for name, labels in self.attributes.items() if not labels]
        if empty:
            raise DataError(f"[attributes] {empty[0]} has no labels. A wide table needs them: they name its columns.")


def read_codebook(path: str | PathLike[str]) -> Codebook:
    """A codebook from its TOML file."""
    try:
        source = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Draft a codebook with: tallyveil codebook DATA -o {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read as text ({problem}). Give a codebook's TOML file.") from None
    try:
        return codebook_from_toml(source)
    except InputError as problem:
        raise problem.located(path) from None


def codebook_from_toml(source: str) -> Codebook:
    """A codebook from TOML text."""
    try:
        table = tomllib.loads(source)
    except tomllib.TOMLDecodeError as problem:
        raise DataError(f"not TOML: {problem}.") from None
    except RecursionError:
        raise DataError("nested too deeply for a codebook. Give a codebook's TOML file.") from None
    top = {name: table.pop(name) for name in TOP if name in table}
    for section, content in table.items():
        _check_section(section, content)
    missing = [name for name in ("geography", "attributes", "table") if name not in table]
    if missing:
        raise DataError(f"section [{missing[0]}] is missing. A codebook has [geography], [attributes] and [table].")
    twice = [name for name in top if name in table["table"]]
    if twice:
        raise DataError(f"{twice[0]} stands at the top and in [table]. Keep one of them.")
    try:
        return Codebook(
            **top,
            **{"levels": (), **table["geography"]},
            **table["table"],
            attributes={name: as_labels(name, labels) for name, labels in table["attributes"].items()},
            groupings={name: Grouping(**grouping) for name, grouping in table.get("groupings", {}).items()},
            zeros=table.get("zeros", ()),
            filtered=_filtered(table["filtered"]) if "filtered" in table else None,
        )
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise DataError(f"a field has the wrong kind of value ({problem}). See the manual's page on files.") from None


def _check_section(section: str, content: Any) -> None:
    if section not in FIELDS:
        if not isinstance(content, dict | list):
            raise DataError(f"unknown field {section!r} at the top. Known there are {', '.join(TOP)}.")
        raise DataError(f"unknown section [{section}]. Known are {', '.join(f'[{name}]' for name in FIELDS)}.")
    if not isinstance(content, list if section == "zeros" else dict):
        raise DataError(f"{section} = {content!r} is not a section. Write [{section}] and its fields below it.")
    known = FIELDS[section]
    for name in content if known else ():
        if name in TOP and name not in (known or ()):
            raise DataError(f"[{section}] {name} belongs at the top of the file, above the first section. Move it.")
        if name not in (known or ()):
            raise DataError(f"[{section}] unknown field {name!r}. Known are {', '.join(known or ())}.")


def _filtered(content: dict[str, Any]) -> Filter:
    public = content.get("public", False)
    if not isinstance(public, bool):
        raise DataError(f"[filtered] public must be true or false. Got {public!r} instead.")
    if not content.get("where"):
        raise DataError('[filtered] needs where = {column = "value"}: which rows were counted.')
    return Filter(where=content["where"], public=public)


def codebook_to_toml(codebook: Codebook) -> str:
    """A codebook as TOML text, from which it can be read back unchanged."""
    top: dict[str, Any] = {name: "data" for name in ("labels_from", "units_from") if getattr(codebook, name)}
    if codebook.stamps:
        top["stamps"] = list(codebook.stamps)
    geography: dict[str, Any] = {} if codebook.root is None else {"root": codebook.root}
    if codebook.code is None:
        geography["levels"] = list(codebook.levels)
    else:
        geography |= {"code": codebook.code, "lengths": dict(codebook.lengths)}
    if codebook.pad:
        geography["pad"] = dict(codebook.pad)
    if codebook.relative:
        geography["relative"] = True
    table: dict[str, Any] = {"layout": codebook.layout}
    table |= {name: value for name in ("column", "count", "total") if (value := getattr(codebook, name)) is not None}
    if codebook.where:
        table["where"] = dict(codebook.where)
    if codebook.where_is_public:
        table["where_is_public"] = True
    if codebook.ignore:
        table["ignore"] = list(codebook.ignore)
    whole: dict[str, Any] = {
        "geography": geography,
        "attributes": {name: list(labels) for name, labels in codebook.attributes.items()},
    }
    if codebook.groupings:
        whole["groupings"] = {
            name: {"of": grouping.of, "groups": {group: list(labels) for group, labels in grouping.groups.items()}}
            for name, grouping in codebook.groupings.items()
        }
    if codebook.zeros:
        whole["zeros"] = [{name: list(labels) for name, labels in zero.items()} for zero in codebook.zeros]
    whole["table"] = table
    if codebook.filtered is not None:
        whole["filtered"] = {"where": dict(codebook.filtered.where), "public": codebook.filtered.public}
    return "".join(_commented(name, value) for name, value in top.items()) + tomli_w.dumps(whole)


def _commented(name: str, value: Any) -> str:
    """A field of the top, below a comment that says what it means."""
    comment = "".join(f"# {line}\n" for line in COMMENTS[name].splitlines())
    return f"{comment}{tomli_w.dumps({name: value})}\n"
