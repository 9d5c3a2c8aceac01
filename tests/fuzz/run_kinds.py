"""Kinds of fuzz cases about whole runs: interrupted ones, estimates, ledgers, keys, drafts and the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import tables
from kinds import VALUES, broken, check_release, good_folder, put_somewhere, random_people
from outcomes import Refused, attempted, check_message

import tallyveil as tv
from command_line import TOWN, TOWN_BOOK, run
from tallyveil.files.ledger.lines import open_ledger, read_lines
from tallyveil.files.ledger.programme import programme_of
from tallyveil.files.tables.codebook_toml import codebook_from_toml
from tallyveil.files.tables.draft import draft_table
from tallyveil.privacy import RunKey
from tallyveil.protection.spending import Spending


class Stop(BaseException):
    """An interruption, like Ctrl-C."""


def resumed(random: Random, folder: Path) -> None:
    """Runs that are interrupted, whose work is damaged, and that are run again: the bytes of an undisturbed run."""
    people = random_people(random)
    how = _random_job(people, random)
    ledger = folder / "ledger" if random.random() < 0.4 else None
    key = {"seed": 1} if random.random() < 0.3 else {"key": attempted(lambda: RunKey.from_file(folder / "key"))}
    if ledger is not None:
        _append(ledger, {"entry": "limit", "epsilon": "1000", "delta": "1e-10"})
        how["ledger"] = Spending(ledger=ledger)
    with patch("tallyveil.engine.level.CHUNK", 1):
        attempted(lambda: tv.protect_to_folder(people, folder=folder / "whole", **how, **key))
        for _ in range(random.choice([1, 1, 2])):
            _interrupt(people, folder / "out", how | key, random)
            _damage_work(folder / ".out.work", random)
        other = _changed(how, random) if random.random() < 0.3 else how
        resume = random.random() < 0.5
        attempted(lambda: tv.protect_to_folder(people, folder=folder / "out", resume=resume, **other, **key))
    check_release(people, tv.read_release(folder / "out").histogram, ())
    if other is how:
        assert _bytes(folder / "out") == _bytes(folder / "whole"), "a resumed run gives another release"
    left = {path.name for path in folder.iterdir()} - {"key", "key.bound", "ledger", "whole", "out", ".out.work"}
    assert not left, left
    assert not [path for path in folder.glob(".out.work/*") if not path.is_dir()], "work of a run that is complete"
    if ledger is not None:
        programme = programme_of(read_lines(ledger))
        counted = [len(group.together.counted) for group in programme.groups()]
        assert counted == ([] if "seed" in key else [1 if _measures_the_same(how, other) else 2]), counted


def _random_job(people: tv.Histogram, random: Random) -> dict[str, Any]:
    budget: dict[str, Any] = random.choice([{"rho": "1/3"}, {"epsilon": 3}, {"epsilon": 3, "accounting": "pld"}])
    plan = attempted(lambda: tv.Strategy.default(people.spine, people.schema, **budget))
    plan = replace(plan, only_child=random.random() < 0.4, rounding=random.choice(["margins", "cells"]))
    optimised = None
    if random.random() < 0.3 and len(people.spine.levels) == 4:
        optimised = attempted(people.spine.optimised)
    return {
        "strategy": plan, "optimised": optimised, "failsafe": random.random() < 0.7, "threads": random.choice([1, 2]),
        "measurements": random.choice([(), None]),
    }  # fmt: skip


def _changed(how: dict[str, Any], random: Random) -> dict[str, Any]:
    plan = how["strategy"]
    changed = random.choice([replace(plan, only_child=not plan.only_child), replace(plan, rounding="margins")])
    return {**how, **random.choice([{"strategy": changed}, {"failsafe": not how["failsafe"]}])}


def _measures_the_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["strategy"].only_child == other["strategy"].only_child


def _interrupt(people: tv.Histogram, target: Path, how: dict[str, Any], random: Random) -> None:
    left = iter(range(random.randint(0, 5), -1, -1))

    def progress(*_: object) -> None:
        if next(left, None) == 0:
            raise Stop

    try:
        attempted(lambda: tv.protect_to_folder(people, folder=target, progress=progress, **how))
        shutil.rmtree(target)  # the run was shorter than that
    except Stop:
        assert not target.exists()


def _damage_work(work: Path, random: Random) -> None:
    files = sorted(work.glob("*")) if work.is_dir() else []
    for _ in range(random.choice([0, 1, 1, 2])):
        if not files:
            return
        path = random.choice(files)
        files.remove(path)
        if path.is_dir() or path.name == "lock":  # damaged before; a folder without its lock stays as it is
            continue
        what = random.choice(["break", "break", "remove", "swap", "folder", "link", "pipe"])
        if what == "break":
            path.write_bytes(broken(path.read_bytes(), random))
            continue
        others = [file for file in files if file.is_file()]
        if what == "swap" and others:
            path.write_bytes(random.choice(others).read_bytes())
            continue
        path.unlink()
        if what == "folder":
            path.mkdir()
        elif what == "link":
            path.symlink_to(work.parent / "key")
        elif what == "pipe":
            os.mkfifo(path)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def estimates(random: Random, folder: Path) -> None:  # noqa: ARG001
    """Estimates from measurements: children sum to their parents, and no estimate is less certain than its count."""
    people = random_people(random)
    how = _random_job(people, random)
    release = attempted(
        lambda: tv.protect(
            people, how["strategy"], optimised=how["optimised"], seed=random.randrange(99), measurements=None
        )
    )
    queries = random.sample(["total", "detailed", *people.schema.attributes, "x", "", "age * x"], random.randint(1, 2))
    levels = random.choice([None, None, [random.choice([*people.spine.levels, "x"])]])
    confidence = random.choice([0.9, 0.9, 0, 1, -1, float("nan"), 0.5])
    attempted(lambda: tv.estimate(release, queries=queries, levels=levels, confidence=confidence))
    found = attempted(lambda: tv.estimate(release, queries=["total"])).to_pandas()
    value = {(row.level, row.unit): (row.estimate, row.sd) for row in found.itertuples()}
    spine = people.spine
    assert np.isfinite(found[["estimate", "sd", "low", "high"]].to_numpy()).all()
    for above, level in zip(spine.levels, spine.levels[1:], strict=False):
        sums: dict[str, float] = {}
        for unit, parent in zip(spine.labels(level), spine.parents(level), strict=True):
            code = spine.labels(above)[parent]
            sums[code] = sums.get(code, 0.0) + value[level, unit][0]
        for code, total in sums.items():
            assert abs(total - value[above, code][0]) <= 1e-6 * (1 + abs(total)), (above, code)
    root = value[spine.levels[0], spine.labels(spine.levels[0])[0]]
    assert abs(root[0] - people.total()) < 1e-6 * (1 + people.total())


def ledgers(random: Random, folder: Path) -> None:
    """Ledgers of random lines, some of them changed: refused, or what the lines say is added up as plain code does."""
    path, losses, changed = folder / "ledger", {}, False
    for number in range(random.randint(1, 6)):
        name = f"m{random.randint(0, 2)}"
        losses.setdefault(name, Fraction(random.randint(1, 9), random.choice([1, 3, 7])))
        entry = {
            "entry": random.choice(["release", "running", "reserved"]), "reservation": None, "name": f"r{number}",
            "accountant": "pure", "loss": str(losses[name]), "neighbours": "replace-one", "delta": None,
            "measurement": name * 16, "noise": None, "population": None, "reference": None, "certificate": None,
            "stamps": [], "invariants": [], "constraints": [],
        }  # fmt: skip
        if random.random() < 0.15:
            put_somewhere(entry, random)
            changed = True
        attempted(lambda entry=entry: _append(path, entry))
    if random.random() < 0.3:
        path.write_bytes(broken(path.read_bytes(), random))
        changed = True
    groups = attempted(lambda: programme_of(read_lines(path)).groups())
    attempted(lambda: _append(path, {"entry": "limit", "epsilon": "2", "delta": "1e-10"}))
    shown = run("ledger", str(path), "show", "--json")
    assert shown.returncode in (0, 2), shown.stderr
    if not changed:
        used = {entry.cost.measurement: entry.cost.loss for entry in programme_of(read_lines(path)).entries}
        assert abs(groups[0].epsilon - float(sum(used.values()))) < 1e-9 * groups[0].epsilon
        assert json.loads(shown.stdout)["entries"]


def _append(path: Path, content: dict[str, Any]) -> None:
    try:
        json.dumps(content, allow_nan=False)
    except ValueError:
        raise Refused from None  # nothing of ours writes such a line
    with open_ledger(path, create=True) as ledger:
        ledger.append(content)


def keys(random: Random, folder: Path) -> None:
    """Key files and their bindings with any content and mode: 64 hexadecimal digits of the owner's, or refused."""
    file, beside = folder / "key", folder / "key.bound"
    digits = random.choice(["0123456789abcdef", "0123456789ABCDEF", "01", "g٣ 1"])
    text = "".join(random.choice(digits) for _ in range(random.choice([64, 64, 64, 63, 65, 0, 5000])))
    content = random.choice([text, text + "\n", f" {text}", text[:32] + "\n" + text[32:]]).encode()
    if random.random() < 0.2:
        content = broken(content, random)
    file.write_bytes(content)
    file.chmod(random.choice([0o600, 0o600, 0o600, 0o400, 0o644, 0o660]))
    if random.random() < 0.3:
        beside.write_bytes(random.choice([b"", b"\xff", text.encode(), b"0" * 64]))
    secret = content.decode(errors="replace").strip()
    with patch("outcomes.check_message", lambda message: _check_secret(message, secret)):
        key = attempted(lambda: RunKey.from_file(file))
        attempted(lambda: key.people([b"people"]))
    plain = re.sub(r"\s", "", content.decode())
    assert re.fullmatch("[0-9a-fA-F]{64}", plain)
    assert len(set(bytes.fromhex(plain))) >= 8
    assert file.stat().st_mode & 0o077 == 0
    assert len(beside.read_text().strip()) == 64


def _check_secret(message: str, secret: str) -> None:
    check_message(message)
    assert len(secret) < 8 or secret[:8] not in message, "a message shows a key"


def drafts(random: Random, folder: Path) -> None:
    """Codebooks drafted from any table: what a draft says in TOML is the draft, and it reads or is refused."""
    case = tables.random_case(random)
    for _ in range(random.choice([0, 1, 2, 3])):
        tables.mutate(case, random)
    path = folder / "people.csv"
    content = case.frame.to_csv(index=False, sep=random.choice(",;\t|")).encode()
    path.write_bytes(broken(content, random) if random.random() < 0.3 else content)
    drafted = attempted(lambda: draft_table(path))
    done = run("codebook", str(path))
    assert done.returncode in (0, 1, 2), done.stderr
    for line in done.stderr.splitlines():
        check_message(line)
    if drafted.missing:
        raise Refused
    book = attempted(lambda: codebook_from_toml(drafted.to_toml()))
    people = attempted(lambda: tv.read_counts(path, book))
    assert people.total() >= 0
    assert (people.leaves.count > 0).all()


WORDS: list[str] = [
    "account", "risk", "ledger", "presets", "cite", "verify", "estimate", "tables", "epl", "strategy", "codebook",
    "show", "add", "limit", "reserve", "scan", "choose", "TOWN", "--codebook", "BOOK", "RELEASE", "FOLDER", "NEW",
    "--epsilon", "--rho", "--delta", "--strategy", "--release", "--json", "-o", "--column", "--prior", "--known",
    "--mechanism", "geometric", "gaussian", "--variance", "--released", "--level", "--query", "--table", "P1", "block",
    "total", "--confidence", "--compare", "--covariance", "--format", "csv", "--reference", "--population", "--plan",
    "--invariant", "total@county", "--measurements", "all", "--accounting", "pld", "--seed", "--key-file", "--resume",
    "--optimise-spine", "--units", "--facilities", "--threads", "1", "2", "1e-10", "1/3", "e2e-2018", "--date",
    "2026-02-30", "--sign", "--ledger", "",
]  # fmt: skip


def flags(random: Random, folder: Path) -> None:
    """Random words on the command line: a result, or a short message and exit code 2; never an unexpected error."""
    (folder / "town.csv").write_text(TOWN)
    (folder / "town.toml").write_text(TOWN_BOOK)
    place = folder / "r"
    shutil.copytree(good_folder(), place)
    files = {"TOWN": "town.csv", "BOOK": "town.toml", "RELEASE": "r", "FOLDER": ".", "NEW": "new"}
    starts = [
        ["protect", "TOWN", "--codebook", "BOOK", "--epsilon", "1"],
        ["protect", "TOWN", "--codebook", "BOOK", "--plan"],
        ["account", "--rho", "1", "--delta", "1e-10"], ["estimate", "RELEASE"], ["tables", "RELEASE", "-o", "NEW"],
        ["verify", "RELEASE"], ["ledger", "NEW"], ["risk", "--mechanism", "gaussian", "--rho", "1", "--prior", "1/2"],
        ["strategy", "TOWN", "--codebook", "BOOK"], ["evaluate", "TOWN", "RELEASE"], ["codebook", "TOWN"], [],
    ]  # fmt: skip
    words = [*random.choice(starts), *(random.choice(WORDS) for _ in range(random.randint(0, 6)))]
    if random.random() < 0.5:
        odd = [str(value) for value in VALUES if isinstance(value, str | float | bool)]
        words.insert(random.randrange(len(words) + 1), random.choice(odd))
    words = [str(folder / files[word]) if word in files else word for word in words]
    before = os.getcwd()
    os.chdir(folder)  # for words that name files
    try:
        done = run(*words)
    finally:
        os.chdir(before)
    assert done.returncode in (0, 1, 2), (words, done)
    assert "unexpected error" not in done.stderr, (words, done.stderr)
    assert "Traceback" not in done.stderr, (words, done.stderr)
    for line in done.stderr.splitlines():
        assert len(line) <= 620, (words, line)  # "tallyveil: " and at most 600
    assert not list(folder.rglob("*.unfinished")), words
    if done.returncode:
        raise Refused
