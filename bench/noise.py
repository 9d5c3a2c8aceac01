"""Benchmark of draws per second, compared with the vector noise of OpenDP and with the keystream alone.

Our draws include the generation of the cryptographic stream. Each figure is the best of three passes on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import opendp.prelude as dp
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tallyveil.privacy import DiscreteGaussian, Geometric, RunKey, draw

OURS, THEIRS = 4_000_000, 50_000


def best(run: Callable[[], object], size: int, passes: int = 3) -> float:
    """Return the items per second of the fastest pass."""
    run()
    seconds = []
    for _ in range(passes):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return size / min(seconds)


def opendp_noise(*, gaussian: bool, scale: float) -> Callable[[], object]:
    metric = dp.l2_distance(T=float) if gaussian else dp.l1_distance(T=int)
    space = dp.vector_domain(dp.atom_domain(T=int)), metric
    measure = space >> (dp.m.then_gaussian(scale=scale) if gaussian else dp.m.then_laplace(scale=scale))
    zeros = [0] * THEIRS
    return lambda: measure(zeros)


def main() -> None:
    dp.enable_features("contrib")
    stream = RunKey.from_seed(1).stream([b"bench"])
    places = np.arange(OURS)
    scattered = np.random.default_rng(1).integers(0, 10**12, OURS)
    replicate = np.zeros(OURS, dtype=np.int64)
    print("draws per second, one thread              tallyveil        OpenDP   ratio")
    for name, noise, gaussian, scale in (
        ("two-sided geometric, scale 2", Geometric(z="1/2"), False, 2.0),
        ("discrete Gaussian, variance 4", DiscreteGaussian(variance=4), True, 2.0),
        ("discrete Gaussian, variance 100", DiscreteGaussian(variance=100), True, 10.0),
        ("two-sided geometric, scale 10^8", Geometric(z="1/100000000"), False, 1e8),
        ("discrete Gaussian, sd 10^8", DiscreteGaussian(variance=10**16), True, 1e8),
    ):
        ours = best(lambda noise=noise: draw(noise, stream, places), OURS)
        theirs = best(opendp_noise(gaussian=gaussian, scale=scale), THEIRS)
        print(f"{name:<36} {ours:>14,.0f} {theirs:>13,.0f} {ours / theirs:>6,.0f}x")
    ours = best(lambda: draw(DiscreteGaussian(variance=100), stream, scattered), OURS)
    print(f"{'variance 100 at scattered places':<36} {ours:>14,.0f}")
    many = best(lambda: draw(Geometric(z="1/2"), stream, places[:400], replicate=range(10_000)), OURS)
    print(f"{'10,000 replicates of 400 draws':<36} {many:>14,.0f}")
    bare = best(lambda: stream.words(places, level=0, query=0, replicate=replicate), OURS)
    print(f"{'keystream alone, ours (words)':<36} {bare:>14,.0f}   {bare * 8 / 1e9:.2f} GB/s")
    zeros = bytes(1 << 16)

    def library() -> None:
        cipher = Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor()
        for _ in range(OURS * 8 >> 16):
            cipher.update(zeros)

    bare = best(library, OURS)
    print(f"{'keystream alone, library in 64 KB':<36} {bare:>14,.0f}   {bare * 8 / 1e9:.2f} GB/s (no random access)")


if __name__ == "__main__":
    main()
