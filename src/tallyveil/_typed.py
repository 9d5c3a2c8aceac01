"""Values from TOML and JSON as the types of the fields they are for; a value of another type is refused by its name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tallyveil._frozen import Frozen
from tallyveil.errors import InputError

Number = int | float | str  # a fraction may be written as text
Table = Mapping[str, Any]
_LARGEST = 1 << 25  # bytes of a TOML file


class Name(str):
    """Text that is not empty."""


_TABLES = (Mapping, dict)
_WORDS = {
    str: "text", Name: "text that is not empty", bool: "true or false", int: "a whole number", float: "a number",
    Number: "a number", str | int: "text or a whole number",
}  # fmt: skip


def toml_file(path: str | PathLike[str], what: str, *, error: type[InputError]) -> str:
    """The text of a TOML file; ``what`` says in messages whose file it should be."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise error(f"{path}: larger than {_LARGEST >> 20} MiB, so it is no TOML file. Give {what}'s TOML file.")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        reason = "not UTF-8" if isinstance(problem, UnicodeDecodeError) else problem
        raise error(f"{path}: cannot be read as text ({reason}). Give {what}'s TOML file.") from None


def parse_toml(source: str, what: str, *, error: type[InputError]) -> dict[str, Any]:
    """TOML text as a table; ``what`` says in messages what it should be."""
    try:
        return tomllib.loads(source)
    except RecursionError:
        raise error(f"nested too deeply for {what}. Give {what}'s TOML file.") from None
    except ValueError as problem:  # also a whole number of thousands of digits
        raise error(f"not TOML: {problem}.") from None


def typed(kind: Any, value: Any, place: str, *, error: type[InputError], remedy: str = "") -> Any:
    """A value as the type of the field that it is for; ``place`` names the field in messages.

    Types are text, numbers, true or false, dataclasses, and lists (``tuple[str, ...]``), tables (``Mapping[str, int]``)
    and options (``int | None``) of them. ``Table`` allows anything in a table.

    >>> typed(tuple[str, ...], ["state", 3], "[geography] levels", error=InputError)
    Traceback (most recent call last):
    tallyveil.errors.InputError: [geography] levels, item 2 must be text. Got 3 instead.
    """

    def inside(item_kind: Any, item: Any, where: str) -> Any:
        return typed(item_kind, item, where, error=error, remedy=remedy)

    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if isinstance(kind, UnionType) and NoneType in inner:
        return None if value is None else inside(next(k for k in inner if k is not NoneType), value, place)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(inside(inner[0], item, f"{place}, item {i + 1}") for i, item in enumerate(value))
    if origin in _TABLES and isinstance(value, dict):
        return Frozen({name: inside(inner[1], item, f"{place} {name}") for name, item in value.items()})
    if is_dataclass(kind) and isinstance(value, dict):
        types = get_type_hints(kind)
        _refuse_other_fields(kind, types, value, place, error=error, remedy=remedy)
        make: Any = kind
        return make(**{name: inside(types[name], item, f"{place} {name}") for name, item in value.items()})
    if _is_scalar(kind, value):
        return value
    words = "a table" if origin in _TABLES or is_dataclass(kind) else "a list" if origin is tuple else _WORDS[kind]
    list_of_it = f" Write [{value!r}]." if words == "a list" and isinstance(value, str) else ""
    raise error(f"{place} must be {words}. Got {value!r} instead.{list_of_it}{remedy and ' '}{remedy}")


def _is_scalar(kind: Any, value: Any) -> bool:
    if isinstance(value, bool) or kind is bool:  # true is no number
        return kind is bool and isinstance(value, bool)
    if kind is Name:
        return isinstance(value, str) and bool(value.strip())
    if kind is float:
        return isinstance(value, float | int)
    return kind in _WORDS and isinstance(value, kind)


def _refuse_other_fields(
    kind: Any, types: Table, table: Table, place: str, *, error: type[InputError], remedy: str
) -> None:
    required = {field.name for field in fields(kind) if field.default is not None}
    wrong = sorted((required - set(table)) | (set(table) - set(types)))
    if wrong:
        problem = "missing" if wrong[0] in required else f"unknown. Known are {', '.join(types)}"
        raise error(f"{place}: {wrong[0]} is {problem}.{remedy and ' '}{remedy}")
