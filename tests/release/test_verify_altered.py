"""No folder that was altered in one file passes; with a signature, none that was altered in all of them together."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from folders import edit, edit_certificate, failing, holds, reseal
from small_release import small_noisy, solved_release
from tallyveil import sign_release
from tallyveil.files import write_release
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.files.release_folder.signing import write_key_pair

Alteration = tuple[str, Callable[[Path], None]]


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> tuple[Path, Path, Path]:
    """Two releases of the same people with all measurements, the first one signed, and the public key."""
    place = tmp_path_factory.mktemp("two")
    write_key_pair(place / "office")
    for name, seed in (("a", 7), ("b", 8)):
        noisy = small_noisy(seed=seed, epsilon=4)
        write_release(solved_release(noisy), place / name, measurements=measured_pairs(noisy.strategy), noisy=noisy)
    return place / "a", place / "b", place / "office.pub"


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def leaves(value, path=()) -> Iterator[tuple]:
    """The paths to all values of a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
    else:
        for key, one in items:
            yield from leaves(one, (*path, key))


def changed(path: tuple) -> Callable[[dict], None]:
    """Change one value of a certificate."""

    def change(certificate):
        place = certificate
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        place[path[-1]] = not old if isinstance(old, bool) else f"{old}0" if isinstance(old, str) else (old or 0) + 1

    return change


def flipped(name: str, rng: np.random.Generator) -> Callable[[Path], None]:
    def alter(folder):
        data = bytearray((folder / name).read_bytes())
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        (folder / name).write_bytes(data)

    return alter


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def as_link(name: str) -> Callable[[Path], None]:
    def alter(folder):
        elsewhere = folder.with_name(f"{folder.name}.moved")
        shutil.move(folder / name, elsewhere)
        (folder / name).symlink_to(elsewhere)

    return alter


def as_pipe(name: str) -> Callable[[Path], None]:
    def alter(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return alter


def as_folder(name: str) -> Callable[[Path], None]:
    def alter(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return alter


def added(name: str, data: bytes = b"county,count\n01,37\n") -> Callable[[Path], None]:
    def alter(folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return alter


def noted(name: str) -> Callable[[Path], None]:
    def alter(folder):
        table = pyarrow.parquet.read_table(folder / name)
        pyarrow.parquet.write_table(table.replace_schema_metadata({"truth": "37"}), folder / name, compression="zstd")

    return alter


def alterations(one: Path, other: Path, rng: np.random.Generator, *, flips: int) -> Iterator[Alteration]:
    """Every kind of change to one file."""
    files = names(one)
    tables = [name for name in files if name.endswith(".parquet")]
    texts = [name for name in files if not name.endswith(".parquet")]
    for i in range(flips):
        name = files[i % len(files)]
        yield f"flip {name}", flipped(name, rng)
    for name in files:
        yield f"remove {name}", lambda folder, name=name: (folder / name).unlink()
        yield f"empty {name}", rewritten(name, lambda _: b"")
        yield f"cut {name}", rewritten(name, lambda data: data[: len(data) // 2])
        yield f"append {name}", rewritten(name, lambda data: data + b"\n")
        yield f"link {name}", as_link(name)
        if (other / name).read_bytes() != (one / name).read_bytes():
            yield f"swap {name}", lambda folder, name=name: shutil.copy(other / name, folder / name) and None
    for name in files[::5]:
        yield f"pipe {name}", as_pipe(name)
        yield f"folder {name}", as_folder(name)
    for name in tables:
        yield f"column {name}", lambda folder, name=name: edit(folder / name, lambda t: t.assign(true_count=37))
        yield f"note {name}", noted(name)
        yield f"rows {name}", lambda folder, name=name: edit(folder / name, lambda t: t.iloc[:-1])
    for name in (name for name in tables if name.startswith("measurements")):
        yield (
            f"zero {name}",
            lambda folder, name=name: edit(folder / name, lambda t: t.assign(value=t["value"] * 0 + 1)),
        )
    for name in texts:
        yield f"comment {name}", rewritten(name, lambda data: data + b"# <!-- truth -->\n")
        yield f"case {name}", rewritten(name, lambda data: data.replace(b"e", b"E", 1))
    for name in ("truth.csv", "levels/truth.csv", "measurements/truth.csv", ".hidden", "more/truth.csv", "levels/x/y"):
        yield f"add {name}", added(name)
    for name in ("measurements/spine.parquet", "source.toml", "certificate.sig", "measurements/us/total.parquet"):
        yield f"add {name}", added(name)
    yield "page epsilon", rewritten("certificate.html", lambda data: data.replace(b"4.00", b"0.01"))
    yield (
        "page script",
        rewritten("certificate.html", lambda data: data.replace(b"</body>", b"<script></script></body>")),
    )
    certificate = json.loads((one / "certificate.json").read_text())
    paths = list(leaves(certificate))
    for at in rng.choice(len(paths), size=60, replace=False):
        yield f"certificate {paths[at]}", lambda folder, at=at: edit_certificate(folder, changed(paths[at]))


def altered(one: Path, place: Path, alter: Callable[[Path], None]) -> Path:
    folder = Path(shutil.copytree(one, place))
    alter(folder)
    return folder


def some_of_each_kind(cases: list[Alteration], rng: np.random.Generator) -> list[Alteration]:
    """A third of the cases of every kind, at least two; the slow test below has all of them."""
    kinds = {name.split()[0]: [] for name, _ in cases}
    for case in cases:
        kinds[case[0].split()[0]].append(case)
    chosen = [(some, rng.permutation(len(some))[: max(2, len(some) // 3)]) for some in kinds.values()]
    return [some[at] for some, places in chosen for at in places]


def test_no_folder_altered_in_one_file_passes(releases, tmp_path):
    one, other, _ = releases
    assert holds(one)
    assert holds(other)
    rng = np.random.default_rng(1)
    cases = some_of_each_kind(list(alterations(one, other, rng, flips=25)), rng)
    assert len(cases) > 80
    passed = [name for i, (name, alter) in enumerate(cases) if holds(altered(one, tmp_path / str(i), alter))]
    assert passed == []


@pytest.mark.slow
def test_no_folder_with_flipped_bits_passes(releases, tmp_path):
    one, other, _ = releases
    rng = np.random.default_rng(2)
    for i, (name, alter) in enumerate(alterations(one, other, rng, flips=2000)):
        folder = altered(one, tmp_path / str(i), alter)
        assert not holds(folder), name
        shutil.rmtree(folder)


def coordinated(one: Path, other: Path, rng: np.random.Generator, *, flips: int) -> Iterator[Alteration]:
    """Changes after which page and list of files are made anew, as whoever holds the folder can."""
    files = [name for name in names(one) if name not in ("certificate.json", "certificate.sig")]
    for i in range(flips):
        yield f"flip {files[i % len(files)]}", flipped(files[i % len(files)], rng)
    for name in files:
        if (other / name).read_bytes() != (one / name).read_bytes():
            yield f"swap {name}", lambda folder, name=name: shutil.copy(other / name, folder / name) and None
        yield f"remove {name}", lambda folder, name=name: (folder / name).unlink()


def test_with_a_signature_no_coordinated_alteration_passes(releases, tmp_path):
    one, other, public = releases
    signed = Path(shutil.copytree(one, tmp_path / "signed"))
    sign_release(signed, public.with_suffix(""))
    assert holds(signed, public_key=public)
    cases = list(coordinated(one, other, np.random.default_rng(3), flips=30))
    assert len(cases) > 60
    for i, (name, alter) in enumerate(cases):
        folder = altered(signed, tmp_path / str(i), alter)
        reseal(folder)
        assert "signature" in failing(folder, public_key=public), name


def test_with_a_signature_not_even_another_release_that_holds_passes(releases, tmp_path):
    one, other, public = releases
    sign_release(Path(shutil.copytree(one, tmp_path / "signed")), public.with_suffix(""))
    folder = Path(shutil.copytree(other, tmp_path / "other"))
    shutil.copy(tmp_path / "signed" / "certificate.sig", folder)
    assert holds(folder)  # without the key nobody can tell
    assert failing(folder, public_key=public) == {
        "signature": "certificate.sig is not the signature of this certificate.json by this key"
    }


def test_a_coordinated_change_of_what_nothing_else_gives_passes_without_a_signature(releases, tmp_path):
    folder = Path(shutil.copytree(releases[0], tmp_path / "r"))

    def add_margins(table):
        table.insert(list(table.columns).index("total") + 1, "total_moe90", 3)
        return table

    edit(folder / "levels" / "us.parquet", add_margins)
    assert not holds(folder)
    reseal(folder)
    assert holds(folder)  # as the manual says: sign what you publish
