"""``tallyveil keygen``: a pair of keys to sign releases with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keygen(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="KEY", help="File for the private key; the public key is written to KEY.pub."
        ),
    ],
) -> None:
    """Make a pair of Ed25519 keys: KEY signs releases and must stay secret, KEY.pub verifies the signatures.

    [bold]Examples[/bold]

      tallyveil keygen -o office
    """
    from tallyveil.files.release_folder.signing import write_key_pair

    public = write_key_pair(output)
    typer.echo(f"{output}: the private key. Anyone who has it can sign in your name; keep it secret.")
    typer.echo(f"{public}: the public key. Publish it separately from the releases, in a place that readers trust.")
