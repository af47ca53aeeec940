"""The page of a loop in a headless Chromium (``make test-browser``), on a phone and on a desk, light and dark."""

from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.loop.run import run_loop

from .loops import Commands, loop_of, png, split, write_input

pytestmark = pytest.mark.browser

IMAGES = "[...document.images].map(each => each.complete && each.naturalWidth > 0)"
WIDE = "[...document.querySelectorAll('table')].every(each => each.closest('.scroll'))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    images = {f"{number}.png": png(number, 64) for number in range(10)}
    lines = [{"id": f"q{n}-{'long' * 30}", "media": f"{n}.png", "question": "Wide" * 90} for n in range(10)]
    split(folder / "out", write_input(folder / "data", lines, images))
    return run_loop(loop_of(folder / "out", model="folder/" * 30, trainer={"config": "c"}), Commands())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_the_page_fits_and_asks_for_nothing(page: Path, browser: Any, width: int, height: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    shown, said, asked = context.new_page(), list[str](), list[str]()
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(page.as_uri())
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    assert shown.evaluate(WIDE) and all(shown.evaluate(IMAGES)) and shown.locator("svg").count() == 6
    shown.get_by_role("link", name="report").first.click()
    assert shown.url.endswith("/curate/report.html")
    context.close()
