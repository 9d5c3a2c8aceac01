"""``tallyveil keygen``: a pair of keys to sign releases with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keygen(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="KEY", help="The private key to write; KEY.pub goes beside it.")
    ],
) -> None:
    """Make a pair of keys (Ed25519): KEY signs releases and stays secret, KEY.pub checks the signatures.

    [bold]Examples[/bold]

      tallyveil keygen -o office
    """
    from tallyveil.files.release_folder.signing import write_key_pair

    public = write_key_pair(output)
    typer.echo(f"{output}: the private key. Whoever reads it can sign in your name; keep it, and never publish it.")
    typer.echo(f"{public}: the public key. Publish it apart from the releases, where readers already trust you.")
