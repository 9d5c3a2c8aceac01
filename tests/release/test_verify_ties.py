"""Ties of rounding follow the identifier that the certificate states, so verify computes the same release."""

import shutil

import numpy as np
import pytest

import tallyveil as tv
from folders import failing, reseal, unchecked
from tallyveil.files.release_folder.measurement_files import measured_pairs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of totals, in which nearly every parent is a tie, with all its measurements."""
    codes = [(f"{p:02d}", f"{p:02d}{c}") for p in range(30) for c in range(4)]
    spine = tv.Spine.from_columns(dict(zip(("town", "block"), zip(*codes, strict=True), strict=True)), root="us")
    table = np.random.default_rng(1).poisson(20, (len(codes), 1))
    people = tv.Histogram(spine=spine, schema=tv.Schema(attributes={}), leaves=tv.Counts.from_dense(table))
    plan = tv.Strategy.default(spine, people.schema, epsilon=1)
    pairs = measured_pairs(plan)
    release = tv.protect(people, plan, seed=3, measurements=pairs)
    place = tmp_path_factory.mktemp("made") / "release"
    tv.write_release(release, place, measurements=pairs, noisy=release.measurements)
    return place


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "release")


def test_verify_breaks_ties_as_the_run_did(folder):
    assert failing(folder) == {}
    assert "post-processing" not in unchecked(folder)


def test_another_identifier_gives_other_counts_and_is_found(folder):
    reseal(folder, lambda certificate: certificate.update(measurement=32 * "a"), render=True)
    assert list(failing(folder)) == ["post-processing"]


def test_a_folder_of_a_version_with_other_ties_holds_and_what_was_not_checked_is_said(folder):
    def older(certificate):
        certificate.update(measurement=32 * "a")  # this version gives other counts for it
        certificate["declared"]["versions"]["tallyveil"] = "0.1.0"

    reseal(folder, older)
    assert failing(folder) == {}
    assert unchecked(folder)["post-processing"].startswith("made with tallyveil 0.1.0 (here ")
