"""Write docs/reference/cli.md from the commands, with the same text as their --help."""

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
    """Return the whole page."""
    top = "# Command line\n\nMade by `make docs` from the commands themselves; do not edit.\n"
    return "\n".join([top, *(section(words, command) for words, command in commands("tallyveil", get_command(app)))])


def commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    if command.invoke_without_command:
        yield words, command
    given = [part.metavar for part in command.params if part.param_type_name == "argument"]
    for name, subcommand in inner.items():
        yield from commands(" ".join([words, *given, name]), papers_command() if name == "reproduce" else subcommand)


def papers_command() -> Any:
    """Return the command of tallyveil-papers, which the program itself only loads through an entry point."""
    from tallyveil_papers.command import reproduce

    papers = Typer(add_completion=False)
    papers.command("reproduce")(reproduce)
    return get_command(papers)


def section(words: str, command: Any) -> str:
    """Describe one command: its help with examples, then its arguments and options."""
    text = plain(re.sub(r"\[/?bold\]", "**", command.help or ""))
    text = re.sub(r"^[ \t]+tallyveil ", "    tallyveil ", text, flags=re.MULTILINE)
    shown = [p for p in command.params if p.name != "help"]
    rows = [f"| `{', '.join(names(p))}` | {plain(getattr(p, 'help', None) or '')} |" for p in shown]
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows]) if rows else ""
    return f"## {words}\n\n{text.strip()}\n\n{table}".rstrip() + "\n"


def plain(text: str) -> str:
    """Return help without the backslashes that keep rich from reading brackets as markup."""
    return text.replace(r"\[", "[")


def names(parameter: Any) -> list[str]:
    """Return the names of an option as typed, or that of an argument in capitals."""
    return parameter.opts if parameter.opts[0].startswith("-") else [parameter.name.upper()]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
