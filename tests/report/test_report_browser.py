"""Reports in a real browser: charts draw, nothing is requested, keyboard and axe, narrow and wide, on paper."""

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from report_town import town, town_release, write_areas

from tallyveil.report.page import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
NARROW, WIDE = 390, 1440
FOCUSABLE = "a[href], summary, [tabindex='0']"


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A public report with a map, and an internal one."""
    folder = tmp_path_factory.mktemp("reports")
    release = town_release()
    public = write_report(release, folder / "public.html", areas=write_areas(folder))
    internal = write_report(release, folder / "internal.html", audience="internal", truth=town())
    return {"public": public, "internal": internal}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page with all that its console said and all that it asked the network for."""

    page: object
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def opened(browser, path: Path, *, width: int = WIDE, scheme: str = "light", scripts: bool = True) -> Opened:
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=scripts)
    context.set_default_timeout(30_000)
    result = Opened(page=context.new_page())
    result.page.on("console", lambda message: result.said.append(message.text))
    result.page.on("pageerror", lambda problem: result.said.append(str(problem)))
    result.page.on("request", lambda request: result.asked.append(request.url))
    result.page.goto(path.as_uri())
    if scripts:
        result.page.wait_for_function("document.querySelectorAll('figure:not(.drawn)').length === 0")
    return result


def close(one: Opened) -> None:
    one.page.context.close()


@pytest.mark.parametrize("audience", ["public", "internal"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_charts_draw_without_a_word_or_a_request_and_nothing_scrolls_sideways(browser, pages, audience, width):
    one = opened(browser, pages[audience], width=width)
    drawn = one.page.evaluate("""() => [...document.querySelectorAll('figure')].map(figure => {
        const live = figure.querySelector('.live svg').getBoundingClientRect();
        return [live.width, live.height, live.right, figure.querySelectorAll('.live svg path, .live svg rect').length];
    })""")
    assert len(drawn) == {"public": 7, "internal": 12}[audience]
    assert all(w > 200 and h > 60 and right <= width and marks >= 3 for w, h, right, marks in drawn)
    one.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert one.page.evaluate("document.documentElement.scrollWidth") <= width
    assert one.said == []
    assert one.asked == [pages[audience].as_uri()]
    close(one)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_map_fills_its_height(browser, pages, width):
    one = opened(browser, pages["public"], width=width)
    gaps = one.page.evaluate("""() => [...document.querySelectorAll("figure[id^='map-']")].map(figure => {
        const drawn = figure.querySelector('.live svg').getBoundingClientRect();
        const areas = [...figure.querySelectorAll('.live .mark-shape path')].map(area => area.getBoundingClientRect());
        const legend = figure.querySelector('.live .role-legend').getBoundingClientRect();
        return [Math.min(...areas.map(area => area.top)) - legend.bottom,
                drawn.bottom - Math.max(...areas.map(area => area.bottom))];
    })""")
    assert len(gaps) == 2
    assert all(above < 40 and below < 40 for above, below in gaps), gaps
    close(one)


def test_the_browser_itself_refuses_what_a_page_would_load(browser, pages):
    one = opened(browser, pages["public"])
    one.page.evaluate("fetch('https://example.org/').catch(() => null)")
    assert [address for address in one.asked if address.startswith("http")] == []
    assert any("Content Security Policy" in words for words in one.said)
    close(one)


@pytest.mark.parametrize(
    ("scheme", "audience"),
    [
        ("light", "public"),
        ("dark", "internal"),
        pytest.param("light", "internal", marks=pytest.mark.slow),
        pytest.param("dark", "public", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_no_serious_fault(browser, pages, audience, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    one = opened(browser, pages[audience], scheme=scheme, width=NARROW if scheme == "dark" else WIDE)
    one.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = axe.Axe().run(one.page).response
    faults = [
        (fault["id"], fault["nodes"][0]["html"][:200])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []
    assert len(found["passes"]) > 20  # so it looked
    close(one)


def test_everything_is_reached_and_opened_with_the_keyboard_alone(browser, pages):
    one = opened(browser, pages["public"])
    page, seen = one.page, []
    for _ in range(page.locator(FOCUSABLE).count() + 5):
        page.keyboard.press("Tab")
        tag, words, outline = page.evaluate("""() => {
            const one = document.activeElement, style = getComputedStyle(one);
            return [one.tagName, one.innerText, parseFloat(style.outlineWidth)];
        }""")
        if tag == "BODY":
            break
        assert outline >= 2, f"no focus is seen on {tag} {words}"
        seen.append(tag)
        if tag == "SUMMARY":
            page.keyboard.press("Enter")
    assert page.locator("details").count() == page.locator("details[open]").count() == seen.count("SUMMARY")
    assert seen.count("A") == page.locator("a[href]").count()
    assert seen.count("DIV") == page.locator("[tabindex='0']").count()  # tables that may need scrolling
    close(one)


def test_charts_answer_when_pointed_at(browser, pages):
    one = opened(browser, pages["public"])
    one.page.locator("#error-by-level .live svg path[d^='M0']").last.scroll_into_view_if_needed()
    bars = one.page.locator("#error-by-level .live svg .mark-rect path")
    bars.last.hover()
    one.page.wait_for_selector("#vg-tooltip-element.visible")
    words = one.page.inner_text("#vg-tooltip-element")
    assert "level" in words
    assert "block" in words
    close(one)


def test_the_table_of_a_chart_is_saved_as_csv(browser, pages):
    one = opened(browser, pages["public"])
    with one.page.expect_download() as waiting:
        one.page.locator("#error-by-level a.csv").click()
    saved = waiting.value
    assert saved.suggested_filename == "error-by-level.csv"
    lines = Path(saved.path()).read_text().splitlines()
    assert lines[0].startswith("level,units,peopled,low,median,high,margin")
    assert [line.split(",")[0] for line in lines[1:]] == ["land", "county", "block"]
    close(one)


def test_charts_are_seen_without_scripts(browser, pages):
    one = opened(browser, pages["public"], scripts=False)
    boxes = [drawing.bounding_box() for drawing in one.page.locator("figure .static svg").all()]
    assert len(boxes) == 7
    assert all(box["width"] > 200 and box["height"] > 60 for box in boxes)
    close(one)


@pytest.mark.parametrize("paper", ["A4", pytest.param("Letter", marks=pytest.mark.slow)])
def test_paper_has_the_charts_and_an_internal_report_says_so_on_every_page(browser, pages, tmp_path, paper):
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed (apt-get install poppler-utils)")
    for audience, path in pages.items():
        one = opened(browser, path, scheme="dark")
        one.page.pdf(path=tmp_path / "report.pdf", format=paper)
        close(one)
        text = subprocess.run(["pdftotext", tmp_path / "report.pdf", "-"], capture_output=True, text=True).stdout
        sheets = text.split("\f")[:-1]
        assert 3 <= len(sheets) <= 12
        assert text.count("logarithmic scale") >= 1  # the axis of a chart
        assert "The bound follows from the guarantee alone" in text.replace("\n", " ")  # definitions are open
        told = ["INTERNAL." in sheet for sheet in sheets]
        assert all(told) if audience == "internal" else not any(told)
