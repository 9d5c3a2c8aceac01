"""The picture of a report in the README and the manual: report.png, the first screen of the demo's report.

python docs/generate_report_picture.py          # needs chromium
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import tallyveil as tv
from tallyveil.cli.demo import CENSUS_SEED, NOISE_SEED, PERSONS

PICTURE = Path(__file__).parent / "report.png"
SIZE = {"width": 1080, "height": 840}


def main() -> None:
    """Protect the demo's census, write its report, and photograph the first screen."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no chromium is installed")
    census = tv.populations.census_1940(persons=PERSONS, seed=CENSUS_SEED)
    about = tv.About(title="A synthetic census of 1940", organisation="tallyveil demo", date="2026-01-01")
    release = tv.protect(census, tv.Strategy.preset("e2e-2018", epsilon=1), seed=NOISE_SEED, about=about)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = tv.write_report(release, Path(folder) / "report.html")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_function("document.querySelectorAll('figure:not(.drawn)').length === 0")
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
