"""Benchmark of the empirical privacy loss of 3.2 million integer residuals, compared with scipy's gaussian_kde.

Both compute log densities on the same grid. Counting the residuals, smoothing them, and a whole call of `epl` with its
band and intervals are timed separately. Every figure is the best of two passes. If scipy would take very long, it is
timed on every k-th point only and the time is scaled up; the printed line says so.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.stats import gaussian_kde

from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.epl.settings import Settings, smoothed
from tallyveil.evaluate.value_counts import value_counts

N = 3_200_000
SCIPY_POINTS = 70  # if there are more points, every k-th is timed


def best(run: Callable[[], object], *, passes: int = 2, first: bool = True) -> float:
    """Return the seconds of the fastest pass, after a first pass that may compile."""
    if first:
        run()
    seconds = []
    for _ in range(passes):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)


def compare(z: float, least: int) -> None:
    rng = np.random.default_rng(1)
    chance = -np.expm1(-z)
    residuals = rng.geometric(chance, N) - rng.geometric(chance, N)
    counted, settings = value_counts(residuals), Settings()
    points, ours = smoothed(counted, settings)
    counting = best(lambda: value_counts(residuals))
    smoothing = best(lambda: smoothed(counted, settings))
    every = max(1, len(points) // SCIPY_POINTS)
    chosen = slice(None, None, every)
    theirs = gaussian_kde(residuals, bw_method=settings.bandwidth).logpdf(points[chosen])
    one_pass = best(lambda: gaussian_kde(residuals, bw_method=settings.bandwidth).logpdf(points[chosen]), first=False)
    scipy_seconds = one_pass * len(points) / len(points[chosen])
    difference = np.abs(ours[chosen] - theirs).max()
    whole = best(lambda: epl(residuals))
    grouped = best(lambda: epl(residuals, clusters=np.arange(N) // 64))
    how = "" if every == 1 else f" (timed on {len(points[chosen])} points, scaled)"
    faster, with_counting = scipy_seconds / smoothing, scipy_seconds / (counting + smoothing)
    print(f"G({z}), {N:,} residuals, 95th percentile {counted.percentile(95):g}, {len(points)} points")
    print(f"  gaussian_kde                     {scipy_seconds:>10.3f} s{how}")
    print(f"  ours: smoothing                  {smoothing:>10.5f} s {faster:>9,.0f}x (at least {least:,}x)")
    print(f"  ours: counting                   {counting:>10.5f} s")
    print(f"  ours: both                       {counting + smoothing:>10.5f} s {with_counting:>9,.0f}x")
    print(f"  ours: epl with band and interval {whole:>10.3f} s")
    print(f"  the same in {N // 64:,} clusters     {grouped:>10.3f} s")
    print(f"  largest difference in log density {difference:.1e}")
    if faster < least:
        raise SystemExit(f"smoothing is less than {least:,} times as fast as gaussian_kde")


def main() -> None:
    compare(0.07, 100)
    compare(0.007, 1000)


if __name__ == "__main__":
    main()
