"""What chosen shares gain on Rhode Island: `python bench/allocate.py COUNTS.parquet CODEBOOK.toml [--estimator tree]`.

Shares are chosen for total, each attribute and detailed at the three finest levels (geometric mean of predicted
errors), with the strategy's own budget. Shown are the error of releases against equal shares with TopDown, predicted
standard deviations beside those of unconstrained estimates and the errors of released counts, and the bound on risk.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import tallyveil as tv
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.files import read_codebook
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy import RunKey


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("counts", type=Path)
    words.add_argument("codebook", type=Path)
    words.add_argument("--rho", default="1/2")
    words.add_argument("--estimator", choices=["topdown", "tree"], default="topdown")
    words.add_argument("--replicates", type=int, default=12)
    words.add_argument("--estimates", type=int, default=12, help="replicates of unconstrained estimates")
    words.add_argument("--risk-bound", default="1.03")
    words.add_argument(
        "--corrected", action="store_true", help="take the counts as public, to correct for inequalities"
    )
    given = words.parse_args()
    people = tv.read_counts(given.counts, read_codebook(given.codebook))
    spine, schema = people.spine, people.schema
    equal = tv.Strategy.default(spine, schema, rho=given.rho)
    levels, queries = list(spine.levels)[-3:], ["total", *schema.attributes, "detailed"]
    weights = {f"{query}@{level}": 1 for level in levels for query in queries}
    options = {"weights": weights, "objective": "geometric", "estimator": given.estimator}
    if given.corrected:
        options["public_counts"] = people
    started = time.process_time()
    made = tv.allocate(spine, schema, equal, **options)
    print(f"allocate: {time.process_time() - started:.1f} CPU seconds; {' '.join(made.notes)}")
    print({level: round(float(share), 4) for level, share in made.after.levels.items()})
    compare_releases(people, equal, made.after, levels, queries, given)
    compare_predictions(people, made.after, queries, given.estimates)
    check_risk(people, equal, options, given.risk_bound)


def compare_releases(people: Histogram, equal, after, levels, queries, given) -> None:
    """Mean absolute errors of releases, relative to equal shares with TopDown, in geometric means."""
    released = {
        f"{name} shares, {estimator}": estimated_by(estimator, plan)
        for estimator in dict.fromkeys(["topdown", given.estimator])
        for name, plan in (("equal", equal), ("chosen", after))
    }
    logs = {
        name: np.array([log_errors(people, plan, queries, seed) for seed in range(given.replicates)])
        for name, plan in released.items()
    }
    places = [(level, query) for level in people.spine.levels for query in queries]
    asked = [place in [(level, query) for level in levels for query in queries] for place in places]
    base = logs["equal shares, topdown"].mean(axis=0)
    print(f"\nmean absolute error, equal shares with topdown = 1 ({given.replicates} replicates)")
    for name, table in logs.items():
        each = (table - base)[:, asked].mean(axis=1)
        error = each.std(ddof=1) / np.sqrt(len(each))
        by_level = {
            level: round(float(np.exp((table.mean(axis=0) - base)[[at == level for at, _ in places]].mean())), 3)
            for level in list(people.spine.levels)[1:]
        }
        print(f"{name:25} {np.exp(each.mean()):.3f} (standard error {np.exp(each.mean()) * error:.3f}) {by_level}")


def estimated_by(estimator: str, plan):
    """The strategy whose release is estimated in this way; engines without a choice have TopDown alone."""
    if hasattr(plan, "with_estimator"):
        return plan.with_estimator(estimator)
    if estimator == "tree":
        raise SystemExit("this version has no estimator of the whole tree in its engine")
    return plan


def log_errors(people: Histogram, plan, queries, seed: int) -> list[float]:
    """The logarithm of the mean absolute error of every level and query over all cells."""
    release = tv.protect(people, plan, seed=seed)
    return [
        float(np.log(max(_mean_abs(people, release.histogram, level, query), 1e-9)))
        for level in people.spine.levels
        for query in queries
    ]


def _mean_abs(people: Histogram, released: Histogram, level: str, query: str) -> float:
    return float(np.abs(released.answer(query, level=level).dense() - people.answer(query, level=level).dense()).mean())


def compare_predictions(people: Histogram, after, queries, replicates: int) -> None:
    """Predicted standard deviations beside the errors of unconstrained estimates and of released counts."""
    table = expected_accuracy(people.spine, people.schema, after, queries=queries)
    squares: dict[tuple[str, str], list[float]] = {}
    for seed in range(replicates):
        found = tv.estimate(measure(people, after, RunKey.from_seed(seed)), queries=queries).to_pandas()
        for (level, query), rows in found.groupby(["level", "query"], observed=True, sort=False):
            true = people.answer(query, level=level).dense().reshape(-1)
            squares.setdefault((level, query), []).append(float(np.mean((rows.estimate.to_numpy() - true) ** 2)))
    released = tv.protect(people, after, seed=0).histogram
    print(
        f"\nchosen shares: standard deviation, predicted and measured ({replicates} replicates), and of released counts"
    )
    for row in table.itertuples():
        measured = np.sqrt(np.mean(squares[row.level, row.query]))
        if row.sd < 1e-6:
            continue
        apart = released.answer(row.query, level=row.level).dense() - people.answer(row.query, level=row.level).dense()
        units = people.spine.size(row.level) * people.schema.query(row.query).size * replicates
        print(
            f"{row.level:12} {row.query:10} predicted {row.sd:8.3f} measured {measured:8.3f} "
            f"ratio {measured / row.sd:.3f} (chance {1 / np.sqrt(2 * units):.3f}) "
            f"released {np.sqrt(np.mean(apart.astype(float) ** 2)):8.3f}"
        )


def check_risk(people: Histogram, equal, options, bound: str) -> None:
    """The bound on risk, and what a scan of every person finds at the leaf level."""
    settings = {key: value for key, value in options.items() if key != "public_counts"}
    made = tv.allocate(people.spine, people.schema, equal, risk_bound=bound, **settings)
    scanned = tv.risk.scan(people, made.after, priors=["1/2"], levels=[people.spine.leaf]).groups
    print(f"\nrisk bound {bound}: {made.risk['after']:.5f} by allocate (before {made.risk['before']:.5f}), ", end="")
    print(f"{(scanned.posterior / 0.5).max():.5f} at most by risk scan of {int(scanned.people.sum()):,} people")
    print({level: round(float(share), 4) for level, share in made.after.levels.items()})


if __name__ == "__main__":
    main()
