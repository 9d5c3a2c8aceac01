"""``tallyveil verify``: check a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli import options

if TYPE_CHECKING:
    from tallyveil.files.release_folder.findings import Finding

STATES = {True: "holds", False: "fails", None: "unchecked"}


def verify(
    folder: options.ReleaseFolder,
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="KEY.pub", help="Public key of the signer. A folder that is not signed with it fails."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a release folder: its files, sums, bounds, invariants, budget and certificate. Exit code 1 if one fails.

    [bold]Examples[/bold]

      tallyveil verify release

      tallyveil verify release --public-key office.pub --json
    """
    from tallyveil.protection.verify import verify_release

    findings = verify_release(folder, public_key)
    holds = all(finding.holds is not False for finding in findings)
    if as_json:
        checks = [finding.as_json() for finding in findings]
        options.emit_json({"holds": holds, "checks": checks})
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            typer.echo(f"{STATES[finding.holds]:<9}  {finding.name:<{width}}  {finding.words}")
        typer.echo(conclusion(findings))
    raise typer.Exit(0 if holds else 1)


def conclusion(findings: list[Finding]) -> str:
    """A summary of the findings in one sentence."""
    failing = [finding.name for finding in findings if finding.holds is False]
    unchecked = [finding.name for finding in findings if finding.holds is None]
    if failing:
        return f"Do not trust this folder: {', '.join(failing)} {'fails' if len(failing) == 1 else 'fail'}."
    done = len(findings) - len(unchecked)
    signed = "is signed with this key and " if any(f.name == "signature" and f.holds for f in findings) else ""
    names = " and ".join(filter(None, (", ".join(unchecked[:-1]), *unchecked[-1:])))
    rest = f"; {names} {'was' if len(unchecked) == 1 else 'were'} not checked" if unchecked else ""
    return f"The folder {signed}passes {done} checks{rest}."
