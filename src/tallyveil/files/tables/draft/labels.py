"""The labels of attributes in a draft: words of a dictionary, one word for several spellings, empty cells, ages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tallyveil.files.tables.codebook import band_labels
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.notes import Note
from tallyveil.files.tables.draft.view import Column, natural
from tallyveil.files.tables.draft.words import MISSING, is_age
from tallyveil.files.tables.spellings import plain

NOT_STATED = "not stated"  # the word for empty cells
BANDS = (0, 15, 65)  # broad age groups of the United Nations
_MANY_YEARS = 20  # more different ages than this are put in bands
_MOST_YEARS = 40  # different numbers that are ages by their values alone
_YOUNG = 20
_OLDEST = 130


def in_years(column: Column) -> bool:
    """Whether a column has ages in years, too many for labels."""
    years = column.numbers[column.present]
    many = column.is_number and column.size > _MANY_YEARS
    return is_age(column.name) and many and bool(np.nanmax(years) <= _OLDEST)


def may_be_years(column: Column) -> bool:
    """Whether numbers may be ages in years by their values: whole ones from about 0 to 100, most of which occur."""
    years = column.numbers[column.present]
    years = years[~np.isnan(years)]
    if not column.is_whole or column.is_code or column.is_serial or column.size < _MOST_YEARS or not len(years):
        return False
    lowest, highest = float(years.min()), float(years.max())
    return 0 <= lowest <= _YOUNG and highest <= _OLDEST and column.size >= 0.5 * (highest - lowest)


def spoken_rows(
    columns: Sequence[Column], asked: Asked, *, banded: Sequence[Column] = ()
) -> tuple[dict[str, dict[str, Any]], list[Note]]:
    """The labels of columns: with the words of the dictionary, and one word for all spellings and for empty cells."""
    given = {column.name: tuple(_listed(column, column in banded)) for column in columns}
    coded, notes = spoken(given, asked, listed=True)
    for column in columns:
        place, known = ("labels", column.name), coded["labels"].get(column.name, {})
        codes, words, remarks = _one_word_each(column, [*band_labels(BANDS, "")] if column in banded else [], known)
        notes += [Note(field=place, item=code, text=text) for code, text in remarks.items()]
        if remarks:
            coded["labels"][column.name] = words
            coded["attributes"][column.name] = codes
    coded["bands"] = {column.name: BANDS for column in banded}
    cuts = "ages in years begin a new label here: change the list as you need it"
    doubt = "; taken for ages by their values, so move the column to ignore if they are none"
    return coded, [
        *notes,
        *(Note(field=("bands", c.name), text=cuts if is_age(c.name) else cuts + doubt) for c in banded),
    ]


def _listed(column: Column, banded: bool) -> list[str]:
    """The labels of a column that have no band."""
    if not banded:
        return column.labels
    numbers = dict(zip(column.texts.to_pylist(), column.numbers, strict=True))
    return [label for label in column.labels if np.isnan(numbers[label])]


def _one_word_each(
    column: Column, bands: Sequence[str], known: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """Codes, their words, and remarks on those codes whose word the table does not have."""
    listed = list(known) or _listed(column, bool(bands))
    often = dict(zip(column.texts.to_pylist(), column.rows_of, strict=True))
    words = {code: known.get(code, code) for code in (*bands, *listed)}
    remarks: dict[str, str] = {}
    first: dict[str, str] = {}
    for code in sorted(listed, key=lambda code: -int(often.get(code, 0))):
        if code in known:
            continue
        if plain(code) in MISSING:
            words[code], remarks[code] = NOT_STATED, "stands for a missing value"
        elif (word := first.setdefault(plain(code), code)) != code:
            words[code], remarks[code] = word, f"another spelling of {word!r}"
    if column.missing:
        words[""] = NOT_STATED
        remarks[""] = f"the {column.missing:,} empty cells"
    return tuple(words), words, remarks


def names_from_dictionary(
    names: Sequence[str], labels: Sequence[Sequence[str]], asked: Asked, taken: Sequence[str]
) -> list[str]:
    """The attributes of the dictionary that have all codes of a set, or the names that were found otherwise."""
    chosen: list[str] = []
    for name, codes in zip(names, labels, strict=True):
        free = [other for other in asked.words if other not in (*chosen, *taken)]
        fitting = [attribute for attribute in free if set(codes) <= set(asked.words[attribute])]
        chosen.append(fitting[0] if len(fitting) == 1 else name)
    return chosen if len(set(chosen)) == len(chosen) else list(names)


def spoken(
    attributes: Mapping[str, tuple[str, ...]], asked: Asked, *, listed: bool
) -> tuple[dict[str, dict[str, Any]], list[Note]]:
    """Attributes with the words of the dictionary; ``listed`` adds the codes that it has and the data lack."""
    codes, labels, notes = dict(attributes), dict[str, dict[str, str]](), list[Note]()
    for name in [name for name in attributes if name in asked.words]:
        words = asked.words[name]
        unknown = [code for code in attributes[name] if code not in words]
        met = [code for code in words if listed or code in attributes[name]]
        codes[name] = tuple(attributes[name]) if not listed else (*met, *sorted(unknown, key=natural))
        labels[name] = {code: words.get(code, code) for code in codes[name]}
        notes += [
            Note(field=("labels", name), item=code, text="not in the dictionary: give this code a word")
            for code in unknown
        ]
    return {"attributes": codes, "labels": labels}, notes
