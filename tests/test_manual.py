"""The manual as `make docs` builds it: it loads nothing from elsewhere, can be searched, and fits a phone."""

import re
import runpy
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SITE = DOCS / "_build" / "html"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the manual was not built (make docs)")
LOADING = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']((?:https?:)?//[^"']*)""")
STYLES = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]*)""")
LONG = {
    "cli.md",
    "allocate.md",
    "cluster.md",
    "estimates.md",
    "files.md",
    "ledger.md",
    "releases.md",
}  # to be shortened
BOXES = """selector => [...document.querySelectorAll(selector)].map(box => {
    const lines = box.innerText.replace(/\\n+$/, '').split('\\n').length, style = getComputedStyle(box);
    const tall = box.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    const scrolls = box.scrollWidth > box.clientWidth && ['auto', 'scroll'].includes(style.overflowX);
    return [lines, Math.round(tall / parseFloat(style.lineHeight)), scrolls];
})"""  # of boxes of code or tables: lines that they have, lines that are drawn, and whether they scroll sideways
SPREAD = """selector => Math.max(...[...document.querySelectorAll(selector)].map(cell => {
    const inside = document.createRange();
    inside.selectNodeContents(cell);
    const bottoms = [...inside.getClientRects()].map(box => box.bottom);
    return Math.max(...bottoms) - Math.min(...bottoms);
}))"""  # of cells: pixels between the first and the last line, at most
LONGEST = 100  # characters of a command or a line of code that a page shows without breaking it


@built
def test_no_page_of_the_manual_loads_anything_from_elsewhere():
    pages, styles = sorted(SITE.rglob("*.html")), sorted(SITE.rglob("*.css"))
    assert len(pages) > 40
    found = [(page.name, address) for page in pages for address in LOADING.findall(page.read_text())]
    found += [(style.name, address) for style in styles for address in STYLES.findall(style.read_text())]
    assert found == []


@built
def test_options_in_prose_keep_both_their_hyphens():
    found = {page.name: re.findall(r"[\s(]\u2013[a-z]{3,}", page.read_text()) for page in sorted(SITE.rglob("*.html"))}
    assert {name: words for name, words in found.items() if words} == {}
    assert "to give as --units" in (SITE / "reference" / "cli.html").read_text()


def test_the_search_for_what_pages_load_would_find_it():
    assert LOADING.findall('<script async src="https://cdn.example/mathjax.js">') == ["https://cdn.example/mathjax.js"]
    assert STYLES.findall("@import url('//fonts.example/a.css')") == ["//fonts.example/a.css"]


@pytest.fixture(scope="module")
def address():
    """The manual on a local port: browsers let no script read other files of a disk."""
    handler = partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def do_GET(self):
        """Send files; browsers ask every server for an icon, which the manual does not have."""
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        """Nothing is written to the terminal."""


@built
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")
def test_the_manual_can_be_searched_asks_nobody_else_and_fits_a_phone(address):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    asked, said = [], []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        for name in ("index", "tutorial", "epl", "gallery", "how-to/choose_a_budget", "reference/cli", "risk"):
            page.goto(f"{address}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.goto(f"{address}/tutorial.html")
        boxes = page.evaluate(BOXES, ".highlight pre")
        assert len(boxes) > 8
        assert all(lines == drawn for lines, drawn, _ in boxes), "a line of code is broken in two"
        assert any(scrolls for *_, scrolls in boxes)
        page.goto(f"{address}/accuracy_1940.html")
        assert any(scrolls for *_, scrolls in page.evaluate(BOXES, ".table-wrapper"))
        assert page.evaluate(SPREAD, "td.text-right") < 10
        page.goto(f"{address}/search.html?q=invariant")
        page.locator("ul.search li > a", has_text="What to keep exact").wait_for(timeout=60_000)
        browser.close()
    assert [one for one in asked if not one.startswith((address, "data:"))] == []
    assert said == []


def test_the_gallery_is_what_its_script_describes():
    gallery = runpy.run_path(str(DOCS / "generate_gallery.py"))
    assert gallery["page"]() == (DOCS / "gallery.md").read_text(), "run docs/generate_gallery.py"
    for figure in gallery["FIGURES"]:
        assert (DOCS / "gallery" / f"{figure.name}{figure.ending}").stat().st_size < 200_000


def test_the_table_of_budgets_has_the_figures_that_were_measured():
    made = runpy.run_path(str(DOCS / "generate_budget.py"))["page_table"]()
    assert made in (DOCS / "how-to" / "choose_a_budget.md").read_text(), "run docs/generate_budget.py draw"


def test_code_in_the_manual_fits_the_page():
    """What commands print is not counted, since the page breaks such lines."""
    shown = re.compile(r"^(?:>>> |\.\.\. |\$ | {4}tallyveil )")
    long = [
        f"{path.name}, line {number}: {len(line)} characters"
        for path in DOCS.rglob("*.md")
        if "_build" not in path.parts and path.name not in LONG
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if shown.match(line) and len(line) > LONGEST
    ]
    assert long == []
