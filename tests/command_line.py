"""The program, run in this process as its entry point runs it."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tallyveil.cli import main

TOWN = """county,block,age,count
1,11,child,1
1,11,adult,8
1,12,child,2
1,12,adult,9
2,21,child,4
2,21,adult,5
2,22,adult,7
"""
TOWN_BOOK = """[geography]
levels = ["county", "block"]
root = "us"
[attributes]
age = ["child", "adult"]
[table]
layout = "long"
count = "count"
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(*words: str) -> Done:
    """Run the program in this process, as its entry point does."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["tallyveil", *words])
        try:
            main()
        except SystemExit as stop:
            return Done(int(stop.code or 0), out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def figures(*words: str) -> dict:
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_town(folder: Path) -> list[str]:
    """Write a town of four blocks, and return the data and its codebook as they are named on the command line."""
    (folder / "town.csv").write_text(TOWN)
    (folder / "town.toml").write_text(TOWN_BOOK)
    return [str(folder / "town.csv"), "--codebook", str(folder / "town.toml")]
