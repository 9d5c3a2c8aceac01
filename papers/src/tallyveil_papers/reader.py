"""Read a paper's TOML file: its reference, and its items in words.

key = "kazan2022"
title = "Kazan Z., Reiter J. (2022), ..."

[[item]]
name = "table4"                                 # the item's key is kazan2022.table4
title = "Average posterior and disclosure risk"
where = "Table 4 and section 4.2.2"             # in the paper
what = "The posterior averaged over what may be released (Eq. 14)."
calls = ["risk.Exposure"]                       # public functions that compute it
compute = "kazan.tables.table_4"                # takes a Setting, returns an Outcome
tolerance = "Half a unit of the last digit."    # why the tolerances are what they are
erratum = "..."                                 # optional: what is wrong in print
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from typing import Any, final

from tallyveil.errors import InputError
from tallyveil_papers.registry import Item, Outcome, Setting

PAPER = {"key", "title", "item"}
ITEM = {"name", "title", "where", "what", "calls", "compute", "tolerance"}
OPTIONAL = {"erratum"}


@final
@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper's key, its reference, and its items in the paper's order."""

    key: str
    title: str
    items: tuple[Item, ...]


@cache
def read_paper(name: str) -> Paper:
    """The paper that ``name.toml`` describes."""
    return paper_of(tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")), name)


def paper_of(content: Mapping[str, Any], name: str) -> Paper:
    """The paper with this content; errors name the file, the item and the key."""
    _check_keys(content, PAPER, f"{name}.toml")
    items = tuple(_item(entry, content["key"], name) for entry in content["item"])
    return Paper(key=content["key"], title=content["title"], items=items)


def _item(entry: Mapping[str, Any], paper: str, name: str) -> Item:
    _check_keys(entry, ITEM, f"{name}.toml, item {entry.get('name', '?')!r}")
    texts = {key: entry[key] for key in ("title", "where", "what", "tolerance")}
    return Item(
        key=f"{paper}.{entry['name']}",
        calls=tuple(entry["calls"]),
        compute=partial(_compute, entry["compute"]),
        erratum=entry.get("erratum", ""),
        **texts,
    )


def _check_keys(entry: Mapping[str, Any], required: set[str], place: str) -> None:
    known = required | OPTIONAL
    if unknown := set(entry) - known:
        raise InputError(f"{place}: unknown key {min(unknown)!r}. Known keys are {', '.join(sorted(known))}.")
    if missing := required - set(entry):
        raise InputError(f"{place}: {min(missing)!r} is missing.")


def _compute(function: str, setting: Setting) -> Outcome:
    """Call the function of that name; its module is imported only now, so that listing items is fast."""
    module, _, name = function.rpartition(".")
    outcome: Outcome = getattr(import_module(f"{__package__}.{module}"), name)(setting)
    return outcome
