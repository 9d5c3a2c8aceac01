"""Read a paper's TOML file: its reference, its items in words, and the numbers that it prints.

key = "kazan2022"
title = "Kazan Z., Reiter J. (2022), ..."

[words]                                         # optional: texts that several items share, used as {rounding}
rounding = "Half a unit of the last digit."

[[item]]
name = "table4"                                 # the item's key is kazan2022.table4
title = "Average posterior and disclosure risk"
where = "Table 4 and section 4.2.2"             # in the paper
what = "The posterior averaged over what may be released (Eq. 14)."
calls = ["risk.Exposure"]                       # public functions that compute it
compute = "kazan.tables.table_4"                # takes a Setting, returns an Outcome
tolerance = "{rounding}"                        # why the tolerances are what they are
erratum = "..."                                 # optional: what is wrong in print
notes = ["The mean is {mean:.2f}."]             # optional: templates for notes_of (tallyveil_papers.verdicts)

[item.figures.largest]                          # optional: fields of a Figure for judge, under kazan2022.table4.largest
name = "largest disclosure risk R"
published = 1.21                                # this and other fields may be tables, {"1/2" = 1.05, "1/50" = 1.21}
digits = 2                                      # of the printed number: a tolerance of half a unit of the last one
quote = "between 1.05 and 1.21"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from typing import Any, final

from tallyveil.errors import InputError
from tallyveil_papers.figure import Figure
from tallyveil_papers.registry import Item, Outcome, Setting

NAMES = ("flaxman", "petti", "appendix", "kazan")  # in the order of their publication
PAPER, PAPER_OPTIONAL = {"key", "title", "item"}, {"words"}
ITEM, ITEM_OPTIONAL = (
    {"name", "title", "where", "what", "calls", "compute", "tolerance"},
    {"erratum", "notes", "figures"},
)
FIGURE, FIGURE_OPTIONAL = {"name"}, {field.name for field in fields(Figure)} - {"ours"} | {"digits", "again_digits"}
Facts = Mapping[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper's key, its reference, and its items in the paper's order; figures and notes by their keys."""

    key: str
    title: str
    items: tuple[Item, ...]
    figures: Mapping[str, Facts]
    notes: Mapping[str, tuple[str, ...]]


@cache
def read_paper(name: str) -> Paper:
    """The paper that ``name.toml`` describes."""
    return paper_of(tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")), name)


def paper_of(content: Mapping[str, Any], name: str) -> Paper:
    """The paper with this content; errors name the file, the item and the key."""
    _check_keys(content, PAPER, PAPER_OPTIONAL, f"{name}.toml")
    key, words = content["key"], content.get("words", {})
    figures, notes, items = {}, {}, []
    for entry in content["item"]:
        place = f"{name}.toml, item {entry.get('name', '?')!r}"
        _check_keys(entry, ITEM, ITEM_OPTIONAL, place)
        items.append(_item(entry, key, words, place))
        for figure, facts in entry.get("figures", {}).items():
            _check_keys(facts, FIGURE, FIGURE_OPTIONAL, f"{place}, figure {figure!r}")
            figures[f"{key}.{entry['name']}.{figure}"] = facts
        known = "|".join(words) or "(?!)"
        notes[f"{key}.{entry['name']}"] = tuple(
            re.sub(rf"\{{({known})\}}", lambda match: words[match[1]], note) for note in entry.get("notes", ())
        )
    return Paper(key=key, title=content["title"], items=tuple(items), figures=figures, notes=notes)


def _item(entry: Facts, paper: str, words: Mapping[str, str], place: str) -> Item:
    texts = {key: _with_words(entry.get(key, ""), words, place) for key in ("what", "tolerance", "erratum")}
    return Item(
        key=f"{paper}.{entry['name']}",
        title=entry["title"],
        where=entry["where"],
        calls=tuple(entry["calls"]),
        compute=partial(_compute, entry["compute"]),
        **texts,
    )


def _with_words(text: str, words: Mapping[str, str], place: str) -> str:
    """The text with each ``{word}`` replaced."""
    if unknown := set(re.findall(r"\{(\w+)\}", text)) - set(words):
        raise InputError(f"{place}: {{{min(unknown)}}} is not among the file's [words].")
    return re.sub(r"\{(\w+)\}", lambda match: words[match[1]], text)


def _check_keys(entry: Facts, required: set[str], optional: set[str], place: str) -> None:
    known = required | optional
    if unknown := set(entry) - known:
        raise InputError(f"{place}: unknown key {min(unknown)!r}. Known keys are {', '.join(sorted(known))}.")
    if missing := required - set(entry):
        raise InputError(f"{place}: {min(missing)!r} is missing.")


def _compute(function: str, setting: Setting) -> Outcome:
    """Call the function of that name; its module is imported only now, so that listing items is fast."""
    module, _, name = function.rpartition(".")
    outcome: Outcome = getattr(import_module(f"{__package__}.{module}"), name)(setting)
    return outcome
