"""Write docs/reference/cli.md from the commands themselves: the same words as their --help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Typer
from typer.main import get_command

from tallyveil.cli.main import app

PAGE = Path(__file__).parent / "reference" / "cli.md"


def page() -> str:
    """The whole page."""
    top = "# Command line\n\nMade by `make docs` from the commands themselves; do not edit.\n"
    return "\n".join([top, *(section(words, command) for words, command in commands("tallyveil", get_command(app)))])


def commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    if command.invoke_without_command:
        yield words, command
    for name, one in inner.items():
        yield from commands(f"{words} {name}", papers_command() if name == "reproduce" else one)


def papers_command() -> Any:
    """The command that tallyveil-papers adds; in the program itself there is only a way to it."""
    from tallyveil_papers.command import reproduce

    papers = Typer(add_completion=False)
    papers.command("reproduce")(reproduce)
    return get_command(papers)


def section(words: str, command: Any) -> str:
    """One command: what it does, its arguments and options, examples."""
    text = re.sub(r"\[/?bold\]", "**", command.help or "")
    text = re.sub(r"^[ \t]+tallyveil ", "    tallyveil ", text, flags=re.MULTILINE)
    rows = [f"| `{', '.join(names(p))}` | {getattr(p, 'help', '')} |" for p in command.params if p.name != "help"]
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows]) if rows else ""
    return f"## {words}\n\n{text.strip()}\n\n{table}".rstrip() + "\n"


def names(parameter: Any) -> list[str]:
    """An option as typed, or an argument in capitals."""
    return parameter.opts if parameter.opts[0].startswith("-") else [parameter.name.upper()]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
