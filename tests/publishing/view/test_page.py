"""The page of a view in a headless Chromium (``make test-browser``): filters, records, marks, keys, hostile texts."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tomli_w

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.commands.viewing import open_rows
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.files import SCRIPTS
from groundtrace.publishing.view.reviews import Mark, Reviews

from .browsing import SCREENS, Page
from .viewed import image, sft_row, write_run

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>fetch('http://evil.example')</script><img src=x onerror=alert(1)>\u202e\u2028\x00${7*7}"
TRACE = (
    '<think>Here <points x1="10" y1="12" x2="30" y2="22" alt="cat">cat</points> and '
    f"<box>[1, 2, 30, 28]</box> {HOSTILE}</think><answer>2</answer>"
)


SECOND = '<think>Two <points x1="20" y1="9" x2="28" y2="9" alt="cat">cats</points></think><answer>3</answer>'


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A run of 100 rows, of which the first has a hostile text in every field."""
    gold = [{"label": HOSTILE, "x1": 5.0, "y1": 6.0, "x2": 15.0, "y2": 16.0, "media_index": 0}]
    verdict = {"name": HOSTILE, "value": 0.5, "failed": False, "reason": HOSTILE, "evidence": [HOSTILE]}
    tried = HOSTILE, SECOND.replace("20", "25"), SECOND
    attempts = [{"text": text, "answer": HOSTILE, "correct": False} for text in tried]
    others = [{"text": SECOND, "answer": "3", "score": 0.5, "verdicts": []}]
    hostile = sft_row(
        HOSTILE.replace("\x00", ""), question=HOSTILE, answer=HOSTILE, source=HOSTILE, license=HOSTILE, trace=TRACE,
        choices=[HOSTILE], gold_boxes=gold, attempts=attempts, verdicts=[verdict], media_names=[HOSTILE],
        images=[{"bytes": image(), "path": HOSTILE}, {"bytes": image(60, 60), "path": "b.png"}], pass_rate=None,
        other_traces=others,
    )  # fmt: skip
    plain = [
        sft_row(f"row-{n:02}", source=f"source {n % 3}", pass_rate=n / 100, question=f"How many cats, {n}?")
        for n in range(79)
    ]
    rejected = [
        {"id": f"no-{n}", "stage": "difficulty", "reason": "too_hard", "question": "Which?", "media": [], "detail": ""}
        for n in range(20)
    ]
    return write_run(tmp_path / "run", run, {"sft": [hostile, *plain], "rejected": rejected})


@pytest.fixture(params=SCREENS)
def page(request: pytest.FixtureRequest, browser: Any, folder: Path, serve: Callable[..., str]) -> Iterator[Page]:
    width, height = SCREENS[request.param]
    scheme = "dark" if request.param == "phone" else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    opened = Page(context.new_page(), serve(folder))
    opened.page.on("console", lambda message: opened.printed.append(f"{message.type}: {message.text}"))
    opened.page.on("pageerror", lambda error: opened.printed.append(str(error)))
    opened.page.on("request", lambda asked: opened.requested.append(asked.url))
    opened.page.goto(opened.address)
    opened.wait("shown.rows.length > 0")
    yield opened
    origin = opened.address.partition("/?")[0]
    assert [each for each in opened.requested if not each.startswith(origin)] == []
    failed = "Failed to load resource: the server responded with a status of"
    known = (f"{failed} 409", f"{failed} 410")  # runs without replies, changed runs
    assert [each for each in opened.printed if not any(text in each for text in known)] == []
    context.close()


def test_the_token_leaves_the_address_and_the_page_fits_the_screen(page: Page) -> None:
    assert "token" not in page.page.url
    assert page.count() == "100 of 100 records"
    for view in ("", "view=table"):
        page.page.goto(page.address.partition("?")[0] + "?" + view)
        page.wait("shown.rows.length > 0")
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_hostile_texts_are_shown_as_texts(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .question")
    assert "<script>fetch('http://evil.example')</script>" in page.page.inner_text("dialog .question")
    assert page.page.evaluate("document.querySelectorAll('dialog script, dialog img[src=x]').length") == 0
    assert page.page.evaluate("document.querySelectorAll('script').length") == len(SCRIPTS)
    page.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.page.wait_for_selector(".replies p:text('there is no file')")  # the message has a long path
    assert page.page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")


def test_a_tag_lights_its_point_and_the_reverse(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector(".stage circle")
    page.page.mouse.move(1, 1)
    assert page.page.evaluate("document.querySelectorAll('.stage circle').length") == 2
    assert page.page.evaluate("document.querySelectorAll('.stage rect').length") == 1
    page.page.evaluate(
        "document.querySelector('sup[data-mark=trace-point-2]').dispatchEvent(new Event('pointerenter'))"
    )
    assert page.page.evaluate("[...document.querySelectorAll('.lit')].map(each => each.tagName)") == ["circle", "SUP"]
    page.page.evaluate(
        "document.querySelector('sup[data-mark=trace-point-2]').dispatchEvent(new Event('pointerleave'))"
    )
    assert page.page.evaluate("document.querySelectorAll('.lit').length") == 0
    page.page.hover("circle[data-mark=trace-point-1]")
    assert page.page.evaluate("document.querySelector('sup[data-mark=trace-point-1]').className") == "lit"
    page.page.check(".layers >> text=gold")
    assert page.page.evaluate("document.querySelectorAll('.stage rect').length") == 2
    page.page.mouse.move(1, 1)
    places = "[...document.querySelectorAll('.stage circle.lit')].map(each => each.getAttribute('cx'))"
    for name, place in (("other1", "20"), ("attempt1", "25"), ("attempt2", "20")):  # their layers are off
        number = f"document.querySelector('sup[data-mark={name}-point-1]')"
        page.page.evaluate(f"{number}.dispatchEvent(new Event('pointerenter'))")
        assert page.page.evaluate(places) == [place]
        page.page.evaluate(f"{number}.dispatchEvent(new Event('pointerleave'))")
        assert page.page.evaluate("document.querySelectorAll('.stage circle').length") == 2
    both = "document.querySelector('.tag:has(sup[data-mark=other1-point-1])')"
    page.page.evaluate(f"{both}.dispatchEvent(new Event('pointerenter'))")
    assert page.page.evaluate(places) == ["20", "28"]
    page.page.check(".layers >> text=other traces")
    page.page.uncheck(".layers >> text=other traces")
    page.page.evaluate(f"{both}.dispatchEvent(new Event('pointerleave'))")
    assert page.page.evaluate("document.querySelectorAll('.stage circle').length") == 2
    page.page.check(".layers >> text=other traces")
    assert page.page.evaluate("document.querySelectorAll('.stage circle.rest').length") == 2
    page.page.keyboard.press("m")
    page.wait("document.querySelectorAll('.stage rect, .stage circle').length == 0")
    page.page.click(".layers button:text('hide marks')")
    page.wait("document.querySelectorAll('.stage rect').length == 2")
    page.page.click(".strip button >> nth=1")
    page.wait("document.querySelectorAll('.stage rect').length == 0")


@pytest.mark.parametrize("value", [0, 128, 255])
def test_a_point_off_its_object_is_seen_on_every_colour(
    value: int, browser: Any, run: Path, tmp_path: Path, serve: Callable[..., str]
) -> None:
    evidence = json.dumps({"label": "cat", "x": 20, "y": 15, "media_index": 0, "frame": None, "on": False})
    verdict = {"name": "spatial", "value": 0.5, "failed": False, "reason": "", "evidence": [evidence]}
    trace = '<think><points x1="20" y1="15" x2="33" y2="25" alt="cat">cats</points></think><answer>1</answer>'
    images = [{"bytes": image(value=value), "path": "a.png"}]
    row = sft_row("a", trace=trace, verdicts=[verdict], images=images)
    page = Page(browser.new_page(), serve(write_run(tmp_path / "run", run, {"sft": [row]})))
    page.page.goto(f"{page.address}&id=a")
    page.page.wait_for_selector(".stage circle.off")
    assert page.page.evaluate("document.querySelectorAll('.stage circle').length") == 2
    assert page.page.evaluate("document.querySelectorAll('.cross').length") == 2
    page.page.evaluate("viewer.zoom(3, viewer.stage.clientWidth / 2, viewer.stage.clientHeight / 2)")
    width_px = "(each => each.getBBox().width * each.getScreenCTM().a)(document.querySelector('.cross.edge'))"
    assert page.page.evaluate(width_px) == pytest.approx(10)
    ring = page.page.locator(".stage circle.off").bounding_box()
    x, y = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    shot = page.page.screenshot(clip={"x": x - 4, "y": y - 4, "width": 8, "height": 8})
    grey = cv2.imdecode(np.frombuffer(shot, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert grey is not None and grey.min() < 40 and grey.max() > 215  # black and white, whatever the image is
    page.page.close()


def test_each_layer_of_traces_has_its_own_colour(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector(".stage circle")
    colours = """() => {
        const mark = { kind: 'point', n: 1, x: 20, y: 20, media_index: 0, frame: null };
        const trace = { ...current.traces[0], marks: [mark] };
        viewer.add(layersOf([], [trace]));
        for (const layer of viewer.layers) layer.on = true;
        viewer.draw();
        return viewer.layers.map(({ name }) => [
            getComputedStyle(document.querySelector(`.stage .mark.${name}`)).stroke,
            getComputedStyle(document.querySelector(`.layers .colour.${name}`)).color,
        ]);
    }"""
    shown = page.page.evaluate(colours)
    names = page.page.evaluate("viewer.layers.map(each => each.name)")
    assert {"trace", "rest", "replayed", "gold", "attempt"} == set(names) and len(names) == 5
    assert [len(set(each)) for each in zip(*shown, strict=True)] == [5, 5]


def test_the_lines_of_marks_have_the_same_width_at_every_zoom(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .stage circle.trace")
    width_px = """() => {
        const mark = document.querySelector('.stage circle.trace');
        return parseFloat(getComputedStyle(mark).strokeWidth) * mark.getScreenCTM().a;
    }"""
    for button in ("fit", "+", "+", "+", "−", "−", "−", "−", "−"):
        page.page.click(f".layers button:text('{button}')")
        assert page.page.evaluate(width_px) == pytest.approx(2, rel=0.01)


def test_the_image_stays_visible_beside_the_texts_on_a_wide_screen(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .stage circle.trace")
    width = page.page.viewport_size["width"]
    page.page.set_viewport_size({"width": width, "height": 640})
    page.page.evaluate("document.querySelector('dialog').scrollTop = 1e6")
    assert page.page.evaluate("document.querySelector('dialog').scrollTop") > 100
    is_wide = width > 760
    box = page.page.locator(".stage").bounding_box()
    assert (box["y"] > page.page.locator(".bar-top").bounding_box()["y"]) == is_wide


def test_a_class_and_a_bar_filter_and_the_address_holds_them(page: Page) -> None:
    if page.page.is_visible("#facets-open"):
        page.page.click("#facets-open")
    page.page.click("#facets button.class:has-text('rejected')")
    page.wait("shown.total == 20")
    assert page.state() == "?set=rejected" and "too_hard" in page.page.inner_text(".card >> nth=0")
    numbers = page.page.evaluate("shown.rows.map(each => each.n)")  # of rows without media
    assert not {f"/thumbnail/{n}" for n in numbers} & {each[each.rfind("/thumbnail") :] for each in page.requested}
    page.page.click("#chips button")
    page.wait("shown.total == 100")
    page.page.click("button[aria-label^='pass_rate 0.5 to']")
    page.wait("shown.total < 100")
    assert page.state() == "?pass_rate=0.5..0.54"
    assert page.ids() == [f"row-{n}" for n in range(50, 55)]
    pressed = "[...document.querySelectorAll('.bins [aria-pressed=true]')].map(each => each.title)"
    assert page.page.evaluate(pressed) == ["0.5 to 0.54: 5"]
    address = page.page.url
    page.page.goto(page.address.partition("?")[0])
    page.wait("shown.total == 100")
    page.page.goto(address)
    page.wait("shown.total == 5")
    page.page.go_back()
    page.wait("shown.total == 100")


def test_text_order_pages_and_the_table(page: Page) -> None:
    page.page.keyboard.press("/")
    page.page.keyboard.type("CATS, 7")
    page.page.keyboard.press("Enter")
    page.wait("shown.total == 10")
    page.page.select_option("#sort", "pass_rate")
    page.page.click("#descends")
    page.wait("shown.rows[0].id == 'row-78'")
    assert page.page.inner_text(".card >> nth=0 >> .sorted") == "pass_rate: 0.780"
    page.page.click("#layout")
    assert page.page.inner_text("tbody tr >> nth=0").startswith("row-78")
    page.page.click("#home")
    page.wait("shown.total == 100")
    assert page.page.query_selector(".sorted") is None
    page.page.select_option("#sort", "pass_rate")
    page.wait("shown.rows[0].id == 'row-00'")
    assert page.page.inner_text(".card >> nth=0 >> .sorted") == "pass_rate: 0"
    page.page.click("#home")
    page.wait("shown.total == 100 && !document.querySelector('.sorted')")
    page.page.click("text=next page")
    page.wait("shown.rows.length == 48 && location.search == '?offset=48'")
    page.page.click("text=next page")
    page.wait("shown.rows.length == 4")
    assert page.page.is_disabled("text=next page")


def test_the_head_of_a_column_sorts_the_table(page: Page) -> None:
    page.page.goto(page.address.partition("?")[0] + "?view=table&q=cats")
    page.wait("shown.total == 79")
    page.page.click("th button:text-is('pass_rate')")
    page.wait("shown.rows[0].id == 'row-00' && document.querySelector('th[aria-sort=ascending] button')")
    page.page.keyboard.press("Enter")  # the new head has the focus
    page.wait("shown.rows[0].id == 'row-78' && document.querySelector('th[aria-sort=descending] button')")
    assert page.state() == "?view=table&q=cats&sort=-pass_rate"
    assert page.page.evaluate("document.getElementById('sort').value") == "pass_rate"
    page.page.keyboard.press(" ")
    page.wait("shown.rows[0].id == 'row-00'")
    page.page.click("th button:text-is('source')")
    page.wait("shown.rows.slice(0, 27).every(each => each.source == 'source 0')")
    assert page.page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
    assert page.page.evaluate("[...document.querySelectorAll('th:not(:has(button))')].map(each => each.innerText)") == [
        "id",
        "question",
        "answer",
    ]
    page.page.goto(page.address.partition("?")[0] + "?view=table&sort=k")  # all rows have the same k
    page.page.wait_for_selector("th[aria-sort=ascending] button:has-text('k ↑')")


def test_rejected_rows_show_their_detail_and_the_sorted_column_is_in_sight(
    browser: Any, run: Path, serve: Callable[..., str], tmp_path: Path
) -> None:
    lost = {"id": "a", "stage": "ingest", "reason": "media_missing", "question": "Which?", "media": []}
    lost["detail"] = "no such file: pics/lost.png" + " and so on" * 100
    folder = write_run(
        tmp_path / "run", run, {"rejected": [lost], "sft": [sft_row(HOSTILE[:20], question="How " * 90)]}
    )
    for width, height in SCREENS.values():
        context = browser.new_context(viewport={"width": width, "height": height})
        page = Page(context.new_page(), serve(folder))
        page.page.goto(f"{page.address}&sort=trace+characters")
        page.wait("shown.total == 2")
        assert page.page.inner_text(".card .detail").startswith("no such file: pics/lost.png")
        assert page.page.evaluate("document.querySelector('.card .detail').clientHeight < 60")
        page.page.click("#layout")
        page.page.wait_for_selector("td:has-text('no such file: pics/lost.png')")
        heads = page.page.evaluate("[...document.querySelectorAll('th')].map(each => each.innerText)")
        assert heads[:5] == ["id", "trace characters ↑", "question", "answer", "detail"]
        assert sum("trace characters" in each for each in heads) == 1
        right = "document.querySelector('th[aria-sort]').getBoundingClientRect().right"
        assert width < 1000 or page.page.evaluate(f"{right} < innerWidth")
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()


def test_the_table_shows_ids_on_one_line(browser: Any, run: Path, serve: Callable[..., str], tmp_path: Path) -> None:
    usual, long = "train/images/000123-question-04", "a" * 300
    texts = {"question": "How many cats are in the picture? " * 9, "answer": "seven " * 30}
    rows = [sft_row(row_id, source="a source of records " * 3, **texts) for row_id in (usual, long)]
    folder = write_run(tmp_path / "run", run, {"sft": rows})
    for width, height in SCREENS.values():
        context = browser.new_context(viewport={"width": width, "height": height})
        page = Page(context.new_page(), serve(folder))
        page.page.goto(f"{page.address}&view=table")
        page.wait("document.querySelectorAll('td .id').length == 2")
        shown = (
            "[...document.querySelectorAll('td .id')].map(each => [each.title, each.scrollWidth <= each.clientWidth])"
        )
        assert page.page.evaluate(shown) == [[usual, True], [long, False]]
        lines = "[...document.querySelectorAll('td .id')].map(each => Math.round(each.clientHeight / 14))"
        assert page.page.evaluate(lines) == [1, 1]
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()


def test_columns_of_marks_displace_no_other_column_of_the_table(
    browser: Any, run: Path, serve: Callable[..., str], tmp_path: Path
) -> None:
    scores = [f"score-{n}" for n in range(12)]
    verdict = {"failed": False, "reason": "", "evidence": []}
    rows = [
        sft_row(f"row-{n}", verdicts=[verdict | {"name": name, "value": n / 2} for name in scores]) for n in range(2)
    ]
    folder = write_run(tmp_path / "run", run, {"sft": rows})
    page = Page(browser.new_page(), serve(folder))
    page.page.goto(f"{page.address}&view=table")
    page.wait("document.querySelectorAll('tbody tr').length == 2")
    heads = "[...document.querySelectorAll('th')].map(each => each.innerText)"
    before = page.page.evaluate(heads)
    page.page.evaluate("mark([shown.rows[0]], {flagged: true, tags: ['dark'], note: 'look'})")
    page.page.reload()
    page.wait("document.querySelectorAll('tbody tr').length == 2")
    marks = ["flagged", "tags", "has a note"]
    after = page.page.evaluate(heads)
    assert [each for each in after if each in marks] == marks
    assert [each for each in after if each not in marks] == before
    page.page.close()


def test_a_typed_text_is_not_searched_for_after_the_user_has_left_the_search(page: Page) -> None:
    page.page.keyboard.press("/")
    page.page.keyboard.type("CATS, 7")
    page.page.keyboard.press("Enter")
    page.wait("shown.total == 10")
    page.page.route("**/api/rows?*", lambda route: (time.sleep(0.8), route.continue_()))  # longer than a pause
    page.page.keyboard.type("8")
    page.page.click("#home")
    page.page.wait_for_timeout(1500)
    page.page.unroute("**/api/rows?*")
    page.wait("document.getElementById('q').value == ''")
    assert page.state() == "" and page.page.evaluate("shown.total") == 100


def test_all_by_keyboard_and_marks_are_kept(page: Page, folder: Path) -> None:
    page.page.keyboard.press("j")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    first = page.page.evaluate("current.id")
    assert first == page.ids()[1]
    page.page.keyboard.press("f")
    page.wait("current.mark.flagged")
    page.page.keyboard.press("j")
    page.wait(f"current.id != '{first}'")
    page.page.keyboard.press("k")
    page.wait(f"current.id == '{first}' && current.mark.flagged")
    page.page.fill("textarea", "look again")
    assert page.page.inner_text("[data-of=note]") == "not kept yet: it is kept when you leave the field"
    page.page.fill("input[aria-label^=tags]", "odd, dark")
    page.page.wait_for_selector("[data-of=note]:text-is('✓ kept')")
    page.page.press("input[aria-label^=tags]", "Tab")
    page.wait("current.mark.tags.length == 2 && current.mark.note == 'look again'")
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('dialog').open")
    mark = Reviews(folder).of(first)
    assert (mark.flagged, mark.tags, mark.note, len(mark.trace)) == (True, ("odd", "dark"), "look again", 64)
    assert page.page.evaluate("[...document.querySelectorAll('.flagged')].map(each => each.innerText)") == ["⚑ flagged"]
    assert page.page.inner_text(".card.is-flagged .id") == first
    page.wait("document.querySelectorAll('#facets h2')[3]?.textContent == 'has a note'")
    names = page.page.evaluate("[...document.querySelectorAll('#facets h2')].map(each => each.textContent)")
    assert names[:4] == ["set", "flagged", "tags", "has a note"]
    if page.page.is_visible("#facets-open"):
        page.page.click("#facets-open")
    page.page.click("#facets h2:has-text('has a note') ~ button.class:has-text('true')")
    page.wait(f"shown.total == 1 && shown.rows[0].id == '{first}'")


def test_a_note_on_a_record_of_a_repeated_run_is_refused_where_the_user_sees_it(page: Page, folder: Path) -> None:
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    summary = folder / "run.json"
    summary.write_text(summary.read_text("utf-8") + "\n", "utf-8")  # as a repeated run does
    page.page.fill("textarea", "look again")
    page.page.press("textarea", "Tab")
    page.page.wait_for_selector("dialog #record-trouble:visible")
    assert "reload this page" in page.page.inner_text("#record-trouble")
    assert page.page.input_value("textarea") == "look again"
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('dialog').open")
    page.page.wait_for_selector("#trouble:visible")
    assert page.state() == "" and not (folder / "reviews" / "marks.jsonl").exists()


def is_in_sight(page: Page, selector: str) -> bool:
    """Whether nothing covers the middle of an element, and the element is in the visible part of the page."""
    box = f"const box = document.querySelector({selector!r}).getBoundingClientRect()"
    middle = "document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)"
    return page.page.evaluate(f"() => {{ {box}; return !!{middle}?.closest({selector!r}); }}")


def test_texts_that_are_not_kept_stay_in_their_fields_until_they_are(page: Page, folder: Path) -> None:
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    page.page.fill("input[aria-label^=tags]", "dark")
    page.page.press("input[aria-label^=tags]", "Tab")
    page.wait("document.getElementById('kept').textContent.startsWith('kept ')")
    summary = folder / "run.json"
    text = summary.read_text("utf-8")
    summary.write_text(text + "\n", "utf-8")  # as a repeated run does
    page.page.fill("textarea", HOSTILE.replace("\x00", ""))
    page.page.press("textarea", "Tab")
    page.page.wait_for_selector(".unkept[data-of=note]:has-text('not kept: ')")
    assert "reload this page" in page.page.inner_text(".unkept[data-of=note]")
    assert not page.page.is_visible("#kept") and not page.page.is_visible(".unkept[data-of=tags]")
    page.page.evaluate("document.querySelector('dialog').scrollTop = 1e6")
    assert is_in_sight(page, "#record-trouble")
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('dialog').open")
    page.page.evaluate("scrollTo(0, 1e6)")
    assert is_in_sight(page, "#trouble")


def test_a_text_that_is_not_kept_is_in_its_field_after_a_reload(page: Page, folder: Path) -> None:
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    record_id = page.page.evaluate("current.id")
    page.page.fill("input[aria-label^=tags]", "dark")
    page.page.press("input[aria-label^=tags]", "Tab")
    page.wait("current.mark.tags.length == 1")
    page.page.fill("textarea", "look <b>again</b>")  # the focus stays in the field, so nothing is sent yet
    page.page.goto(page.page.url.partition("?")[0])
    page.wait("document.querySelectorAll('#not-kept a').length == 1")
    assert page.page.inner_text("#not-kept") == f"1 note is not kept: {record_id}"
    page.page.click("#not-kept a")
    page.page.wait_for_selector(".unkept:has-text('not kept yet')")
    assert page.page.evaluate("document.querySelectorAll('.unkept:not(:empty)').length") == 1
    assert page.page.inner_text("#record-not-kept").startswith("the note is not kept yet")
    assert is_in_sight(page, "#record-not-kept")
    page.page.click("#record-not-kept button")
    assert page.page.evaluate("document.activeElement.name") == "note" and is_in_sight(page, "textarea")
    assert page.page.input_value("textarea") == "look <b>again</b>" and not page.page.is_visible("#kept")
    page.page.fill("textarea", "")  # the text that is kept
    assert page.page.inner_text("#record-not-kept") == "" == page.page.inner_text("[data-of=note]")
    page.page.fill("textarea", "look <b>again</b>")
    page.page.press("textarea", "Tab")
    page.wait("current.mark.note == 'look <b>again</b>'")
    page.wait("document.querySelectorAll('.unkept:not(:empty)').length == 0 && sessionStorage.length == 0")
    assert Reviews(folder).of(record_id).note == "look <b>again</b>"
    assert page.page.inner_text("#not-kept") == "" == page.page.inner_text("#record-not-kept")


def test_a_restored_text_is_sent_once_and_only_if_the_user_wants_it(page: Page, folder: Path) -> None:
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    record_id = page.page.evaluate("current.id")
    page.page.fill("textarea", "an old draft")  # the focus stays in the field, so nothing is sent yet
    page.page.reload()
    page.page.wait_for_selector(".unkept[data-of=note]:has-text('not kept yet')")
    page.page.focus("textarea")
    page.page.press("textarea", "Tab")
    page.page.evaluate("marking")
    assert [each for each in page.requested if "/api/mark" in each] == []
    assert Reviews(folder).of(record_id).note == "" and page.page.input_value("textarea") == "an old draft"
    page.page.focus("textarea")
    page.page.click("[data-of=note] button")
    page.wait("current.mark.note == 'an old draft'")
    page.page.evaluate("marking")
    assert len([each for each in page.requested if "/api/mark" in each]) == 1
    page.page.press("textarea", "End")
    page.page.keyboard.type("!")
    field = "document.querySelector('textarea')"
    page.page.evaluate(f"for (let n = 0; n < 2; n++) {field}.dispatchEvent(new Event('change'))")
    page.wait("current.mark.note == 'an old draft!' && sessionStorage.length == 0")
    page.page.evaluate("marking")
    assert len([each for each in page.requested if "/api/mark" in each]) == 2


def test_a_page_of_a_changed_run_keeps_its_address_and_can_be_reloaded(page: Page, folder: Path) -> None:
    if page.page.is_visible("#facets-open"):
        page.page.click("#facets-open")
    summary = folder / "run.json"
    text = summary.read_text("utf-8")
    summary.write_text(text + "\n", "utf-8")  # as a repeated run does
    page.page.click("#facets button.class:has-text('rejected')")
    page.page.wait_for_selector("#trouble:visible")
    first = page.state()
    assert first == "?set=rejected" and page.page.evaluate("shown.total") == 100
    page.page.click("#facets button.class:has-text('sft')")
    page.page.click("button[aria-label^='pass_rate 0.5 to']")
    page.page.click(".card >> nth=0")
    page.page.click("#flag-all")
    assert page.state() == first and not page.page.is_visible("dialog")
    requested = len(page.requested)
    page.page.click("#trouble button")
    page.page.wait_for_load_state()
    assert any(each.endswith("/api/run") for each in page.requested[requested:])


def test_a_page_of_an_earlier_reading_of_the_run_gets_nothing(page: Page) -> None:
    """Every request of the page names the reading, also those for images: another tab may have the run read again."""
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    paths = {url.partition("//")[2].partition("/")[2] for url in page.requested}
    asked = [path for path in paths if path.startswith(("api/", "image/", "thumbnail/")) and path != "api/run"]
    assert {path.partition("/")[0] for path in asked} == {"api", "image", "thumbnail"}
    assert [path for path in asked if "opening=" not in path] == []
    page.page.evaluate("run.opening = 'another'")
    page.page.keyboard.press("j")
    page.page.wait_for_selector("dialog #record-trouble:visible")
    assert "was changed after this page had been loaded: reload this page" in page.page.inner_text("#record-trouble")


def test_an_open_page_notices_by_itself_that_its_run_was_changed(page: Page, folder: Path) -> None:
    def asked() -> int:
        return sum("/api/changed" in url for url in page.requested)

    page.page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    before = asked()
    page.page.evaluate("look()")
    assert asked() == before
    page.page.evaluate("delete document.hidden")
    summary = folder / "run.json"
    summary.write_text(summary.read_text("utf-8") + "\n", "utf-8")  # as a repeated run does
    page.page.wait_for_selector("#trouble:visible")
    assert "was changed" in page.page.inner_text("#trouble")
    before, last = asked(), before
    page.page.evaluate("look()")
    assert last < asked() == before


@pytest.mark.parametrize("view", ["", "view=table"])
def test_a_closed_record_gives_the_focus_back_to_its_row(page: Page, view: str) -> None:
    page.page.goto(page.address.partition("?")[0] + "?" + view)
    page.wait("shown.rows.length > 0")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    page.page.keyboard.press("j")
    page.wait("current.id == shown.rows[1].id")
    page.page.fill("textarea", "look again")  # the note is sent when the record is closed, and the list drawn anew
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('dialog').open")
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("document.activeElement.dataset.index") == "1"
    page.page.keyboard.press("f")
    page.wait("shown.rows[1].flagged")
    assert page.page.evaluate("document.activeElement.dataset.index") == "1"
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    assert page.page.evaluate("current.id == shown.rows[1].id")


def test_a_mark_of_another_version_of_its_row_says_so_until_it_is_kept(
    browser: Any, folder: Path, serve: Callable[..., str]
) -> None:
    Reviews(folder).keep(Mark("row-00", "of another trace", True, note="look", set="sft"))
    page = Page(browser.new_page(), serve(folder))
    page.page.goto(f"{page.address}&changed%20since%20its%20mark=true")
    page.wait("shown.total == 1 && shown.rows[0].id == 'row-00'")
    page.page.click(".card")
    page.page.wait_for_selector("#outdated:visible")
    said = "The flag and the note were set on another version of this row, which had another trace."
    assert page.page.inner_text("#outdated") == f"{said} keep for this row"
    page.page.click("#outdated button")
    page.page.wait_for_selector("#outdated", state="hidden")
    mark = Reviews(folder).of("row-00")
    assert (mark.flagged, mark.note, len(mark.trace)) == (True, "look", 64)
    page.page.close()


def test_all_filtered_records_are_flagged_at_once(page: Page, folder: Path) -> None:
    page.page.goto(page.address.partition("?")[0] + "?set=rejected")
    page.wait("shown.total == 20")
    page.page.on("dialog", lambda dialog: dialog.accept())
    page.page.click("#flag-all")
    page.wait("shown.rows.every(each => each.flagged)")
    assert {mark.id for mark in Reviews(folder) if mark.flagged} == {f"no-{n}" for n in range(20)}


def test_a_column_in_the_address_may_have_underscores(page: Page) -> None:
    page.page.goto(page.address.partition("?")[0] + "?has_a_note=false&sort=-trace_characters")
    page.wait("shown.total == 100")
    assert page.page.inner_text("#chips") == "has a note: false ×"
    assert page.page.input_value("#sort") == "trace characters"
    page.page.click("#chips button")
    page.wait("location.search == '?sort=-trace+characters'")


def test_an_unknown_column_in_the_address_is_explained(page: Page) -> None:
    page.page.goto(page.address.partition("?")[0] + "?colour=red")
    page.page.wait_for_selector("#trouble:not([hidden])")
    assert "the run has no column 'colour'" in page.page.inner_text("#trouble")
    page.printed = [each for each in page.printed if "400 (Bad Request)" not in each]


def test_an_audit_is_done_by_keyboard_and_goes_on_after_reopening(
    browser: Any, folder: Path, serve: Callable[..., str]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    for done in (0, 3):
        opened = Page(context.new_page(), serve(folder, 6))
        opened.page.on("console", lambda message, page=opened: page.printed.append(message.text))
        opened.page.goto(opened.address + "&view=audit")
        opened.wait("audit !== null && judged !== null")
        assert opened.count() == f"{done} of 6 traces judged"
        for n, key in enumerate("123" if not done else "11", done + 1):
            opened.page.keyboard.press(key)
            opened.wait(f"document.getElementById('count').textContent.startsWith('{n} of')")
    opened.page.keyboard.press("1")
    opened.wait("document.getElementById('done') !== null")
    assert opened.count() == "6 of 6 traces judged"
    opened.page.keyboard.press("u")
    opened.wait("document.getElementById('count').textContent.startsWith('5 of')")
    assert opened.page.query_selector("#done") is None
    opened.page.click("#result")
    opened.wait("document.getElementById('precision') !== null")
    assert opened.page.query_selector("#done") is None
    assert "%" in opened.page.inner_text("#precision") and opened.printed == []
    assert "about the kept rows of this run" in opened.page.inner_text("#about-precision")
    assert "about any rows of this kind" in opened.page.inner_text("#about-table")
    command = f"beam publish '{folder}' --repo ORG/NAME --with audit --dry-run"
    assert opened.page.inner_text("#publish") == command
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.click("text=next not judged")
    opened.wait("state().get('id') !== 'result'")
    opened.page.keyboard.press("3")
    opened.wait("document.getElementById('done') !== null")
    again = Page(context.new_page(), serve(folder, 6))
    again.page.goto(again.address + "&view=audit")
    again.wait("document.getElementById('done') !== null")
    assert again.page.inner_text("#done") == "All 6 traces are judged."
    keys = again.page.inner_text("footer")
    assert "undo" in keys and "flag" not in keys
    context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_second_run_is_shown_beside_the_first(
    screen: str, browser: Any, run: Path, tmp_path: Path, serve: Callable[..., str]
) -> None:
    there = {"id": "won", "stage": "verify", "reason": HOSTILE, "question": HOSTILE, "media": [], "detail": HOSTILE}
    new = write_run(tmp_path / "new", run, {"sft": [sft_row("kept"), sft_row("won"), sft_row("added")]})
    old = write_run(tmp_path / "old", run, {"sft": [sft_row("kept", trace=TRACE)], "rejected": [there]})
    others = {f"s{n}": HOSTILE.replace("\x00", "") for n in range(7)}
    (old / "config.toml").write_text(
        (old / "config.toml").read_text("utf-8") + tomli_w.dumps({"other": others}), "utf-8"
    )
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = Page(context.new_page(), serve(new, beside=old))
    page.page.on("console", lambda message: page.printed.append(f"{message.type}: {message.text}"))
    page.page.on("pageerror", lambda error: page.printed.append(str(error)))
    page.page.goto(page.address)
    page.wait("shown.rows.length == 3")
    assert "beside old" in page.page.inner_text("#about")
    assert page.page.inner_text("#compared") == "1 of 2 ids ended elsewhere; 1 id ended alike with another trace"
    page.page.click("#compared a >> nth=1")
    page.wait("shown.total == 1 && shown.rows[0].id == 'kept'")
    page.page.click("#compared a >> nth=0")
    page.wait("shown.total == 1 && shown.rows[0].id == 'won'")
    page.page.click("#home")
    page.wait("shown.total == 3")
    settings = page.page.inner_text("#settings")
    assert settings.startswith("settings that differ, new → old: other.s0: – → ") and "fetch('http" in settings
    assert "other.s4" in settings and settings.endswith(", and 2 more (beam diff lists them)")
    if page.page.is_visible("#facets-open"):
        page.page.click("#facets-open")
    assert page.page.is_visible("#facets h2:text-is('change of set, new → old')")
    page.page.click("#facets button.class:has-text('sft → rejected')")
    page.wait("shown.total == 1")
    assert page.page.inner_text("#chips") == "change of set, new → old: sft → rejected ×"
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] section.other")
    assert "<script>fetch('http://evil.example')</script>" in page.page.inner_text("section.other")
    assert page.page.inner_text("#there").startswith("in old: rejected: </script>") and is_in_sight(page, "#there")
    assert page.page.evaluate("document.querySelectorAll('dialog script, dialog img[src=x]').length") == 0
    page.page.evaluate("changed(next => { next.delete('change of set'); next.set('id', 'kept'); })")
    page.page.wait_for_selector("section.other .tag")
    assert page.page.inner_text("#there") == "in old: sft"
    page.page.check(".layers >> text=other")
    assert page.page.evaluate("document.querySelectorAll('.stage .mark.other').length") == 3
    page.page.evaluate("changed(next => next.set('id', 'added'))")
    page.wait("document.querySelector('section.other').textContent.includes('no record with this id')")
    assert page.page.inner_text("#there") == "in old: no such record"
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.printed == []
    context.close()


def test_replies_of_models_are_read_when_they_are_asked_for(browser: Any, run: Path, serve: Callable[..., str]) -> None:
    page = Page(browser.new_page(), serve(run))
    page.page.on("console", lambda message: page.printed.append(f"{message.type}: {message.text}"))
    page.page.on("request", lambda asked: page.requested.append(asked.url))
    page.page.goto(f"{page.address}&set=sft")
    page.wait("shown.rows.length > 0")
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .facts")
    assert not any("/api/replies" in each for each in page.requested)
    page.page.click("text=replies of models")
    page.wait("document.querySelector('.replies').childElementCount > 0")
    shown = page.page.inner_text(".replies")
    assert page.page.evaluate("document.querySelectorAll('.replies pre').length") > 3, shown
    assert "teacher · trace" in shown and "replies are shown" in shown and " · made 20" in shown
    taken = '{taken_from: "look", taken_at: "noon", created: null, text: "a", finish_reason: "stop"}'
    assert "made at an unknown time · taken over from look at noon" in page.page.evaluate(f"reply({taken}).innerText")
    assert page.printed == []
    page.page.close()


@pytest.mark.parametrize("reason", ["invalid_record", "media_missing"])
def test_a_record_whose_image_was_not_opened_says_so(
    reason: str, browser: Any, run: Path, serve: Callable[..., str], tmp_path: Path
) -> None:
    row = {"id": "a", "stage": "ingest", "reason": reason, "question": "Which?", "media": [], "detail": "b"}
    page = Page(browser.new_page(), serve(write_run(tmp_path / "run", run, {"rejected": [row]})))
    page.page.goto(page.address)
    page.wait("shown.total == 1")
    assert page.page.inner_text(".card .pic") == "image not opened"
    page.page.click(".card")
    page.page.wait_for_selector("dialog[open] .question")
    why = "rejected this record before it opened its images, or because it could not open them"
    assert why in page.page.inner_text("#record-body")
    page.page.close()


def test_an_image_is_shown_after_one_that_cannot_be_read(
    browser: Any, run: Path, serve: Callable[..., str], tmp_path: Path
) -> None:
    images = [{"bytes": b"no image", "path": "a.png"}, {"bytes": image(60, 60), "path": "b.png"}]
    page = Page(browser.new_page(), serve(write_run(tmp_path / "run", run, {"sft": [sft_row("q", images=images)]})))
    page.page.goto(f"{page.address}&id=q")
    page.wait("document.querySelector('.stage p')?.textContent.includes('cannot be decoded')")
    page.page.click(".strip button >> nth=1")
    page.wait("document.querySelector('.stage img')?.naturalWidth == 60")
    page.page.click(".strip button >> nth=0")
    page.wait("document.querySelector('.stage p')?.textContent.includes('cannot be decoded')")
    page.page.close()


def test_floors_are_beside_the_verdicts_and_the_rejecting_one_is_marked(
    browser: Any, run: Path, tmp_path: Path, serve: Callable[..., str]
) -> None:
    verdicts = [
        {"name": name, "value": value, "failed": failed, "reason": ""}
        for name, value, failed in (
            ("outcome", 1.0, False),
            ("spatial", 0.25, False),
            ("temporal", None, False),
            ("reasoning", None, True),
            ("constructor", 1.0, False),
        )
    ]
    trace = {"text": "a", "answer": "1", "score": 0.625, "verdicts": verdicts}
    low = {"id": "low", "stage": "verify", "reason": "low_grounding", "rejected_by": "spatial", "media": []}
    folder = write_run(tmp_path / "run", run, {"rejected": [low | {"traces": [trace]}]})
    page = Page(browser.new_page(), serve(folder))
    page.page.goto(f"{page.address}&id=low")
    page.page.wait_for_selector("dialog[open] .verdicts")
    shown = page.page.evaluate("[...document.querySelectorAll('.verdicts .verdict')].map(each => each.textContent)")
    assert shown == [
        "final 0.625 (floor 0.7)",
        "outcome 1",
        "rejected by spatial 0.250 (floor 1)",
        "temporal –",
        "reasoning failed",
        "constructor 1",
    ]
    assert page.page.inner_text(".verdict.rejects") == "rejected by spatial 0.250 (floor 1)"
    bad = page.page.evaluate("[...document.querySelectorAll('.verdict.bad')].map(each => each.textContent)")
    assert bad == [shown[0], shown[2], shown[4]]
    page.page.close()


def test_an_image_that_arrives_after_its_record_was_closed_is_not_drawn(page: Page) -> None:
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .stage svg")
    page.page.evaluate("globalThis.late = new Viewer(current); document.body.append(late.box); late.box.hidden = true")
    loaded = "performance.getEntriesByType('resource').filter(each => each.name.includes('/image/')).length > 1"
    page.wait(loaded)
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("late.moved.childElementCount") == 0 and page.printed == []


@pytest.mark.parametrize("screen", SCREENS)
def test_a_copy_works_from_the_disk(screen: str, browser: Any, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a copy #1"
    Reviews(folder).keep(Mark("row-07", note="The Label hides it"))
    assert main(["view", str(folder), "--export", str(copy)]) == 0
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = Page(context.new_page(), (copy / "index.html").as_uri())
    page.page.on("console", lambda message: page.printed.append(f"{message.type}: {message.text}"))
    page.page.on("pageerror", lambda error: page.printed.append(str(error)))
    page.page.on("request", lambda asked: page.requested.append(asked.url))
    page.page.goto(page.address)
    page.wait("shown.rows.length > 0")
    assert page.count() == "100 of 100 records"
    if page.page.is_visible("#facets-open"):
        page.page.click("#facets-open")
    page.page.click("#facets button.class:has-text('rejected')")
    page.wait("shown.total == 20")
    page.page.evaluate(
        "changed(next => { next.delete('set'); next.set('pass_rate', '0.5..0.55'); next.set('sort', '-pass_rate'); })"
    )
    page.wait("shown.total == 6")
    assert page.ids() == [f"row-{n}" for n in range(55, 49, -1)]
    page.page.evaluate("changed(next => next.set('q', 'CATS, 52'))")
    page.wait("shown.total == 1")
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .stage img")
    page.wait("document.querySelector('.stage img').naturalWidth == 40")
    assert not page.page.is_visible("#flag-all") and page.page.query_selector("#flag") is None
    page.page.keyboard.press("f")
    page.page.keyboard.press("Escape")
    page.page.evaluate("changed(next => { next.delete('pass_rate'); next.delete('sort'); next.delete('q'); })")
    page.page.evaluate("changed(next => next.set('q', 'label HIDES'))")
    page.wait("shown.total == 1 && shown.rows[0].id == 'row-07' && shown.rows[0]['has a note']")
    page.page.evaluate("changed(next => next.delete('q'))")
    page.wait("shown.total == 100")
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .question")
    assert "<script>fetch('http://evil.example')</script>" in page.page.inner_text("dialog .question")
    assert page.page.evaluate("document.querySelectorAll('dialog script, dialog img[src=x]').length") == 0
    assert [each for each in page.requested if not each.startswith((copy.as_uri(), "data:"))] == []
    assert page.printed == []
    context.close()


ADDRESSES = (
    "", "set=sft", "set=rl", "set=sft&set=rejected", "reason=", "source=source 1&reason=", "flagged=true",
    "pass_rate=0.5", "pass_rate=0.5..0.5", "pass_rate=0", "pass_rate=0..0", "pass_rate=..", "pass_rate=..0.1",
    "pass_rate=0.7..", "pass_rate=0.2...8", "pass_rate= 0.1 .. 1e-1 ", "pass_rate=-inf..0.3", "pass_rate=0.5..0.1",
    "pass_rate=+5e-1..Infinity", "pass_rate=0x1", "pass_rate=abc", "pass_rate=nan", "pass_rate=", "pass_rate=1..2..3",
    "pass_rate=0..0&pass_rate=1..1", "trace points=2", "trace points=0&set=sft", "trace_points=0&sort=-trace_points",
    "q=HOW", "q= cats, 5 ", "q=", "q=no-1",
    "q=a&q=b", "sort=pass_rate", "sort=-pass_rate&set=sft", "sort=source", "sort=-flagged", "sort=-reason",
    "sort=-nope", "sort=", "sort=set&sort=set", "colour=red", "id=row-01&view=table",
    "q=cats&pass_rate=0.3..&sort=-source",
)  # fmt: skip


def test_a_copy_filters_as_the_view_does(browser: Any, folder: Path, tmp_path: Path) -> None:
    Reviews(folder).keep(Mark("row-07", flagged=True, note="The Label hides it"))
    assert main(["view", str(folder), "--export", str(tmp_path / "copy")]) == 0
    page = browser.new_page()
    page.goto((tmp_path / "copy/index.html").as_uri())
    opened = open_rows(str(folder), None)

    def by_view(address: str) -> tuple[Any, Any]:
        try:
            filters = opened.filters(address)
        except InspectError as error:
            return (str(error).partition("cannot be used: ")[2],) * 2
        counts = opened.rows.counts(filters)
        return opened.rows.ids(filters), {
            name: each if isinstance(each, list) else asdict(each) for name, each in counts.items()
        }

    def by_copy(address: str) -> tuple[Any, Any]:
        asked = "path => { try { return copied(path); } catch (error) { return error.message; } }"
        rows, counts = (
            page.evaluate(asked, path) for path in (f"/api/rows?limit=200&{address}", f"/api/counts?{address}")
        )
        return rows if isinstance(rows, str) else [row["id"] for row in rows["rows"]], counts

    for address in ADDRESSES:
        expected = by_view(address)
        assert json.loads(json.dumps(expected)) == json.loads(json.dumps(by_copy(address))), address
    opened.close()
    page.close()
