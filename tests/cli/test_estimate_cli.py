"""``tallyveil estimate``, ``protect --estimates`` and the accuracy in ``protect --plan``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallyveil as tv
from command_line import run as run_program


def run(*words: str, code: int = 0):
    done = run_program(*words)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def release(town, tmp_path):
    folder = tmp_path / "release"
    run("protect", *town, "--rho", "1", "--seed", "3", "--measurements", "all", "--estimates", "-o", str(folder))
    return folder


def test_json_has_the_keys_of_the_contract_and_full_precision(release):
    found = json.loads(run("estimate", str(release), "--query", "total", "--compare", "--json").stdout)
    assert found["information"].startswith("all measurements of all levels")
    row = found["rows"][-1]
    assert set(row) == {"level", "unit", "query", "cell", "estimate", "sd", "low", "high", "published"}
    assert row["cell"] == "total"
    assert row["estimate"] != round(row["estimate"], 3)


def test_estimates_sum_to_the_exact_total_and_the_folder_has_the_same_ones(release):
    found = json.loads(run("estimate", str(release), "--json").stdout)
    rows = pd.DataFrame(found["rows"])
    leaf = tv.read_release(release).histogram.spine.leaf
    totals = rows[(rows["query"] == "total")].groupby("level").estimate.sum()
    assert totals[leaf] == pytest.approx(totals.iloc[-1])
    saved = pd.concat(pd.read_parquet(path) for path in sorted((release / "estimates").glob("*.parquet")))
    keys = ["level", "unit", "query", "cell"]
    both = saved.astype(dict.fromkeys(keys, str)).merge(rows, on=keys, suffixes=("", "_now"))
    assert len(both) == len(rows) == len(saved)
    np.testing.assert_allclose(both.estimate, both.estimate_now, atol=1e-9)
    np.testing.assert_allclose(both.sd, both.sd_now, atol=1e-9)


def test_verify_accepts_the_estimates_and_finds_one_that_was_changed(release):
    assert "those that the saved measurements give" in run("verify", str(release)).stdout
    from tallyveil.files.release_folder.certificate_file import read_certificate, write_certificate
    from tallyveil.files.release_folder.manifest import manifest_of

    path = next((release / "estimates").glob("*.parquet"))
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    values = table.column("estimate").to_numpy().copy()
    values[0] += 1
    pq.write_table(table.set_column(4, "estimate", pa.array(values)), path, compression="zstd")
    certificate = read_certificate(release)
    (release / "certificate.json").unlink()
    write_certificate(
        {name: part for name, part in certificate.items() if name != "files"}, manifest_of(release), release, key=None
    )
    found = run("verify", str(release), code=1)
    assert "but the measurements give" in found.stdout + found.stderr


def test_areas_and_covariances(release, tmp_path):
    spine = tv.read_release(release).histogram.spine
    leaves = spine.labels(spine.leaf)
    table = tmp_path / "areas.csv"
    table.write_text(f"{spine.leaf},area\n{leaves[0]},here\n{leaves[-1]},here\n")
    found = json.loads(
        run("estimate", str(release), "--area", str(table), "--query", "total", "--covariance", "--json").stdout
    )
    assert [row["area"] for row in found["rows"]] == ["here"]
    assert found["covariance"][0][0] == pytest.approx(found["rows"][0]["sd"] ** 2)


def test_a_release_without_measurements_and_a_wrong_file_name_are_refused(town, tmp_path):
    folder = tmp_path / "plain"
    run("protect", *town, "--rho", "1", "--seed", "3", "-o", str(folder))
    assert "no measurements are saved" in run("estimate", str(folder), code=2).stderr
    assert ".csv, .parquet or .json" in run("estimate", str(folder), "-o", "figures.txt", code=2).stderr
    assert "only JSON can hold" in run("estimate", str(folder), "--covariance", code=2).stderr


def test_measurements_of_one_level_give_that_level_and_the_words_say_so(town, tmp_path):
    folder = tmp_path / "some"
    people = tv.read_counts(Path(town[0]), Path(town[2]))
    root = people.spine.levels[0]
    run("protect", *town, "--rho", "1", "--seed", "3", "--measurements", f"detailed@{root}", "-o", str(folder))
    found = json.loads(run("estimate", str(folder), "--level", root, "--json").stdout)
    assert f"all measurements of {root};" in found["information"]
    assert "nothing was saved from" in found["information"]
    assert "does not determine" in run("estimate", str(folder), "--level", people.spine.leaf, code=2).stderr


def test_the_plan_shows_the_accuracy_that_estimates_then_have(town, release):
    plan = json.loads(run("protect", *town, "--rho", "1", "--plan", "--json").stdout)
    rows = pd.DataFrame(plan["accuracy"])
    saved = pd.concat(pd.read_parquet(path) for path in (release / "estimates").glob("*.parquet"))
    for (level, query), group in saved.groupby(["level", "query"], observed=True):
        expected = rows[(rows.level == level) & (rows["query"] == query)].sd.item()
        assert np.sqrt((group.sd**2).mean()) == pytest.approx(expected)


def test_a_finished_release_is_not_written_into(release, tmp_path):
    before = sorted(release.rglob("*"))
    done = run("estimate", str(release), "--query", "total", "-o", str(release / "more.csv"), code=2)
    assert f"is inside the release {release}, which is finished. Name another place." in done.stderr
    done = run("uncertainty", str(release), "--no-write", "-o", str(release / "levels" / "margins"), code=2)
    assert "which is finished" in done.stderr
    assert sorted(release.rglob("*")) == before
    run("estimate", str(release), "--query", "total", "-o", str(tmp_path / "more.csv"))
