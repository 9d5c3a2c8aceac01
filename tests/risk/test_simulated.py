"""After post-processing: simulated figures against exact ones, and against the bound that holds for them."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil import Histogram, Schema, Spine, Strategy, protect
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import DiscreteGaussian, Geometric, Invariant, RunKey
from tallyveil.risk.simulate.simulated import simulate
from tallyveil.risk.simulate.target_runs import SIDES
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.target import Figures, Target, before_postprocessing, most_common_other, path_of
from tallyveil.runs.batches import Execution, batches_of

SPINE = Spine.from_columns({"county": ["1", "1", "2"], "block": ["11", "12", "21"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
TARGET = Target(leaf=0, cell=0, instead=2)  # a girl, or a woman


def people(count: int = 1) -> Histogram:
    return Histogram.from_entries(
        SPINE, SCHEMA, unit=[0, 0, 0, 1, 1, 2, 2], cell=[0, 2, 3, 1, 2, 0, 3], count=[count, 8, 9, 2, 12, 3, 7]
    )


def plan(**fields) -> Strategy:
    """Detail at the blocks alone, so that a block's count has one noise."""
    shares = {"us": "1/10", "county": "1/10", "block": "8/10"}
    queries = {"us": {"age": 1}, "county": {"age": 1}, "block": {"detailed": 1}}
    made = {"mechanism": "gaussian", "budget": 1, "levels": shares, "queries": queries, "attributes": ("age", "sex")}
    return Strategy(**{**made, **fields})


class Noisy:
    """The block's count with the noises given, one a level; then post-processed."""

    def __init__(self, *noises, after=lambda x: x, seed=1):
        self.noises, self.after, self.seed = noises, after, seed

    def __call__(self, side: Histogram, runs: range):
        true = [side.at(level).dense()[unit, 0] for level, unit in path_of(SPINE, 0).items()]
        rng = np.random.default_rng([self.seed, true[0], runs.start])
        values = np.arange(-200, 201)
        drawn = [rng.choice(values, p=_chances(noise, values), size=len(runs)) for noise in self.noises]
        free = [np.zeros(len(runs), dtype=int)] * (len(true) - len(drawn))
        shown = [noise + x for noise, x in zip(drawn, true, strict=False)] + free
        return np.stack([self.after(x) for x in shown], axis=1)


def _chances(noise, values):
    chances = noise.pmf(values)
    return chances / chances.sum()


def simulated(*noises, prior="1/2", runs=20_000, strategy=None, count=1, **how):
    once = Execution(batch=runs)
    return simulate(
        Noisy(*noises, **how), people(count), TARGET, prior=prior, runs=runs, strategy=strategy, execution=once
    )


def by_enumeration(noises, prior, after=lambda x: x, reach=40) -> tuple[float, float, float]:
    """Marginal posterior, right decision and accuracy, from all that may be released (one other is known)."""
    p, values = float(Fraction(prior)), np.arange(-reach, reach + 1)
    chances = [noise.pmf(values).tolist() for noise in noises]
    sides: list[dict] = []
    for true in (2, 1):
        shown = [int(after(np.array(true + x))) for x in values]
        sides.append({})
        for places in itertools.product(range(len(values)), repeat=len(noises)):
            chance = math.prod(law[place] for law, place in zip(chances, places, strict=True))
            released = tuple(shown[place] for place in places)
            sides[-1][released] = sides[-1].get(released, 0.0) + chance
    has, not_ = ({x: side.get(x, 0.0) for x in {**sides[0], **sides[1]}} for side in sides)
    posterior = {x: p * has[x] / (p * has[x] + (1 - p) * not_[x]) for x in has if has[x] + not_[x] > 1e-300}
    return (
        sum(has[x] * q for x, q in posterior.items()),
        sum(has[x] for x, q in posterior.items() if q > 0.5),
        sum(max(p * has[x], (1 - p) * not_[x]) for x in posterior),
    )


# Exact figures


@pytest.mark.parametrize("prior", ["1/2", "1/5", "4/5"])
@pytest.mark.parametrize(
    "noises",
    [
        (DiscreteGaussian(variance=2),),
        (DiscreteGaussian(variance="0.7"), DiscreteGaussian(variance=2)),
        (Geometric(z=1), Geometric(z=Fraction(3, 2))),
        (Geometric(z=1), DiscreteGaussian(variance=3)),
    ],
)
def test_the_exact_figures_of_measurements_are_those_of_an_enumeration(noises, prior):
    found = Figures.of(Intruder(prior=prior).against(*noises))
    marginal, right, accuracy = by_enumeration(noises, prior)
    assert found.marginal_posterior == pytest.approx(marginal, abs=1e-10)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-10)
    assert found.right_decision == pytest.approx(right, abs=1e-10) or prior == "1/2"  # ties: floats decide the sum's
    assert found.risk == pytest.approx(marginal / float(Fraction(prior)), abs=1e-9)


def test_at_even_odds_the_right_decision_and_half_the_ties_are_the_accuracy():
    for noises in ([Geometric(z=1)], [DiscreteGaussian(variance=5)] * 2, [DiscreteGaussian(variance=3)] * 3):
        exposed = Intruder(prior="1/2").against(*noises)
        assert Figures.of(exposed).accuracy == pytest.approx(exposed.right_decision + exposed.tie / 2, abs=1e-12)


def test_the_bound_takes_the_rows_that_differ_and_the_leaf_alone_is_the_papers_figure():
    queries = {
        "us": {"age": 1},
        "county": {"sex": "1/2", "total": "1/2"},
        "block": {"age": "1/4", "total": "1/4", "detailed": "1/2"},
    }
    strategy = plan(queries=queries)
    intruder = Intruder(prior="1/5")
    age_us, age, detailed = (strategy.noise(*pair) for pair in (("us", "age"), ("block", "age"), ("block", "detailed")))
    bound, alone = before_postprocessing(strategy, people(), TARGET, prior="1/5")
    assert bound == Figures.of(intruder.against(*[age_us, age, detailed] * 2))  # a girl or a woman: not sex, not total
    assert alone == Figures.of(intruder.against(detailed))
    sex = replace(TARGET, instead=1)  # a girl or a boy
    bound, _ = before_postprocessing(strategy, people(), sex, prior="1/5")
    assert bound == Figures.of(intruder.against(*[strategy.noise("county", "sex"), detailed] * 2))


def test_an_absent_target_is_one_place_of_every_query_where_neighbours_are_added_or_removed():
    strategy = plan(neighbours="add-or-remove")
    gone = Target(leaf=0, cell=0, instead=None)
    noises = [spend.noise for spend in strategy.spends()]
    assert len(noises) == 3
    bound, _ = before_postprocessing(strategy, people(), gone, prior="1/2")
    assert bound == Figures.of(Intruder(prior="1/2").against(*noises))


def test_only_children_have_no_measurements_of_their_own_and_shares_along_the_path_sum_to_one():
    strategy = plan(only_child=True, queries={level: {"detailed": 1} for level in SPINE.levels})
    person = Target(leaf=2, cell=0, instead=2)  # block 21 is the only one of county 2, which pays for both
    bound, alone = before_postprocessing(strategy, people(), person, prior="1/2")
    above, county = (strategy.noise(level, "detailed", level_share=Fraction(s, 10)) for level, s in
                     (("us", 1), ("county", 9)))  # fmt: skip
    assert bound == Figures.of(Intruder(prior="1/2").against(*[above, county] * 2))
    assert alone is None


def test_measurements_that_do_not_differ_leave_the_prior():
    strategy = plan(queries={level: {"sex": 1} for level in SPINE.levels})
    for prior, claimed in (("1/5", 0.0), ("1/2", 0.0), ("4/5", 1.0)):
        bound, alone = before_postprocessing(strategy, people(), TARGET, prior=prior)
        p = float(Fraction(prior))
        assert bound == Figures(marginal_posterior=p, risk=1.0, right_decision=claimed, accuracy=max(p, 1 - p))
        assert alone is None


# Simulated figures


def off(found, exact: tuple[float, float, float]) -> list[float]:
    """How many standard errors the simulated figures are off the exact ones."""
    names = ("marginal_posterior", "right_decision", "accuracy")
    return [(getattr(found, n) - e) / getattr(found, f"{n}_se") for n, e in zip(names, exact, strict=True)]


@pytest.mark.parametrize("prior", ["1/2", "1/5"])
@pytest.mark.parametrize("law", [DiscreteGaussian, Geometric])
def test_counts_released_as_they_are_give_the_exact_figures_and_not_those_of_10_percent_less_noise(law, prior):
    noise, less = (
        (law(variance=2), law(variance="1.8")) if law is DiscreteGaussian else (law(z=2), law(z="2.2"))
    )  # so much that claims at p = 1/5 hang on it
    found = simulated(noise, prior=prior, count=2, runs=40_000)
    assert np.abs(off(found, by_enumeration([noise], prior))).max() < 3.5
    assert np.abs(off(found, by_enumeration([less], prior))).max() > 4
    exact = Intruder(prior=prior, known=1).against(noise)
    assert found.risk == pytest.approx(exact.risk, abs=4 * found.marginal_posterior_se / float(Fraction(prior)))
    for told in found.tuples(5):
        error = (told["posterior"] - float(exact.posterior(told["counts"][0]))) / told["posterior_se"]
        assert abs(error) < 3.5


def test_the_counts_above_add_to_the_evidence():
    noises = [DiscreteGaussian(variance=4), DiscreteGaussian(variance=2), DiscreteGaussian(variance=6)]
    found = simulated(*noises)
    together, alone = (Figures.of(Intruder(prior="1/2").against(*some)) for some in (noises, noises[:1]))
    assert abs(found.marginal_posterior - together.marginal_posterior) < 3.5 * found.marginal_posterior_se
    assert abs(found.accuracy - together.accuracy) < 3.5 * found.accuracy_se
    assert found.marginal_posterior > alone.marginal_posterior + 10 * found.marginal_posterior_se


def test_geometric_noise_summed_to_the_levels_above_tells_what_the_block_tells():
    def run(side: Histogram, runs: range):
        return geometric(side, epsilon=1, query="detailed", seed=3, replicate=runs)

    found = simulate(run, people(), TARGET, prior="1/2", runs=10_000, execution=Execution(batch=10_000))
    exact, more = (Figures.of(Intruder(prior="1/2").against(Geometric(z=z))) for z in ("1", "1.1"))
    assert abs(found.marginal_posterior - exact.marginal_posterior) < 3.5 * found.marginal_posterior_se
    assert found.marginal_posterior < more.marginal_posterior - 4 * found.marginal_posterior_se
    assert found.levels == ("block", "county", "us")
    assert (found.bound, found.alone) == (None, None)


def test_counts_clipped_at_zero_tell_less_by_just_as_much_as_they_should():
    noise = DiscreteGaussian(variance=4)
    clip = lambda x: np.maximum(x, 2)  # noqa: E731  one other is known: what lies below is as if it were 0
    found = simulated(noise, after=clip, count=2, runs=40_000)
    exact, whole = by_enumeration([noise], "1/2", clip), by_enumeration([noise], "1/2")
    assert np.abs(off(found, exact)).max() < 3.5
    assert whole[0] - exact[0] > 3.5 * found.marginal_posterior_se  # the simulation can see the difference


def test_a_release_lies_below_the_bound_and_one_with_less_noise_than_was_measured_above_it():
    strategy = plan(levels={"us": "1/100", "county": "1/100", "block": "98/100"})
    noise = strategy.noise("block", "detailed")
    right = simulated(noise, strategy=strategy)
    assert right.bound is not None
    assert right.marginal_posterior < right.bound.marginal_posterior + 3 * right.marginal_posterior_se
    assert right.accuracy < right.bound.accuracy + 3 * right.accuracy_se
    leaking = simulated(DiscreteGaussian(variance=noise.variance / 3), strategy=strategy)
    assert leaking.marginal_posterior > right.bound.marginal_posterior + 5 * leaking.marginal_posterior_se
    assert leaking.accuracy > right.bound.accuracy + 5 * leaking.accuracy_se


def test_a_right_decision_about_the_target_has_no_bound_but_decisions_whichever_holds_have():
    noise = DiscreteGaussian(variance=4)
    found = simulated(noise, after=lambda x: np.where(x < -3, -4, 5), strategy=plan())
    assert found.bound is not None
    assert found.right_decision > found.bound.right_decision + 10 * found.right_decision_se  # nearly always claimed
    assert found.accuracy < found.bound.accuracy - 10 * found.accuracy_se


def test_few_runs_and_many_tuples_do_not_flatter_and_the_stated_error_is_the_real_one():
    noises = [DiscreteGaussian(variance=3)] * 3
    exact = Intruder(prior="1/2").against(*noises).marginal_posterior
    made = [simulated(*noises, runs=300, seed=seed) for seed in range(100)]
    figures = np.array([one.marginal_posterior for one in made])
    stated = np.mean([one.marginal_posterior_se for one in made])
    assert figures.mean() < exact + 2 * figures.std() / 10
    assert figures.mean() > exact - 0.25 * (exact - 0.5)  # it learns most of it even so
    assert 0.75 < figures.std() / stated < 1.35


def test_without_noise_the_target_is_certain_and_without_information_the_prior_stays():
    shown = simulated(DiscreteGaussian(variance="0.01"), runs=400)
    assert shown.marginal_posterior > 0.97
    assert (shown.right_decision, shown.accuracy) == (1.0, 1.0)
    hidden = simulated(after=lambda x: 0 * x, runs=400)
    assert hidden.marginal_posterior == pytest.approx(0.5, abs=1e-6)
    assert (hidden.right_decision, hidden.accuracy) == (0.0, 0.5)  # a tie is not claimed


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["1/2", "1/5", "1/50", "9/10"]),
    st.lists(st.sampled_from(["0.2", "2", "30"]), min_size=1, max_size=3),
    st.integers(0, 5),
)
def test_posteriors_are_probabilities_and_tuples_count_all_runs(prior, variances, seed):
    found = simulated(*(DiscreteGaussian(variance=v) for v in variances), prior=prior, runs=200, seed=seed)
    told = found.tuples(10**6)
    assert [sum(row[name] for row in told) for name in ("runs_has", "runs_not")] == [200, 200]
    assert all(0 < row["posterior"] < 1 for row in told)
    assert found.posterior([[0, 0, 0], [500, -500, 9]]).shape == (2,)  # never seen: the fit answers
    assert 0 <= found.right_decision <= 1
    assert found.marginal_posterior < 1 + 3 * found.marginal_posterior_se


def test_neither_batches_nor_what_is_kept_change_the_result():
    made: list[range] = []

    def run(side: Histogram, runs: range):
        made.append(runs)
        return geometric(side, epsilon=1, query="detailed", seed=3, replicate=runs)

    kept: dict = {}
    seen: list = []
    whole = simulate(run, people(), TARGET, prior="1/5", runs=250, execution=Execution(batch=250))
    in_parts = Execution(batch=100, store=kept, progress=lambda *x: seen.append(x))
    parts = simulate(run, people(), TARGET, prior="1/5", runs=250, execution=in_parts)
    assert parts.as_json() == whole.as_json()
    assert sorted(kept) == sorted(batch.name for batch in batches_of(SIDES, 250, 100))
    assert (seen[0], seen[-1]) == ((0, 500), (500, 500))
    del made[:], kept["has-000000100-000000200"]
    again = simulate(run, people(), TARGET, prior="1/5", runs=250, execution=Execution(batch=100, store=kept))
    assert made == [range(100, 200)]
    assert again.as_json() == whole.as_json()


def test_topdown_lies_below_the_bound_and_shows_something():
    check_topdown({"rho": 16}, 100)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"epsilon": 10}, {"rho": 2}])
def test_topdown_lies_below_the_bound_with_many_runs(budget):
    check_topdown(budget, 2_000)


def check_topdown(budget, runs) -> None:
    strategy, key = Strategy.default(SPINE, SCHEMA, **budget), RunKey.from_seed(7)

    def run(side: Histogram, some: range):  # what protect releases, without its certificate
        return (topdown(measure(side, strategy, key, replicate=number))[0] for number in some)

    once = protect(people(), strategy, seed=7, replicate=3, threads=1).histogram
    assert next(iter(run(people(), range(3, 4)))) == once
    found = simulate(run, people(), TARGET, prior="1/2", runs=runs, strategy=strategy)
    assert found.bound is not None
    assert found.marginal_posterior < found.bound.marginal_posterior + 2 * found.marginal_posterior_se
    assert found.accuracy < found.bound.accuracy + 2 * found.accuracy_se
    assert found.marginal_posterior > 0.5 + 3 * found.marginal_posterior_se
    assert all(min(row["counts"]) >= 0 for row in found.tuples())


# Targets


def test_the_alternative_differs_by_the_target_alone():
    other = TARGET.gone(people())
    assert (other.leaves.dense() - people().leaves.dense()).tolist() == [[-1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    gone = replace(TARGET, instead=None).gone(people())
    assert (gone.leaves.dense() - people().leaves.dense()).tolist() == [[-1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_the_path_goes_from_the_leaf_to_the_root():
    assert list(path_of(SPINE, 2).items()) == [("block", 2), ("county", 1), ("us", 0)]


def test_the_commonest_other_cell_is_that_of_the_parent_and_possible():
    assert most_common_other(people(), leaf=0, cell=0) == 2  # 20 women in county 1
    assert most_common_other(people(), leaf=0, cell=2) == 3
    assert most_common_other(people(), leaf=2, cell=3) == 0
    alone = Schema(attributes={"age": ["child", "adult"]}, zeros=[{"age": ["child"]}])
    adults = Histogram.from_entries(SPINE, alone, unit=[0], cell=[1], count=[2])
    with pytest.raises(InputError, match="no other possible cell"):
        most_common_other(adults, leaf=0, cell=1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(leaf=0, cell=1, instead=2), "block 11 has nobody in the cell 'child\\*m'. Name the cell of the target"),
        (Target(leaf=0, cell=0, instead=0), "the same cell as the target's"),
        (Target(leaf=3, cell=0, instead=1), "leaf 3 is not between 0 and 2"),
        (Target(leaf=0, cell=4, instead=1), "cell 4 is not between 0 and 3"),
        (Target(leaf=0, cell=0, instead=-1), "cell -1 is not between 0 and 3"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target, message):
    with pytest.raises(InputError, match=message):
        simulate(Noisy(), people(), target, prior="1/2", runs=100)


def test_hypotheses_that_exact_counts_tell_apart_are_refused():
    with pytest.raises(InputError, match="the number of people is exact, so an absent target shows"):
        simulate(Noisy(), people(), replace(TARGET, instead=None), prior="1/2", runs=100, strategy=plan())
    kept = plan(constraints=(Invariant(query="age", level="county"),))
    with pytest.raises(InputError, match="differ in an invariant \\(age is exact for every county\\)"):
        simulate(Noisy(), people(), TARGET, prior="1/2", runs=100, strategy=kept)
    before_postprocessing(kept, people(), replace(TARGET, instead=1), prior="1/2")  # a boy is as old


def test_what_cannot_be_simulated_is_refused():
    town = Spine.from_columns({"block": [f"{i:03d}" for i in range(201)]}, root="town")
    many = Histogram.from_entries(town, SCHEMA, unit=[0], cell=[0], count=[1])
    with pytest.raises(InputError, match="the tree has 201 leaves; simulations are for 200 at most"):
        simulate(Noisy(), many, TARGET, prior="1/2")
    with pytest.raises(InputError, match="99 runs of each hypothesis are too few"):
        simulated(DiscreteGaussian(variance=1), runs=99)
    with pytest.raises(InputError, match=r"a batch must have 1 run or more\. Got 0 instead\."):
        simulate(Noisy(), people(), TARGET, prior="1/2", runs=100, execution=Execution(batch=0))
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        simulated(DiscreteGaussian(variance=1), prior="1", runs=100)
    with pytest.raises(InputError, match=r"gave 100 x 3 values of float64 for 100 runs and 3 levels\. Give whole"):
        simulated(DiscreteGaussian(variance=1), after=lambda x: x + 0.5, runs=100)
    with pytest.raises(InputError, match="gave 7 x 3 values of int64 for 100 runs and 3 levels"):
        simulate(lambda *_: np.zeros((7, 3), dtype=int), people(), TARGET, prior="1/2", runs=100)
    found = simulated(DiscreteGaussian(variance=1), runs=100)
    with pytest.raises(InputError, match="give a whole number for each of block, county, us"):
        found.posterior([1, 2])
