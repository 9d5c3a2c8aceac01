"""Frozen dataclasses as JSON, and back: a field that is missing, unknown or of another type is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tallyveil._typed import typed
from tallyveil.errors import FolderError


def json_ready(value: Any) -> Any:
    """A value with tuples as lists, and NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def read_typed(kind: Any, value: Any, place: str) -> Any:
    """A value of a certificate as the type of the field that it is for; ``place`` names the field in messages."""
    return typed(kind, value, f"certificate, {place}", error=FolderError, remedy="Copy the folder again.")
