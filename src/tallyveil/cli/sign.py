"""``tallyveil sign``: vouch for a release's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def sign(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.")],
    key: Annotated[Path, typer.Option(metavar="KEY", help="The private key, made with tallyveil keygen.")],
) -> None:
    """Sign a release's folder, if it holds: certificate.sig is a signature of certificate.json and all that it lists.

    [bold]Examples[/bold]

      tallyveil sign release --key office
    """
    from tallyveil.protection.verify import sign_release

    typer.echo(str(sign_release(folder, key)))
