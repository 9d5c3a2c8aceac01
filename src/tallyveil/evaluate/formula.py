"""Formulas over counts that a user gives as text: names of counts, numbers, + - * /, min and max, and nothing else.

A formula is parsed as a Python expression, but never run as one: only the listed parts are accepted and evaluated, so a
formula cannot call anything or read anything but counts.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.nouns.schema import TOTAL, Schema

LONGEST = 400  # characters; parts can be nested no deeper than that
FUNCTIONS: dict[str, Any] = {"min": np.minimum, "max": np.maximum}
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda top, bottom: np.divide(top, np.where(bottom == 0, np.nan, bottom)),  # min and max keep a nan
}
SYNTAX = "numbers, names of counts such as total or [race:black], + - * /, min(...) and max(...)"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Formula:
    """A formula, and the counts that it uses.

    Attributes
    ----------
    text
        As the user wrote it.
    names
        The counts by the name that stands for them in the expression: (query, row).
    """

    text: str
    names: Mapping[str, tuple[str, int]]
    expression: ast.expr

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def value(self, answer: Callable[[str], Floats], units: int) -> Floats:
        """The value for each unit; ``answer`` gives the counts of a query, units x rows. Not a number after x/0."""
        counts = {name: answer(query)[:, row].astype(np.float64) for name, (query, row) in self.names.items()}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = _evaluated(self.expression, counts)
        return np.broadcast_to(np.asarray(found, dtype=np.float64), (units,)).copy()


def parse_formula(text: str, schema: Schema) -> Formula:
    """Parse a formula over the counts of a schema.

    Names are ``total``, ``[QUERY:GROUP]`` such as ``[race:black]``, and a label that occurs in one attribute only.

    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> formula = parse_formula("max(0, child - 2 * [age:adult]) / total", schema)
    >>> formula.value(lambda query: np.array([[9, 1]]) if query == "detailed" else np.array([[10]]), 1).tolist()
    [0.7]
    """
    if len(text) > LONGEST:
        raise InputError(f"the formula has {len(text):,} characters. Give one of at most {LONGEST:,}.")
    names: dict[str, tuple[str, int]] = {}

    def named(found: re.Match[str]) -> str:
        name = f"count_in_brackets_{len(names)}"
        names[name] = _count_named(found[1], text, schema)
        return f" {name} "

    plain = re.sub(r"\[([^\[\]]*)\]", named, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of expressions that are refused below
            expression = ast.parse(plain.strip(), mode="eval").body
        found = _names(expression, text)
    except InputError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"formula {text!r} cannot be read. Use {SYNTAX}.") from None
    for name in found:
        if name not in names:
            names[name] = _bare_name(name, text, schema)
    return Formula(text=text, names=names, expression=expression)


def _names(expression: ast.expr, text: str) -> list[str]:
    """The names of counts in an expression; anything that a formula may not contain is refused."""
    if isinstance(expression, ast.Name):
        return [expression.id]
    if isinstance(expression, ast.Constant) and type(expression.value) in (int, float):
        return []
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub | ast.UAdd):
        return _names(expression.operand, text)
    if isinstance(expression, ast.BinOp) and type(expression.op) in OPERATORS:
        return [*_names(expression.left, text), *_names(expression.right, text)]
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        called = expression.func.id
        if called in FUNCTIONS and expression.args and not expression.keywords:
            return [name for part in expression.args for name in _names(part, text)]
    raise InputError(f"formula {text!r} contains {ast.unparse(expression)!r}. Use only {SYNTAX}.")


def _evaluated(expression: ast.expr, counts: Mapping[str, Floats]) -> Any:
    """The value of an expression that was checked."""
    if isinstance(expression, ast.Name):
        return counts[expression.id]
    if isinstance(expression, ast.Constant):
        return np.float64(str(expression.value))
    if isinstance(expression, ast.UnaryOp):
        value = _evaluated(expression.operand, counts)
        return -value if isinstance(expression.op, ast.USub) else value
    if isinstance(expression, ast.BinOp):
        left, right = _evaluated(expression.left, counts), _evaluated(expression.right, counts)
        return OPERATORS[type(expression.op)](left, right)
    assert isinstance(expression, ast.Call)
    assert isinstance(expression.func, ast.Name)
    return reduce(FUNCTIONS[expression.func.id], [_evaluated(part, counts) for part in expression.args])


def _count_named(inside: str, text: str, schema: Schema) -> tuple[str, int]:
    """The count that a name in brackets stands for."""
    query, colon, label = (part.strip() for part in inside.partition(":"))
    if not colon and query == TOTAL:
        return TOTAL, 0
    if not colon or not query or not label:
        raise InputError(f"formula {text!r}: write [{inside}] as [QUERY:GROUP], such as [race:black].")
    asked = schema.query(query)
    if label not in asked.labels():
        raise InputError(
            f"formula {text!r}: {label!r} is not a group of {query!r}. Its groups are {', '.join(asked.labels())}."
        )
    return asked.name, asked.labels().index(label)


def _bare_name(name: str, text: str, schema: Schema) -> tuple[str, int]:
    """The count that a bare name stands for: the total, or a label that only one attribute has."""
    if name == TOTAL:
        return TOTAL, 0
    holders = [attribute for attribute, labels in schema.attributes.items() if name in labels]
    if len(holders) == 1:
        return _count_named(f"{holders[0]}:{name}", text, schema)
    if holders:
        raise InputError(
            f"formula {text!r}: {name!r} is a label of {' and '.join(holders)}. Write [{holders[0]}:{name}]."
        )
    known = ", ".join(f"[{attribute}:{labels[0]}]" for attribute, labels in schema.attributes.items())
    raise InputError(f"formula {text!r}: there is no count called {name!r}. Use total, or counts such as {known}.")
