"""The only room that adds noise to the truth: ``measure`` for TopDown, and simple mechanisms for comparison."""

from tallyveil.mechanisms.absolute import total_and_strata_absolute
from tallyveil.mechanisms.averaged import averaged
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.raked import raked
from tallyveil.mechanisms.reconciled import total_and_strata, with_invariant
from tallyveil.mechanisms.sampling import sample
from tallyveil.mechanisms.suppression import Suppressed, suppress
from tallyveil.mechanisms.swapping import Swapped, swap

__all__ = [
    "Suppressed",
    "Swapped",
    "averaged",
    "geometric",
    "raked",
    "sample",
    "suppress",
    "swap",
    "total_and_strata",
    "total_and_strata_absolute",
    "with_invariant",
]
