"""``tallyveil sign``: sign a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli import options


def sign(
    folder: options.ReleaseFolder,
    key: Annotated[Path, typer.Option(metavar="KEY", help="Private key, made with tallyveil keygen.")],
) -> None:
    """Verify a release folder and sign it: certificate.sig signs certificate.json and every file that it lists.

    [bold]Examples[/bold]

      tallyveil sign release --key office
    """
    from tallyveil.protection.verify import sign_release

    signature = sign_release(folder, key)
    typer.echo(str(signature))
    typer.echo(
        f"The folder is signed. Readers check it with: tallyveil verify {folder} --public-key {key}.pub", err=True
    )
