"""What protection costs and what it buys: error, bias, margins, empirical privacy loss, audits."""

from tallyveil.evaluate.audit.audit import audit
from tallyveil.evaluate.audit.pairs import NeighbourPair, audit_pairs
from tallyveil.evaluate.audit.pairs_result import AuditSearch
from tallyveil.evaluate.audit.result import Audit
from tallyveil.evaluate.audit.views import AuditView, neighbour, views_of
from tallyveil.evaluate.bias import bias, homogeneity
from tallyveil.evaluate.compare import like_a_sample
from tallyveil.evaluate.coverage import coverage
from tallyveil.evaluate.derived import derived, dissimilarity, isolation, ranks, ratio, share
from tallyveil.evaluate.direct import direct
from tallyveil.evaluate.epl.exchangeable import exchangeability
from tallyveil.evaluate.epl.frequencies import frequencies
from tallyveil.evaluate.epl.loss import EmpiricalLoss, epl
from tallyveil.evaluate.error import error, error_by_size, sizes
from tallyveil.evaluate.evaluation import Evaluation, evaluation
from tallyveil.evaluate.funds import funds, funds_by_group
from tallyveil.evaluate.implausible import implausible
from tallyveil.evaluate.margin_classes import Margins
from tallyveil.evaluate.margins import margins
from tallyveil.evaluate.paired import paired
from tallyveil.evaluate.residuals import Residuals, residuals
from tallyveil.evaluate.segregation import entropy, exposure, segregation, segregation_error
from tallyveil.evaluate.survey import Raked, rake_weights, survey
from tallyveil.evaluate.sweep import sweep, trials

__all__ = [
    "Audit",
    "AuditSearch",
    "AuditView",
    "EmpiricalLoss",
    "Evaluation",
    "Margins",
    "NeighbourPair",
    "Raked",
    "Residuals",
    "audit",
    "audit_pairs",
    "bias",
    "coverage",
    "derived",
    "direct",
    "dissimilarity",
    "entropy",
    "epl",
    "error",
    "error_by_size",
    "evaluation",
    "exchangeability",
    "exposure",
    "frequencies",
    "funds",
    "funds_by_group",
    "homogeneity",
    "implausible",
    "isolation",
    "like_a_sample",
    "margins",
    "neighbour",
    "paired",
    "rake_weights",
    "ranks",
    "ratio",
    "residuals",
    "segregation",
    "segregation_error",
    "share",
    "sizes",
    "survey",
    "sweep",
    "trials",
    "views_of",
]
