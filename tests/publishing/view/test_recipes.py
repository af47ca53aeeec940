"""The page of a view of real runs in a browser: every recipe, and video clips (``make test-browser``)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_metadata, read_table

from groundtrace.pipelines.commands.cli import main

from ...pipelines.clip_server import ClipWorld, serving, write_clip
from .browsing import SCREENS, Page

pytestmark = pytest.mark.browser

SAMPLE = Path(__file__).resolve().parents[3] / "data" / "sample"
RECIPES = ("grounded_cot", "judge_think_answer", "dual_stream", "executable_cot", "rubric_curriculum")
RECORDS = 3
CLIP_ROLES = ("policy", "teacher", "pointer", "judge", "detector", "segmenter")


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a run of a recipe over the sample, once for all tests."""
    folder = tmp_path_factory.mktemp("runs")

    def made(recipe: str) -> Path:
        if not (folder / recipe).exists():
            assert main(["run", recipe, "--input", str(SAMPLE), "--output", str(folder / recipe)]) == 0
        return folder / recipe

    return made


@pytest.fixture(scope="module")
def clip_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one clip, whose models are a scripted server."""
    home = tmp_path_factory.mktemp("clip")
    (home / "data").mkdir()
    write_clip(home / "data" / "moving.mp4")
    record = {
        "id": "clip",
        "question": "Does the red square move to the right?",
        "answer": "yes",
        "answer_type": "bool",
    }
    record |= {"media": ["moving.mp4"], "source": "drawn", "license": "CC0-1.0"}
    (home / "data" / "records.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    with serving(ClipWorld()) as url:
        endpoint = f'[endpoints.seeing]\nkind = "openai"\nbase_url = "{url}"\nmodel = "seeing"\nfamily = "plain"\n'
        roles = "".join(f'{role} = "seeing"\n' for role in CLIP_ROLES)
        (home / "config.toml").write_text(f"allow_self_judging = true\n{endpoint}[roles]\n{roles}", "utf-8")
        command = ["run", "grounded_cot", "--input", str(home / "data"), "--output", str(home / "run")]
        settings = ("trace.n=3", "split.sft_ratio=1.0", "dedup.near=false", "video.max_frames=8", "leak.ask=none")
        sets = [word for setting in settings for word in ("--set", setting)]
        assert main([*command, "--config", str(home / "config.toml"), *sets]) == 0
    return home / "run"


def opened(browser: Any, address: str, screen: str) -> Page:
    width, height = SCREENS[screen]
    scheme = "dark" if screen == "phone" else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = Page(context.new_page(), address)
    page.page.on("console", lambda message: page.printed.append(f"{message.type}: {message.text}"))
    page.page.on("pageerror", lambda error: page.printed.append(str(error)))
    page.page.on("request", lambda asked: page.requested.append(asked.url))
    page.page.goto(address)
    page.wait("shown.rows.length > 0")
    return page


def read_by_keyboard(page: Page, name: str) -> None:
    """Open the records of a set one after another, with all that is folded."""
    page.page.evaluate(f"changed(next => next.set('set', '{name}'))")
    page.wait(f"shown.rows.length > 0 && shown.rows.every(each => each.set === '{name}')")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    seen = set[str]()
    for _ in range(min(RECORDS, page.page.evaluate("shown.rows.length"))):
        page.wait(f"current !== null && !{sorted(seen)}.includes(current.id)")
        seen.add(page.page.evaluate("current.id"))
        page.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.page.inner_text("dialog .question").strip()
        assert page.page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")
        page.page.keyboard.press("j")
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('dialog').open")


def check_quiet(page: Page) -> None:
    """Nothing is printed to the console, and nothing is requested from another address."""
    origin = page.address.partition("/?")[0]
    assert [each for each in page.requested if not each.startswith(origin)] == []
    assert page.printed == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_records_of_every_recipe(
    recipe: str, screen: str, browser: Any, run_of: Callable[[str], Path], serve: Callable[..., str]
) -> None:
    folder = run_of(recipe)
    page = opened(browser, serve(folder), screen)
    for name in ("sft", "rl", "rejected"):
        if sum(read_metadata(path).num_rows for path in (folder / name).glob("*.parquet")):
            read_by_keyboard(page, name)
    if recipe == "executable_cot":
        rows = [row for path in (folder / "sft").glob("*.parquet") for row in read_table(path).to_pylist()]
        row_id = next(row["id"] for row in rows if row["turns"])
        page.page.evaluate(f"changed(next => {{ next.delete('set'); next.set('id', {json.dumps(row_id)}); }})")
        page.page.wait_for_selector("dialog[open] h3:text('trajectory')")
        page.page.wait_for_selector("dialog[open] section pre")
    check_quiet(page)
    page.page.context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_replay_shows_the_prompts_and_all_traces(
    screen: str, browser: Any, run_of: Callable[[str], Path], serve: Callable[..., str]
) -> None:
    folder = run_of("grounded_cot")
    page = opened(browser, serve(folder), screen)
    page.page.evaluate("changed(next => next.set('set', 'sft'))")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    page.page.click("summary:text('replay')")
    page.page.wait_for_selector(".replay summary:text('8 traces')", timeout=60_000)
    page.page.evaluate("document.querySelectorAll('.replay details').forEach(each => each.open = true)")
    said = page.page.inner_text(".replay")
    assert "The replay ended as the run did." in said and "passed: ingest → clean" in said
    assert "trace: teacher, trace.v1, 8 of 8 replies" in said
    assert page.page.inner_text("dialog .question") in said, "the prompt of the attempts has the question"
    assert page.page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")
    check_quiet(page)
    page.page.context.close()


def test_the_replies_of_a_record_that_was_too_hard_are_in_its_replay(
    browser: Any, run_of: Callable[[str], Path], serve: Callable[..., str]
) -> None:
    page = opened(browser, serve(run_of("grounded_cot")), "desk")
    page.page.evaluate("changed(next => { next.set('stage', 'difficulty'); })")
    page.wait("shown.rows.length > 0 && shown.rows.every(each => each.stage === 'difficulty')")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .question")
    page.page.click("text=replies of models")
    page.page.wait_for_selector(".replies p:text('The replies that led to the rejection are')")
    attempts = page.page.evaluate("current.attempts.length")
    said = page.page.inner_text(".replies")
    assert f"are the {attempts} attempts on this page. The replay below shows them with their requests." in said
    page.page.click("summary:text('replay')")
    page.page.wait_for_selector(".replay summary:text('attempt: policy')", timeout=60_000)
    page.page.evaluate("document.querySelectorAll('.replay details').forEach(each => each.open = true)")
    shown = page.page.inner_text(".replay")
    assert shown.count("policy · attempt") == attempts > 1
    check_quiet(page)
    page.page.context.close()


def test_a_replay_ends_when_its_record_is_left(
    browser: Any, run_of: Callable[[str], Path], serve: Callable[..., str]
) -> None:
    page, ended = opened(browser, serve(run_of("grounded_cot")), "desk"), list[str]()
    page.page.on("requestfailed", lambda request: ended.append(request.url.partition("/api/")[2].partition("?")[0]))
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    for left in range(1, 9):  # a browser has six connections
        page.wait("current !== null")
        before = page.page.evaluate("current.id")
        page.page.click("summary:text('replay')")
        page.page.wait_for_selector(".replay p")
        page.page.keyboard.press("j")
        page.wait(f"current.id !== {json.dumps(before)}")
        assert ended == ["replay"] * left
    check_quiet(page)
    page.page.context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_replay_draws_the_masks_over_the_objects(
    screen: str, browser: Any, run_of: Callable[[str], Path], serve: Callable[..., str]
) -> None:
    page = opened(browser, serve(run_of("grounded_cot")), screen)
    page.page.evaluate("changed(next => next.set('set', 'sft'))")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open] .stage circle.trace")
    assert page.page.locator(".stage path").count() == 0, "a run does not keep the masks"
    page.page.click("summary:text('replay')")
    page.page.wait_for_selector(".stage path.segmenter", timeout=60_000)
    on_masks = """[...document.querySelectorAll('circle.trace')].map(({ cx, cy }) => {
        const place = new DOMPoint(cx.baseVal.value, cy.baseVal.value);
        return [...document.querySelectorAll('path.segmenter')].some(mask => mask.isPointInFill(place));
    })"""
    found = page.page.evaluate(on_masks)
    assert found and all(found), "each point of the kept trace is on a mask"
    assert page.page.inner_text(".layers").count("segmenter (") == 1
    switches = page.page.locator(".layers label")
    assert page.page.locator(".stage rect.detector, .stage circle.pointing").count() == 0
    switches.filter(has_text="detector").locator("input").check()
    switches.filter(has_text="pointer (replies)").locator("input").check()
    assert page.page.locator(".stage rect.detector").count() and page.page.locator(".stage circle.pointing").count()
    page.page.locator(".replay summary .tag.mask").first.hover()
    lit = page.page.locator(".stage path.segmenter.lit")
    assert 0 < lit.count() <= page.page.locator(".stage path.segmenter").count()
    page.page.locator(".replay > p").first.hover()
    assert lit.count() == 0
    box = page.page.locator(".stage").bounding_box()
    if screen == "desk":
        assert box["y"] < SCREENS[screen][1] / 2, "the image stays visible beside the list"
    page.page.evaluate("document.querySelector('dialog').scrollTop = 0")
    for name in ("trace", "detector", "pointer (replies)"):
        switches.filter(has_text=f"{name} (").locator("input").uncheck()
    page.page.locator(".stage path.segmenter").first.hover()
    assert page.page.locator(".replay sup.lit").count() == 1
    switches.filter(has_text="segmenter").locator("input").uncheck()
    assert page.page.locator(".stage path").count() == 0
    hostile = [{"role": "segmenter", "kind": "mask", "n": 1, "label": "<img src=x onerror=alert(1)>"}]
    shown = page.page.evaluate("marks => tagsOf(marks).map(each => each.outerHTML || each).join('')", hostile)
    assert "&lt;img src=x" in shown and "<img" not in shown
    assert page.page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")
    check_quiet(page)
    page.page.context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_frames_of_a_clip(screen: str, browser: Any, clip_run: Path, serve: Callable[..., str]) -> None:
    page = opened(browser, serve(clip_run), screen)
    read_by_keyboard(page, "sft")
    page.page.click(".card >> nth=0")
    page.page.wait_for_selector("dialog[open] .strip button")
    assert page.page.evaluate("document.querySelectorAll('.strip button').length") == 16, "frames and overlays"
    assert "2.3" in page.page.inner_text(".strip")
    page.page.click(".strip button >> nth=7")
    page.wait("document.querySelector('.stage img').naturalWidth > 0")
    check_quiet(page)
    page.page.context.close()
