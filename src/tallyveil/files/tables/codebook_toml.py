"""Read codebooks from TOML and write them; unknown fields are refused."""

from __future__ import annotations

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w

from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import Codebook
from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Grouping, as_labels

SECTIONS = {
    "geography": ("levels", "root", "code", "lengths", "pad", "relative", "names"),
    "attributes": None,
    "labels": None,
    "groupings": None,
    "zeros": None,
    "table": ("layout", "column", "count", "where", "where_is_public", "total", "ignore", "sheet"),
    "filtered": ("where", "public"),
}
TOP = ("labels_from", "units_from", "where_is_public", "stamps")  # fields above the first section
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
    missing = [name for name in ("geography", "table") if name not in table]
    if missing:
        raise DataError(
            f"section [{missing[0]}] is missing. A codebook has [geography], [table] and, unless only totals are "
            f"counted, [attributes]."
        )
    twice = [name for name in top if name in table["table"]]
    if twice:
        raise DataError(f"{twice[0]} is both at the top and in [table]. Keep one of them.")
    try:
        return Codebook(
            **top,
            **{"levels": (), **table["geography"]},
            **table["table"],
            attributes={name: as_labels(name, labels) for name, labels in table.get("attributes", {}).items()},
            labels=table.get("labels", {}),
            groupings={name: Grouping(**grouping) for name, grouping in table.get("groupings", {}).items()},
            zeros=table.get("zeros", ()),
            filtered=_filtered(table["filtered"]) if "filtered" in table else None,
        )
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise DataError(f"a field has the wrong kind of value ({problem}). See the manual's page on files.") from None


def codebook_to_toml(codebook: Codebook) -> str:
    """A codebook as TOML text, from which it can be read back unchanged."""
    cut = codebook.code is not None
    content: dict[str, Any] = {
        "geography": {
            "root": codebook.root,
            "levels": None if cut else list(codebook.levels),
            "code": codebook.code,
            "lengths": dict(codebook.lengths) if cut else None,
            "pad": dict(codebook.pad),
            "relative": codebook.relative,
            "names": dict(codebook.names),
        },
        "attributes": {name: list(labels) for name, labels in codebook.attributes.items()},
        "labels": {name: dict(words) for name, words in codebook.labels.items()},
        "groupings": {
            name: {"of": grouping.of, "groups": {group: list(labels) for group, labels in grouping.groups.items()}}
            for name, grouping in codebook.groupings.items()
        },
        "zeros": [{name: list(labels) for name, labels in zero.items()} for zero in codebook.zeros],
        "table": {
            "sheet": codebook.sheet,
            "layout": codebook.layout,
            "column": codebook.column,
            "count": codebook.count,
            "total": codebook.total,
            "where": dict(codebook.where),
            "where_is_public": codebook.where_is_public,
            "ignore": list(codebook.ignore),
        },
    }
    for section in ("geography", "table"):
        content[section] = _stated(content[section])
    content = {name: part for name, part in content.items() if part or name == "attributes"}
    if codebook.filtered is not None:
        content["filtered"] = {"where": dict(codebook.filtered.where), "public": codebook.filtered.public}
    top = {name: getattr(codebook, name) for name in ("labels_from", "units_from")} | {"stamps": list(codebook.stamps)}
    return "".join(_commented(name, value) for name, value in _stated(top).items()) + tomli_w.dumps(content)


def _stated(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have another value than their default: None, false or empty."""
    return {name: value for name, value in fields.items() if value not in (None, False, [], {})}


def _check_section(section: str, content: Any) -> None:
    if section not in SECTIONS:
        if not isinstance(content, dict | list):
            raise DataError(f"unknown field {section!r} at the top. Known there are {', '.join(TOP)}.")
        raise DataError(f"unknown section [{section}]. Known are {', '.join(f'[{name}]' for name in SECTIONS)}.")
    if not isinstance(content, list if section == "zeros" else dict):
        raise DataError(f"{section} = {content!r} is not a section. Write [{section}] and its fields below it.")
    known = SECTIONS[section]
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


def _commented(name: str, value: Any) -> str:
    """A field at the top, below a comment on its meaning."""
    comment = "".join(f"# {line}\n" for line in COMMENTS[name].splitlines())
    return f"{comment}{tomli_w.dumps({name: value})}\n"
