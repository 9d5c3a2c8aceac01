"""How much less variance accounting by privacy loss distribution allows, level by level: `python bench/accounting.py`.

Each level of the 2020 runs by itself, as one Gaussian mechanism with mu = sqrt(2 rho) (Balle & Wang 2018, Theorem 8),
beside two conversions from rho to epsilon: Eq. 7 of kazan2022, and the looser rho + 2 sqrt(rho log(1 / delta)).
"""

import math

from scipy.special import log_ndtr

from tallyveil import Strategy
from tallyveil.privacy import epsilon_from_rho

DHC = 3.646, (20, 274, 85, 131, 131, 238, 118, 3)  # rho of the DHC persons run, and thousandths by level


def delta_of(rho: float, epsilon: float) -> float:
    mu = math.sqrt(2 * rho)
    return math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def largest_rho(epsilon: float, delta: float) -> float:
    low, high = 1e-9, 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low


CONVERSIONS = {
    "Eq. 7": epsilon_from_rho,
    "looser": lambda rho, delta: rho + 2 * math.sqrt(rho * math.log(1 / delta)),
}


def main() -> None:
    """Print the reduction of the variance, for the whole and by level."""
    persons = Strategy.preset("pl94-2020-us-persons")
    runs = {
        "pl94-2020-us-persons": [float(persons.budget * share) for share in (1, *persons.levels.values())],
        "DHC persons": [DHC[0], *(DHC[0] * share / 1000 for share in DHC[1])],
    }
    for name, rhos in runs.items():
        for delta in (1e-10, 1e-11):
            for words, epsilon in CONVERSIONS.items():
                gains = [1 - rho / largest_rho(epsilon(rho, delta), delta) for rho in rhos]
                levels = " ".join(f"{gain:6.2%}" for gain in gains[1:])
                print(f"{name:<21} delta {delta:g} {words:<7} whole {gains[0]:6.2%}, by level {levels}")


if __name__ == "__main__":
    main()
