"""``tallyveil compile``, and the marker that says whether it is needed."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tallyveil.cli.main import app
from tallyveil.protection import kernels


def test_kernels_that_are_compiled_are_not_compiled_again(monkeypatch, tmp_path):
    marker = tmp_path / "kernels-1.compiled"
    marker.touch()
    monkeypatch.setattr(kernels, "_marker", lambda: marker)
    monkeypatch.setattr(kernels, "JOBS", {"no-such-job": None})
    outcome = CliRunner().invoke(app, ["compile"])
    assert outcome.exit_code == 0
    assert "already" in outcome.stderr


def test_a_changed_source_makes_the_kernels_stale(monkeypatch, tmp_path):
    (tmp_path / "part.py").write_text("a = 1")
    index = tmp_path / "kernel.nbi"
    index.touch()
    monkeypatch.setattr(kernels, "_PACKAGE", tmp_path)
    before = kernels._marker()
    assert kernels._marker() == before
    os.utime(tmp_path / "part.py", ns=(1, 1))
    assert kernels._marker() != before
    assert not kernels.kernels_are_compiled()
    kernels.forget_stale_kernels()
    assert not index.exists()


def test_a_job_that_fails_leaves_no_marker(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "_PACKAGE", tmp_path)  # no kernels to forget
    monkeypatch.setattr(kernels, "_marker", lambda: tmp_path / "kernels-1.compiled")
    monkeypatch.setattr(kernels, "JOBS", {"no-such-job": None})
    assert not kernels.compile_kernels()
    assert not kernels.kernels_are_compiled()


@pytest.mark.slow
def test_after_compiling_protect_finds_every_large_kernel_in_the_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tallyveil", "compile"]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "kept for later runs" in outcome.stderr
    script = """
import tallyveil as tv
from tallyveil.engine.estimate.reductions import solve_nests
from tallyveil.engine.rounding.by_flow import round_by_flow
from tallyveil.privacy.stream_words import _first_words
census = tv.populations.census_1940(persons=2000, seed=1)
tv.protect(census, tv.Strategy.preset("e2e-2018", epsilon=1), seed=1)
assert not (solve_nests.stats.cache_misses or round_by_flow.stats.cache_misses or _first_words.stats.cache_misses)
"""
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
