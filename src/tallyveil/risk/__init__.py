"""What a Bayesian intruder learns from a noisy count."""

from tallyveil.risk.hierarchy import Decision, TwoLevels
from tallyveil.risk.intruder import Exposure, Intruder

__all__ = ["Decision", "Exposure", "Intruder", "TwoLevels"]
