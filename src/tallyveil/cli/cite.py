"""``tallyveil cite``: the sources of the methods, as BibTeX."""

from __future__ import annotations

from importlib.resources import files

import typer


def cite() -> None:
    """Print BibTeX for the methods that tallyveil implements, and for tallyveil.

    [bold]Example[/bold]

      tallyveil cite > methods.bib
    """
    typer.echo(files("tallyveil").joinpath("methods.bib").read_text(encoding="utf-8").rstrip())
