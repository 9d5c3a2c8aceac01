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
from tallyveil.errors import InputError
from tallyveil.schema import Grouping, Schema, as_labels

Layout = Literal["wide", "long", "persons"]
FIELDS = {
    "geography": ("levels", "root", "code", "lengths", "pad", "relative"),
    "attributes": None,
    "groupings": None,
    "zeros": None,
    "table": ("layout", "column", "count", "where", "total", "ignore"),
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

    def __post_init__(self) -> None:
        for name in ("levels", "ignore"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} = {getattr(self, name)!r} must be a list. Write [{getattr(self, name)!r}].")
        for name in ("attributes", "groupings", "lengths", "pad", "where"):
            object.__setattr__(self, name, Frozen(getattr(self, name)))
        for name in ("levels", "zeros", "ignore"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.code is not None:
            if not self.lengths:
                raise InputError(
                    f"[geography] code = {self.code!r} needs lengths: how many characters name each level."
                )
            object.__setattr__(self, "levels", tuple(self.lengths))
        if not self.levels:
            raise InputError('[geography] names no levels. Add levels = ["state", "county", ...], coarse to fine.')
        if self.layout not in ("wide", "long", "persons"):
            raise InputError(f'[table] layout must be "wide", "long" or "persons". Got {self.layout!r} instead.')
        if self.layout == "wide":
            self._check_pattern()
        if self.layout == "long" and self.count is None:
            raise InputError('[table] layout = "long" needs count = the column with the counts.')

    @property
    def schema(self) -> Schema:
        """The schema that the codebook declares."""
        return Schema(attributes=self.attributes, groupings=self.groupings, zeros=self.zeros)

    @property
    def geography(self) -> tuple[str, ...]:
        """The columns that say where."""
        return self.levels if self.code is None else (self.code,)

    def _check_pattern(self) -> None:
        example = "_".join(f"{{{name}}}" for name in self.attributes)
        if self.column is None:
            raise InputError(f'[table] layout = "wide" needs column = a pattern such as "{example}".')
        named = re.findall(r"\{(.*?)\}", self.column)
        if sorted(named) != sorted(self.attributes):
            raise InputError(
                f'[table] column = "{self.column}" must name each attribute once ({", ".join(self.attributes)}), '
                f'such as "{example}".'
            )
        empty = [name for name, labels in self.attributes.items() if not labels]
        if empty:
            raise InputError(f"[attributes] {empty[0]} has no labels. A wide table needs them: they name its columns.")


def read_codebook(path: str | PathLike[str]) -> Codebook:
    """A codebook from its TOML file."""
    try:
        source = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Draft a codebook with: tallyveil codebook DATA -o {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read as text ({problem}). Give a codebook's TOML file.") from None
    try:
        return codebook_from_toml(source)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def codebook_from_toml(source: str) -> Codebook:
    """A codebook from TOML text."""
    try:
        table = tomllib.loads(source)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"not TOML: {problem}.") from None
    for section, content in table.items():
        if section not in FIELDS:
            raise InputError(f"unknown section [{section}]. Known are {', '.join(f'[{name}]' for name in FIELDS)}.")
        known = FIELDS[section]
        for name in content if known else ():
            if name not in (known or ()):
                raise InputError(f"[{section}] unknown field {name!r}. Known are {', '.join(known or ())}.")
    missing = [name for name in ("geography", "attributes", "table") if name not in table]
    if missing:
        raise InputError(f"section [{missing[0]}] is missing. A codebook has [geography], [attributes] and [table].")
    try:
        return Codebook(
            **{"levels": (), **table["geography"]},
            **table["table"],
            attributes={name: as_labels(name, labels) for name, labels in table["attributes"].items()},
            groupings={name: Grouping(**grouping) for name, grouping in table.get("groupings", {}).items()},
            zeros=table.get("zeros", ()),
        )
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise InputError(f"a field has the wrong kind of value ({problem}). See the manual's page on files.") from None


def codebook_to_toml(codebook: Codebook) -> str:
    """A codebook as TOML text, from which it can be read back unchanged."""
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
    return tomli_w.dumps(whole | {"table": table})
