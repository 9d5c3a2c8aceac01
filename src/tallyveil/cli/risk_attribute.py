"""``tallyveil risk attribute``: what noisy counts reveal about an unknown attribute of one target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.cli.noises import count_noise
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.risk import Attribute

HEADINGS = {
    "value": "true value",
    "prior": "prior",
    "marginal_posterior": "average posterior",
    "risk": "risk R",
    "right_decision": "right decision",
    "tie": "tie",
}


def attribute(
    value: Annotated[
        list[str],
        typer.Option(metavar="NAME=PRIOR", help="Possible value and its prior, for example hispanic=1/5. Repeat it."),
    ],
    mechanism: Annotated[
        options.CountMechanism, typer.Option(help="Noise of each value's count.")
    ] = options.CountMechanism.gaussian,
    rho: Annotated[str | None, typer.Option(help="Rho of the Gaussian noise, whose variance is 1/(2 rho).")] = None,
    variance: Annotated[str | None, typer.Option(help="Variance of the Gaussian noise, instead of rho.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon of the geometric noise, with ratio exp(-epsilon).")
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COUNT", help="Number of others with a value (default: 0). Can be repeated."),
    ] = None,
    released: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COUNT", help="Released noisy count of a value; give all of them or none."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure what an intruder learns about an unknown attribute of a target (Kazan & Reiter 2022, Eq. 37).

    The intruder knows everything about the people of a unit except one attribute of the target, so the target is
    counted in one of two or more cells, each with its own noisy count.

    [bold]Examples[/bold]

      tallyveil risk attribute --value hispanic=1/5 --value other=4/5 --rho 0.099

      tallyveil risk attribute --value a=1/2 --value b=1/2 --rho 0.099 --released a=2 --released b=0
    """
    from tallyveil.risk import Attribute

    noise = count_noise(mechanism, rho=rho, variance=variance, epsilon=epsilon)
    priors = _named(value, "--value")
    others = dict.fromkeys(priors, 0) | _counts(known, priors, "--known")
    if min(others.values()) < 0:
        raise InputError("--known is the number of others with a value, 0 or more.")
    unknown = Attribute(priors=priors, noises=noise, known=others)
    seen = _counts(released, priors, "--released")
    if seen and set(seen) != set(priors):
        missing = next(name for name in priors if name not in seen)
        raise InputError(f"--released is missing for {missing!r}. Give the released count of every value.")
    result: dict[str, Any] = {"values": [_figures(unknown, name, prior) for name, prior in priors.items()]}
    if seen:
        result["posterior"] = {name: float(p) for name, p in unknown.posterior(seen).items()}
    if as_json:
        options.emit_json(result)
        return
    _show(result)


def _figures(unknown: Attribute, name: str, prior: str) -> dict[str, Any]:
    figures = {figure: getattr(unknown, figure)(name) for figure in list(HEADINGS)[2:]}
    return {"value": name, "prior": prior} | figures


def _named(words: list[str] | None, option: str) -> dict[str, str]:
    """The entries of NAME=..., each name once."""
    found: dict[str, str] = {}
    for word in words or []:
        name, sign, text = word.rpartition("=")
        if not sign or not name or not text:
            raise InputError(f"{option} {word!r}: write it as NAME=NUMBER.")
        if name in found:
            raise InputError(f"{option}: {name!r} is given twice. Give it once.")
        found[name] = text
    return found


def _counts(words: list[str] | None, values: dict[str, str], option: str) -> dict[str, int]:
    """The counts of NAME=COUNT, for values that exist."""
    counts = {}
    for name, text in _named(words, option).items():
        if name not in values:
            raise InputError(f"{option}: {name!r} is none of the values {', '.join(values)}.")
        try:
            counts[name] = int(text)
        except ValueError:
            raise InputError(f"{option} {name}={text}: give a whole number.") from None
    return counts


def _show(result: dict[str, Any]) -> None:
    import pandas as pd

    from tallyveil.cli.tables import print_table

    print_table(pd.DataFrame(result["values"]), title="what the counts reveal, by true value", headings=HEADINGS)
    if "posterior" in result:
        likely = max(result["posterior"], key=result["posterior"].get)
        listed = ", ".join(f"{name} {p:.4f}" for name, p in result["posterior"].items())
        typer.echo(f"given the released counts: {listed}\nThe most probable value is {likely}.")
        return
    most = max(result["values"], key=lambda row: row["risk"])
    typer.echo(f"The value at most risk is {most['value']}: {most['risk']:.3g} times its prior on average.")
