"""Answers from several problems: what each says about a query is added up, since their subsets never mix.

There is one problem unless some subsets of attributes are measured down to a finer level than others. Then the parts
are computed one after the other, and the figures of a level are held until the last part is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.careful_figures import answers_of_stage, determined
from tallyveil.blue.downward import whole_tree
from tallyveil.blue.problem import Problem
from tallyveil.errors import UndeterminedError
from tallyveil.nouns.schema import Query


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelAnswers:
    """Answers to queries at some units of a level; unit ``i`` has the variances ``variances[name][of[i]]``."""

    level: str
    units: Integers
    of: Integers
    answers: Mapping[str, Floats]
    variances: Mapping[str, Floats]


def matters(problem: Problem, query: Query) -> bool:
    """Whether a problem says anything about a query."""
    return bool(problem.decomposition.marginal(query).squares.any())


def reaches(problems: Sequence[Problem], level: str, query: Query) -> bool:
    """Whether the measurements determine a query at a level."""
    return all(_reached(problem, level, query) for problem in problems if matters(problem, query))


def _reached(problem: Problem, level: str, query: Query) -> bool:
    number = next((number for number, one in enumerate(problem.stages) if one.stage.level == level), None)
    return number is not None and (not problem.with_care or determined(problem, number, query))


def check_reached(problems: Sequence[Problem], queries: Mapping[str, Sequence[Query]]) -> None:
    """Refuse queries at levels at which the measurements do not determine them."""
    for level, asked in queries.items():
        for problem in problems:
            for query in asked:
                if matters(problem, query):
                    number = problem.place(level)
                    if problem.with_care and not determined(problem, number, query):
                        raise UndeterminedError(
                            f"what was measured at level {level!r} does not determine {query.name}. Ask for a coarser "
                            f"level or fewer attributes, or save more measurements (protect --measurements all)."
                        )


def level_answers(problems: Sequence[Problem], queries: Mapping[str, Sequence[Query]]) -> Iterator[LevelAnswers]:
    """The answers to the queries of each level, in pieces; without noise there are variances only."""
    check_reached(problems, queries)
    if len(problems) == 1:
        yield from _of_one(problems[0], queries)
        return
    sums: dict[str, LevelAnswers] = {}
    for problem in problems:
        here = {level: [query for query in asked if matters(problem, query)] for level, asked in queries.items()}
        for part in _of_one(problem, {level: asked for level, asked in here.items() if asked}):
            if part.level not in sums:
                sums[part.level] = _nothing(problem, part.level, queries[part.level])
            whole = sums[part.level]
            for name, variances in part.variances.items():
                whole.variances[name][part.units] += variances[part.of]
            for name, answers in part.answers.items():
                whole.answers[name][part.units] += answers
    yield from (sums[level] for level in queries)


def _of_one(problem: Problem, queries: Mapping[str, Sequence[Query]]) -> Iterator[LevelAnswers]:
    at = {problem.place(level): level for level in queries}
    if not at:
        return
    if problem.with_care:
        for number, level in at.items():
            of, answers, variances = answers_of_stage(problem, number, queries[level])
            yield LevelAnswers(level=level, units=np.arange(len(of)), of=of, answers=answers, variances=variances)
        return
    for found in whole_tree(problem, to=max(at)):
        here = at.get(found.number)
        if here is None:
            continue
        marginals = {query.name: problem.decomposition.marginal(query) for query in queries[here]}
        x = found.x
        yield LevelAnswers(
            level=here,
            units=found.units,
            of=found.of,
            answers={} if x is None else {name: marginal.answers(x) for name, marginal in marginals.items()},
            variances={name: marginal.variances(found.V) for name, marginal in marginals.items()},
        )


def _nothing(problem: Problem, level: str, queries: Sequence[Query]) -> LevelAnswers:
    """Zeros for all units of a level."""
    units = problem.stages[problem.place(level)].stage.size

    def zeros() -> dict[str, Floats]:
        return {query.name: np.zeros((units, query.size)) for query in queries}

    every = np.arange(units)
    return LevelAnswers(
        level=level, units=every, of=every, answers={} if problem.ask is None else zeros(), variances=zeros()
    )
