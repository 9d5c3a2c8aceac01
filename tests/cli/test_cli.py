import json
import signal
import subprocess
import sys
from importlib.metadata import version

import pandas as pd
import pytest

from command_line import Done, figures, run
from tallyveil.cli.tables import print_table


@pytest.mark.parametrize(("rho", "epsilon", "implied"), [("2.56", 17.158, 2.263), ("0.5", 6.839, 1.0)])
def test_account_gives_the_papers_exact_and_implied_epsilon(rho, epsilon, implied):
    account = figures("account", "--rho", rho, "--delta", "1e-10")
    assert account["epsilon"] == pytest.approx(epsilon, abs=5e-4)
    assert account["implied_epsilon"] == pytest.approx(implied, abs=5e-4)
    assert (account["rho"], account["delta"]) == (float(rho), 1e-10)


def test_account_of_the_2020_strategy_lists_attributes_and_levels():
    account = figures("account", "--strategy", "pl94-2020-us-persons", "--delta", "1e-10")
    assert account["epsilon"] == pytest.approx(17.14, abs=5e-3)
    assert account["pld_epsilon"] < account["epsilon"]
    assert list(account["per_attribute"]) == ["hhgq", "votingage", "hispanic", "cenrace"]
    assert list(account["within_level"]) == ["us", "state", "county", "tract", "block_group"]


def test_account_of_a_pure_strategy_has_no_rho_or_delta():
    account = figures("account", "--strategy", "e2e-2018", "--epsilon", "0.5")
    assert account["epsilon"] == 0.5
    assert [account[name] for name in ("rho", "delta", "implied_epsilon", "pld_epsilon")] == [None] * 4


def test_account_of_an_epsilon_gives_the_largest_rho_that_keeps_it():
    rho = figures("account", "--epsilon", "1", "--delta", "1e-6")["rho"]
    assert figures("account", "--rho", repr(rho), "--delta", "1e-6")["epsilon"] == pytest.approx(1, abs=1e-9)


def test_account_of_an_epsilon_shows_both_theorems_and_their_two_rhos():
    """Section 2.1 of kazan2022: pure epsilon 1 gives rho 1/2; at delta 1e-10, rho is 0.0132."""
    at_delta, pure = figures("account", "--epsilon", "1", "--delta", "1e-10")["conversions"]
    assert (at_delta["theorem"], at_delta["delta"], round(at_delta["rho"], 4)) == (3, 1e-10, 0.0132)
    assert (pure["theorem"], pure["delta"], pure["rho"]) == (2, 0, 0.5)
    back = figures("account", "--rho", repr(at_delta["rho"]), "--delta", "1e-10")
    assert back["epsilon"] == pytest.approx(1, abs=1e-9)
    printed = run("account", "--epsilon", "1", "--delta", "1e-10").stdout
    assert "Theorem 3: epsilon 1, delta 1e-10, rho 0.01324: " in printed
    assert "Theorem 2: epsilon 1, delta 0, rho 0.5: " in printed


def test_account_of_a_rho_says_that_the_implied_epsilon_guarantees_nothing():
    exact, implied = figures("account", "--rho", "1/2")["conversions"]
    assert (exact["theorem"], round(exact["epsilon"], 3), exact["guarantee"]) == (3, 6.839, True)
    assert (implied["theorem"], implied["epsilon"], implied["guarantee"]) == (2, 1, False)


def test_account_of_a_pure_strategy_applies_theorem_2_and_shows_theorem_3_as_what_it_is_not():
    words = ["account", "--strategy", "e2e-2018", "--epsilon", "1"]
    at_delta, pure = figures(*words)["conversions"]
    assert (pure["theorem"], pure["epsilon"], pure["rho"], pure["guarantee"]) == (2, 1, 0.5, True)
    assert (at_delta["theorem"], round(at_delta["rho"], 4), at_delta["guarantee"]) == (3, 0.0132, False)
    assert (
        figures(*words, "--delta", "1e-6")["conversions"][0]["rho"]
        == figures("account", "--epsilon", "1", "--delta", "1e-6")["rho"]
    )
    assert "so rho is 0.5 (Theorem 2); rho 0.01324 is for Gaussian noise" in run(*words).stdout.replace("\n", " ")
    huge = ["account", "--strategy", "e2e-2018", "--epsilon"]
    assert [one["theorem"] for one in figures(*huge, "1e20")["conversions"]] == [2]  # no rho is that large
    assert figures(*huge, "1e200")["conversions"] == []


def test_every_account_has_the_same_conversions_and_a_sentence_that_names_both_theorems():
    accounts = [["--epsilon", "1"], ["--rho", "1/2"], ["--strategy", "e2e-2018", "--epsilon", "1"]]
    found = [figures("account", *words) for words in accounts]
    assert [[one["theorem"] for one in account["conversions"]] for account in found] == [[3, 2]] * 3
    assert len({tuple(one) for account in found for one in account["conversions"]}) == 1  # the same keys
    assert all("(Theorem 3" in account["reading"] and "(Theorem 2)" in account["reading"] for account in found)
    assert len({account["reading"] for account in found}) == 3


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["account"], "account needs one of --rho, --epsilon, --strategy or --release"),
        (["account", "--rho", "1", "--epsilon", "1"], "account needs one of"),
        (["account", "--rho", "-1"], "rho must be greater than 0. Got -1 instead."),
        (["account", "--rho", "nan"], "rho must be a number"),
        (["account", "--rho", "1", "--delta", "1"], "delta must be less than 1"),
        (["account", "--rho", "1", "--delta", "0"], "delta must be greater than 0"),
        (
            ["account", "--strategy", "nowhere.toml"],
            "nowhere.toml: neither a file nor a preset. The presets are e2e-2018",
        ),
        (["presets", "show", "pl94"], "unknown preset 'pl94'. Known are e2e-2018"),
    ],
)
def test_bad_input_ends_with_one_clear_line_and_exit_code_2(words, line):
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("tallyveil: ")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_presets_are_listed_shown_and_written(tmp_path):
    assert "pl94-2020-us-persons" in run("presets", "list").stdout
    assert "3.18" in run("presets", "show", "pl94-2020-us-persons").stdout
    file = tmp_path / "mine.toml"
    assert run("presets", "write", "pl94-2020-pr-persons", "-o", str(file)).returncode == 0
    assert figures("account", "--strategy", str(file)) == figures("account", "--strategy", "pl94-2020-pr-persons")
    before = file.read_text()
    again = run("presets", "write", "e2e-2018", "-o", str(file))
    assert again.returncode == 2
    assert "nothing is overwritten" in again.stderr
    assert file.read_text() == before


def test_cite_prints_one_entry_for_each_paper():
    text = run("cite").stdout
    for key in ("flaxman2019", "petti2020", "kazan2022", "abowd2022topdown", "tallyveil"):
        assert f"{{{key}," in text
    assert text.count("{") == text.count("}")


def test_the_program_also_runs_as_a_module_and_knows_its_installed_version():
    done = subprocess.run([sys.executable, "-m", "tallyveil", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"tallyveil {version('tallyveil')}"


def test_help_loads_no_heavy_library():
    code = (
        "import sys, contextlib, io\n"
        "from tallyveil.cli.main import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    app(['--help'])\n"
        "print([m for m in ('numpy', 'numba', 'scipy', 'flint', 'cryptography', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


COMMANDS = [
    *([name] for name in ("demo", "synth", "codebook", "protect", "verify", "keygen", "sign", "account", "cite")),
    ["presets", "show"],
    ["presets", "write"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    text = run(*command, "--help").stdout
    assert "Example" in text
    assert f"tallyveil {' '.join(command)}" in text


def test_brackets_in_help_are_shown():
    text = " ".join(run("evaluate", "--help").stdout.replace("│", " ").split())
    assert '--funds "[age:child]" --amount 5e6' in text
    assert "[QUERY:GROUP]" in text


def test_a_table_shows_names_with_brackets_and_infinite_figures(capsys):
    frame = pd.DataFrame({"unit": ["[red]", "[/b]"], "gap": [0.5, float("inf")]})
    print_table(frame, title="units [x]", headings={"unit": "unit [u]", "gap": "gap"})
    assert capsys.readouterr().out.split() == ["units", "[x]", "unit", "[u]", "gap", "[red]", "0.5", "[/b]", "inf"]


def test_codebook_drafts_prints_and_writes(tmp_path):
    file = tmp_path / "towns.csv"
    file.write_text("state,county,male,female\n44,44001,1,2\n44,44003,3,4\n")
    printed = run("codebook", str(file))
    assert printed.returncode == 0
    assert 'column = "{sex}"' in printed.stdout
    assert printed.stderr.startswith("10 persons; units: ")
    assert "Labels and units were taken from the data" in printed.stderr
    assert "then remove labels_from and units_from" in printed.stderr
    assert "not used" not in printed.stderr
    marks = printed.stdout.split("[geography]")[0]
    assert 'labels_from = "data"' in marks
    assert 'units_from = "data"' in marks
    book = tmp_path / "towns.toml"
    assert run("codebook", str(file), "-o", str(book)).returncode == 0
    assert book.read_text().strip() == printed.stdout.strip()
    again = run("codebook", str(file), "-o", str(book))
    assert (again.returncode, "nothing is overwritten" in again.stderr) == (2, True)


def test_codebook_names_the_columns_that_it_does_not_use(tmp_path):
    (tmp_path / "p.csv").write_text("county,sex,height\n001,f,170\n001,m,180\n")
    assert "columns that are not used: height" in run("codebook", str(tmp_path / "p.csv"), "--persons").stderr


def test_a_release_made_with_a_draft_is_stamped_until_a_person_removes_its_marks(tmp_path):
    file, book, units = tmp_path / "p.csv", tmp_path / "p.toml", tmp_path / "units.csv"
    file.write_text("county,sex\n" + "001,f\n001,m\n003,f\n003,m\n" * 3 + "003,x\n")
    units.write_text("county\n001\n003\n")
    assert run("codebook", str(file), "-o", str(book)).returncode == 0

    def stamps(name: str) -> list[str]:
        words = ["--codebook", str(book), "--units", str(units), "--epsilon", "1", "--threads", "1", "--json"]
        done = run("protect", str(file), *words, "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["stamps"]

    drafted = ["labels from data: not covered by the guarantee", "units from data: not covered by the guarantee"]
    assert stamps("drafted") == drafted
    assert "labels from data" in (tmp_path / "drafted" / "codebook.toml").read_text()  # the label x is published there
    text = book.read_text()
    book.write_text(text.replace('units_from = "data"\n', ""))
    assert stamps("labels") == drafted[:1]
    book.write_text(text.replace('units_from = "data"\n', "").replace('labels_from = "data"\n', ""))
    assert stamps("checked") == []


@pytest.mark.parametrize("shape", ["1940", "2020", "uniform"])
def test_synth_writes_a_census_that_reads_back(tmp_path, shape):
    from tallyveil.files import read_counts

    file = tmp_path / "town.parquet"
    done = run("synth", shape, "--persons", "3000", "--seed", "7", "-o", str(file))
    assert done.returncode == 0, done.stderr
    people = read_counts(file, tmp_path / "town.codebook.toml", units=tmp_path / "town.units.parquet")
    assert people.total() == 3000
    assert all((tmp_path / line.rsplit("/", 1)[-1]).exists() for line in done.stdout.split())
    assert run("synth", shape, "--persons", "10", "-o", str(file)).returncode == 2


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> Done:
    """The demo, run in a folder of its own, named as a newcomer would see it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("demo"))
        done = run("demo", "-o", "town")
        patch.setattr("tallyveil.cli.demo.PERSONS", 1)  # were it to run again, it would show
        again = run("demo", "-o", "town")
        assert (again.returncode, again.stdout) == (2, "")
        assert again.stderr == "tallyveil: town exists. Name a new folder; nothing is overwritten.\n"
        next_ = done.stdout.split("Next:\n")[1].split("\n\n")[0].replace("\\\n", " ").strip().splitlines()
        followed = [run(*line.split()[1:]) for line in next_]
    assert done.returncode == 0, done.stderr
    assert [one.returncode for one in followed] == [0, 0, 0]
    *checks, conclusion = followed[0].stdout.strip().splitlines()
    assert {line.split()[0] for line in checks} == {"holds", "unchecked"}
    assert conclusion == "The folder passes 25 checks; signature and post-processing were not checked."
    assert "Empirical privacy loss" in followed[1].stdout
    assert "Nothing was spent." in followed[2].stdout
    return done


def test_the_demo_says_what_is_guaranteed_and_that_its_release_is_seeded(shown):
    assert "Guaranteed: 1-differential privacy (pure), for neighbours that agree on all invariants" in shown.stdout
    assert "Stamped: seeded: not for publication" in shown.stdout
    assert "town/release: " in shown.stdout


def test_the_demo_ends_with_the_public_report(shown):
    assert shown.stdout.endswith("\nThe public report: town/report.html (open it in a browser)\n")


def test_the_demo_shows_exact_state_totals_and_errors_below(shown):
    totals = {line.split()[0]: line.split()[2:] for line in shown.stdout.splitlines() if " total  " in line}
    assert totals["us"][1:] == totals["state"][1:] == ["0", "0", "100%"]
    assert all(0 < int(totals[level][1]) < int(totals[level][2]) for level in ("county", "enumdist"))


def test_compiling_is_announced_only_where_it_takes_long(monkeypatch, capsys):
    from time import sleep

    from tallyveil.runs import progress

    with progress.compiling_aloud():
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.compiling_aloud():
        sleep(0.2)
    assert capsys.readouterr().err == "compiling kernels (once; about half a minute)\n"


def test_an_interrupted_run_exits_with_130_and_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("tallyveil.files.tables.write.write_counts", interrupted)
    done = run("synth", "2020", "--persons", "1000", "-o", str(tmp_path / "t.parquet"))
    signal.signal(signal.SIGINT, before)
    assert done.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_synth_refuses_what_it_cannot_make(tmp_path):
    done = run("synth", "1940", "--persons", "0", "-o", str(tmp_path / "t.parquet"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 2)  # what it set out to do, and why not
    assert list(tmp_path.iterdir()) == []


def test_a_lack_of_memory_is_one_line(monkeypatch):
    def full(**_: object) -> None:
        raise MemoryError("Unable to allocate 30 GiB")

    monkeypatch.setattr(sys.modules["tallyveil.cli.main"], "app", full)
    done = run("cite")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("tallyveil: there is not enough memory. Use a machine with more, or a smaller table.\n")


def test_help_leaves_the_breaking_of_lines_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "lies in one value of the coarser one. Column names can be in any language." in run("codebook", "-h").stdout
