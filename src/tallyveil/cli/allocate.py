"""``tallyveil allocate``: shares of the budget for a purpose, or the least budget that meets goals."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.cli.risk_choose import On
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.allocation.result import Allocated
    from tallyveil.cli.allocate_inputs import PublicInputs
    from tallyveil.privacy import Strategy


class ObjectiveName(StrEnum):
    """How errors are combined."""

    sum = "sum"
    geometric = "geometric"


def allocate(
    strategy: Annotated[str, typer.Option(help="Strategy to start from: a preset, or a TOML file.")],
    units: Annotated[
        Path | None, typer.Option(help="Public list of all units, including empty ones, or a release folder.")
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(help="TOML file that describes the columns; not needed for a release folder or a census preset."),
    ] = None,
    goal: Annotated[
        list[str] | None,
        typer.Option(
            help='Goal to meet, such as "total@county within 20 in 95%" or "race@tract: CV under 10% above 500 '
            'people". Can be repeated.'
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY@LEVEL=W",
            help="What the mean squared error of a query at a level counts (default without goals: all alike, relative "
            "to their size). Can be repeated.",
        ),
    ] = None,
    objective: Annotated[
        ObjectiveName | None,
        typer.Option(help="Weighted sum or weighted geometric mean of errors (default with weights: sum)."),
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Epsilon of the strategy, in place of its own budget.")] = None,
    rho: Annotated[str | None, typer.Option(help="Rho of the strategy, in place of its own budget.")] = None,
    risk_bound: Annotated[
        str | None, typer.Option(help="Bound on what an intruder learns from the noisy counts of a leaf.")
    ] = None,
    risk_on: Annotated[On, typer.Option(help="Measure that --risk-bound bounds.")] = On.risk,
    prior: options.Priors = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY[@LEVEL]|all",
            help="Query that may be measured too; those that end near zero are dropped. Can be repeated.",
        ),
    ] = None,
    least: Annotated[
        str | None,
        typer.Option(help="Smallest share of the budget of any level.", show_default="a quarter of an equal share"),
    ] = None,
    estimator: Annotated[
        options.EstimatorName,
        typer.Option(
            help="Estimates whose errors are predicted: tree (least squares over the whole tree) or topdown (a unit's "
            "own measurements and its parent)."
        ),
    ] = options.EstimatorName.tree,
    facilities: options.FacilitiesFile = None,
    public_counts: Annotated[
        Path | None,
        typer.Option(
            help="Counts that you declare public or synthetic: releases of them correct errors for non-negativity."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of such releases at each of two budgets.")] = 4,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="TOML file to write; it must not exist yet.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Choose the shares of a strategy for a purpose, from public inputs alone.

    With weights, shares minimise the weighted sum of predicted mean squared errors at the strategy's budget. With
    goals, the budget is the least that meets them; with both, goals are met at the strategy's budget. Predicted errors
    depend on the units, the names and the noise, not on counts; a table of confidential counts is refused. The result
    says what every level and query gains and loses.

    [bold]Examples[/bold]

      tallyveil allocate --strategy mine.toml --units units.csv --codebook b.toml --weight total@tract=1 -o better.toml

      tallyveil allocate --strategy mine.toml --units units.csv --codebook b.toml --goal "total@county within 20 in 95%"

      tallyveil allocate --strategy pl94-2020-us-persons --units release --risk-bound 1.2 --prior 1/50 --candidates all
    """
    from tallyveil.allocation.allocate import allocate as choose_shares
    from tallyveil.cli.allocate_inputs import read_public_inputs
    from tallyveil.cli.allocate_output import allocated_as_json, show_allocated
    from tallyveil.cli.presets import write_new
    from tallyveil.cli.strategies import find_strategy

    if output is not None and output.exists():
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.")
    plan = find_strategy(strategy, epsilon=epsilon, rho=rho)
    inputs = read_public_inputs(units, codebook, public_counts, plan)
    made = choose_shares(
        inputs.spine,
        inputs.schema,
        plan,
        goals=goal or [],
        objective=None if objective is None else objective.value,
        risk_bound=risk_bound,
        risk_measure=risk_on.value.replace("-", "_"),  # type: ignore[arg-type]
        priors=prior or ["1/2"],
        candidates=candidates or [],
        least=least,
        estimator=estimator.value,
        public_counts=inputs.counts,
        replicates=replicates,
        seed=seed,
        **_settings(inputs, plan, weight, facilities),
    )
    if output is not None:
        write_new(made.to_toml(), output)
    if as_json:
        options.emit_json(allocated_as_json(made) | ({} if output is None else {"file": str(output)}))
        return
    show_allocated(made)
    listed = "" if units is None or units.is_dir() else f" --units {units}"
    _say_next(made, output, f"{codebook or 'CODEBOOK'}{listed}")


def _settings(
    inputs: PublicInputs, plan: Strategy, weight: list[str] | None, facilities: Path | None
) -> dict[str, Any]:
    """The weights and the facilities of the options."""
    from tallyveil.files.release_folder.read_folder import facility_attribute
    from tallyveil.files.tables.side import read_facilities

    weights: dict[str, str] = {}
    for word in weight or []:
        pair, equals, number = word.rpartition("=")
        if not equals:
            raise InputError(f'--weight {word!r}: write it as QUERY@LEVEL=W, such as "total@county=1".')
        if pair in weights:
            raise InputError(f"--weight {pair} is given twice. Give each once.")
        weights[pair] = number
    plan.check(inputs.spine, inputs.schema)
    attribute = facility_attribute(plan)
    table = None
    if facilities is not None:
        if attribute is None:
            raise InputError(f"{facilities}: the strategy has no bounds from facilities. Leave --facilities out.")
        table = read_facilities(
            facilities, inputs.spine, attribute=attribute, types=inputs.schema.attributes[attribute]
        )
    return {"weights": weights or None, "facilities": table}


def _say_next(made: Allocated, output: Path | None, inputs: str) -> None:
    from tallyveil.cli.allocate_output import conclusion

    typer.echo(conclusion(made))
    if output is None:
        typer.echo("Nothing was written. Add -o FILE for a commented strategy file.")
    else:
        typer.echo(f"{output} was written. Use it:")
        typer.echo(f"  tallyveil protect DATA --codebook {inputs} --strategy {output} --plan")
