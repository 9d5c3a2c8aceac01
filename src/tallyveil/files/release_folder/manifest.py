"""The list of files in a certificate with their SHA-256, and a folder that is read by this list.

Each file is opened once. Its digest is computed first, and a file whose digest is not the listed one is never parsed.
Symbolic links are not followed, and only regular files are opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from tallyveil.errors import InputError, one_line
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import CERTIFICATE, SIGNATURE
from tallyveil.release.canonical import MANIFEST, parse_canonical
from tallyveil.release.certificate import FIELDS, check_identifier

UNLISTED = (CERTIFICATE, SIGNATURE)  # the certificate cannot list itself, and its signature comes after it
LARGEST_TEXT = 1 << 28  # bytes of a certificate or TOML file
HELD = 1 << 20  # largest size in bytes of a file that is held in memory; larger files stay open


def manifest_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in a folder, by its relative path, except the certificate and its signature."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: sha256_of(path) for name, path in sorted(paths.items()) if name not in UNLISTED}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def listed_files(certificate: Mapping[str, Any]) -> dict[str, str]:
    """The list of files in a certificate."""
    listed = certificate.get(MANIFEST)
    if not isinstance(listed, Mapping):
        raise BrokenError(f"{CERTIFICATE} has no list of files")
    for name, digest in listed.items():
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise BrokenError(f"{CERTIFICATE}, {MANIFEST} {name}: {digest!r} is not a SHA-256")
    return dict(listed)


@dataclass(frozen=True, eq=False)
class Sealed:
    """A folder, its files opened and compared with the list in its certificate.

    Attributes
    ----------
    files
        The regular files, by their paths in the folder.
    odd
        Paths that are neither regular files nor folders with files in them, and what they are.
    certificate
        The bytes of ``certificate.json``, or why they cannot be read.
    """

    place: Path
    files: frozenset[str]
    odd: Mapping[str, str]
    certificate: bytes | str
    _open: dict[str, BinaryIO]
    _why: dict[str, str]

    def read(self, name: str) -> BinaryIO:
        """A file that matches the certificate, at its beginning."""
        if name not in self._open:
            raise UncheckedError(f"{name}: {self._why.get(name, 'missing')}")
        file = self._open[name]
        file.seek(0)
        return file

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        return self.read(name).seek(0, os.SEEK_END)

    def text(self, name: str) -> str:
        """A small file as text."""
        data = self.read(name).read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise BrokenError(f"{name}: larger than {LARGEST_TEXT:,} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise BrokenError(f"{name}: not UTF-8 text") from None

    def parsed(self) -> dict[str, Any]:
        """The certificate: canonical JSON with exactly the expected parts."""
        if isinstance(self.certificate, str):
            raise BrokenError(f"{CERTIFICATE}: {self.certificate}")
        try:
            certificate = parse_canonical(self.certificate)
        except InputError as problem:
            raise BrokenError(f"{CERTIFICATE}: {problem}") from None
        if not isinstance(certificate, dict):
            raise BrokenError(f"{CERTIFICATE}: not a certificate. It has the fields declared and observed")
        fields = (*FIELDS, MANIFEST)
        missing = [name for name in ("declared", "observed", MANIFEST) if not isinstance(certificate.get(name), dict)]
        if missing:
            raise BrokenError(f"{CERTIFICATE} has no {missing[0]} part")
        unknown = [name for name in certificate if name not in fields]
        if unknown:
            raise BrokenError(f"{CERTIFICATE}: unknown field {unknown[0]!r}")
        if "measurement" not in certificate:
            raise BrokenError(f"{CERTIFICATE} has no measurement field")
        try:
            check_identifier(certificate["measurement"])
        except InputError as problem:
            raise BrokenError(str(problem)) from None
        return certificate

    def match(self, listed: Mapping[str, str]) -> str:
        """Compare every file with its digest; afterwards the matching files can be read."""
        for name in sorted(self.files.intersection(listed)):
            self._why[name] = _mismatch(self._open, self.place / name, name, listed[name])
        wrong = [f"{name} {why}" for name, why in self._why.items() if why]
        wrong += [f"{name} is listed but missing" for name in sorted(set(listed) - self.files)]
        wrong += [f"{name} is not listed" for name in sorted(self.files.difference(listed, UNLISTED))]
        if wrong:
            raise BrokenError("; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""))
        return f"{len(listed)} files have the SHA-256 that {CERTIFICATE} lists"


@contextmanager
def sealed(folder: Path) -> Iterator[Sealed]:
    """A folder whose files can be read after they were compared with its certificate."""
    files, odd = _walk(folder)
    handles: dict[str, BinaryIO] = {}
    with ExitStack() as stack:
        stack.callback(lambda: [file.close() for file in handles.values()])
        certificate = _bytes_of(folder / CERTIFICATE) if CERTIFICATE in files else odd.get(CERTIFICATE, "missing")
        yield Sealed(folder, frozenset(files), odd, certificate, handles, {})


def regular_file(path: Path) -> BinaryIO:
    """Open a regular file, without following links or blocking on anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "not a regular file")
    return os.fdopen(handle, "rb")


def _walk(folder: Path) -> tuple[set[str], dict[str, str]]:
    """The regular files in a folder and its subfolders, and everything that is neither file nor folder."""
    files: set[str] = set()
    odd: dict[str, str] = {}
    waiting, folders = [folder], []
    while waiting:
        here = waiting.pop()
        name = here.relative_to(folder).as_posix()
        try:
            entries = list(os.scandir(here))
        except OSError as problem:
            odd[name] = f"cannot be listed ({problem.strerror})"
            continue
        if here != folder:
            folders.append(name)
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink():
                odd[path.relative_to(folder).as_posix()] = "a symbolic link"
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                files.add(path.relative_to(folder).as_posix())
            else:
                odd[path.relative_to(folder).as_posix()] = "neither a file nor a folder"
    filled = {parent.as_posix() for file in files for parent in PurePosixPath(file).parents}
    return files, odd | {name: "a folder without files" for name in folders if name not in filled}


def _bytes_of(path: Path) -> bytes | str:
    try:
        with regular_file(path) as file:
            data = file.read(LARGEST_TEXT + 1)
    except OSError as problem:
        return f"cannot be read ({problem.strerror})"
    return data if len(data) <= LARGEST_TEXT else f"larger than {LARGEST_TEXT:,} bytes"


def _mismatch(handles: dict[str, BinaryIO], path: Path, name: str, digest: str) -> str:
    """Open a file and compare it with its digest. Keep it for reading if it matches; otherwise return what is wrong."""
    try:
        file = regular_file(path)
        data = file.read(HELD + 1)
        if len(data) <= HELD:
            file.close()
            kept: BinaryIO = BytesIO(data)
            right = sha256(data).hexdigest() == digest
        else:
            file.seek(0)
            kept = file
            right = file_digest(file, "sha256").hexdigest() == digest  # type: ignore[arg-type]
    except OSError as problem:
        return f"cannot be read ({problem.strerror})"
    if right:
        handles[name] = kept
        return ""
    kept.close()
    return "is not the file that the certificate lists"


def abbreviated(names: list[str], most: int = 5) -> str:
    """The first names of a list, and how many more there are.

    >>> abbreviated(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    some = ", ".join(map(one_line, names[:most]))
    return some if len(names) <= most else f"{some} and {len(names) - most:,} more"
