"""Canonical JSON: equal content is equal bytes, so that it can be signed and digested.

Keys are sorted, text is unescaped UTF-8, the indent is two spaces, and a newline ends the file. Numbers are finite, and
no key is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NoReturn

from tallyveil.errors import FolderError

MANIFEST = "files"  # the certificate's field that lists the digests of the other files


def canonical_bytes(value: Any) -> bytes:
    """A value as canonical JSON.

    >>> print(canonical_bytes({"b": 1, "a": "å"}).decode(), end="")
    {
      "a": "å",
      "b": 1
    }
    """
    try:
        return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise FolderError(
            f"cannot be written as JSON ({_reason(problem)}). Use finite numbers, valid text, lists and tables of them."
        ) from None


def parse_canonical(data: bytes) -> Any:
    """The value of canonical JSON; any other spelling is refused."""
    value = parse_json(data)
    if canonical_bytes(value) != data:
        raise FolderError("is not canonical JSON (sorted keys, two-space indent, a newline at the end). Copy it again.")
    return value


def parse_json(data: bytes) -> Any:
    """The value of JSON in any spelling; repeated keys and numbers that are not finite are refused."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise FolderError(f"cannot be read as JSON ({_reason(problem)}). Copy it again.") from None


def certificate_digest(certificate: Mapping[str, Any]) -> str:
    """The SHA-256 of a certificate without its list of files, which the certificate's page carries."""
    return sha256(canonical_bytes({key: value for key, value in certificate.items() if key != MANIFEST})).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is repeated")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _reason(problem: Exception) -> str:
    return "nested too deeply" if isinstance(problem, RecursionError) else str(problem).splitlines()[0]
