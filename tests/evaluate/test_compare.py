"""Which sample a release is like: the published table, and cases where the answer is known."""

from fractions import Fraction

import pandas as pd
import pytest

from tallyveil import Histogram, Strategy, protect
from tallyveil.errors import InputError
from tallyveil.evaluate.compare import FRACTIONS, Likeness, like_a_sample
from tallyveil.evaluate.likeness_interval import distance
from tallyveil.evaluate.sweep import Trial, sweep, trials
from tallyveil.mechanisms.sampling import sample
from tallyveil.populations import uniform_tree

# petti2020, extended data: county, counts by age x race x ethnicity (median absolute error, EPL).
ERRORS = [19, 14, 11, 9, 8, 7, 6, 6, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2, 1]
LOSSES = [0.034, 0.048, 0.062, 0.073, 0.083, 0.093, 0.108, 0.121, 0.135, 0.15, 0.166, 0.181, 0.2, 0.225, 0.258]
LOSSES += [0.293, 0.339, 0.429, 0.611]
SAMPLES = {f: {"median_abs": e, "epl": loss} for f, e, loss in zip(FRACTIONS, ERRORS, LOSSES, strict=True)}
TOPDOWN = {1: (6, 0.164), 2: (4, 0.253), 4: (2, 0.445), 6: (1, 0.626)}
TABLE_1 = {1: 50, 2: 75, 4: 90, 6: 95}  # petti2020, Table 1


def test_the_distance_gives_table_1_of_petti2020_from_its_own_figures():
    for epsilon, (error, loss) in TOPDOWN.items():
        own = {"median_abs": error, "epl": loss}
        apart = {fraction: distance(own, other) for fraction, other in SAMPLES.items()}
        assert 100 * min(apart, key=apart.get) == TABLE_1[epsilon]


@pytest.fixture(scope="module")
def people() -> Histogram:
    return uniform_tree(persons=200_000, mean=40, levels=2, seed=3).people


@pytest.mark.parametrize("percent", [20, 50, 80])
def test_a_sample_is_like_a_sample_of_its_own_size(people, percent):
    drawn = sample(people, Fraction(percent, 100), seed=99)
    like = like_a_sample(
        people, drawn, level="level2", query="total", fractions=[Fraction(k, 10) for k in range(1, 10)]
    )
    assert like.fraction == percent / 100
    start = f"counts of 'total' at level 'level2': like a sample of {percent}%, 90% interval "
    assert like.words().startswith(start)
    told = like.as_json()
    assert told["tells"]
    assert told["low"] <= percent / 100 <= told["high"] <= told["low"] + 0.2
    assert told["table"][0]["method"] == "release"
    assert told["table"][0]["fraction"] is None


@pytest.mark.parametrize(
    ("error", "said"), [(5, "like a sample of 50%, "), (9, "no sample is like it; the nearest is one of 50%, ")]
)
def test_a_release_far_from_every_sample_is_not_called_like_the_nearest(error, said):
    rows = [
        {"method": method, "fraction": fraction, "median_abs": median, "epl": 0.2}
        for method, fraction, median in (
            *(("release", None, error), ("sample", 0.25, 7)),
            *(("sample", 0.5, 5.5), ("sample", 0.75, 3)),
        )
    ]
    table = pd.DataFrame(rows).assign(distance=[distance(rows[0], row) for row in rows])
    like = Likeness(level="block", query="total", table=table, fraction=0.5, low=0.4, high=0.6)
    assert like.words().startswith(f"counts of 'total' at level 'block': {said}90% interval 40% to 60% (median error ")


def test_several_releases_are_compared_with_as_many_samples(people):
    few = [Fraction(k, 10) for k in range(2, 9)]
    drawn = [sample(people, Fraction(1, 2), seed=99, replicate=k) for k in range(5)]
    small = {"level": "level1", "query": "total", "fractions": few}  # 70 units: the loss of few residuals is larger
    like = like_a_sample(people, drawn, **small)
    assert like.fraction in (0.4, 0.5, 0.6)
    assert like_a_sample(people, drawn, **small | {"fractions": ["1/2"]}).fraction == 0.5
    with pytest.raises(InputError, match="fractions is empty"):
        like_a_sample(people, drawn, **small | {"fractions": []})


@pytest.mark.slow
@pytest.mark.parametrize("percent", [25, 75])
def test_the_interval_of_few_units_covers_the_sample_that_was_released_and_is_wider_than_that_of_many(percent):
    few = uniform_tree(persons=16_000, mean=40, levels=2, seed=3).people
    wide, covered = [], 0
    for seed in range(20):
        drawn = sample(few, Fraction(percent, 100), seed=1000 + seed)
        like = like_a_sample(few, drawn, level="level2", query="total", fractions=FRACTIONS[::2], seed=seed)
        wide.append(like.high - like.low)
        covered += like.low <= percent / 100 <= like.high
    assert covered >= 16  # of 20 at 90%: fewer than one run in fifty would have less
    assert sum(wide) / 20 > 0.1


def test_a_comparison_of_too_few_units_says_that_it_cannot_tell():
    few = uniform_tree(persons=500, mean=50, levels=2, seed=3).people
    like = like_a_sample(few, sample(few, Fraction(1, 2), seed=9), level="level2", query="total")
    assert like.low is None
    assert not like.tells
    assert "fewer than 20 units are too few to tell" in like.words()


def test_no_sample_is_like_exact_counts_and_the_reason_is_said(people):
    like = like_a_sample(people, people, level="level2", query="total", fractions=[Fraction(1, 2)])
    assert like.fraction is None
    assert "no sample is like it (the loss is undefined: " in like.words()


def test_a_sweep_runs_every_trial_once_and_goes_on_where_it_stopped(people):
    strategies = {"even": [Strategy.default(people.spine, people.schema, epsilon=e) for e in ("1", "4")]}
    wanted = trials(strategies, replicates=2)
    assert len({trial.name for trial in wanted}) == 4
    run: list[tuple[float, int]] = []

    def protect_one(strategy: Strategy, replicate: int):
        if len(run) == 3:
            raise KeyboardInterrupt
        run.append((float(strategy.budget), replicate))
        return protect(people, strategy, seed=1, replicate=replicate)

    store: dict = {}
    with pytest.raises(KeyboardInterrupt):
        sweep(people, wanted, protect_one, levels=["level2"], queries=["total"], store=store)
    assert len(store) == 3
    run.clear()
    table = sweep(people, wanted, protect_one, levels=["level2"], queries=["total"], store=store)
    assert run == [(4.0, 1)]  # the one that was missing
    whole = sweep(
        people, wanted, lambda s, r: protect(people, s, seed=1, replicate=r), levels=["level2"], queries=["total"]
    )
    assert table.equals(whole)
    other = sweep(people, wanted, lambda *_: people, levels=["level1"], queries=["total"], store=store)
    assert set(other.level) == {"level1"}  # what is kept about other counts is not taken for these
    with pytest.raises(InputError, match="a sweep needs at least one trial"):
        sweep(people, [], protect_one)
    rmse = whole[whole.statistic == "rmse"].groupby("budget").value.mean()
    assert rmse[1.0] > 2 * rmse[4.0]
    assert whole[whole.statistic == "epl"].value.notna().all()


def test_trials_of_different_strategies_or_replicates_never_share_a_name(people):
    pure = Strategy.default(people.spine, people.schema, epsilon=1)
    other = Strategy.default(people.spine, people.schema, rho=1)
    names = [
        Trial(allocation=name, strategy=strategy, replicate=replicate).name
        for name, strategy, replicate in (("a.b", pure, 0), ("a_b", other, 0), ("a.b", pure, 1))
    ]
    assert len(set(names)) == 3
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for name in names)
