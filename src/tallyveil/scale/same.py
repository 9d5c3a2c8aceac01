"""Whether a worker would compute the same bytes: the same code, packages and kind of processor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

import tallyveil
from tallyveil.release.declare import versions


@cache
def code_digest() -> bytes:
    """A digest of the source, which tells apart even code of the same version."""
    root, digest = Path(tallyveil.__file__).parent, sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.digest()


def what_runs_here() -> dict[str, str]:
    """The versions, the platform and the source of this process."""
    return {**versions(), "source of tallyveil": code_digest().hex()[:12]}


def difference(wanted: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """What differs, in words; None if nothing does.

    >>> difference({"numpy": "2.4.6", "python": "3.11.7"}, {"numpy": "1.26.4", "python": "3.11.7"})
    'numpy 1.26.4 instead of 2.4.6'
    """
    names = [name for name in wanted if here.get(name) != wanted[name]]
    return ", ".join(f"{name} {here.get(name, 'missing')} instead of {wanted[name]}" for name in names) or None
