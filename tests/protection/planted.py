"""People with distinctive counts and a known key, and a search for both in anything that a run leaves."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from small_release import small_people
from tallyveil import Counts, Histogram

PLANTED = 48_271_963  # persons of one cell, with so much noise that it is certainly not released
KEY = sha256(b"planted").digest()
RHO = "1/10000000000"


def planted_people() -> Histogram:
    people = small_people()
    table = people.leaves.dense()
    table[[0, 1, 3, 5], 3] = PLANTED + np.array([0, 1_000_001, 2_000_003, 3_000_017])
    return Histogram(spine=people.spine, schema=people.schema, leaves=Counts.from_dense(table))


def planted_key(folder: Path) -> Path:
    file = folder / "key"
    file.write_text(KEY.hex())
    file.chmod(0o600)
    return file


def needles(people: Histogram, key: bytes = KEY) -> list[bytes]:
    """Every large count of the truth but the total of all people, and the key, as they might be written."""
    tables = [people.at(level).dense() for level in people.spine.levels[1:]]
    counts = {int(c) for table in tables for c in [*table.ravel(), *table.sum(1)] if c > 1000}
    words = np.frombuffer(key, "<u4")
    return [form for c in counts for form in _forms(c)] + [
        key, key[::-1], key.hex().encode(), key.hex().upper().encode(), words.astype(">u4").tobytes(),
        ", ".join(map(str, words)).encode(), repr(list(key)).encode(),
    ]  # fmt: skip


def _forms(count: int) -> list[bytes]:
    numbers = [count.to_bytes(4, "little"), count.to_bytes(4, "big")]  # also the end or the start of longer ones
    return [str(count).encode(), f"{count:,}".encode(), *numbers, np.float64(count).tobytes()]


def found_in(data: bytes | str, hidden: list[bytes]) -> list[bytes]:
    data = data if isinstance(data, bytes) else data.encode()
    return [needle for needle in hidden if needle in data]


def leaks(folder: Path, hidden: list[bytes], *, inputs: tuple[str, ...] = ()) -> list[str]:
    """The files below a folder that have a needle in their name, bytes or numbers; inputs are not searched."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in inputs]
    assert files
    return [str(path) for path in files if any(found_in(data, hidden) for data in [path.name, *_contents(path)])]


def _contents(path: Path) -> list[bytes]:
    """The bytes of a file; and of a table, which is compressed, its numbers."""
    data = path.read_bytes()
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":  # a file that is being written has no end
        return [data]
    table = pd.read_parquet(path)
    numbers = table.select_dtypes("number").fillna(0).to_numpy(np.float64)
    whole = np.clip(numbers, -(2**31), 2**31 - 1).astype("<i4")
    return [data, table.to_csv().encode(), numbers.tobytes(), whole.tobytes()]
