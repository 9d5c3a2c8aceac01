"""``tallyveil risk``: what an intruder who knows everybody in a unit but one person learns from its noisy count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import (
    options,
    risk_attribute,
    risk_choose,
    risk_curve,
    risk_empirical,
    risk_invert,
    risk_scan,
    risk_simulate,
)
from tallyveil.cli.noises import count_noise
from tallyveil.cli.options import Json, emit_json
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.privacy import DiscreteGaussian, Geometric
    from tallyveil.risk import Intruder, Several

MOST_SIBLINGS = 100_000
LABELS = {
    "posterior": "probability that the target has the characteristics, given the released count",
    "ratio": "that over the prior",
    "marginal_posterior": "probability that the target has them, averaged over the released count",
    "risk": "that over the prior",
    "threshold": "smallest released count at which the intruder claims it",
    "right_decision": "how often a target who has the characteristics is rightly claimed",
    "tie": "how often both answers are equally probable",
}
HIERARCHY = {
    "posterior": "given the released counts of the unit, the unit above and the siblings' sum",
    "upper_posterior": "probability of 0, 1, 2, ... people with the characteristics above",
    "right_decision": "rightly claimed, with the count above and the siblings' sum",
    "gain": "wrong without the hierarchy, right with it",
    "loss": "right without the hierarchy, wrong with it",
    "tie": "how often both answers are equally probable",
    "truncation": "probability left out of the sums",
}

DECISION = ("right_decision", "gain", "loss", "tie", "truncation", "draws", "right_decision_se", "gain_se", "loss_se",
            "tie_se")  # fmt: skip


app = typer.Typer(invoke_without_command=True, no_args_is_help=True)
app.command("scan")(risk_scan.scan)
app.command("choose")(risk_choose.choose)
app.command("attribute")(risk_attribute.attribute)
app.command("curve")(risk_curve.curve)
app.command("empirical")(risk_empirical.empirical)
app.command("invert")(risk_invert.invert)
app.command("simulate")(risk_simulate.simulate)


@app.callback()
def risk(
    context: typer.Context,
    prior: Annotated[
        str | None, typer.Option(help="Prior probability that the target has the characteristics.")
    ] = None,
    mechanism: Annotated[
        options.CountMechanism, typer.Option(help="Noise of the count.")
    ] = options.CountMechanism.gaussian,
    rho: Annotated[str | None, typer.Option(help="Rho of the Gaussian noise, whose variance is 1/(2 rho).")] = None,
    variance: Annotated[str | None, typer.Option(help="Variance of the Gaussian noise, instead of rho.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon of the geometric noise, with ratio exp(-epsilon).")
    ] = None,
    known: Annotated[int, typer.Option(help="Number of other people in the unit with the characteristics.")] = 0,
    released: Annotated[int | None, typer.Option(help="Released noisy count of the unit.")] = None,
    upper_rho: Annotated[str | None, typer.Option(help="Rho of the unit above, with variance 1/(2 rho).")] = None,
    siblings: Annotated[int | None, typer.Option(help="Number of other units in the unit above.")] = None,
    upper_count: Annotated[
        int | None, typer.Option(help="True count of the unit above, including the target, without --unknown people.")
    ] = None,
    upper_released: Annotated[int | None, typer.Option(help="Released noisy count of the unit above.")] = None,
    siblings_released: Annotated[int | None, typer.Option(help="Sum of the siblings' released noisy counts.")] = None,
    siblings_prior: Annotated[
        str,
        typer.Option(
            metavar="PRIOR",
            help="Prior on how many people of the siblings have the characteristics: flat, poisson:MEAN, "
            "negative-binomial:MEAN:VARIANCE, at-most:COUNT, or binomial:UNKNOWN:SHARE:KNOWN for siblings of whom all "
            "but some are known.",
        ),
    ] = "flat",
    unknown: options.UnknownPeople = 0,
    share: options.UnknownShare = None,
    as_json: Json = False,
) -> None:
    """Measure what an intruder who knows everyone in a unit but one person learns from its count (Kazan & Reiter 2022).

    [bold]Examples[/bold]

      tallyveil risk --rho 0.099 --prior 1/2 --released 2

      tallyveil risk --mechanism geometric --epsilon 0.5 --prior 1/5

      tallyveil risk --rho 0.099 --prior 1/2 --upper-rho 0.2465 --siblings 27 --upper-count 1

      tallyveil risk --rho 0.099 --prior 1/2 --unknown 10 --share 1/20

      tallyveil risk --rho 0.099 --prior 1/2 --unknown 3 --upper-rho 0.2465 --siblings 27 --upper-count 1
    """
    from tallyveil.risk import Intruder, Several

    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    if prior is None:
        raise InputError("an intruder needs a prior: --prior P, such as 1/2.")
    noise = count_noise(mechanism, rho=rho, variance=variance, epsilon=epsilon)
    intruder = Intruder(prior=prior, known=known)
    several = Several(intruder=intruder, others=unknown, share=share)
    if share is not None and not unknown:
        raise InputError("--share is that of unknown people. Give their number too: --unknown N.")
    result: dict[str, Any] = (several if unknown else intruder).against(noise).as_json(released)
    above = {"upper_count": upper_count, "upper_released": upper_released, "siblings_released": siblings_released}
    if upper_rho is not None or siblings is not None or any(value is not None for value in above.values()):
        result["hierarchy"] = _hierarchy(
            several, noise, upper_rho, siblings, released, prior=_siblings_prior(siblings_prior), **above
        )
    elif siblings_prior != "flat":
        raise InputError("--siblings-prior is for a unit above. Give --upper-rho R and --siblings D too.")
    if as_json:
        emit_json(result)
        return
    _show(result, intruder, unknown, siblings_prior)


def _siblings_prior(text: str) -> Any:
    """The prior on the siblings' count; None for a flat one."""
    from tallyveil.risk import priors

    kind, *numbers = text.split(":")
    makers: dict[str, tuple[int, Any]] = {
        "flat": (0, lambda: None),
        "poisson": (1, lambda mean: priors.Poisson(mean=float(mean))),
        "negative-binomial": (
            2,
            lambda mean, variance: priors.NegativeBinomial(mean=float(mean), variance=float(variance)),
        ),
        "at-most": (1, lambda count: priors.AtMost(count=int(count))),
        "binomial": (
            3,
            lambda unknown, share, known: priors.Binomial(unknown=int(unknown), share=share, known=int(known)),
        ),
    }
    wanted, make = makers.get(kind, (-1, None))
    if len(numbers) == wanted:
        try:
            return make(*numbers)
        except ValueError:
            pass
    raise InputError(
        f"--siblings-prior {text!r}: write flat, poisson:MEAN, negative-binomial:MEAN:VARIANCE, at-most:COUNT or "
        "binomial:UNKNOWN:SHARE:KNOWN."
    )


def _refuse_options(context: typer.Context) -> None:
    """Refuse options in front of a subcommand, since they would be ignored."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if given:
        option, command = given[0].replace("_", "-"), context.invoked_subcommand
        raise InputError(f"--{option} before {command} would be ignored. Put it behind: tallyveil risk {command} ...")


def _hierarchy(
    intruder: Several,
    noise: Geometric | DiscreteGaussian,
    upper_rho: str | None,
    siblings: int | None,
    released: int | None,
    *,
    prior: Any,
    upper_count: int | None,
    upper_released: int | None,
    siblings_released: int | None,
) -> dict[str, Any]:
    """What the unit above adds: expected figures for a true count, or the posterior given released counts."""
    from tallyveil.privacy import DiscreteGaussian
    from tallyveil.privacy.budget import exact
    from tallyveil.risk.above.hierarchy import Hierarchy
    from tallyveil.risk.above.levels import Above

    if upper_rho is None or siblings is None:
        raise InputError("a unit above needs --upper-rho R and --siblings D.")
    if not 1 <= siblings <= MOST_SIBLINGS:
        raise InputError(f"--siblings must be from 1 to {MOST_SIBLINGS:,}. Got {siblings:,} instead.")
    upper = DiscreteGaussian(variance=1 / (2 * exact(upper_rho, "upper-rho")))
    two = Hierarchy(
        intruder=intruder, noise=noise, above=[Above(noise=upper, siblings=[noise] * siblings, prior=prior)]
    )
    result: dict[str, Any] = {}
    if upper_count is not None:
        decision = two.decision([upper_count])
        result = {name: getattr(decision, name) for name in DECISION}
    if upper_released is not None and siblings_released is not None and released is not None:
        result["posterior"] = two.posterior(released, [(upper_released, siblings_released)])
        result["upper_posterior"] = two.above_posterior(released, [(upper_released, siblings_released)]).tolist()
    elif upper_released is not None or siblings_released is not None:
        raise InputError("all three released counts are needed: --released, --upper-released and --siblings-released.")
    if not result:
        raise InputError("give the counts above: --upper-count C, or --upper-released X with --siblings-released Y.")
    return result


def _show(result: dict[str, Any], intruder: Intruder, unknown: int, siblings_prior: str) -> None:
    from tallyveil.cli.tables import with_error

    def line(name: str, value: Any, label: str, error: float | None = None) -> None:
        listed = isinstance(value, list)
        shown = " ".join(f"{p:.4f}" for p in value if p >= 5e-5) if listed else with_error(value, error)
        typer.echo(f"{name:<19} {shown:>8}  {label}")

    others = f", {unknown} unknown besides the target" if unknown else ""
    figures = "figures are exact unless they are marked as drawn"
    typer.echo(f"prior {intruder.prior}, {intruder.known} known{others}; {figures}\n")
    for name, label in LABELS.items():
        if name in result:
            never = name == "threshold" and result[name] is None
            always = math.isclose(result["right_decision"], 1.0)
            words = f"{'always' if always else 'never'} claims it" if never else label
            line(name, result[name], words)
    if "hierarchy" in result:
        prior = f"{siblings_prior} prior on their count"
        typer.echo(f"\nwith the unit above (an intruder who uses the siblings' sum only; {prior})\n")
        upper = result["hierarchy"]
        for name, label in HIERARCHY.items():
            if name in upper:
                line(name, upper[name], label, upper.get(f"{name}_se"))
        if upper.get("draws"):
            typer.echo(f"\ndrawn: from {upper['draws']:,} sets of released counts; +- is one standard error")
        elif "draws" in upper:
            typer.echo("\nexact: summed over all released counts, apart from the truncation")
    claimed = f"rightly claims {result['right_decision']:.0%} of the targets who have the characteristics"
    typer.echo(f"\nAn intruder with a prior of {intruder.prior} {claimed}, judging by this count alone.")
