"""Run the commands that pages of the manual show, and write down what they print.

A page names the files it needs in a comment (``<!-- files: examples/messy/schools.csv -->``). Its ``console`` blocks
are run in order in one empty folder. Lines that begin with ``$`` are commands, which may go on after a backslash in
lines that begin with ``>``. What follows is what they print, without the lines about progress. A page that is up to
date is not changed; one that shows something else is written again, and the script fails so that it is read and
committed. Numbers may differ a little: another machine may round a few counts otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
FILES = re.compile(r"<!-- files: (.*?) -->")
WIDEST = 100  # characters of a line that fit the page; a terminal folds messages too
PROGRESS = re.compile(r": done after [\d.]+ |re-runs done|kernels")

Execute = Callable[[str, Path], str]


def pages() -> list[Path]:
    """The pages that show commands with what they print."""
    return [
        path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts and BLOCK.search(path.read_text())
    ]


def made(text: str, execute: Execute) -> str:
    """The text of a page with the output of its commands, each run by ``execute`` in the same folder."""
    with tempfile.TemporaryDirectory() as folder:
        for names in FILES.findall(text):
            for name in names.split():
                shutil.copy(DOCS.parent / name, folder)
        return BLOCK.sub(lambda block: f"```console\n{_ran(block[1], execute, Path(folder))}```", text)


def is_shown(text: str, printed: str) -> bool:
    """Whether a page shows what its commands print: the same words, and numbers that differ by little."""
    mine, theirs = words_of(text), words_of(printed)
    return len(mine) == len(theirs) and all(map(_alike, mine, theirs))


def words_of(text: str) -> list[str | float]:
    """The words of a text, numbers and percentages as numbers; sizes of files depend on versions of libraries."""
    text = re.sub(r"[\d.]+ MB", "MB", text)
    number = re.compile(r"[\d,]+%?")
    return [float(w.rstrip("%").replace(",", "")) if number.fullmatch(w) else w for w in text.split()]


def _alike(mine: str | float, theirs: str | float) -> bool:
    if isinstance(mine, str) or isinstance(theirs, str):
        return mine == theirs
    return abs(theirs - mine) <= max(0.2 * abs(mine), 3)


def in_a_shell(command: str, folder: Path) -> str:
    """What a command prints when it is run as a reader would."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "88"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, check=True, **streams)
    return done.stdout


def _ran(block: str, execute: Execute, folder: Path) -> str:
    commands = re.findall(r"^\$ ((?:.*\\\n> )*.*)", block, re.MULTILINE)
    return "".join(f"$ {one}\n{_tidy(execute(one.replace(f'{chr(10)}> ', chr(10)), folder))}" for one in commands)


def _tidy(output: str) -> str:
    """Output without lines about progress or spaces at the ends of lines, folded, and ending in one line break."""
    kept = (line.rstrip() for line in output.splitlines() if not PROGRESS.search(line))
    text = "\n".join(part for line in kept for part in _folded(line)).strip("\n")
    return f"{text}\n" if text else ""


def _folded(line: str) -> list[str]:
    """A message in lines that fit the page; lines of tables, of CSV and of comments in files stay as they are."""
    is_message = len(line) > WIDEST and not re.search(r"\S  +\S|^#|\S,\S.*\S,\S", line)
    return textwrap.wrap(line, WIDEST, break_long_words=False, break_on_hyphens=False) if is_message else [line]


def main() -> str | None:
    """Bring all pages up to date; returns what to do about those that were not."""
    changed = []
    for path in pages():
        shown = path.read_text()
        if not is_shown(shown, printed := made(shown, in_a_shell)):
            path.write_text(printed)
            changed.append(str(path.relative_to(DOCS.parent)))
    return f"{', '.join(changed)}: written again. Read what the commands print now, and commit it." if changed else None


if __name__ == "__main__":
    sys.exit(main())
