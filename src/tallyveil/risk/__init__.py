"""What a Bayesian intruder learns from a noisy count."""

from tallyveil.risk.intruder import Exposure, Intruder

__all__ = ["Exposure", "Intruder"]
