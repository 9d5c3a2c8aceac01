"""Benchmark of sampling from 132 million persons, compared with two methods of NumPy.

Our samples are drawn from counts. They are compared with NumPy's multivariate hypergeometric distribution and with its
choice without replacement, which needs an array of all persons and is therefore timed on a tenth of them. Each figure
is the best of three passes on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from tallyveil.mechanisms.sampling import draw_people, generator, sample
from tallyveil.populations import census_1940

FRACTIONS = (0.05, 0.5, 0.95)
TENTH = 10


def best(run: Callable[[], object], passes: int = 3) -> float:
    """Return the seconds of the fastest pass, after one that is not counted."""
    run()
    seconds = []
    for _ in range(passes):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)


def main() -> None:
    people = census_1940(seed=1).people
    counts, persons = people.leaves.count.astype(np.int64), people.total()
    some = counts // TENTH
    entry = np.repeat(np.arange(len(some)), some)
    rng = generator("bench", 1, 0)
    print(f"{persons:,} persons in {len(counts):,} entries; seconds for a sample")
    print(f"{'fraction':>8} {'sample()':>10} {'draw alone':>11} {'hypergeometric':>15} {'by person, 1/10':>16}")
    for fraction in FRACTIONS:
        n, few = round(fraction * persons), round(fraction * len(entry))
        whole = best(lambda f=fraction: sample(people, f, seed=1))
        alone = best(lambda n=n: draw_people(counts, n, rng))
        numpy_ = best(lambda n=n: rng.multivariate_hypergeometric(counts, n, method="marginals"))
        by_person = best(
            lambda few=few: np.bincount(entry[rng.choice(len(entry), few, replace=False)], minlength=len(counts))
        )
        print(f"{fraction:>8.0%} {whole:>10.3f} {alone:>11.3f} {numpy_:>15.3f} {by_person:>16.3f}", flush=True)


if __name__ == "__main__":
    main()
