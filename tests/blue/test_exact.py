"""Estimates equal least squares in exact arithmetic on trees where conditions meet and variances differ widely."""

import numpy as np
import pytest

import tallyveil as tv
from blue.exact_gls import ExactGls
from blue.hard_trees import draw_hard_case
from tallyveil.blue import pose
from tallyveil.errors import InputError

CLOSE = 1e-8
EXACT = (
    1e-7  # persons: the standard deviation of an exact figure, at most (the root of what rounding leaves of a variance)
)


def compare(seed: int, case=None) -> None:
    """Every query at every published unit and in a scattered area: estimates, standard deviations, covariances."""
    case = case or draw_hard_case(seed)
    noisy, spine, schema = case.noisy, case.noisy.published, case.noisy.schema
    exact = ExactGls(noisy, case.facilities)
    names = dict.fromkeys(
        schema.query(name).name for name in ("total", *schema.attributes, *schema.groupings, "detailed")
    )
    chosen = np.random.default_rng([seed, 99]).random(spine.size(spine.leaf)) < 0.4
    chosen[0] |= not chosen.any()
    leaves = np.array(spine.labels(spine.leaf))[chosen]
    areas = tv.Areas.from_codes(spine, leaf=leaves, area=["x"] * len(leaves))
    for query in names:
        for level in (*spine.levels, None):
            places = [chosen] if level is None else [exact.unit(level, unit) for unit in range(spine.size(level))]
            rows = np.concatenate([exact.rows(query, place) for place in places])
            wanted = exact.of(rows)
            asked = {"queries": [query], "facilities": case.facilities}
            asked |= {"areas": areas} if level is None else {"levels": [level]}
            if not wanted.estimable.all():
                with pytest.raises(InputError, match="does not determine"):
                    tv.estimate(noisy, **asked)
                continue
            found = tv.estimate(noisy, **asked)
            check(found, wanted, None if level is None else spine.labels(level))
            if len(rows) <= 40:
                check_covariances(tv.estimate(noisy, covariance=True, **asked), wanted)


def check(found, wanted, codes) -> None:
    table = found.to_pandas()
    if codes is not None:
        table = table.iloc[np.argsort([codes.index(unit) for unit in table.unit], kind="stable")]
    sd = np.sqrt(np.diag(wanted.covariance))
    scale = np.maximum(np.maximum(np.abs(wanted.estimate), sd), 1.0)
    np.testing.assert_array_less(np.abs(table.estimate - wanted.estimate), CLOSE * scale)
    np.testing.assert_array_less(np.abs(table.sd - sd), np.where(sd > 0, CLOSE * sd, EXACT))


def check_covariances(found, wanted) -> None:
    """Covariances as a share of the standard deviations."""
    sd = np.sqrt(np.diag(wanted.covariance))
    scale = np.outer(sd, sd) + 1e-6 * float(sd.max(initial=0.0)) ** 2
    np.testing.assert_array_less(np.abs(found.covariance - wanted.covariance), CLOSE * scale + EXACT**2)


# 2, 45, 66 and 77: levels of an optimised spine, or with only children, that determine some counts only, with exact
# totals; 58: variances that differ by a factor of 1e23
@pytest.mark.parametrize("seed", [1, 2, 45, 58, 66, 77])
def test_estimates_equal_exact_least_squares_where_conditions_meet(seed):
    compare(seed)


def test_trees_too_large_for_the_square_root_form_say_what_wide_variances_cost(monkeypatch):
    case = draw_hard_case(58)
    monkeypatch.setattr(pose, "MOST_STEPS", 0)
    with pytest.raises(InputError, match=r"differ by a factor of \de\+\d+, and a tree of this size"):
        tv.estimate(case.noisy, facilities=case.facilities)
    monkeypatch.setattr(pose, "HOPELESS", 1e30)
    found = tv.estimate(case.noisy, levels=["us"], queries=["total"], facilities=case.facilities)
    assert "which costs about as many digits on so large a tree" in found.information


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_more_estimates_equal_exact_least_squares_where_conditions_meet(seed):
    compare(seed)
