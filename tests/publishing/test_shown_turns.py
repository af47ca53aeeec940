"""The trajectories of a report: turn by turn, escaped, bounded, and on a phone."""

import re
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.responses.turns import Turn, as_tags, conversation
from groundtrace.publishing import shown_turns
from groundtrace.publishing.gallery import count_images
from groundtrace.publishing.shown_turns import executed_turns, written_turns
from groundtrace.rewards.trajectory import TURNS as COLUMN
from groundtrace.vision.hashing import sha256_bytes
from tests.publishing.test_report import HOSTILE, Page, make_page, picture, row_of

LONG = "long_name = [" + "1234567890" * 40 + "]"
TURNS = (
    Turn("<think>I count.</think>", f"{LONG}\nprint(count(input_image))", "error", "NameError: no count"),
    Turn("<think>I look.</think>", "if 1:\n    display(left)\n    display(right)", "ok", "(90, 90)", 2),
    Turn("<think>One.</think>\n<answer>1</answer>"),
)


def trajectory(row_id: str = "q", turns: tuple[Turn, ...] = TURNS, **columns: Any) -> dict[str, Any]:
    """An SFT row with this trajectory; the question's image is 40 px wide, and those that code showed 50, 60, …"""
    of_code = [picture(50 + 10 * number, 20) for number in range(sum(turn.images for turn in turns))]
    asked = conversation("<image>How many?", as_tags(turns))
    fields = [{name: getattr(turn, name) for name in shown_turns._FIELDS} for turn in turns]
    return row_of(row_id, images=[picture(), *of_code], messages=asked, turns=fields, **columns)


def page_of(folder: Path, *rows: dict[str, Any]) -> str:
    return make_page(folder, [*rows], added=[COLUMN])


def test_each_turn_has_its_code_result_and_images(tmp_path: Path) -> None:
    html = page_of(tmp_path, trajectory())
    page = Page(html)
    assert "trajectory of 3 turns" in page.words
    turns = html[html.index('<ol class="turns">') : html.index("</ol>")].split("<li>")[1:]
    shown = [re.findall(r'<img src="[^"]+" width="(\d+)"', turn) for turn in turns]
    assert shown == [[], ["50", "60"], []]
    assert [image["width"] for image in page.named("img")] == ["40", "50", "60"]
    assert [turn.count('<pre class="code t">') for turn in turns] == [1, 1, 0]
    assert '<code class="language-python">if 1:\n    display(left)' in turns[1]
    assert "result from the sandbox, not written by the model" in turns[0]
    assert turns[0].index("no count") > turns[0].index("not written by the model") > turns[0].index("count(input")
    assert ['class="result failed-call"' in turn for turn in turns] == [True, False, False]
    assert [re.findall(r'class="status t">(\w+)<', turn) for turn in turns] == [["error"], ["ok"], []]
    assert "no text" not in page.words
    assert "original 2" not in page.words, "an image that code showed is none of the question"


def test_a_row_without_code_shows_its_trace(tmp_path: Path) -> None:
    direct = row_of("direct", messages=conversation("<image>How many?", "<answer>1</answer>"), turns=None)
    html = page_of(tmp_path, direct)
    assert "trajectory of" not in html
    assert '<div class="trace t">' in html


def test_hostile_turns_stay_text(tmp_path: Path) -> None:
    hostile = Turn(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1)
    html = page_of(tmp_path, trajectory(turns=(hostile, *TURNS)))
    page = Page(html)
    assert "<script" not in html
    assert page.words.count("alert(1)") >= 4
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


@pytest.mark.slow
def test_a_long_trajectory_stays_small(tmp_path: Path) -> None:
    noise = picture(400, 300, noise=True)
    turns = tuple(Turn("<" * 50_000, "&" * 50_000, "ok", ">" * 50_000, 3) for _ in range(40))
    rows = [trajectory(f"q{n}", turns) | {"images": [noise] * 121} for n in range(6)]
    assert [count_images(row) for row in rows] == [1 + shown_turns.MAX_IMAGES_OF_CODE] * 6
    html = page_of(tmp_path, *rows)
    assert len(html) < 4_000_000
    words = Page(html).words
    assert "28 turns more in the shard" in words
    assert "47,000 more characters" in words
    assert "3 images not shown here" in words
    assert words.count("left out, this page is full") == 0


def test_a_rejected_trajectory_shows_its_turns(tmp_path: Path) -> None:
    tmp_path.joinpath("a.png").write_bytes(picture()["bytes"])
    verdicts = [{"name": "outcome", "value": 0.0, "failed": False, "reason": ""}]
    traces = [{"text": as_tags(TURNS), "answer": "1", "score": 0.1, "verdicts": verdicts}]
    row = row_of("q", stage="verify", reason="wrong_answer", detail="", images=None, traces=traces)
    medium = {"uri": "input:a.png", "sha256": sha256_bytes((tmp_path / "a.png").read_bytes())}
    page = Page(make_page(tmp_path, [], rejected=[row | {"media": [medium]}]))
    for words in ("trajectory of 3 turns", "display(left)", "NameError: no count", "2 images not shown here"):
        assert words in page.words
    assert len(page.named("img")) == 1


@pytest.mark.parametrize(
    "held",
    [
        None,
        [],
        [{"role": "user", "content": "q"}],
        written_turns("<answer>1</answer>"),
        [{"text": None, "code": None, "status": None, "output": None, "images": None}],
    ],
)
def test_rows_without_a_trajectory(held: list[dict[str, Any]] | None) -> None:
    assert executed_turns({"turns": held}) == ()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_trajectories_in_a_browser(width: int, browser: Any, tmp_path: Path) -> None:
    page_of(tmp_path, trajectory("q1"), trajectory("q2", (Turn("<b>", HOSTILE, "timeout", HOSTILE), *TURNS)))
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width, "a long line of code is broken"
    first = page.locator("article.entry", has_text="q1").locator(".turns > li")
    assert first.count() == 3
    code, result = first.nth(1).locator("pre.code"), first.nth(1).locator(".result")
    assert code.inner_text() == TURNS[1].code
    assert result.locator("pre.output").inner_text() == "(90, 90)"
    assert code.bounding_box()["y"] < result.bounding_box()["y"]
    sizes = "images => images.map(each => [each.complete, each.naturalWidth])"
    assert result.locator("img").evaluate_all(sizes) == [[True, 50], [True, 60]]
    failed = first.nth(0).locator(".status")
    assert failed.is_visible()
    assert failed.inner_text() == "error"
    assert failed.evaluate("each => getComputedStyle(each).color") != result.locator(".status").evaluate(
        "each => getComputedStyle(each).color"
    )
    assert said == []
    context.close()
