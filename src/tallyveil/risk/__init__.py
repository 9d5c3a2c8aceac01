"""What a Bayesian intruder learns from noisy counts: of one target, of everybody, and which budget keeps it small."""

from tallyveil.risk import priors
from tallyveil.risk.allocation import Allocation, allocate
from tallyveil.risk.attacks import noises_of
from tallyveil.risk.attribute import Attribute
from tallyveil.risk.choose import Choice, choose
from tallyveil.risk.curve import curve
from tallyveil.risk.empirical import Empirical, empirical_epsilon
from tallyveil.risk.evidence import Evidence
from tallyveil.risk.hierarchy import Decision, Hierarchy
from tallyveil.risk.intruder import Exposure, Intruder
from tallyveil.risk.levels import Above
from tallyveil.risk.scan import Scan, scan
from tallyveil.risk.scan_above import scan_above
from tallyveil.risk.several import Several, SeveralExposure
from tallyveil.risk.simulated import Simulated, simulate
from tallyveil.risk.target import Target, before_postprocessing

__all__ = [
    "Above",
    "Allocation",
    "Attribute",
    "Choice",
    "Decision",
    "Empirical",
    "Evidence",
    "Exposure",
    "Hierarchy",
    "Intruder",
    "Scan",
    "Several",
    "SeveralExposure",
    "Simulated",
    "Target",
    "allocate",
    "before_postprocessing",
    "choose",
    "curve",
    "empirical_epsilon",
    "noises_of",
    "priors",
    "scan",
    "scan_above",
    "simulate",
]
