"""``tallyveil reproduce``: a command of the distribution tallyveil-papers, found by its entry point."""

from __future__ import annotations

import typer

from tallyveil.errors import InputError


def reproduce(context: typer.Context) -> None:
    """Recompute every table and figure of the four papers, and compare them with the published ones on one page.

    This command comes with tallyveil-papers.
    """
    from importlib.metadata import entry_points

    found = entry_points(group="tallyveil.commands", name="reproduce")
    if not found:
        raise InputError(
            "reproduce comes with the distribution tallyveil-papers, which is not installed. "
            "In a clone of the repository: pip install ./papers"
        )
    (entry,) = found
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command("reproduce", context_settings={"help_option_names": ["-h", "--help"]})(entry.load())
    code = typer.main.get_command(app).main(context.args, prog_name="tallyveil reproduce", standalone_mode=False)
    raise typer.Exit(code or 0)
