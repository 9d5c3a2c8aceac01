"""A run that is resumed from any of its pieces is the run that was never interrupted."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from random_constraints import Case, random_case, with_tree
from test_constraints_attacked import limits_of

from tallyveil.engine.constraints import check_counts
from tallyveil.engine.feasibility import check_feasible
from tallyveil.engine.pieces import Piece
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey


class Memory:
    """Pieces in memory; what is kept and what is used again is counted."""

    def __init__(self, pieces: dict[str, Piece]) -> None:
        self.pieces, self.used, self.new = dict(pieces), [], []

    def get(self, name: str) -> Piece | None:
        if name in self.pieces:
            self.used.append(name)
        return self.pieces.get(name)

    def keep(self, name: str, piece: Piece) -> None:
        assert name not in self.pieces
        self.new.append(name)
        self.pieces[name] = piece


def feasible(case: Case):
    try:
        limits = limits_of(case)
        check_feasible(limits, exactly=not case.strategy.check_constraints)
        if case.strategy.check_constraints:
            check_counts(case.people, limits.declared, limits.possible, whose="the data")
    except InputError:
        return None
    return limits


@pytest.mark.parametrize(("cases", "least"), [(36, 1), pytest.param(400, 4, marks=pytest.mark.slow)])
def test_any_pieces_that_were_kept_give_the_same_release_and_are_not_solved_again(monkeypatch, cases, least):
    monkeypatch.setattr("tallyveil.engine.level.CHUNK", 4)  # many pieces
    seen = Counter()
    with ThreadPoolExecutor(2) as pool:
        for seed in range(cases):
            rng = np.random.default_rng(seed)
            case = random_case(rng, crowded=seed % 4 > 0)
            if seed % 3 == 0:
                case = with_tree(case, rng)
            limits = feasible(case)
            if limits is None:
                continue

            def run(kept=None, spread=map, case=case, limits=limits, seed=seed):
                noisy = measure(case.people, case.strategy, RunKey.from_seed(seed), optimised=case.optimised)
                return topdown(noisy, facilities=case.facilities, limits=limits, kept=kept, run=spread)

            counts, solved = run()
            fresh = Memory({})
            assert run(fresh) == (counts, solved), seed
            share = rng.choice([0.3, 0.7, 1.0])
            some = {name: piece for name, piece in fresh.pieces.items() if rng.random() < share}
            again = Memory(some)
            assert run(again, pool.map if seed % 2 else map) == (counts, solved), seed
            assert sorted(again.used) == sorted(some)
            assert sorted([*again.used, *again.new]) == sorted(fresh.new)
            later = {name: piece for name, piece in fresh.pieces.items() if "-1-" in name}  # after the failsafe
            assert run(Memory(later)) == (counts, solved), seed  # which must run again
            seen["informed"] += any(one.informed for one in solved)
            seen["relaxed"] += any(one.relaxed for one in solved)
            seen["solved twice"] += bool(later)
            seen["optimised"] += case.optimised is not None
            seen["many"] += len(fresh.new) > len(solved)
    assert min(seen[how] for how in ("solved twice", "optimised", "many", "informed")) >= 2, seen
    assert seen["relaxed"] >= least


@pytest.mark.parametrize("name", ["root", "1-0-0-1"])
def test_a_kept_piece_is_what_is_used(name):
    """The other tests would pass if nothing were ever taken from what is kept."""
    case = next(
        case for case in (random_case(np.random.default_rng(seed)) for seed in range(50))
        if feasible(case) is not None and case.optimised is None and case.people.total() > 100
    )  # fmt: skip
    noisy, limits = measure(case.people, case.strategy, RunKey.from_seed(1)), feasible(case)
    fresh = Memory({})
    topdown(noisy, limits=limits, kept=fresh)
    used = Memory({name: fresh.pieces[name]})
    topdown(noisy, limits=limits, kept=used)
    assert used.used == [name]
