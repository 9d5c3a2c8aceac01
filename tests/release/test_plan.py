import pytest

from small_release import small_people, small_strategy
from tallyveil.release.plan import effort_of, planned_effort, planned_noise


def test_a_count_of_ten_standard_deviations_is_the_smallest_usable_one():
    for one in planned_noise(small_strategy(small_people(), rho=1)):
        assert one.sd / one.usable <= 0.1 + 1e-9  # the coefficient of variation
        assert one.sd / (one.usable - 1) > 0.1


def test_effort_grows_as_units_do():
    def effort(blocks: int):
        units = {"state": 1, "tract": blocks // 100, "block": blocks}
        return planned_effort(units, cells=2016, persons=40 * blocks, numbers=dict.fromkeys(units, 10))

    one, ten = effort(100_000), effort(1_000_000)
    assert (ten.seconds - 2) / (one.seconds - 2) == pytest.approx(10, rel=0.1)
    assert ten.release_bytes / one.release_bytes == pytest.approx(10, rel=0.1)
    assert one.memory_bytes < ten.memory_bytes < 10 * one.memory_bytes


def test_threads_shorten_the_time_and_not_the_files():
    units = {"us": 1, "county": 3000}
    one, two = (planned_effort(units, cells=192, persons=10**8, threads=threads) for threads in (1, 2))
    assert two.seconds < one.seconds
    assert two.release_bytes == one.release_bytes


def test_the_work_of_the_levels_is_the_whole():
    people = small_people()
    work = effort_of(small_strategy(people), people.spine, people.schema, persons=people.total()).work
    assert list(work) == ["us", "county", "tract"]
    assert sum(work.values()) == pytest.approx(1)
