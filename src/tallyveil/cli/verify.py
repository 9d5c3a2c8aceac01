"""``tallyveil verify``: check a release's folder again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a release's folder: sums, bounds, invariants, budget and certificate. Exit code 1 if something fails.

    [bold]Examples[/bold]

      tallyveil verify release

      tallyveil verify release --json
    """
    from tallyveil.files.verify import verify_release

    findings = verify_release(folder)
    holds = all(finding.state != "fails" for finding in findings)
    if as_json:
        listed = [finding.as_json() for finding in findings]
        typer.echo(json.dumps({"holds": holds, "findings": listed}, indent=2, ensure_ascii=False))
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            typer.echo(f"{finding.state:<9}  {finding.check:<{width}}  {finding.detail}")
    raise typer.Exit(0 if holds else 1)
