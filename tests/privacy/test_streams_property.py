"""One key, many measurements: two draws are the same noise of the same question, or share no keystream block.

The cases are in ``stream_cases``, and run in processes of their own: the order of a set moves with PYTHONHASHSEED.
"""

import os
import pickle
import subprocess
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from stream_cases import KEY, PEOPLE, SCHEMA, SPINE, Drawn, Recorder, measured

from tallyveil import Strategy
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import DiscreteGaussian, RunKey, draw

HASH_SEEDS = range(4)  # all in `make test-all`, the first two in `make test`
TOGETHER = 2  # processes at a time


def run_cases(bases: int, folder: Path, hash_seeds: range) -> dict[int, list[Drawn]]:
    """The cases under every hash seed."""
    script, found = Path(__file__).with_name("stream_cases.py"), {}
    for first in range(0, len(hash_seeds), TOGETHER):
        seeds = hash_seeds[first : first + TOGETHER]
        runs = [
            subprocess.Popen(
                [sys.executable, script, str(bases), folder / f"{seed}.pickle"],
                env=os.environ | {"PYTHONHASHSEED": str(seed)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for seed in seeds
        ]
        for seed, run in zip(seeds, runs, strict=True):
            _, errors = run.communicate()
            assert run.returncode == 0, errors
            cases = pickle.loads((folder / f"{seed}.pickle").read_bytes())
            found[seed] = [Drawn(**fields) for fields in cases]
    return found


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return run_cases(3, tmp_path_factory.mktemp("few"), HASH_SEEDS[:2])


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return run_cases(40, tmp_path_factory.mktemp("many"), HASH_SEEDS)


def shared_words(runs) -> list[str]:
    """Words of the keystream that serve two questions, or one question with two noises."""
    seen, problems = {}, []
    for drawn in runs:
        rows = zip(drawn.questions, drawn.noises, drawn.values, drawn.words, strict=True)
        for (asking, *place), noise, value, words in rows:
            now = (drawn.askings[asking], tuple(place), noise, value)
            for word in words:
                before, case = seen.setdefault(word, (now, drawn.case))
                if before != now:
                    problems.append(f"{case}: {before[0][2]} {before[1:]}; {drawn.case}: {now[0][2]} {now[1:]}")
    return problems


def shared_blocks(runs) -> list[str]:
    """Blocks of the keystream that serve two queries, levels, spines or sets of people."""
    users = defaultdict(dict)
    for drawn in runs:
        for (asking, *_), words in zip(drawn.questions, drawn.words, strict=True):
            for block, _ in words:
                users[block].setdefault(drawn.askings[asking], drawn.case)
    return [", ".join(cases.values()) for cases in users.values() if len(cases) > 1]


def answers(drawn: Drawn) -> dict:
    """The noise of every question, by what it means."""
    rows = zip(drawn.questions, drawn.noises, drawn.values, strict=True)
    return {(drawn.askings[asking], *place): (noise, value) for (asking, *place), noise, value in rows}


def check(by_seed: dict[int, list[Drawn]]) -> None:
    everything = [drawn for runs in by_seed.values() for drawn in runs]
    assert shared_words(everything)[:3] == []
    assert shared_blocks(everything)[:3] == []


def check_same(by_seed: dict[int, list[Drawn]]) -> None:
    noise = {drawn.case: answers(drawn) for drawn in by_seed[0]}
    assert sum(drawn.same_as is not None for drawn in by_seed[0]) >= 6
    for seed, runs in by_seed.items():
        for drawn in runs:
            assert answers(drawn) == noise[drawn.same_as or drawn.case], f"{drawn.case}, PYTHONHASHSEED={seed}"


def test_two_draws_are_the_same_noise_of_the_same_question_or_share_no_block_of_the_keystream(few):
    check(few)


def test_the_same_measurement_meets_the_same_noise_however_it_is_spelled_and_whatever_the_hash_seed(few):
    check_same(few)


@pytest.mark.slow
def test_many_more_pairs_of_measurements_share_no_block_of_the_keystream(many):
    check(many)
    check_same(many)


def test_the_cases_need_further_words_too(few):
    # Noise too wide for a table: then a draw has nine words or more, from two blocks.
    assert {len(words) for drawn in few[0] for words in drawn.words} >= {1, 9}


def test_other_measurements_do_get_other_noise(few):
    # Otherwise a constant stream would pass for one that is the same for the same question.
    noise = {drawn.case: answers(drawn) for drawn in few[0]}
    for case in ("one share changed", "another replicate", "other people", "another budget"):
        one, two = noise["strategy 0"], noise[f"strategy 0, {case}"]
        changed = [two.get(question) != found for question, found in one.items()]
        assert sum(changed) > len(changed) / 2, case


def test_the_check_sees_a_stream_that_is_used_for_two_numberings_of_queries():
    stream, noise, runs = KEY.stream([b"any"]), DiscreteGaussian(variance=9), []
    for asked in ("sex", "home"):
        noted = Recorder(rows=2, asking=("ours", "standard", "state", asked.encode()))
        with noted.watching():
            noted.drawing(draw)(noise, stream, np.arange(4), level=1, query=0, replicate=0)
        runs.append(noted.drawn(asked, None))
    assert len(shared_words(runs)) == 4
    assert shared_blocks(runs) == ["sex, home"]


# --- noise that cancels


def spelled(at_land: str, below: str) -> Strategy:
    """A strategy that writes age by sex in one way at the top and in another below."""
    tables = {level: {below: 1, "cat * sex": 1} for level in SPINE.levels}
    tables["land"] = {at_land: 1, "cat * sex": 1}
    return Strategy.proportional(
        mechanism="geometric",
        budget="1e-9",  # wide: two numbers of noise that agree are the same noise
        levels=dict.fromkeys(SPINE.levels, 1),
        queries=tables,
        attributes=tuple(SCHEMA.attributes),
        groupings={"cat": "age"},
    )


SPELLINGS = ("age * sex", "age*sex", "sex * age")


def published(strategy: Strategy, key: RunKey) -> dict[tuple[str, bytes], np.ndarray]:
    """All noisy answers, by level and what the query means."""
    noisy = measure(PEOPLE["ours"], strategy, key)
    found = {}
    for level in strategy.levels:
        for query in noisy.strategy.queries[level]:
            meaning = SCHEMA.query(query)
            places = np.arange(SPINE.size(level) * meaning.size)
            found[level, meaning.row_of_cell.tobytes()] = noisy.ask(level, query, places)
    return found


@pytest.mark.parametrize("spelling", list(product(SPELLINGS, SPELLINGS)))
def test_two_spellings_of_one_strategy_publish_the_same_answers_so_nothing_cancels(spelling):
    key = RunKey(bytes(range(32)))
    one, two = published(spelled("age * sex", "age * sex"), key), published(spelled(*spelling), key)
    assert one.keys() == two.keys()
    for question, answer in one.items():
        assert np.array_equal(answer, two[question])


@pytest.mark.parametrize("spelling", list(product(SPELLINGS, SPELLINGS)))
def test_no_answer_to_one_question_has_the_noise_of_another_in_any_spelling(spelling):
    # The attack: where two answers have the same noise, their difference is the exact true difference.
    noises: dict[int, tuple] = {}
    for names in (("age * sex", "age * sex"), spelling):
        drawn = measured(str(names), spelled(*names))
        for question, (_, value) in answers(drawn).items():
            assert noises.setdefault(value, question) == question
    assert len(noises) > 60


@pytest.mark.parametrize("other", ["age * home", "detailed"])
def test_a_query_added_changes_the_noise_of_all_others(other):
    key = RunKey(bytes(range(32)))
    plan = spelled("age * sex", "age * sex")
    more = {level: {"age * sex": 1, "cat * sex": 1, other: 1} for level in SPINE.levels}
    fields = {"levels": plan.levels, "attributes": plan.attributes, "groupings": plan.groupings}
    wider = Strategy.proportional(mechanism="geometric", budget="1.5e-9", queries=more, **fields)
    for level in SPINE.levels:
        assert wider.noise(level, "age * sex") == plan.noise(level, "age * sex")  # only the added query differs
    one, two = published(plan, key), published(wider, key)
    for question, answer in one.items():
        assert not np.any(answer == two[question])
