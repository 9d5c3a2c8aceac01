"""The program, run in this process as its entry point runs it."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from tallyveil.cli import main


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
