"""The file of a ledger: JSON lines, each chained to the one before by its SHA-256, and signed where a key is given.

A line is appended under an exclusive lock by a single write and flushed to disk before the call returns. A crash can
leave only a torn last line, which nobody relied on: it is recognised and removed by the next append. A last line that
lacks nothing but its line break counts. The chain shows a change of any line that has lines after it. It cannot show
that lines are missing at the end: note the head elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tallyveil.errors import InputError
from tallyveil.files.atomic import refuse_inside_release
from tallyveil.files.release_folder.signing import signature_holds
from tallyveil.release.about import today
from tallyveil.release.canonical import parse_json

START = "0" * 64  # what the first line is chained to


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line: its number from 1, what it records, its SHA-256, and its signature if it has one."""

    number: int
    content: Mapping[str, Any]
    digest: str
    signed: bytes | None
    unsigned: bytes


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a ledger that are whole.

    ``torn`` says that the last one is not, after ``size`` good bytes; ``unended`` that it is, but for its line break.
    """

    path: Path
    lines: tuple[Line, ...]
    size: int
    torn: bool
    unended: bool = False

    @property
    def head(self) -> str:
        """The SHA-256 of the last line, which depends on all lines."""
        return self.lines[-1].digest if self.lines else START

    def refuse_unsigned(self, key: Ed25519PublicKey) -> None:
        """Refuse a ledger in which a line is not signed with a key."""
        for line in self.lines:
            if line.signed is None or not signature_holds(key, line.signed, line.unsigned):
                what = "is not signed" if line.signed is None else "is not signed with this key"
                raise InputError(f"{self.path}, line {line.number}: {what}. Ask whoever keeps the ledger.")


def read_lines(path: Path) -> Lines:
    """Read a ledger and check its chain."""
    try:
        return _parsed(path, path.read_bytes())
    except OSError as problem:
        raise InputError(
            f"{path}: cannot be read ({problem.strerror}). Start a ledger with: "
            f"tallyveil ledger {path} limit --epsilon E"
        ) from None


class OpenLedger:
    """A ledger that is locked for this process."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle
        with os.fdopen(os.dup(handle), "rb") as file:
            file.seek(0)
            self.read = _parsed(path, file.read())

    def refuse_to_spoil(self, key: Ed25519PrivateKey | None) -> None:
        """Refuse to go on without a signature where every line has one: show --public-key would then refuse all."""
        if key is None and self.read.lines and all(line.signed is not None for line in self.read.lines):
            raise InputError(
                f"{self._path}: every line is signed, so an unsigned line would spoil the ledger. Nothing was changed. "
                f"Sign it too: --sign KEY"
            )

    def append(self, content: Mapping[str, Any], key: Ed25519PrivateKey | None = None) -> Line:
        """Add a line and flush it to disk; on failure the ledger is as before."""
        self.refuse_to_spoil(key)
        table = {**content, "line": len(self.read.lines) + 1, "date": today(), "previous": self.read.head}
        if key is not None:
            table["signature"] = key.sign(_line_bytes(table)).hex()
        data = (b"\n" if self.read.unended else b"") + _line_bytes(table) + b"\n"
        try:
            os.ftruncate(self._handle, self.read.size)  # a torn line, that is never part of the chain
            try:
                if os.pwrite(self._handle, data, self.read.size) != len(data):
                    raise OSError(0, "the disk is full")
                os.fsync(self._handle)
                if not self.read.lines:
                    _flush_name(self._path)
            except OSError:
                os.ftruncate(self._handle, self.read.size)
                raise
        except OSError as problem:
            raise InputError(f"{self._path}: cannot be written ({problem.strerror}). Nothing was changed.") from None
        line = _parsed_line(self._path, data.strip(b"\n"), self.read.lines, self.read.head)
        self.read = Lines(path=self._path, lines=(*self.read.lines, line), size=self.read.size + len(data), torn=False)
        return line


@contextmanager
def open_ledger(path: Path, *, create: bool = False) -> Iterator[OpenLedger]:
    """A ledger, locked until the end of the block; other processes wait."""
    if create:
        refuse_inside_release(path)
    try:
        handle = _locked(path, create=create)
    except OSError as problem:
        missing = isinstance(problem, FileNotFoundError) and not create
        start = f" Start a ledger with: tallyveil ledger {path} limit --epsilon E" if missing else ""
        raise InputError(f"{path}: cannot be opened ({problem.strerror}).{start}") from None
    try:
        yield OpenLedger(path, handle)
    finally:
        os.close(handle)


def _locked(path: Path, *, create: bool) -> int:
    """Open and lock the file that has this name now: a line in a file that was replaced meanwhile would be lost."""
    import fcntl

    while True:
        handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:  # removed while we waited: open it again, which fails unless it is to be created
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _flush_name(path: Path) -> None:
    """Flush the name of a new file to disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _parsed(path: Path, data: bytes) -> Lines:
    *whole, rest = data.split(b"\n")
    lines: list[Line] = []
    for raw in whole:
        lines.append(_parsed_line(path, raw, lines, lines[-1].digest if lines else START))
    if rest:  # a line that lost only its line break counts: programs that edit text take it away
        try:
            lines.append(_parsed_line(path, rest, lines, lines[-1].digest if lines else START))
        except InputError:
            return Lines(path=path, lines=tuple(lines), size=len(data) - len(rest), torn=True)
    return Lines(path=path, lines=tuple(lines), size=len(data), torn=False, unended=bool(rest))


def _parsed_line(path: Path, raw: bytes, before: list[Line] | tuple[Line, ...], previous: str) -> Line:
    number = len(before) + 1
    try:
        table = parse_json(raw)
    except InputError:
        table = None
    if not isinstance(table, dict) or _line_bytes(table) != raw:
        raise InputError(f"{path}, line {number}: not a line of a ledger. It was changed; restore a copy.")
    if table.get("previous") != previous or table.get("line") != number:
        raise InputError(
            f"{path}, line {number}: does not follow from line {number - 1}. A line before it was changed, added or "
            f"removed; restore a copy."
        )
    unsigned = {name: value for name, value in table.items() if name != "signature"}
    try:
        signature = bytes.fromhex(table["signature"]) if "signature" in table else None
    except (TypeError, ValueError):
        signature = b""
    return Line(
        number=number,
        content=table,
        digest=sha256(raw).hexdigest(),
        signed=signature,
        unsigned=_line_bytes(unsigned),
    )


def _line_bytes(table: Mapping[str, Any]) -> bytes:
    """A line as it is written: one spelling for equal content."""
    return json.dumps(table, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
