"""The file of a ledger: chained, locked, append-only; and what its lines say together."""

import fcntl
import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tallyveil.errors import BudgetError, InputError
from tallyveil.files.ledger.lines import START, open_ledger, read_lines
from tallyveil.files.ledger.programme import Entry, programme_of
from tallyveil.files.release_folder.signing import read_public_key, read_signing_key, write_key_pair
from tallyveil.privacy.several_releases import Cost, refuse_contradiction
from tallyveil.protection.spending import Booking, Spending
from tallyveil.release.declare import SEEDED


def entry(name: str, epsilon: str = "1", population: str | None = None, **given) -> Entry:
    cost = Cost(
        name=name, accountant="pure", loss=Fraction(epsilon), neighbours="replace-one",
        measurement=given.pop("measurement", None), pairs=(((Fraction(epsilon) / 2, 2),),),
    )  # fmt: skip
    return Entry(line=0, status="published", cost=cost, population=population, **given)


def put(path: Path, *entries: Entry, kind: str = "release", **more) -> None:
    with open_ledger(path, create=True) as ledger:
        for one in entries:
            ledger.append({**one.to_json(), "entry": kind, "reservation": None, **more})


def state(path: Path):
    return programme_of(read_lines(path))


def test_lines_are_chained_and_a_change_in_the_middle_is_found(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"), entry("b", "1/2"), entry("c"))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == [1, 2, 3]
    assert json.loads(lines[0])["previous"] == START
    assert [one.cost.name for one in state(path).entries] == ["a", "b", "c"]
    cases = {
        "\n".join([lines[0], lines[1].replace('"1/2"', '"1/3"'), lines[2]]): "line 3: does not follow from line 2",
        "\n".join([lines[0], lines[2]]): "line 2: does not follow from line 1",
        "\n".join([lines[1], lines[0], lines[2]]): "line 1: does not follow",
        "\n".join([lines[0], lines[1].replace(": ", ":", 1), lines[2]]): "line 2: not a line of a ledger",
        "\n".join([lines[0], "", lines[1], lines[2]]): "line 2: not a line of a ledger",
    }
    for text, problem in cases.items():
        path.write_text(text + "\n")
        with pytest.raises(InputError, match=problem):
            read_lines(path)


def test_lines_missing_at_the_end_are_seen_only_by_the_head(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"), entry("b"))
    head = read_lines(path).head
    path.write_text(path.read_text().splitlines()[0] + "\n")
    assert head not in [line.digest for line in read_lines(path).lines]


def test_a_torn_last_line_is_recognised_and_replaced(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"), entry("b"))
    whole = path.read_bytes()
    for cut in (2, 30, len(whole.splitlines()[1])):
        path.write_bytes(whole[:-cut])
        read = read_lines(path)
        assert (read.torn, len(read.lines)) == (True, 1)
        put(path, entry("c"))
        assert [one.cost.name for one in state(path).entries] == ["a", "c"]


def test_a_write_that_fails_or_is_cut_short_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"))
    before, whole = path.read_bytes(), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: whole(handle, data[:20], at))
    with pytest.raises(InputError, match="the disk is full"):
        put(path, entry("b"))
    assert path.read_bytes() == before


def _add_many(path: Path, name: str) -> None:
    for i in range(20):
        put(path, entry(f"{name}{i}"))


def _die_in_the_middle(path: Path) -> None:
    whole = os.pwrite

    def half(handle: int, data: bytes, at: int) -> int:
        whole(handle, data[: len(data) // 2], at)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    os.pwrite = half
    put(path, entry("dead"))


def test_two_processes_that_add_at_the_same_time_lose_nothing_and_a_killed_one_leaves_nothing(tmp_path):
    path, fork = tmp_path / "p.jsonl", multiprocessing.get_context("fork")
    put(path, entry("first"))
    both = [fork.Process(target=_add_many, args=(path, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    names = [one.cost.name for one in state(path).entries]
    assert sorted(names) == sorted(["first", *(f"{name}{i}" for name in "ab" for i in range(20))])
    killed = fork.Process(target=_die_in_the_middle, args=(path,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert read_lines(path).torn
    assert len(state(path).entries) == 41
    put(path, entry("last"))
    assert state(path).entries[-1].cost.name == "last"


def test_signed_lines_are_checked_with_the_public_key(tmp_path):
    path, key = tmp_path / "p.jsonl", tmp_path / "office"
    public = read_public_key(write_key_pair(key))
    with open_ledger(path, create=True) as ledger:
        ledger.append({"entry": "limit", "epsilon": "4", "delta": "1e-10"}, read_signing_key(key))
    read_lines(path).refuse_unsigned(public)
    other = read_public_key(write_key_pair(tmp_path / "other"))
    with pytest.raises(InputError, match="line 1: is not signed with this key"):
        read_lines(path).refuse_unsigned(other)
    mixed = tmp_path / "mixed.jsonl"
    put(mixed, entry("a"))
    with pytest.raises(InputError, match="line 1: is not signed"):
        read_lines(mixed).refuse_unsigned(public)
    with open_ledger(mixed) as ledger:
        ledger.append({"entry": "limit", "epsilon": "4", "delta": "1e-10"}, read_signing_key(key))
    put(mixed, entry("b"))  # of a ledger that has unsigned lines, another one spoils nothing


@pytest.mark.parametrize("seeded", [False, True])
def test_an_unsigned_line_never_spoils_a_ledger_whose_lines_are_all_signed(tmp_path, seeded):
    path, key = tmp_path / "p.jsonl", tmp_path / "office"
    write_key_pair(key)
    with open_ledger(path, create=True) as ledger:
        ledger.append({"entry": "limit", "epsilon": "4", "delta": "1e-10"}, read_signing_key(key))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"every line is signed.*Nothing was changed.*--sign KEY"):
        put(path, entry("a"))
    with pytest.raises(InputError, match="--sign KEY"):  # a run is told before noise is drawn, even if it costs nothing
        Booking(Spending(ledger=path)).reserve(entry("run", measurement="1", seeded=seeded))
    assert path.read_bytes() == before
    Booking(Spending(ledger=path, sign_with=key)).reserve(entry("run", measurement="1", seeded=seeded))
    assert all(line.signed for line in read_lines(path).lines)


@pytest.mark.parametrize(("mine", "taken"), [("Town B", False), (" town  A", True), (None, True)])
def test_a_run_takes_only_a_reservation_for_the_people_that_it_counts(tmp_path, mine, taken):
    path = tmp_path / "p.jsonl"
    put(path, entry("planned", "2", "Town A", reference="7"), kind="reserved")
    run = Booking(Spending(ledger=path))
    if taken:
        run.reserve(entry("run", "1", mine, reference="7", measurement="1"))
        assert [one.cost.name for one in state(path).entries] == ["run"]
        return
    with pytest.raises(BudgetError, match="population 'Town A', but this release counts 'Town B'"):
        run.reserve(entry("run", "1", mine, reference="7", measurement="1"))
    assert [one.cost.name for one in state(path).entries] == ["planned"]


def test_different_filters_of_the_same_people_are_told_and_those_of_disjoint_people_are_not(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a", "1", "A", filter="only adults"), entry("a2", "1", "A", filter="only adults"))
    put(path, entry("planned", "1", "A"), kind="reserved")  # nobody knows its filter yet
    assert [group.other_filters for group in state(path).groups()] == [False]
    put(path, entry("b", "1", "B"))
    assert [group.other_filters for group in state(path).groups()] == [True]
    put(path, entry("x"), kind="disjoint", populations=["A", "B"])
    assert [group.other_filters for group in state(path).groups()] == [False, False]
    free = tmp_path / "free.jsonl"
    for one in (entry("a", filter="only adults"), entry("b")):
        put(free, replace(one, cost=replace(one.cost, neighbours="add-or-remove")))
    assert [group.other_filters for group in state(free).groups()] == [False]


def test_people_add_up_unless_they_are_declared_disjoint_and_unnamed_ones_add_up_with_all(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a", "1", "A"), entry("b", "2", "B"), entry("c", "4", "C"), entry("u", "8"))
    put(path, entry("seeded", "64", "A", stamps=(SEEDED,), seeded=True))
    assert [group.together.account.epsilon for group in state(path).groups()] == [15.0]
    put(path, entry("x"), kind="disjoint", populations=["A", "C"])
    groups = state(path).groups()
    assert [(group.populations, group.epsilon) for group in groups] == [(("B", "C"), 14.0), (("A", "B"), 11.0)]
    put(path, entry("x"), kind="disjoint", populations=["A", "B", "C"])
    groups = state(path).groups()
    assert [(group.populations, group.epsilon) for group in groups] == [(("C",), 12.0), (("B",), 10.0), (("A",), 9.0)]


def test_a_stamp_does_not_make_a_measurement_free_and_a_line_that_states_no_seed_is_counted(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("limit"), kind="limit", epsilon="2", delta="1e-10")
    put(path, entry("stamped", "1", stamps=(SEEDED,)), entry("trial", "64", stamps=(SEEDED,), seeded=True))
    earlier = entry("old", "1/2", stamps=(SEEDED,)).to_json()
    del earlier["seeded"], earlier["content"]
    with open_ledger(path) as ledger:
        ledger.append({**earlier, "entry": "release", "reservation": None})
    assert [(one.cost.name, one.seeded) for one in state(path).entries] == [
        ("stamped", False), ("trial", True), ("old", False),
    ]  # fmt: skip
    assert state(path).groups()[0].epsilon == 1.5
    with pytest.raises(BudgetError, match=r"would be epsilon 2\.5"):
        state(path).refuse_beyond_limit(entry("next", "1", stamps=(SEEDED,)))
    with pytest.raises(BudgetError, match="would be epsilon"):
        Booking(Spending(ledger=path)).reserve(entry("next", "1", stamps=(SEEDED,)))


def test_equal_identifiers_count_once_only_where_the_contents_agree(tmp_path):
    path, one = tmp_path / "p.jsonl", entry("one", measurement="1")

    def with_content(name: str, **content: str) -> Entry:
        made = entry(name, measurement="1")
        return replace(made, cost=replace(made.cost, content=content))

    put(path, with_content("a", asked="x", total="y"), with_content("b", asked="x", age="z"), one)
    assert [e.cost.content for e in state(path).entries] == [
        {"asked": "x", "total": "y"},
        {"asked": "x", "age": "z"},
        {},
    ]
    assert state(path).groups()[0].epsilon == 1.0
    put(path, with_content("c", asked="x", total="other"))
    assert state(path).groups()[0].epsilon == 2.0
    costs = [e.cost for e in state(path).entries]
    assert [costs[3].contradicts(other) for other in costs] == ["total", None, None, None]
    refuse_contradiction(costs[1], costs[:1])
    with pytest.raises(BudgetError, match=r"a and c have the same measurement identifier \(1\) but differ in total: "):
        refuse_contradiction(costs[3], costs[:3])


def test_the_limit_refuses_what_would_exceed_it_and_counts_a_known_measurement_once(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("limit"), kind="limit", epsilon="2", delta="1e-10")
    put(path, entry("a", "3/2", measurement="1"))
    programme = state(path)
    programme.refuse_beyond_limit(entry("b", "1/2"))
    programme.refuse_beyond_limit(entry("again", "3/2", measurement="1"))
    with pytest.raises(
        BudgetError, match=r"the limit of the ledger is epsilon 2 at delta 1e-10.*would be epsilon 2\.5"
    ):
        programme.refuse_beyond_limit(entry("b", "1"))
    with pytest.raises(BudgetError, match="would be epsilon 3"):
        programme.refuse_beyond_limit(entry("b", "3/2", measurement="2"))


def test_reservations_count_until_they_are_cancelled_or_a_release_takes_their_place(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("planned"), kind="reserved")
    put(path, entry("run"), kind="running")
    assert [(e.line, e.status) for e in state(path).entries] == [(1, "reserved"), (2, "running")]
    assert state(path).groups()[0].epsilon == 2
    put(path, entry("run"), kind="spent", reservation=2)
    assert [e.status for e in state(path).entries] == ["reserved", "spent"]
    put(path, entry("planned"), kind="cancelled", reservation=1)
    assert [e.status for e in state(path).entries] == ["spent"]
    put(path, entry("run"), reservation=2)
    assert [(e.line, e.status) for e in state(path).entries] == [(5, "published")]
    put(path, entry("x"), kind="cancelled", reservation=5)
    with pytest.raises(InputError, match="line 6: cannot be understood"):
        state(path)


def test_a_missing_ledger_and_lines_of_another_kind_are_refused(tmp_path):
    with pytest.raises(InputError, match="Start a ledger with"):
        read_lines(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be opened"), open_ledger(tmp_path / "none.jsonl"):
        pass
    put(tmp_path / "p.jsonl", entry("a"), kind="dance")
    with pytest.raises(InputError, match="line 1: cannot be understood"):
        state(tmp_path / "p.jsonl")


def test_a_limit_may_be_reached_exactly(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("limit"), kind="limit", epsilon="3/10", delta="1e-10")
    put(path, entry("a", "1/10"))
    state(path).refuse_beyond_limit(entry("b", "1/5"))
    put(path, entry("b", "1/5"))
    assert state(path).within_limit(state(path).groups(pld=True))
    with pytest.raises(BudgetError, match="the limit of the ledger is epsilon 3/10"):
        state(path).refuse_beyond_limit(entry("c", "1/1000000"))


def test_losses_that_cannot_be_added_are_refused_even_without_a_limit(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a", "1"))
    other = entry("b", "1")
    other = replace(other, cost=replace(other.cost, neighbours="add-or-remove"))
    with pytest.raises(BudgetError, match="cannot be added"):
        state(path).refuse_beyond_limit(other)


def test_a_run_whose_reservation_was_taken_over_can_still_report_that_it_failed(tmp_path):
    """Two runs with one key at the same time: the second takes the reservation over, then the first fails."""
    path = tmp_path / "p.jsonl"
    put(path, entry("limit"), kind="limit", epsilon="1", delta="1e-10")
    first, second = Booking(Spending(ledger=path)), Booking(Spending(ledger=path))
    first.reserve(entry("run", "1", measurement="1"))
    second.reserve(entry("run", "1", measurement="1"))
    first.keep_as_spent()
    assert [(e.line, e.status) for e in state(path).entries] == [(3, "running")]
    second.keep_as_spent()
    assert [(e.line, e.status) for e in state(path).entries] == [(3, "spent")]


def test_a_last_line_without_its_line_break_still_counts(tmp_path):
    """Editors and version control take it away; the line is whole, so its cost must not be forgotten."""
    path = tmp_path / "p.jsonl"
    put(path, entry("a"), entry("b"))
    path.write_bytes(path.read_bytes()[:-1])
    assert [one.cost.name for one in state(path).entries] == ["a", "b"]
    assert not read_lines(path).torn
    put(path, entry("c"))
    assert [one.cost.name for one in state(path).entries] == ["a", "b", "c"]
    assert path.read_bytes().count(b"\n") == 3


def test_a_name_that_is_no_text_is_refused(tmp_path):
    for field in ("name", "measurement", "population", "reference"):
        path = tmp_path / field
        with open_ledger(path, create=True) as ledger:
            ledger.append({**entry("a").to_json(), "entry": "release", "reservation": None, field: ["x"]})
        with pytest.raises(InputError, match="line 1: cannot be understood"):
            state(path)


def test_a_line_is_never_added_to_a_file_that_was_replaced_while_it_waited_for_the_lock(tmp_path):
    """Programs that save a file often rename a new one to its name; a line in the old one would be lost."""
    path = tmp_path / "p.jsonl"
    put(path, entry("a"))
    waiting = Thread(target=put, args=(path, entry("late")), daemon=True)
    with open_ledger(path):
        waiting.start()
        time.sleep(0.3)
        (tmp_path / "saved").write_bytes(path.read_bytes())
        (tmp_path / "saved").replace(path)
    waiting.join(timeout=30)
    assert [one.cost.name for one in state(path).entries] == ["a", "late"]


def test_a_ledger_that_was_removed_while_a_run_waited_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"))
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *given: (flock(*given), path.unlink()))
    with pytest.raises(InputError, match=r"cannot be opened.*Start a ledger with"), open_ledger(path):
        pass


@pytest.mark.parametrize("other", ["residents of re\u0301union", "Residents of Réunion ", "RESIDENTS  OF RÉUNION"])
def test_names_that_readers_take_for_the_same_people_are_the_same_people(tmp_path, other):
    path, name = tmp_path / "p.jsonl", "Residents of Réunion"
    put(path, entry("a", "1", name), entry("b", "2", other), entry("c", "4", "Others"))
    put(path, entry("x"), kind="disjoint", populations=[name, "Others"])
    groups = [(group.populations, group.epsilon) for group in state(path).groups()]
    assert groups == [(("Others",), 4.0), ((name,), 3.0)]
    put(path, entry("x"), kind="disjoint", populations=[name, other])  # nobody is apart from themselves
    assert [(group.populations, group.epsilon) for group in state(path).groups()] == groups


def test_many_populations_that_share_people_are_one_set(tmp_path):
    path, names = tmp_path / "p.jsonl", [f"P{i}" for i in range(60)]
    put(path, *(entry(name, "1", name) for name in names))
    assert [(set(group.populations), group.epsilon) for group in state(path).groups()] == [(set(names), 60.0)]
    put(path, entry("x"), kind="disjoint", populations=names)
    assert [group.epsilon for group in state(path).groups()] == [1.0] * 60


def test_sets_of_populations_are_those_of_trying_all_subsets(tmp_path):
    """Against every subset of random populations, of which random pairs are disjoint."""
    for seed in range(40):
        path, random = tmp_path / str(seed), Random(seed)
        names = [f"P{i}" for i in range(random.randint(1, 7))]
        put(path, *(entry(name, str(2**i), name) for i, name in enumerate(names)))
        apart = [pair for pair in combinations(names, 2) if random.random() < 0.5]
        for pair in apart:
            put(path, entry("x"), kind="disjoint", populations=list(pair))
        sets = [set(some) for n in range(1, 8) for some in combinations(names, n)]
        fit = [some for some in sets if not any(set(pair) <= some for pair in apart)]
        largest = [some for some in fit if not any(some < other for other in fit)]
        found = [set(group.populations) for group in state(path).groups()]
        assert sorted(map(sorted, found)) == sorted(map(sorted, largest))


def test_too_many_sets_of_populations_are_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    for year in range(11):
        put(path, entry("a", "1", f"A{year}"), entry("b", "1", f"B{year}"))
        put(path, entry("x"), kind="disjoint", populations=[f"A{year}", f"B{year}"])
    with pytest.raises(BudgetError, match=r"more than 1,000 ways\. Give releases about the same people the same name"):
        state(path).groups()


def test_disjoint_people_with_other_neighbours_need_a_ledger_of_their_own(tmp_path):
    """One limit cannot be compared with losses of two kinds."""
    path, other = tmp_path / "p.jsonl", entry("b", "1", "B")
    put(path, entry("x"), kind="disjoint", populations=["A", "B"])
    put(path, entry("a", "1", "A"))
    with pytest.raises(BudgetError, match="Account for each kind separately"):
        state(path).refuse_beyond_limit(replace(other, cost=replace(other.cost, neighbours="add-or-remove")))


def test_an_older_copy_of_the_ledger_restored_during_a_run_loses_no_entry(tmp_path, monkeypatch):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"))
    before = path.read_bytes()
    running, failing = Booking(Spending(ledger=path)), Booking(Spending(ledger=path))
    running.reserve(entry("run", "1", measurement="1"))
    failing.reserve(entry("failing", "1", measurement="2"))
    path.write_bytes(before)
    put(path, entry("b", "1", measurement="3"), kind="running")  # on the line that the reservation had
    made = entry("run", "1", measurement="1")
    monkeypatch.setattr("tallyveil.protection.spending.entry_of_folder", lambda _: made)
    running.confirm(tmp_path)
    failing.keep_as_spent()
    assert [(e.cost.name, e.status) for e in state(path).entries] == [
        ("a", "published"), ("b", "running"), ("run", "published"),
    ]  # fmt: skip


def test_a_published_release_is_never_settled_and_a_negative_loss_is_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    put(path, entry("a"))
    put(path, entry("b"), reservation=1)
    assert [one.cost.name for one in state(path).entries] == ["a", "b"]
    put(path, entry("c", "-1"))
    with pytest.raises(InputError, match="line 3: cannot be understood"):
        state(path)


def test_people_of_one_measurement_are_not_disjoint_whatever_was_declared(tmp_path):
    """A measurement is of one set of people: two names for them are no reason to count less."""
    path = tmp_path / "p.jsonl"
    put(path, entry("a", "1", "A", measurement="1"), entry("b", "1", "B", measurement="1"))
    put(path, entry("c", "2", "A"), entry("d", "4", "B"), entry("e", "8", "C"))
    put(path, entry("x"), kind="disjoint", populations=["A", "B", "C"])
    groups = [(set(group.populations), group.epsilon) for group in state(path).groups()]
    assert groups == [({"C"}, 8.0), ({"A", "B"}, 7.0)]
    assert state(path).contradicted() == [("A", "B")]
