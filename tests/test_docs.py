import runpy
from pathlib import Path

import pytest

import tallyveil
from command_line import run
from tallyveil.privacy.budget import up
from tallyveil.privacy.conversions import epsilon_but_for_chance
from tallyveil.privacy.sentences import most_certain
from tallyveil.privacy.strategy_toml import strategy_from_toml

DOCS = Path(__file__).parent.parent / "docs"
WALKS = runpy.run_path(str(DOCS / "generate_walks.py"))


def test_the_command_line_reference_is_what_help_says():
    made = runpy.run_path(str(DOCS / "generate_reference.py"))["page"]()
    assert made == (DOCS / "reference" / "cli.md").read_text(), "run `make docs` and commit docs/reference/cli.md"


def test_the_import_graph_of_the_architecture_is_the_one_that_the_imports_make():
    made = runpy.run_path(str(DOCS / "generate_graph.py"))["page"]()
    assert made == (DOCS.parent / "ARCHITECTURE.md").read_text(), (
        "run docs/generate_graph.py and commit ARCHITECTURE.md"
    )


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "reference" / "python.md").read_text()
    parts = {"schemas": "nouns.census_schemas"}
    missing = [name for name in tallyveil.__all__ if f" tallyveil.{parts.get(name, name)}\n" not in page]
    assert missing == []


def test_the_strategy_file_in_the_manual_can_be_read():
    text = (DOCS / "strategies.md").read_text().split("```toml\n")[1].split("```")[0]
    assert strategy_from_toml(text).levels.keys() == {"us", "county"}


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The rows of the table of a page that begins with a heading."""
    table = page.split(f"{heading}\n| --- | --- |\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_page_for_those_who_decide_has_the_figures_that_follow_from_epsilon_and_rho():
    page = (DOCS / "explanation" / "epsilon.md").read_text()
    certain = rows_of(page, "| epsilon | 50% becomes at most |")
    assert len(certain) >= 6
    assert [most for _, most in certain] == [most_certain(float(epsilon)) for epsilon, _ in certain]
    converted = rows_of(page, "| rho | epsilon, but for 1 in 10 billion |")
    assert len(converted) >= 4
    assert [epsilon for _, epsilon in converted] == [
        up(epsilon_but_for_chance(float(rho), 1e-10), digits=3) for rho, _ in converted
    ]


def test_long_messages_are_folded_as_in_a_terminal_but_tables_and_code_are_not():
    tidy = WALKS["_tidy"]
    message = "Labels and units were taken from the data. " * 6
    assert max(map(len, tidy(message).splitlines())) <= WALKS["WIDEST"]
    assert tidy(message).split() == message.split()
    for line in ("a" * 60 + "  " + "b" * 60, "# a comment of a file " * 8, '"a b","c d"' * 20):
        assert tidy(line) == f"{line.rstrip()}\n"


def test_the_readme_shows_what_the_demo_prints(tmp_path):
    shown = (DOCS.parent / "README.md").read_text().split("```text\n")[1].split("```")[0]
    printed = run("demo", "-o", str(tmp_path / "demo")).stdout
    words_of = WALKS["words_of"]
    pairs = list(zip(words_of(shown), words_of(printed), strict=False))
    assert len(pairs) == len(words_of(shown)) > 80
    for mine, theirs in pairs:  # another machine may round a few cells otherwise
        assert theirs == (mine if isinstance(mine, str) else pytest.approx(mine, rel=0.1, abs=1))


@pytest.mark.slow  # `make docs` runs the same commands, and fails where a page shows something else
@pytest.mark.parametrize("page", WALKS["pages"](), ids=lambda page: page.stem)
def test_the_commands_of_a_walk_print_what_the_page_shows(page):
    """Progress and seconds aside; another machine may round a few counts otherwise."""
    shown = page.read_text()
    printed = WALKS["made"](shown, WALKS["in_a_shell"])
    assert WALKS["is_shown"](shown, printed), printed


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("It has 100 people, 97% of them here.", True),
        ("It has 119 people, 95% of them here.", True),
        ("It has 125 people, 97% of them here.", False),
        ("It has no people, 97% of them here.", False),
        ("It has 100 people, 97% of them here. And more.", False),
    ],
)
def test_a_page_is_out_of_date_where_words_or_more_than_a_few_counts_differ(printed, same):
    assert WALKS["is_shown"]("It has 100 people, 97% of them here.", printed) is same


def test_a_page_out_of_date_is_written_again_and_make_docs_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```console\n$ echo one\ntwo\n```\n")
    monkeypatch.setitem(WALKS["main"].__globals__, "DOCS", tmp_path)
    assert WALKS["main"]().endswith("page.md: written again. Read what the commands print now, and commit it.")
    assert page.read_text() == "# A page\n\n```console\n$ echo one\none\n```\n"
    assert WALKS["main"]() is None
