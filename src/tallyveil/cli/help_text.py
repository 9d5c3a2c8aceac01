"""Help texts for terminals of any width: paragraphs become single lines, which the terminal breaks."""

from __future__ import annotations

import inspect

import typer


def unwrap_help(app: typer.Typer) -> None:
    """Give every command of an app, and of the apps in it, a help text whose paragraphs are single lines."""
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback)
        command.help = None if text is None else unwrapped(text)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap_help(group.typer_instance)


def unwrapped(text: str) -> str:
    r"""A text with the lines of each paragraph joined; indented lines (examples) and lists are kept as they are.

    >>> unwrapped("Protect counts\nof people.\n\n  tallyveil protect a.csv\n  tallyveil protect b.csv")
    'Protect counts of people.\n\n  tallyveil protect a.csv\n  tallyveil protect b.csv'
    """
    lines: list[str] = []
    for line in text.splitlines():
        goes_on = bool(lines) and _is_prose(lines[-1]) and _is_prose(line)
        lines[-1:] = [f"{lines[-1]} {line}"] if goes_on else [*lines[-1:], line]
    return "\n".join(lines)


def _is_prose(line: str) -> bool:
    return bool(line.strip()) and not line.startswith((" ", "-", "*", "\b"))
