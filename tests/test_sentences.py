"""One source of sentences: only privacy/sentences.py says what is guaranteed or writes an epsilon, a rho or a delta."""

import ast
import re
from fractions import Fraction
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.privacy.budget import down, up

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tallyveil"
FIGURE = re.compile(r"(^|_)(epsilon|rho|delta|loss|left)s?($|_)")
CLAIM = re.compile(
    r"guarantee[ds]?\b(?!\"|')|differential privacy|differentially private|\bsure of\b|for a chance of|equally likely"
    r"|counted once|every count has noise|not for publication|promises? (nothing|more|no)|is not protected",
    re.IGNORECASE,
)
ROUNDING = {"round", "format", "figure", "figures"}
ALLOWED = {  # each with its reason; the list only shrinks
    "privacy/sentences.py": "the module itself",
    "privacy/budget.py": "up and down, which round losses",
    "report/internal.py": "the mark of what is made from the truth: no claim about a release",
}


def python_files():
    files = [*SOURCE.rglob("*.py"), *(ROOT / "papers" / "src").rglob("*.py"), *(ROOT / "docs").glob("generate_*.py")]
    return [file for file in sorted(files) if file not in {SOURCE / name for name in ALLOWED}]


def figures_in(node):
    """The names of figures in an expression: those of variables, fields and keys, not of the objects that have them."""
    owners = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    for n in ast.walk(node):
        name = n.id if isinstance(n, ast.Name) and id(n) not in owners else getattr(n, "attr", None)
        name = n.value if isinstance(n, ast.Constant) and isinstance(n.value, str) else name
        if name is not None and FIGURE.search(name):
            yield name


def passed_over(tree):
    """Docstrings, messages of errors, and help texts of commands, which others check."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            yield body[0].value
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            yield from ast.walk(node)


def offences(path):
    tree = ast.parse(path.read_text())
    skipped = {id(node) for node in passed_over(tree)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None and any(figures_in(node.value)):
            yield node.lineno, f"formats {ast.unparse(node.value)}"
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ROUNDING and any(True for argument in node.args for _ in figures_in(argument)):
                yield node.lineno, f"rounds {ast.unparse(node)}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            yield node.lineno, "formats with %"
        words = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in words and (found := CLAIM.search(words)):
            yield node.lineno, f"claims {found.group()!r} in {words[:80]!r}"


def of_package(path):
    return SOURCE in path.parents


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_writes_a_loss_or_says_what_is_guaranteed(path):
    found = [f"line {line}: {what}" for line, what in offences(path) if of_package(path) or what.startswith("claims")]
    assert not found, found


def test_the_list_of_exceptions_is_short_and_holds_no_page_or_command():
    assert len(ALLOWED) <= 5
    assert not [name for name in ALLOWED if name.startswith("cli/") or name.endswith(".html") or "page" in name]
    assert all((SOURCE / name).is_file() for name in ALLOWED)


@pytest.mark.parametrize("template", sorted(SOURCE.rglob("*.html")), ids=lambda path: path.name)
def test_templates_place_sentences_and_write_none(template):
    tree = jinja2.Environment().parse(template.read_text())
    for data in tree.find_all(jinja2.nodes.TemplateData):
        text = " ".join(re.sub(r"<[^>]*>", " ", data.data).split())
        assert not CLAIM.search(text), text
    for used in tree.find_all(jinja2.nodes.Filter):
        names = {n.name for n in used.find_all(jinja2.nodes.Name)} | {
            n.attr for n in used.find_all(jinja2.nodes.Getattr)
        }
        assert used.name in ("safe", "join", "list") or not [n for n in names if FIGURE.search(n)], (used.name, names)


def test_the_scan_finds_what_it_looks_for(tmp_path):
    """Otherwise the tests above could not fail."""
    bad = tmp_path / "bad.py"
    bad.write_text(
        'def f(figures, left):\n    print(f"{figures.epsilon:.3g} {left:.3g}", round(figures["rho"], 2))\n'
        '    return "You can become at most 73% sure of it, which is guaranteed."\n'
    )
    assert sorted(line for line, _ in offences(bad)) == [2, 2, 2, 3]


AMOUNTS = st.fractions(min_value=Fraction(1, 10**12), max_value=10**9)


@given(AMOUNTS, st.integers(1, 10))
def test_losses_are_never_written_smaller_and_rests_never_larger_than_they_are(value, digits):
    assert Fraction(up(value, digits=digits)) >= value
    assert Fraction(down(value, digits=digits)) <= value
    assert Fraction(up(value, places=2).replace(",", "")) - value < Fraction(1, 100)
    assert Fraction(up(value, digits=digits)) <= value * (1 + Fraction(10, 10**digits))
    assert Fraction(up(value)) >= value


@given(st.floats(min_value=1e-12, max_value=1e12), st.integers(3, 10))
def test_floats_are_rounded_like_fractions_but_for_their_last_two_bits(value, digits):
    assert Fraction(up(value, digits=digits)) >= Fraction(value) * (1 - Fraction(1, 2**50))
    assert Fraction(down(value, digits=digits)) <= Fraction(value)
