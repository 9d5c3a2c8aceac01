"""Coordinated changes of an unsigned folder that can be seen all the same, and what a newcomer is told."""

import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from folders import failing, holds, reseal
from small_release import SOURCE, small_noisy, small_release
from tallyveil.errors import InputError
from tallyveil.files import codebook_from_toml, write_release
from tallyveil.files.release_folder.signing import read_signing_key, write_key_pair
from tallyveil.files.release_folder.strict_tables import checked_table
from tallyveil.files.tables.write import write_table
from tallyveil.privacy import Bound
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("made") / "release"
    write_release(small_release(), place, noisy=small_noisy(), source=codebook_from_toml(SOURCE))
    return place


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "release"))


def test_a_certificate_cannot_escape_its_figures_by_declaring_an_optimised_spine(folder):
    assert holds(folder)

    def claim(certificate):
        declared = certificate["declared"]
        units = dict.fromkeys(declared["spine"], 1)
        declared["measured_on"] = {"units": units, "shaped_by": [], "words": "Measured on an optimised spine."}
        declared["guarantee"]["epsilon"] = 0.01

    reseal(folder, claim, render=True)
    assert failing(folder)["measured spine"] == (
        "measurements/spine.parquet is missing, though the certificate declares an optimised spine"
    )


@pytest.mark.parametrize("name", ["release.parquet", "spine.parquet", "levels/tract.parquet"])
def test_bytes_that_belong_to_no_column_are_found(folder, name):
    path = folder / name
    data = path.read_bytes()
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    path.write_bytes(data[:footer] + b"tract,true_count\n" + data[footer:])
    reseal(folder)
    assert any("bytes that belong to none of them" in words for words in failing(folder).values())


class _Folder:
    """A folder with one file in it, not compared with any list."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, _name):
        return BytesIO(self.path.read_bytes())

    def size(self, _name):
        return self.path.stat().st_size


@pytest.mark.parametrize("pieces", [[0], [3], [3, 0, 70_000]])
def test_tables_of_no_rows_and_of_several_pieces_hold_nothing_but_their_columns(tmp_path, pieces):
    tables = [pa.table({"count": pa.array(range(size), pa.int64())}) for size in pieces]
    write_table(tables, tmp_path / "t.parquet")
    table = checked_table(_Folder(tmp_path / "t.parquet"), "t.parquet", tables[0].schema)
    assert table.rows == sum(pieces)


def test_a_source_with_other_levels_is_found(folder):
    source = folder / "source.toml"
    source.write_text(source.read_text().replace('"tract"', '"hamlet"'))
    reseal(folder)
    assert failing(folder)["source"] == "source.toml has other levels than codebook.toml"


def test_accounting_for_a_release_names_pinned_values_and_the_constraints_of_its_neighbours(folder):
    strategy = strategy_from_toml((folder / "strategy.toml").read_text())
    bounds = [Bound(query="total", level="tract", most=500), Bound(query="age", level="us", least=7, most=7)]
    (folder / "strategy.toml").write_text(strategy_to_toml(replace(strategy, constraints=bounds)))
    reseal(folder)
    words = _run("account", "--release", str(folder)).stdout
    assert "  outside the guarantee: age in every us: every row exactly 7\n" in words
    assert "  for neighbours that satisfy: total in every tract: at most 500\n" in words
    assert "no such folder" in _run("account", "--release", str(folder / "nowhere")).stderr


def test_a_public_key_given_to_sign_with_is_called_by_its_name(tmp_path):
    public = write_key_pair(tmp_path / "office")
    with pytest.raises(InputError, match=r"office.pub: a public key, which cannot sign. Give the private one"):
        read_signing_key(public)


def test_missing_fields_of_a_strategy_are_all_named():
    with pytest.raises(InputError, match=r"fields 'levels', 'queries' are missing. Start from a complete strategy"):
        strategy_from_toml('mechanism = "geometric"\nepsilon = "1"')
    with pytest.raises(InputError, match=r"field 'queries' is missing"):
        strategy_from_toml('mechanism = "geometric"\nepsilon = "1"\n[levels]\nus = 1')


def _run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "tallyveil", *words], capture_output=True, text=True, check=False)
