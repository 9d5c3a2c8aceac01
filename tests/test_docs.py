import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path

from tallyveil.cli.demo import demo
from tallyveil.privacy.strategy_toml import strategy_from_toml

DOCS = Path(__file__).parent.parent / "docs"


def test_the_command_line_reference_is_what_help_says():
    made = runpy.run_path(str(DOCS / "generate_reference.py"))["page"]()
    assert made == (DOCS / "reference" / "cli.md").read_text(), "run `make docs` and commit docs/reference/cli.md"


def test_the_strategy_file_in_the_manual_can_be_read():
    text = (DOCS / "strategies.md").read_text().split("```toml\n")[1].split("```")[0]
    assert strategy_from_toml(text).levels.keys() == {"us", "county"}


def test_the_readme_shows_what_the_demo_prints():
    shown = (DOCS.parent / "README.md").read_text().split("```text\n")[1].split("```")[0]
    with redirect_stdout(io.StringIO()) as printed:
        demo()
    figures = [line.split() for line in printed.getvalue().splitlines()]
    for line in shown.splitlines():
        if line.strip() and " draws in " not in line:
            assert line.split() in figures, line
