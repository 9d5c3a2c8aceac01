"""docs/coverage.md: every item, name, option and test that it cites exists, and every item is cited."""

import re
from functools import reduce
from pathlib import Path

import pytest
import typer

import tallyveil_papers
from tallyveil.cli.main import app

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "coverage.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| [FPAK]\d+ \|", line)]
CITED = sorted({code for row in ROWS for cell in row[3:] for code in re.findall(r"`([^`]+)`", cell)})
ITEMS = {item.key for item in tallyveil_papers.items()}
COMMANDS = typer.main.get_command(app)


def options_of(words: list[str]) -> set[str]:
    """The options of a command or of a command within one."""
    command = COMMANDS
    for word in words:
        command = command.commands[word]
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("code", CITED)
def test_what_is_cited_exists(code):
    if re.match(r"(flaxman2019|petti2020|petti2020-appendix|kazan2022)\.", code):
        assert code in ITEMS
    elif code.endswith(".py"):
        assert (ROOT / code).is_file()
    elif code.startswith("tv."):
        import tallyveil

        reduce(getattr, code.split(".")[1:], tallyveil)
    else:
        words = code.split()
        command = [word for word in words if not word.startswith("--")]
        assert set(words) - set(command) <= options_of(command)


def test_every_item_of_reproduce_is_cited():
    assert {code for code in CITED if code in ITEMS} == ITEMS


def test_the_table_at_the_top_counts_the_rows():
    names = {"F": "flaxman2019", "P": "petti2020", "A": "petti2020-appendix", "K": "kazan2022"}
    counted = []
    for letter, name in names.items():
        rows = [row for row in ROWS if row[0].startswith(letter)]
        assert [row[0] for row in rows] == [f"{letter}{number + 1}" for number in range(len(rows))]
        absent = sum(row[3] == "not in tallyveil" for row in rows)
        partly = sum("Missing" in " ".join(row[3:]) for row in rows)
        counted.append((len(rows), len(rows) - absent - partly, partly, absent))
        assert f"| {name} | {' | '.join(map(str, counted[-1]))} |" in PAGE
    assert f"| all | {' | '.join(str(sum(column)) for column in zip(*counted, strict=True))} |" in PAGE


def test_every_row_says_where_and_how_it_is_checked_or_why_it_is_missing():
    for row in ROWS:
        assert len(row) == 5, row
        assert row[4].strip(), row
        assert row[3] == "not in tallyveil" or re.search(r"`(tests/|papers/tests/)|`\w+[\w-]*\.\w|Missing", row[4]), row
