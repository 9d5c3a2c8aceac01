"""Read codebooks from TOML and write them; unknown fields are refused."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import tomli_w

from tallyveil._typed import Name, parse_toml, toml_file, typed
from tallyveil.errors import DataError, InputError
from tallyveil.files.tables.codebook import Codebook, band_labels
from tallyveil.files.tables.form import PLAIN, FileForm
from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Grouping
from tallyveil.privacy.sentences import FROM_DATA

_Names = tuple[Name, ...]
_Labels = Mapping[str, tuple[str, ...]]
SECTIONS: dict[str, Any] = {  # the type of each field; without fields of its own, that of the section
    "geography": {
        "levels": _Names, "root": Name, "code": Name, "lengths": Mapping[str, int], "pad": Mapping[str, int],
        "relative": bool, "names": Mapping[str, Name],
    },
    "attributes": _Labels,
    "labels": Mapping[str, Mapping[str, str]],
    "bands": Mapping[str, tuple[int, ...]],
    "groupings": Mapping[str, Grouping],
    "zeros": tuple[_Labels, ...],
    "table": {
        "layout": Name, "column": Name, "count": Name, "where": Mapping[str, str | int], "where_is_public": bool,
        "total": Name, "ignore": _Names, "person": Name, "at_most": int, "sheet": Name,
    },
    "file": {
        "encoding": Name, "title_rows": int, "header_rows": int, "note_rows": int, "fill_down": _Names,
        "total_rows": _Labels, "thousands": str, "zeros": tuple[str, ...], "strip": bool,
    },
    "filtered": {"where": Mapping[str, str], "public": bool, "others": _Names},
}  # fmt: skip
TOP = {  # above the first section
    "labels_from": Any, "units_from": Any, "where_is_public": bool, "rows_per_person": int, "stamps": _Names,
}  # fmt: skip
COMMENTS = {
    **FROM_DATA,
    "rows_per_person": "How many records a person has at most among these counts. It was checked.",
    "stamps": "What these counts are stamped with. Whatever is made from them has the same stamps.",
}


def read_codebook(path: str | PathLike[str]) -> Codebook:
    """A codebook from its TOML file."""
    try:
        return codebook_from_toml(toml_file(path, "a codebook", error=DataError))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Draft a codebook with: tallyveil codebook DATA -o {path}") from None
    except InputError as problem:
        raise problem.located(path) from None


def codebook_from_toml(source: str) -> Codebook:
    """A codebook from TOML text."""
    content = parse_toml(source, "a codebook", error=DataError)
    top = {name: typed(kind, content.pop(name), name, error=DataError) for name, kind in TOP.items() if name in content}
    table = {section: _typed_section(section, part) for section, part in content.items()}
    missing = [name for name in ("geography", "table") if name not in table]
    if missing:
        raise DataError(
            f"section [{missing[0]}] is missing. A codebook has [geography], [table] and, unless only totals are "
            f"counted, [attributes]."
        )
    twice = [name for name in top if name in table["table"]]
    if twice:
        raise DataError(f"{twice[0]} is both at the top and in [table]. Keep one of them.")
    return Codebook(
        **top,
        **{"levels": (), **table["geography"]},
        **table["table"],
        **{
            "attributes": {},
            **{name: table[name] for name in ("attributes", "labels", "bands", "groupings", "zeros") if name in table},
        },
        form=FileForm(**table.get("file", {})),
        filtered=_filtered(table["filtered"]) if "filtered" in table else None,
    )


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
        "attributes": {
            name: [label for label in labels if label not in _bands(codebook, name)]
            for name, labels in codebook.attributes.items()
        },
        "labels": {name: _words_to_state(codebook, name) for name in codebook.labels},
        "bands": {name: list(bounds) for name, bounds in codebook.bands.items()},
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
            "person": codebook.person,
            "at_most": codebook.at_most,
        },
        "file": _form(codebook.form),
    }
    for section in ("geography", "table"):
        content[section] = _stated(content[section])
    content = {name: part for name, part in content.items() if part or name == "attributes"}
    if codebook.filtered is not None:
        filtered = vars(codebook.filtered) | {"where": dict(codebook.filtered.where)}
        content["filtered"] = {name: value for name, value in filtered.items() if value not in ((), {})}
    top = {name: getattr(codebook, name) for name in ("labels_from", "units_from", "rows_per_person")}
    top["stamps"] = list(codebook.stamps)
    return "".join(_commented(name, value) for name, value in _stated(top).items()) + tomli_w.dumps(content)


def _bands(codebook: Codebook, name: str) -> tuple[str, ...]:
    """The labels of an attribute that follow from [bands], so that nobody need change them when the bands change."""
    return band_labels(codebook.bands[name], name) if name in codebook.bands else ()


def _words_to_state(codebook: Codebook, name: str) -> dict[str, str]:
    """The words for codes, without bands that are their own words; all of them if there are no others."""
    words, bands = dict(codebook.labels[name]), _bands(codebook, name)
    return {code: word for code, word in words.items() if code not in bands or word != code} or words


def _form(form: FileForm) -> dict[str, Any]:
    """The fields of a form that differ from those of a plain file."""
    stated = {name: getattr(form, name) for name in SECTIONS["file"] if getattr(form, name) != getattr(PLAIN, name)}
    if "total_rows" in stated:
        stated["total_rows"] = {column: list(values) for column, values in form.total_rows.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}


def _stated(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have another value than their default: None, false or empty."""
    return {name: value for name, value in fields.items() if value not in (None, False, [], {})}


def _typed_section(section: str, content: Any) -> Any:
    if section not in SECTIONS:
        if not isinstance(content, dict | list):
            raise DataError(f"unknown field {section!r} at the top. Known there are {', '.join(TOP)}.")
        raise DataError(f"unknown section [{section}]. Known are {', '.join(f'[{name}]' for name in SECTIONS)}.")
    if not isinstance(content, list if section == "zeros" else dict):
        raise DataError(f"{section} = {content!r} is not a section. Write [{section}] and its fields below it.")
    kinds = SECTIONS[section]
    if not isinstance(kinds, dict):
        return typed(kinds, content, f"[{section}]", error=DataError)
    fields: dict[str, Any] = dict(content)
    for name in fields:
        if name in TOP and name not in kinds:
            raise DataError(f"[{section}] {name} belongs at the top of the file, above the first section. Move it.")
        if name not in kinds:
            raise DataError(f"[{section}] unknown field {name!r}. Known are {', '.join(kinds)}.")
    return {name: typed(kinds[name], value, f"[{section}] {name}", error=DataError) for name, value in fields.items()}


def _filtered(content: Mapping[str, Any]) -> Filter:
    if not content.get("where") and not content.get("others"):
        raise DataError('[filtered] needs where = {column = "value"}: which rows were counted.')
    return Filter(**{"where": {}, **content})


def _commented(name: str, value: Any) -> str:
    """A field at the top, below a comment on its meaning."""
    comment = "".join(f"# {line}\n" for line in COMMENTS[name].splitlines())
    return f"{comment}{tomli_w.dumps({name: value})}\n"
