"""``tallyveil compile``, and the marker that says whether it is needed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tallyveil.cli.main import app
from tallyveil.engine import kernels
from tallyveil.protection import kernel_jobs


def test_kernels_that_are_compiled_are_not_compiled_again(monkeypatch, tmp_path):
    marker = tmp_path / "kernels-1.compiled"
    marker.touch()
    monkeypatch.setattr(kernels, "_marker", lambda: marker)
    monkeypatch.setattr(kernels, "JOBS", ("no-such-job",))
    outcome = CliRunner().invoke(app, ["compile"])
    assert outcome.exit_code == 0
    assert "already" in outcome.stderr


def test_a_changed_source_makes_the_kernels_stale(monkeypatch, tmp_path):
    (tmp_path / "part.py").write_text("from tallyveil._compiled import part")
    (tmp_path / "other.py").write_text("a = 1")
    index = tmp_path / "kernel.nbi"
    index.touch()
    monkeypatch.setattr(kernels, "_PACKAGE", tmp_path)
    before = kernels._marker()
    os.utime(tmp_path / "other.py", ns=(1, 1))
    assert kernels._marker() == before
    os.utime(tmp_path / "part.py", ns=(1, 1))
    assert kernels._marker() != before
    assert not kernels.kernels_are_compiled()
    kernels.forget_stale_kernels()
    assert not index.exists()


def test_what_a_kernel_uses_is_defined_in_a_file_whose_change_makes_it_stale():
    package = Path(kernels.__file__).parent.parent
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in kernels.kernel_sources(package)}
    defined = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): {
            name.id for top in tree.body for name in ast.walk(top) if isinstance(getattr(name, "ctx", None), ast.Store)
            and isinstance(name, ast.Name)
        } | {top.name for top in tree.body if isinstance(top, ast.FunctionDef | ast.ClassDef)}
        for path, tree in trees.items()
    }  # fmt: skip
    seen = 0
    for path, tree in trees.items():
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is not None]
        origin = {alias.name: node.module for node in imports for alias in node.names}
        for function in (top for top in tree.body if isinstance(top, ast.FunctionDef)):
            decorators = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
            if "tallyveil._compiled" in {origin.get(name) for name in decorators}:
                for used in {
                    name.id for body in function.body for name in ast.walk(body) if isinstance(name, ast.Name)
                }:
                    if origin.get(used, "").startswith("tallyveil."):
                        seen += 1
                        assert used in defined.get(origin[used], ()), f"{path.name}: {used} of {function.name}"
    assert seen > 50


def test_every_job_is_known_by_its_name():
    assert tuple(kernel_jobs._JOBS) == kernels.JOBS


def test_a_job_that_fails_leaves_no_marker(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "_PACKAGE", tmp_path)  # no kernels to forget
    monkeypatch.setattr(kernels, "_marker", lambda: tmp_path / "kernels-1.compiled")
    monkeypatch.setattr(kernels, "JOBS", ("no-such-job",))
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


@pytest.mark.slow
def test_the_process_that_finds_no_kernels_makes_the_bytes_that_later_ones_make(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    script = """
import sys, tallyveil as tv
census = tv.populations.census_2020(persons=3_000_000, seed=5)
release = tv.protect(census, tv.Strategy.preset("pl94-2020-us-persons"), seed=1)
sys.stdout.buffer.write(b"".join(release.histogram.leaves.canonical_bytes()))
"""
    first, later = (
        subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout
        for _ in range(2)
    )
    assert first == later
