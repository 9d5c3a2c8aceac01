"""Frozen dataclasses as JSON, and back: a field that is missing, unknown or of another type is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from tallyveil._frozen import Frozen
from tallyveil.errors import FolderError


def json_ready(value: Any) -> Any:
    """A value with tuples as lists, and NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def read_typed(kind: Any, value: Any, place: str) -> Any:
    """A value of JSON as the type of the field that it is for; ``place`` names the field in messages."""
    if isinstance(kind, UnionType):  # a type or None
        return None if value is None else read_typed(next(k for k in get_args(kind) if k is not NoneType), value, place)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(read_typed(inner[0], item, f"{place} {i + 1}") for i, item in enumerate(value))
    if isinstance(value, dict) and origin in (Mapping, dict):
        return Frozen({str(name): read_typed(inner[1], item, f"{place} {name}") for name, item in value.items()})
    if isinstance(value, dict) and is_dataclass(kind):
        return _read_fields(kind, value, place)
    if origin is None and (isinstance(value, kind) or (kind is float and type(value) is int)):
        return value
    raise FolderError(f"certificate, {place}: {str(value)[:60]!r} has the wrong type. Copy the folder again.")


def _read_fields(kind: Any, table: Mapping[str, Any], place: str) -> Any:
    types = get_type_hints(kind)
    required = {field.name for field in fields(kind) if field.default is not None}
    wrong = sorted((required - set(table)) | (set(table) - set(types)))
    if wrong:
        problem = "missing" if wrong[0] in required else "unknown"
        raise FolderError(f"certificate, {place}: {wrong[0]} is {problem}. Copy the folder again.")
    return kind(**{name: read_typed(types[name], value, f"{place} {name}") for name, value in table.items()})
