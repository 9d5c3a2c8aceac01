"""The source of randomness: the key of a run, from which the streams of its measurements are derived.

A run has one key, from the operating system, a key file or, for research, a seed. Each measurement has its own stream,
whose key is derived (HKDF) from the key of the run and a keyed digest of what is measured. The same measurement
therefore always gets the same noise, and any other measurement gets independent noise.

Security is that of ChaCha20: computational, not information-theoretic. Keys are never printed, stored or pickled.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tallyveil.errors import InputError
from tallyveil.privacy.stream_words import Secret, Stream

LEAST_DISTINCT = 8  # distinct bytes of a key; a key with fewer was typed by hand, not generated


@final
class RunKey(Secret):
    """The key of a run. Anyone who has it can remove the noise.

    >>> RunKey.from_system()
    <RunKey: secret>
    """

    __slots__ = ("_bytes", "_file", "seeded")

    def __init__(self, key: bytes, *, seeded: bool = False, file: Path | None = None) -> None:
        if len(key) != 32:
            raise InputError(f"a run key must have 32 bytes. Got {len(key)} instead.")
        if len(set(key)) < LEAST_DISTINCT:  # of random keys, fewer than one in 10^24
            raise InputError(
                f"a run key with {len(set(key))} distinct bytes is not random. Name a new key file to create one."
            )
        self._bytes, self._file, self.seeded = key, file, seeded

    @property
    def repeatable(self) -> bool:
        """Whether the key can be used again, because it is in a file or comes from a seed."""
        return self.seeded or self._file is not None

    @classmethod
    def from_system(cls) -> RunKey:
        """Return a new key from the random generator of the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: int) -> RunKey:
        """Derive a key from a seed, as anyone who knows the seed can: for research, never for publication."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 or seed.bit_length() > 1024:
            small = not isinstance(seed, int) or seed.bit_length() <= 1024  # Python does not write thousands of digits
            raise InputError(
                f"a seed is a whole number, 0 or more and below 2^1024. Got {repr(seed) if small else 'another'}."
            )
        return cls(_derived(str(seed).encode(), b"tallyveil seed"), seeded=True)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> RunKey:
        """Read the key from a file with mode 0600 (readable by its owner only). A missing file gets a new key."""
        file = Path(path)
        if not file.exists():
            _write_new(file, secrets.token_bytes(32).hex() + "\n")
        if not file.is_file():  # beside a pipe, there is no place for what binds the key to its people
            raise InputError(f"{file}: a folder, pipe or device, not a key file. Name a file.")
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            raise InputError(f"{file}: others may read this key file (mode {mode:04o}). Run: chmod 600 {file}")
        try:
            key = bytes.fromhex(file.read_text().strip())
        except (ValueError, UnicodeDecodeError):
            key = b""
        if len(key) != 32:
            raise InputError(f"{file}: not a key file (64 hexadecimal digits). Name a new file to make one.")
        try:
            return cls(key, file=file)
        except InputError as problem:
            raise problem.located(file) from None

    def people(self, counted: Iterable[bytes]) -> bytes:
        """Return the keyed digest of the measured people. A key file is bound to the first people it is used on.

        The same people always get the same noise. A key used on two versions of a dataset would therefore reveal
        exactly whether any record changed: either all noise is the same, or none is. For this reason a key file belongs
        to one set of people. A digest of them, which reveals nothing without the key, is stored next to it
        (``<key file>.bound``), and any other people are refused.
        """
        digest = _digest(_derived(self._bytes, b"tallyveil digest"), counted)
        if self._file is not None:
            self._bind(self._file, hmac.digest(_derived(self._bytes, b"tallyveil bound"), digest, "sha256").hex())
        return digest

    def _bind(self, file: Path, bound: str) -> None:
        file = file.resolve()  # a key has one binding, whichever link names it
        beside = file.with_name(f"{file.name}.bound")
        try:
            if not beside.exists():
                _write_new(beside, f"{bound}\n")
            known = beside.read_text(errors="replace").strip()
        except OSError as problem:
            raise InputError(f"{beside}: cannot be read or made ({problem.strerror}). Name another key file.") from None
        if not hmac.compare_digest(known.encode(), bound.encode()):
            raise InputError(
                f"{file}: this key was first used on other people or another list of units or filter (see "
                f"{beside.name}). Used on two versions of the data, it would reveal exactly whether a record changed. "
                f"Name a new key file: the release then costs its own budget."
            )

    def stream(self, measured: Iterable[bytes]) -> Stream:
        """Return the stream of a measurement, which is identified by pieces of bytes (see ``_digest``)."""
        digest = _digest(_derived(self._bytes, b"tallyveil digest"), measured)
        return Stream(_derived(self._bytes, b"tallyveil stream" + digest))

    def seal(self, job: Mapping[str, Iterable[bytes]]) -> Seal:
        """Return the seal of a job's stored work. The job is everything that the work depends on, part by part."""
        digests = {part: _digest(_derived(self._bytes, b"tallyveil job"), pieces) for part, pieces in job.items()}
        whole = b"".join(digests[part] for part in sorted(digests))
        return Seal(_derived(self._bytes, b"tallyveil seal" + whole), {part: d.hex() for part, d in digests.items()})


@final
class Seal(Secret):
    """Shows that stored work was made with one key for one job, and was not changed since.

    ``job`` has a keyed digest of each part of the job, which reveals nothing without the key.
    """

    __slots__ = ("_key", "job")

    def __init__(self, key: bytes, job: dict[str, str]) -> None:
        self._key, self.job = key, job

    def mark(self, name: str, content: bytes) -> bytes:
        """Return the 32 bytes to store with a content: only the key can compute them, for this name and content."""
        return _digest(self._key, [name.encode(), content])

    def holds(self, name: str, content: bytes, mark: bytes) -> bool:
        """Whether a content is the one that was marked under this name."""
        return hmac.compare_digest(self.mark(name, content), mark)


def _digest(key: bytes, pieces: Iterable[bytes]) -> bytes:
    """Return the keyed digest of pieces of bytes. It depends on where a piece ends, not only on their concatenation."""
    digest = hmac.new(key, digestmod=sha256)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.digest()


def _write_new(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all. An existing file is kept.

    Where the system can write a file that has no name yet, a process that is killed leaves no copy of a key behind.
    """
    with suppress(FileExistsError):
        try:
            handle = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except (AttributeError, OSError):  # another system, or a file system without such files
            _write_beside(path, text)
            return
        with os.fdopen(handle, "w") as out:
            _write_out(out, text)
            try:
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
            except FileExistsError:
                raise
            except OSError:  # no /proc
                _write_beside(path, text)


def _write_beside(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as out:
            _write_out(out, text)
        _name(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_out(file: IO[str], text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def _name(temporary: str, path: Path) -> None:
    """Give a finished file its name unless that is taken; rename it if the file system has no hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(temporary, path)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)
