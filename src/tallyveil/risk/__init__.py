"""What a Bayesian intruder learns from noisy counts: of one target, of everybody, and which budget keeps it small."""

from tallyveil.risk.above.decision import Decision
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.budget.allocation import Allocation, allocate
from tallyveil.risk.budget.choose import Choice, choose
from tallyveil.risk.budget.curve import curve
from tallyveil.risk.budget.empirical import Empirical, empirical_epsilon
from tallyveil.risk.budget.empirical_levels import empirical_levels
from tallyveil.risk.inversion.ranges import measurement_ranges
from tallyveil.risk.inversion.shares import bound_shares
from tallyveil.risk.scan.result import Scan
from tallyveil.risk.scan.scan import scan
from tallyveil.risk.scan.scan_above import scan_above
from tallyveil.risk.simulate.empirical_release import EmpiricalRelease, empirical_release
from tallyveil.risk.simulate.simulated import Simulated, simulate
from tallyveil.risk.target import priors
from tallyveil.risk.target.attacks import Attack, noises_of
from tallyveil.risk.target.attribute import Attribute
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder
from tallyveil.risk.target.several import Several, SeveralExposure
from tallyveil.risk.target.target import Target, before_postprocessing

__all__ = [
    "Above",
    "Allocation",
    "Attack",
    "Attribute",
    "Choice",
    "Decision",
    "Empirical",
    "EmpiricalRelease",
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
    "bound_shares",
    "choose",
    "curve",
    "empirical_epsilon",
    "empirical_levels",
    "empirical_release",
    "measurement_ranges",
    "noises_of",
    "priors",
    "scan",
    "scan_above",
    "simulate",
]
