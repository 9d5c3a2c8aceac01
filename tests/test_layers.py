"""The order of the layers (ARCHITECTURE): a module imports from rows above it, or from its left in its row."""

import ast
from pathlib import Path

import tallyveil

ROOT = Path(tallyveil.__file__).parent

# Rows from the top; within a row from the left. A name stands for a module or a whole folder.
ROWS = [
    ["errors", "_arrays", "_compiled", "_frozen", "_typed", "_memory", "_workers"],
    [
        *(
            "nouns.codes",
            "nouns.sorted_paths",
            "nouns.spine",
            "nouns.schema",
            "nouns.counts_kernels",
            "nouns.counts",
            "nouns.paged_counts",
            "nouns.histogram",
            "nouns.estimates",
            "nouns.tables",
            "nouns.facilities",
        ),
        *(
            "nouns.areas",
            "nouns.optimised_spine",
            "nouns.spine_optimiser",
            "nouns.census_schemas",
            "nouns.population",
            "nouns",
        ),
    ],
    [
        *(
            "privacy.budget",
            "privacy.conversions",
            "privacy.noise",
            "privacy.loss_distribution",
            "privacy.sums",
            "privacy.chacha",
            "privacy.stream_words",
            "privacy.entropy",
        ),
        *(
            "privacy.thresholds",
            "privacy.sampling",
            "privacy.bounds",
            "privacy.constraints",
            "privacy.exactness",
            "privacy.strategy_checks",
            "privacy.strategy",
            "privacy.strategy_toml",
        ),
        *(
            "privacy.presets",
            "privacy.preset_mapping",
            "privacy.shares",
            "privacy.streams",
            "privacy.ledger",
            "privacy.loss",
            "privacy.neighbour_pairs",
            "privacy.pld",
            "privacy.calibrate",
        ),
        *("privacy.guarantee", "privacy.theorems", "privacy.several_releases", "privacy.sentences"),
        *("privacy.strategy_comments", "privacy.pld_of_several", "privacy"),
    ],
    [
        *(
            "release.solved",
            "release.canonical",
            "release.typed_json",
            "release.about",
            "release.declaration",
            "release.certificate",
        ),
        *("release.expected_error", "release.declare"),
        *(
            "release.measurements",
            "release.release",
            "release.certificate_page",
            "release.plan",
            "release",
        ),
    ],
    ["populations", "files.locks", "files.atomic", "runs", "files"],
    ["mechanisms"],
    ["blue"],  # takes measurements; the engine may use its pass up
    ["engine", "evaluate", "risk"],
    ["scale"],  # where work runs; the others take callables
    [
        *("protection.before_noise", "protection.resuming", "protection.spending", "protection.estimate_checks"),
        *("protection.protect", "protection.verify", "protection"),
    ],
    ["allocation"],  # chooses shares by predicted errors, risk and simulated releases
    ["auditing"],  # runs the engine, and hands what it gives to the audit
    ["report"],
    ["cli", "__main__"],
]
INDEPENDENT = {"engine", "evaluate", "risk"}
# Imports inside a function of a module further right: class methods that offer a neighbour's verb.
LATE = {
    ("privacy.strategy_checks", "privacy.strategy"),  # a type only
    ("privacy.strategy", "privacy.presets"),
    ("privacy.strategy", "privacy.strategy_toml"),
    ("nouns.spine", "nouns.spine_optimiser"),
    ("nouns.histogram", "nouns.tables"),
    ("nouns.estimates", "nouns.tables"),
    ("nouns.spine", "nouns.optimised_spine"),  # types only, as the next two
    ("nouns.spine", "nouns.areas"),
    ("nouns.spine", "nouns.facilities"),
}
ORDER = {name: (row, column) for row, names in enumerate(ROWS) for column, name in enumerate(names)}


def part_of(module: str) -> str:
    """The name in ROWS that a module belongs to."""
    pieces = module.split(".")
    for length in range(len(pieces), 0, -1):
        if ".".join(pieces[:length]) in ORDER:
            return ".".join(pieces[:length])
    raise AssertionError(f"{module} has no place in the layers")


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tallyveil."):
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.startswith("tallyveil.")]
    return [name.removeprefix("tallyveil.") for name in names]


def wrong_imports(modules: dict[str, list[str]]) -> list[str]:
    found = []
    for module, wanted in modules.items():
        me = part_of(module)
        for name in wanted:
            other = part_of(name)
            siblings = {me, other} <= INDEPENDENT and me != other
            if other != me and (siblings or ORDER[other] >= ORDER[me]) and (me, other) not in LATE:
                found.append(f"{module} imports {name}")
    return found


def modules() -> dict[str, list[str]]:
    table = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            table[name] = imports(path)
    return table


def test_every_module_imports_only_from_above_or_from_its_left():
    assert wrong_imports(modules()) == []


def test_an_import_from_below_or_of_an_independent_neighbour_is_found():
    assert wrong_imports({"nouns.schema": ["privacy.budget"]})
    assert wrong_imports({"evaluate.error": ["engine.topdown"]})
    assert not wrong_imports({"privacy.guarantee": ["privacy.strategy", "errors"]})


def test_only_mechanisms_measure_the_truth_so_the_engine_never_imports_them():
    assert [m for m, names in modules().items() if m.startswith("engine") for n in names if n.startswith("mech")] == []
