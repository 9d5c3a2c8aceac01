"""Folders of arrays or frames by name, for work that can be resumed: each file appears complete or not at all.

A folder records the job it was made for, so that results of two jobs are never mixed.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.files.atomic import is_unfinished, remove_unfinished, replacing

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram

JOB = "job.json"
T = TypeVar("T")


def job_folder(folder: str | PathLike[str], job: Mapping[str, Any]) -> Path:
    """The folder of a job, made if it does not exist. A folder of another job, or with other contents, is refused."""
    place = Path(folder)
    wanted = json.loads(json.dumps(dict(job)))  # as it will be read again
    try:
        place.mkdir(parents=True, exist_ok=True)
        others = any(not is_unfinished(path) for path in place.iterdir())
    except OSError as problem:
        raise InputError(f"{place}: cannot be used ({problem.strerror}). Name another folder.") from None
    if (place / JOB).exists():
        _refuse_another(place / JOB, wanted)
        remove_unfinished(place)
    elif others:
        raise InputError(f"{place}: not empty, and it holds no work to resume (no {JOB}). Name a new folder.")
    else:
        with replacing(place / JOB) as file:
            file.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return place


def input_digest(people: Histogram, facilities: Facilities | None) -> dict[str, str]:
    """What must be the same when interrupted work is resumed: people, facilities, and the version of the program.

    The digest is computed from the truth, so it belongs only into folders that are internal.
    """
    from tallyveil import __version__

    digest = sha256()
    for piece in people.canonical_bytes():
        digest.update(piece)
    for piece in () if facilities is None else facilities.leaves.canonical_bytes():
        digest.update(piece)
    return {"people": digest.hexdigest()[:16], "tallyveil": __version__}


def _refuse_another(file: Path, wanted: dict[str, Any]) -> None:
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        there = None
    if not isinstance(there, dict):
        raise InputError(f"{file}: not readable. Name a new folder.")
    differ = [key for key in dict.fromkeys((*there, *wanted)) if there.get(key) != wanted.get(key)]
    if differ:
        changes = "; ".join(f"{key} was {there.get(key)!r}, is now {wanted.get(key)!r}" for key in differ)
        raise InputError(f"{file.parent}: made for another job ({changes}). Use the same settings or a new folder.")


class _Store(MutableMapping[str, T]):
    """Values in a folder, one file each, made for one job.

    Parameters
    ----------
    folder
        Made if it does not exist. A folder of another job, or with other contents, is refused.
    job
        The settings that must be the same whenever the folder is used, as JSON values.
    """

    ending: ClassVar[str]

    @abstractmethod
    def _read(self, file: Path) -> T:
        """The value in a file."""

    @abstractmethod
    def _write(self, value: T, file: Path) -> None:
        """Write a value to a file."""

    def __init__(self, folder: str | PathLike[str], *, job: Mapping[str, Any]) -> None:
        self.folder = job_folder(folder, job)

    def __getitem__(self, key: str) -> T:
        file = self._file(key)
        if not file.exists():
            raise KeyError(key)
        try:
            return self._read(file)
        except (OSError, ValueError, EOFError):
            raise InputError(f"{file}: not readable. Delete it; its part of the work is done again.") from None

    def __setitem__(self, key: str, value: T) -> None:
        with replacing(self._file(key)) as temporary:
            self._write(value, temporary)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._file(key).unlink()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._file(key).exists()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(file.stem for file in self.folder.glob(f"[!.]*.{self.ending}")))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _file(self, key: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", key):
            raise InputError(f"{key!r} cannot name a file of {self.folder}. Use letters, digits, - and _.")
        return self.folder / f"{key}.{self.ending}"


@final
class FolderStore(_Store[NDArray[Any]]):
    """Arrays in a folder, one ``.npy`` file each, made for one job.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     FolderStore(place + "/runs", job={"seed": 1})["a"] = np.arange(3)
    ...     FolderStore(place + "/runs", job={"seed": 1})["a"].tolist()
    [0, 1, 2]
    """

    ending = "npy"

    def _read(self, file: Path) -> NDArray[Any]:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
        return array

    def _write(self, value: NDArray[Any], file: Path) -> None:
        with file.open("wb") as out:
            np.save(out, value, allow_pickle=False)


@final
class FrameStore(_Store["pd.DataFrame"]):
    """Frames in a folder, one ``.parquet`` file each, made for one job."""

    ending = "parquet"

    def _read(self, file: Path) -> pd.DataFrame:
        import pandas as pd

        return pd.read_parquet(file)

    def _write(self, value: pd.DataFrame, file: Path) -> None:
        value.to_parquet(file, index=False)
