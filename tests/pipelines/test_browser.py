"""The pages of real runs in a headless Chromium (``make test-browser``), on a phone and on a desk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .far_server import asking, right, said, serving

pytestmark = pytest.mark.browser

SAMPLE = Path(__file__).resolve().parents[2] / "data/sample"
RECORDS = "60"
PAGES = {"finished": "run/report.html", "failed": "run/failed.html", "refused": "first/failed.html"}
SCREENS = {"phone": (390, 844), "desk": (1440, 900)}

OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
IMAGES = """[...document.images].map(each => {
    const box = each.getBoundingClientRect();
    return [each.complete, each.naturalWidth, each.naturalHeight, box.width, box.height];
})"""
TABLES = """[...document.querySelectorAll('table')].map(each => {
    const box = each.closest('.scroll');
    box.scrollLeft = 1e6;
    return [getComputedStyle(box).overflowX, box.scrollWidth > box.clientWidth, box.scrollLeft > 0];
})"""
MARKS = """[...document.querySelectorAll('#sft .point, #sft .frame')]
    .map(each => getComputedStyle(each).display != 'none')"""
HEIGHT = "document.documentElement.scrollHeight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_beam: Callable[..., Any]) -> Path:
    """Where the pages of three runs stand: one that finished, one of its folder that failed, one that never began."""
    folder = tmp_path_factory.mktemp("pages")
    keep = ("--limit", RECORDS, "--resume", "never")
    good = run_beam(SAMPLE, folder / "run", *keep)
    assert (good.code, good.counts["sft"] > 0, good.counts["rl"] > 0) == (0, True, True), good.err

    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return right(number, body) if number < 20 else said(500, "out of memory, in " + "a_word_without_an_end" * 20)

    with serving(answer) as server:
        assert run_beam(SAMPLE, folder / "run", *keep, *asking(server.url)).code == 2
    with serving(right, said(401, "Incorrect key")) as server:
        assert run_beam(SAMPLE, folder / "first", *asking(server.url)).code == 2
    return folder


@dataclass
class Shown:
    """A page that is shown, with all that it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __call__(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest) -> tuple[int, int]:
    return SCREENS[request.param]


@pytest.fixture(params=PAGES)
def shown(request: pytest.FixtureRequest, folder: Path, browser: Any, screen: tuple[int, int]) -> Iterator[Shown]:
    width, height = screen
    context = browser.new_context(viewport={"width": width, "height": height})
    shown = Shown(context.new_page())
    shown.page.on("console", lambda message: shown.said.append(f"{message.type}: {message.text}"))
    shown.page.on("pageerror", lambda error: shown.said.append(str(error)))
    shown.page.on("request", lambda asked: shown.asked.append(asked.url))
    url = (folder / PAGES[request.param]).as_uri()
    shown.page.goto(url)
    shown(OPEN_ALL)
    yield shown
    context.close()
    assert shown.said == []
    assert {asked for asked in shown.asked if not asked.startswith("data:")} == {url}


def test_the_page_never_scrolls_sideways_but_its_tables_do(shown: Shown, screen: tuple[int, int]) -> None:
    assert shown("[document.documentElement.scrollWidth, document.body.scrollWidth]") == [screen[0]] * 2
    tables = shown(TABLES)
    assert tables
    assert all(overflow == "auto" and moved == wider for overflow, wider, moved in tables)
    if "report.html" in shown.page.url:
        assert any(wider for _, wider, _ in tables) == (screen == SCREENS["phone"])


def test_images_are_drawn_and_keep_their_place_while_they_load(shown: Shown) -> None:
    images = shown(IMAGES)
    assert bool(images) == ("first/" not in shown.page.url)
    assert all(complete and min(sizes) > 0 for complete, *sizes in images)
    before = shown(HEIGHT)
    shown("[...document.images].forEach(each => each.removeAttribute('src'))")
    assert shown(HEIGHT) == before


def test_what_can_be_opened_opens_and_closes(shown: Shown) -> None:
    for each in shown.page.locator("details").all():
        summary = each.locator("> summary")
        states = [each.get_attribute("open")]
        for _ in range(2):
            summary.click()
            states.append(each.get_attribute("open"))
        assert states == ["", None, ""]


def test_the_marks_can_be_hidden(shown: Shown) -> None:
    switches = shown.page.locator("input, button, select").all()
    marks = shown(MARKS)
    assert all(marks)
    assert len(switches) == bool(marks) == ("first/" not in shown.page.url)
    for switch in switches:
        shown.page.locator(f"label[for={switch.get_attribute('id')}]").click()
        assert not any(shown(MARKS))
        switch.check()
        assert all(shown(MARKS))


def test_every_link_leads_somewhere(shown: Shown, folder: Path) -> None:
    for link in shown.page.locator("a").all():
        target = link.get_attribute("href")
        if target.startswith("#"):
            link.click()
            assert shown("location.hash") == target
            assert shown.page.locator(target).count() == 1
        else:
            assert (folder / "run" / target).is_file()


def test_a_failed_run_says_so_at_the_top(shown: Shown, screen: tuple[int, int]) -> None:
    banner = shown.page.locator("[role=alert]")
    assert banner.count() == ("failed.html" in shown.page.url)
    if banner.count():
        box = banner.bounding_box()
        assert box["y"] < 40
        assert box["width"] > 0.7 * screen[0]
        colour = shown("getComputedStyle(document.querySelector('[role=alert]')).backgroundColor")
        red, green, blue = map(int, colour[len("rgb(") : -1].split(","))
        assert red > 150 > 60 > max(green, blue)
