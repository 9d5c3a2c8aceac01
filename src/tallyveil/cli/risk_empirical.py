"""``tallyveil risk empirical``: the epsilon of a single count that would reveal as much as a whole strategy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.risk import EmpiricalRelease
    from tallyveil.risk.budget.empirical_levels import Expected
    from tallyveil.risk.target.target import Target
    from tallyveil.scale.place import ClusterPlace

PARTS = {True: "with_invariants", False: "without_invariants"}  # folders of the runs
KINDS = {"before": "all measurements", "after": "all released answers", "after_cell": "released counts of the cell"}


def empirical(
    data: Annotated[
        Path | None,
        typer.Argument(help="Table of people or counts with at most 200 leaves, to simulate post-processing on."),
    ] = None,
    codebook: Annotated[Path | None, typer.Option(help="TOML file that describes the columns.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="CODE", help="Leaf of the target (with DATA).")] = None,
    cell: Annotated[str | None, typer.Option(metavar="LABEL*LABEL", help="Cell of the target (with DATA).")] = None,
    instead: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL*LABEL", help="Alternative cell (default: the most common other cell in the parent)."
        ),
    ] = None,
    strategy: options.StrategyOrDefault = None,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    facilities: options.FacilitiesFile = None,
    units: options.Units = None,
    invariant: options.Invariants = None,
    prior: options.Priors = None,
    attack: options.AttackName = "characteristics",
    attribute: options.UnknownAttribute = None,
    query: options.UsedQueries = None,
    runs: Annotated[int, typer.Option(help="Number of runs of each hypothesis (with DATA).")] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of the noise. These runs are not for publication.")] = 0,
    workers: options.Workers = None,
    cluster: options.ClusterAddress = None,
    output: options.ResumableFolder = None,
    long: options.Long = False,
    as_json: options.Json = False,
) -> None:
    """Convert what an intruder learns on average back into an epsilon (Kazan & Reiter 2022, section 6).

    The empirical epsilon is that of a single noisy count from which the same intruder would learn as much. It is
    computed for each level and for all levels together, with and without invariants, from the measurements of a
    strategy before post-processing. With DATA, TopDown is also run many times, and the figure after post-processing
    is shown for one target. These are comparisons, not privacy guarantees.

    [bold]Examples[/bold]

      tallyveil risk empirical --strategy pl94-2020-us-persons

      tallyveil risk empirical blocks.csv --codebook blocks.toml --rho 1 --unit 11 --cell adult -o empirical
    """
    from tallyveil.cli.clusters import cluster_place
    from tallyveil.cli.risk_simulate import in_words, target_of
    from tallyveil.cli.simulated_mechanisms import topdown_runs
    from tallyveil.cli.strategies import find_strategy
    from tallyveil.cli.tables import records, write_result
    from tallyveil.files.tables.read import read_counts
    from tallyveil.privacy.calibrate import calibrated
    from tallyveil.risk import Attack, empirical_levels
    from tallyveil.risk.budget.empirical import ASSUMPTIONS
    from tallyveil.risk.budget.empirical_levels import Expected

    of_data = {"--codebook": codebook, "--unit": unit, "--cell": cell, "--instead": instead, "--units": units,
               "--facilities": facilities, "--invariant": invariant, "--cluster": cluster,
               "-o": output}  # fmt: skip
    _check_options(data, of_data, strategy, workers)
    place = cluster_place(cluster, workers=workers)
    priors: list[Any] = list(dict.fromkeys(prior or ["1/2"]))
    asked = Attack(kind=attack, attribute=attribute, queries=query)  # type: ignore[arg-type]
    if data is None:
        plan = calibrated(find_strategy(strategy or "", epsilon=epsilon, rho=rho))
    else:
        people = read_counts(data, codebook or Path(), units=units)
        run = topdown_runs(people, strategy, epsilon, rho, invariant or [], facilities, seed)
        target, plan = target_of(people, run.strategy, unit or "", cell or "", instead), run.strategy
    before, expected = empirical_levels(plan, priors=priors, attack=asked), Expected.of(plan)
    result: dict[str, Any] = {"attack": attack, "expected": expected.as_json(), "before": records(before)}
    found: dict[bool, list[EmpiricalRelease]] = {}
    if data is not None:
        words = in_words(people, target)
        found = _simulated(run, people, target, words, priors=priors, runs=runs, workers=workers, place=place,
                           output=output, long=long)  # fmt: skip
        result |= _simulated_json(words, found)
        write_result(result | {"assumptions": list(ASSUMPTIONS)}, output, "empirical.json")
    result |= {"assumptions": list(ASSUMPTIONS)}
    if as_json:
        options.emit_json(result)
        return
    _show_before(before, expected)
    if data is not None:
        _show_simulated(result["hypotheses"], found)
    _conclude(before, found)


def _check_options(data: Path | None, of_data: dict[str, Any], strategy: str | None, workers: int | None) -> None:
    """Refuse options that are missing or would be ignored."""
    from tallyveil.runs.pool import check_workers

    check_workers(workers)
    if data is not None:
        missing = [name for name in ("--codebook", "--unit", "--cell") if of_data[name] is None]
        if missing:
            raise InputError(f"{data}: a simulation needs {', '.join(missing)} too: whose data, and which target.")
        options.refuse_unless_resumable(of_data["-o"], f"{PARTS[True]}/runs")
        return
    given = [name for name, value in of_data.items() if value is not None]
    if given:
        raise InputError(f"{given[0]} is for a simulation. Give the table of people first: risk empirical DATA ...")
    if strategy is None:
        raise InputError("risk empirical needs a strategy: --strategy S, or DATA to simulate with.")


def _simulated(
    run: TopDownRuns,
    people: Histogram,
    target: Target,
    words: str,
    *,
    priors: list[Any],
    runs: int,
    workers: int | None,
    place: ClusterPlace | None,
    output: Path | None,
    long: bool,
) -> dict[bool, list[EmpiricalRelease]]:
    """The figures after post-processing, with the invariants of the strategy, and without if it has any."""
    from dataclasses import replace

    from tallyveil.cli.risk_simulate import check_hypotheses, execution_of, job_of
    from tallyveil.cli.tables import open_run_store
    from tallyveil.risk import empirical_release
    from tallyveil.risk.budget.empirical_levels import without_invariants
    from tallyveil.risk.simulate.simulated import check_simulation

    check_simulation(people, runs)
    check_hypotheses(run, people, target)
    bare = without_invariants(run.strategy)
    both = {True: run}
    if bare is not run.strategy:
        both[False] = replace(run, strategy=bare, facilities=None)
    found = {}
    for invariants, mechanism in both.items():
        said = PARTS[invariants].replace("_", " ") if len(both) > 1 else "as it is"
        typer.echo(f"simulating topdown, {said}, on {people}\n{words}", err=True)
        folder = None if output is None else output / PARTS[invariants]
        store = open_run_store(folder, job_of(people, mechanism, words, "risk empirical"))
        with execution_of(
            mechanism, people, runs=runs, workers=workers, place=place, store=store, long=long
        ) as execution:
            found[invariants] = empirical_release(
                mechanism, people, target, strategy=mechanism.strategy, priors=priors, runs=runs, execution=execution
            )
    return found


def _simulated_json(words: str, found: dict[bool, list[EmpiricalRelease]]) -> dict[str, Any]:
    from tallyveil.cli.tables import INTERNAL

    rows = [{"invariants": kept, **one.as_json()} for kept, each in found.items() for one in each]
    return {"hypotheses": words, "simulated": rows, "note": INTERNAL}


def _show_before(before: pd.DataFrame, expected: Expected) -> None:
    from tallyveil.cli.tables import print_table

    shown = before.assign(invariants=before.invariants.map({True: "with", False: "without"}))
    headings = {
        "prior": "prior",
        "invariants": "invariants",
        "level": "level",
        "scope": "counts of",
        "counts": "counts",
        "marginal_posterior": "average posterior",
        "implied_epsilon": "implied epsilon",
        "geometric_epsilon": "geometric epsilon",
    }
    print_table(shown, title="empirical epsilon of the measurements, before post-processing", headings=headings)
    typer.echo(
        f"section 6 of kazan2022 expects it between the implied epsilon of the leaf level ({expected.low:.2f}) and "
        f"that of all levels ({expected.high:.2f})"
    )


def _show_simulated(words: str, found: dict[bool, list[EmpiricalRelease]]) -> None:
    import pandas as pd

    from tallyveil.cli.tables import INTERNAL, print_table

    rows = []
    for kept, each in found.items():
        for one in each:
            for name, what in KINDS.items():
                part = getattr(one, name)
                low, high = part.implied_epsilon_low, part.implied_epsilon_high
                rows.append(
                    {
                        "prior": str(one.prior),
                        "invariants": "with" if kept else "without",
                        "seen": what,
                        "posterior": part.marginal_posterior,
                        "epsilon": part.implied_epsilon,
                        "range": "exact" if low is None else f"{low:.2f} to {'-' if high is None else f'{high:.2f}'}",
                    }
                )
    typer.echo(f"\n{INTERNAL}\n")
    print_table(
        pd.DataFrame(rows),
        title=f"{words}; {next(iter(found.values()))[0].runs:,} runs of each hypothesis",
        headings={"prior": "prior", "invariants": "invariants", "seen": "what the intruder sees",
                  "posterior": "average posterior", "epsilon": "implied epsilon",
                  "range": "one standard error"},
    )  # fmt: skip


def _conclude(before: pd.DataFrame, found: dict[bool, list[EmpiricalRelease]]) -> None:
    """The conclusion in a sentence, for the first prior and with invariants."""
    from tallyveil.privacy.sentences import learned_empirically

    whole = before[before.invariants & (before.scope != "alone")].iloc[0]  # the root with all levels below
    value = whole.implied_epsilon
    if found:
        one = found[True][0]
        typer.echo(
            learned_empirically(one.prior, one.before.implied_epsilon, one.after.implied_epsilon, of_levels=False)
        )
        return
    typer.echo(learned_empirically(whole.prior, value, None, of_levels=True))
