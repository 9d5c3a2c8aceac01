"""The gallery of the manual: the figures that tallyveil draws, each with the command that draws it.

python docs/generate_gallery.py          # runs all commands and writes gallery.md and gallery/; needs chromium

A test checks that the page is the one that this file describes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
PICTURES = DOCS / "gallery"
SETUP = (
    "tallyveil synth 1940 --persons 500000 --seed 7 -o town.parquet",
    "tallyveil protect town.parquet --codebook town.codebook.toml --units town.units.parquet \\\n"
    "    --epsilon 1 --seed 1 --measurements all -o release",
)
LEAD = """# Gallery

What tallyveil draws, and the command for each figure. The people are a synthetic census of 500,000 persons in the
shape of that of 1940. Figures that were made from true counts say so: they are internal.

"""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture: the file that a command makes, or a part of the page that it writes."""

    name: str
    title: str
    words: str
    command: str
    made: str
    part: str = ""

    @property
    def ending(self) -> str:
        """Parts of pages are photographed."""
        return ".png" if self.part else ".svg"


FIGURES = (
    Figure(
        name="report",
        title="How large are errors?",
        words="The first picture of a [report](report.md): published totals beside their margins, level by level.",
        command="tallyveil report release -o report.html",
        made="report.html",
        part="#error-by-level",
    ),
    Figure(
        name="precision",
        title="Which totals are precise?",
        words="The margin of every total as a share of that total, also in the report.",
        command="tallyveil report release -o report.html",
        made="report.html",
        part="#precision-of-totals",
    ),
    Figure(
        name="map",
        title="Margins on a map",
        words="A report draws totals and margins on areas that you give as GeoJSON. These squares stand for counties.",
        command="tallyveil report release --map counties.geojson -o report.html",
        made="report.html",
        part="[id^=map-margins]",
    ),
    Figure(
        name="learned",
        title="What can an intruder learn?",
        words="How sure somebody can become of a fact about one person, at most, whatever they know already.",
        command="tallyveil report release -o report.html",
        made="report.html",
        part="#what-can-be-learned",
    ),
    Figure(
        name="error",
        title="Error by level and query",
        words="Measured against the truth ([error and bias](evaluate.md)).",
        command="tallyveil evaluate town.parquet release -o evaluation",
        made="evaluation/error.svg",
    ),
    Figure(
        name="bias",
        title="Bias by homogeneity",
        words="Units with many empty cells come out too large, because no count is negative; the others, too small.",
        command="tallyveil evaluate town.parquet release -o evaluation",
        made="evaluation/bias.svg",
    ),
    Figure(
        name="loss",
        title="Empirical privacy loss",
        words="How unlike the errors one person apart are, with a simultaneous band ([EPL](epl.md)).",
        command="tallyveil evaluate town.parquet release -o evaluation",
        made="evaluation/epl.svg",
    ),
    Figure(
        name="sample",
        title="Which sample is it like?",
        words="Error and loss of the release beside those of simple random samples ([compare](evaluate.md)).",
        command="tallyveil compare town.parquet release --level enumdist --query total \\\n    -o comparison",
        made="comparison/*enumdist*.svg",
    ),
    Figure(
        name="budgets",
        title="Many budgets",
        words="Error at several budgets in one run ([choose a budget](how-to/choose_a_budget.md)).",
        command="tallyveil sweep town.parquet --codebook town.codebook.toml --units town.units.parquet \\\n"
        "    --epsilon 0.25,0.5,1,2,4 --seed 1 -o sweep",
        made="sweep/median_abs.svg",
    ),
    Figure(
        name="risk",
        title="Risk against budget",
        words="What an intruder with even odds learns from one noisy count ([risk](risk.md)).",
        command="tallyveil risk choose --prior 1/2 --prior 1/10 --bound 1.1 --on risk \\\n    --curve -o chosen",
        made="chosen/curve.svg",
    ),
    Figure(
        name="posteriors",
        title="Who is exposed?",
        words="Every person in turn is the target of an intruder who knows everybody else.",
        command="tallyveil risk scan town.parquet --codebook town.codebook.toml \\\n    --release release -o exposed",
        made="exposed/posteriors.svg",
    ),
)


def page() -> str:
    """The gallery as Markdown."""
    parts = [LEAD, "    " + "\n    ".join("\n".join(SETUP).splitlines()) + "\n"]
    for figure in FIGURES:
        command = "\n    ".join(figure.command.splitlines())
        picture = f"![{figure.title}](gallery/{figure.name}{figure.ending})"
        parts.append(f"\n## {figure.title}\n\n{figure.words}\n\n    {command}\n\n{picture}\n")
    return "".join(parts)


def main() -> None:
    """Run the commands in an empty folder, and keep the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for command in SETUP:
            ran(command, place)
        write_squares(place)
        for command in dict.fromkeys(figure.command for figure in FIGURES):
            ran(command, place)
            for figure in (one for one in FIGURES if one.command == command):
                target = PICTURES / f"{figure.name}{figure.ending}"
                if figure.part:
                    photograph(place / figure.made, figure.part, target)
                else:
                    shutil.copy(next(iter(sorted(place.glob(figure.made)))), target)
                print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB", flush=True)
    (DOCS / "gallery.md").write_text(page())


def ran(command: str, folder: Path) -> None:
    """Run a command as a reader would."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, check=True, capture_output=True)


def write_squares(folder: Path) -> None:
    """A map on which every county is a square."""
    import pandas as pd

    codes = pd.read_parquet(folder / "release" / "levels" / "county.parquet").county.astype(str)
    side = math.ceil(math.sqrt(2 * len(codes)))
    features = []
    for i, code in enumerate(codes):
        x, y = i % side, -(i // side)
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"county": code}, "geometry": shape})
    (folder / "counties.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def photograph(file: Path, part: str, target: Path) -> None:
    """A picture of a part of a page, 720 pixels wide."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no chromium is installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 720, "height": 900}, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_function("document.querySelectorAll('figure:not(.drawn)').length === 0")
        page.add_style_tag(content="figcaption { display: none }")
        page.locator(part).first.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    main()
