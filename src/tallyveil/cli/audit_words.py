"""The result of an audit on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tallyveil.evaluate.audit.pairs_result import AuditSearch
    from tallyveil.evaluate.audit.result import Audit, EventBound


def show_audit(result: Audit | AuditSearch) -> None:
    """Print the bound, the event that shows it, and how it compares with the proven epsilon."""
    from tallyveil.evaluate.audit.result import Audit

    if isinstance(result, Audit):
        lines = _lines(result, f"{result.runs:,} runs on each, half to choose the event")
    else:
        _show_pairs(result)
        tested = f"{result.test_runs:,} runs on each that took no part in the selection"
        lines = {"pair": result.pair, **_lines(result.audit, tested)}
    for name, text in lines.items():
        typer.echo(f"{name:<12}{text}")


def _show_pairs(result: AuditSearch) -> None:
    """Print how the pairs looked when one of them was selected, the selected one first, and what was left out."""
    import pandas as pd

    from tallyveil.cli.tables import print_table

    order = sorted(result.pairs, key=lambda pair: (-pair.rounds, -pair.selection_bound))
    frame = pd.DataFrame(
        [{"pair": pair.pair, "rounds": pair.rounds, "runs": pair.selection_runs, "bound": pair.selection_bound}
         for pair in order]
    )  # fmt: skip
    headings = {"pair": "pair", "rounds": "rounds", "runs": "runs", "bound": "looks like"}
    print_table(
        frame, title="Pairs of neighbours: cautious lower bounds on the runs of the selection", headings=headings
    )
    for kind in result.left_out:
        typer.echo(f"left out: {kind.pair}: {kind.reason}")
    if result.left_out:
        typer.echo("")


def _lines(result: Audit, tested: str) -> dict[str, str]:
    """The lines of the result by their headings."""
    from tallyveil.privacy.sentences import at_delta, at_least, proven

    sure = f"with {100 * result.confidence:g}% confidence"
    lines = {
        "neighbours": result.neighbours,
        "epsilon": f"{at_least(result.epsilon_low)}, {sure} ({tested}){at_delta(result.delta or None)}",
        "event": _event(result.bound),
        "one count": _line(result.one_unit),
        "several": _line(result.joint),
    }
    if result.learned is not None:
        lines["trees"] = _line(result.learned)
    return {**lines, "proven": proven(result.proven), "verdict": result.verdict}


def _event(bound: EventBound) -> str:
    more, less = ("D", "D'") if bound.direction == "D over D'" else ("D'", "D")
    return (
        f"{bound.event}: in {100 * bound.p:.3g}% of the runs on {more} (at least {100 * bound.p_low:.3g}%), "
        f"in {100 * bound.q:.3g}% of those on {less} (at most {100 * bound.q_high:.3g}%)"
    )


def _line(bound: EventBound | None) -> str:
    from tallyveil.privacy.sentences import at_least

    return "-" if bound is None else f"{at_least(bound.epsilon_low)}: {bound.event}"
