import base64
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.pages.response_parts import spans_of
from groundtrace.pages.shown_images import ImageRoom
from groundtrace.publishing import gallery, report
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.reading import open_tables
from groundtrace.publishing.report import write_report
from groundtrace.schemas.arrow import REJECTED_SCHEMA, sft_schema
from groundtrace.schemas.columns import Column
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.vision.decode import decode_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore
from tests.added import ADDED, WHOLE_RL

HOSTILE = "\"><script>alert(1)</script></style></textarea><img src=x onerror=alert(1)>' {{ 7*7 }} \x00\u202e"
RUBRIC = {
    "id": "presence",
    "description": "D",
    "criteria": "C",
    "applicability": 1.0,
    "pass_rate": 0.8,
    "stratum": "hard",
}


class Page(HTMLParser):
    """The elements of a page, and the text outside its style sheet."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def picture(width: int = 40, height: int = 20, noise: bool = False) -> dict[str, Any]:
    pixels = np.full((height, width, 3), 200, np.uint8)
    if noise:
        pixels = np.random.default_rng(width).integers(0, 256, pixels.shape, np.uint8)
    return {"bytes": cv2.imencode(".png", pixels)[1].tobytes(), "path": "a.png"}


def row_of(row_id: str, **columns: Any) -> dict[str, Any]:
    attempts = [{"text": "t", "answer": "3", "correct": correct} for correct in (True, False, None)]
    row = {
        "id": row_id,
        "source": "s",
        "license": "MIT",
        "question": "How many?",
        "answer": "3",
        "answer_type": "numeric",
    }
    return row | {"images": [picture()], "overlays": [], "pass_rate": 0.5, "k": 2, "attempts": attempts} | columns


def trace(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "<image>How many?"}, {"role": "assistant", "content": text}]


def make_page(
    folder: Path,
    sft: list[dict[str, Any]],
    rl: list[dict[str, Any]] | None = None,
    rejected: list[dict[str, Any]] | None = None,
    added: Sequence[Column[Any]] = ADDED,
    **changes: Any,
) -> str:
    counts: dict[str, dict[str, int]] = {}
    for row in rejected or []:
        reasons = counts.setdefault(row["stage"], {})
        reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    sets = (
        ("sft", sft, sft_schema(added)),
        ("rl", rl or [], WHOLE_RL),
        ("rejected", rejected or [], REJECTED_SCHEMA),
    )
    for name, rows, schema in sets:
        (folder / name).mkdir(parents=True, exist_ok=True)
        target = folder / name / "train-00000-of-00001.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), target, row_group_size=10)
    summary = {
        "recipe": "grounded_cot",
        "input": "questions",
        "counts": {
            "input": len(sft) + len(rl or []) + len(rejected or []),
            "sft": len(sft),
            "rl": len(rl or []),
        }
        | {"rejected": counts},
        "stages": {"ingest": {"in": 5, "kept": 5}, "rubric_judge": {"in": 2, "kept": 2}},
        "ledger": {"teacher": {"stages": {"trace": {"calls": 1234, "requests": 1, "cached": 2, "cost_usd": 0.0031}}}},
        "roles": {"teacher": "big-model"},
        "prompts": {},
        "self_judged": False,
        "config_sha256": "c0ffee",
        "revision": "abc123",
        "finished": "2026-01-02T03:04:05+00:00",
        "wall_s": 1.5,
    } | changes
    found, store = RunSummary.from_fields(summary), MediaStore(str(folder), str(folder))
    with open_tables(folder, found) as tables:
        spread = balances(folder, tables, found.sets)
        write_report(folder, Path("/runs/first"), found, store, tables, spread)
    return (folder / "report.html").read_text("utf-8")


def test_the_page_shows_the_run(tmp_path: Path) -> None:
    rubrics = {
        "judged": 7,
        "rubrics": [RUBRIC | {"kept": True}, RUBRIC | {"id": "odd", "pass_rate": None, "kept": False}],
    }
    (tmp_path / "rubrics.json").write_text(json.dumps(rubrics | {"problems": ["judge q9: no scores"]}), "utf-8")
    config = (
        '[roles]\nteacher = "unsure"\n[endpoints.unsure]\nkind = "classical"\nmodel = "big-model"\nstrength = 2.0\n'
    )
    (tmp_path / "config.toml").write_text(config, "utf-8")
    text = '<think>It is <points x1="10" y1="5" alt="dot">dot</points>.</think><answer>3</answer>'
    point = {"label": "dot", "x": 10.0, "y": 5.0, "media_index": 0}
    box = {"label": "frame", "x1": 0.0, "y1": 0.0, "x2": 20.0, "y2": 10.0, "media_index": 0}
    scores = {"outcome": 1.0, "spatial": 0.25, "final": 0.5}
    sft = [row_of("q1", messages=trace(text), points=[point], boxes=[box], scores=scores, overlays=[picture(80, 40)])]
    rejected = [
        {"id": f"r{n}", "stage": "verify", "reason": "low_grounding", "detail": f"detail {n}"} for n in range(5)
    ]
    meanings = {"low_grounding": "the best right trace points off the objects that it names"}
    stages = {"verify": {"in": 6, "kept": 1, "does": "traces are scored", "reasons": meanings}}
    html = make_page(tmp_path, sft, [row_of("q2", rubrics=[RUBRIC])], rejected, self_judged=True, stages=stages)
    page = Page(html)
    for shown in (
        "Groundtrace run first",
        "7 attempts",
        "no scores",
        "1,234",
        "$0.0031",
        "unsure, strength 2.0",
        "unscored: temporal, reasoning",
    ):
        assert shown in page.words
    assert html.count("$0.0031") == 2, "of the role, and of all"
    assert "3 attempts: 1 right, 1 wrong, 1 unscored" in page.words
    assert "the best right trace points off the objects" in page.words
    assert "not an independent opinion" in page.words
    assert sum(f"detail {n}" in page.words for n in range(5)) == report.EXAMPLES
    assert "left:25.0%;top:25.0%" in html
    assert "left:0.0%;top:0.0%;width:50.0%;height:50.0%" in html
    assert len(page.named("img")) == 3


def test_nothing_is_hidden_where_all_images_are_shown(tmp_path: Path) -> None:
    rows = [row_of("q1", overlays=[picture()], messages=trace("t")), row_of("q2", images=[picture()] * 5)]
    page = Page(make_page(tmp_path, rows))
    assert re.findall(r"(\d+) more not shown", page.words) == ["2"]


def test_an_example_of_each_reason_shows_its_picture_and_best_trace(tmp_path: Path) -> None:
    tmp_path.joinpath("a.png").write_bytes(picture()["bytes"])
    said = '<think>Here: <points x1="10" y1="5" alt="dot">dot</points>.</think><answer>4</answer>'
    verdicts = [{"name": "outcome", "value": 0.0, "failed": False, "reason": "4 is not 3"}]
    traces = [
        {"text": text, "answer": "4", "score": score, "verdicts": verdicts}
        for text, score in (("another", 0.0), (said, 0.1))
    ]
    shown = row_of("q1", stage="verify", reason="wrong_answer", detail="none is right", images=None, traces=traces)
    gone = row_of("q2", stage="trace", reason="no_entities", detail="nothing to see", images=None)
    bare = {"id": "q3", "stage": "ingest", "reason": "media_missing", "detail": "gone.png"}
    shown["media"] = [{"uri": "input:a.png", "sha256": sha256_bytes(picture()["bytes"])}]
    gone["media"] = [{"uri": "input:gone.png", "sha256": "0" * 64}]
    html = make_page(tmp_path, [], rejected=[shown, gone, bare])
    page = Page(html)
    assert len(page.named("img")) == 1
    assert "left:25.0%;top:25.0%" in html, "what the best trace points at is marked"
    for words in ("How many?", "none is right", "nothing to see", "gone.png", "cannot be shown here"):
        assert words in page.words
    assert "another" not in page.words


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    page = Page(make_page(tmp_path, [row_of("q1", messages=trace("t"))]))
    assert [name for name, _ in page.tags if name in ("script", "link", "iframe", "object", "embed", "base")] == []
    sources = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert sources
    assert all(value and value.startswith(("data:image/", "#")) for value in sources)
    assert "default-src 'none'" in str(page.named("meta"))


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    rubric = RUBRIC | {"kept": True, "id": HOSTILE, "criteria": HOSTILE}
    rubrics = {"judged": 1, "problems": [HOSTILE], "rubrics": [rubric]}
    (tmp_path / "rubrics.json").write_text(json.dumps(rubrics), "utf-8")
    mark = {"label": HOSTILE, "x": 1e300, "y": float("nan"), "media_index": 0}
    row = row_of(
        HOSTILE,
        **dict.fromkeys(("question", "answer", "source", "license", "answer_type"), HOSTILE),
        choices=[HOSTILE],
        attempts=[{"text": HOSTILE, "answer": HOSTILE, "correct": False}],
        points=[mark, mark | {"x": -1e300, "y": 2.0}],
        rubrics=[dict.fromkeys(("id", "description", "criteria", "stratum"), HOSTILE)],
        messages=trace(f'{HOSTILE}<points x1="1" y1="2" alt="{HOSTILE}">{HOSTILE}</points>'),
    )
    rejected = [{"id": HOSTILE, "stage": HOSTILE, "reason": HOSTILE, "detail": HOSTILE}]
    changes = {"recipe": HOSTILE, "input": HOSTILE, "revision": HOSTILE, "roles": {"teacher": HOSTILE}}
    html = make_page(tmp_path, [row], [row], rejected, **changes)
    page = Page(html)
    assert "<script" not in html
    assert html.count("</style") == 1
    assert page.words.count("alert(1)") > 30
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in page.words
    assert [image["src"][:11] for image in page.named("img") if image["src"]] == ["data:image/"] * 2


def test_what_the_intervals_leave_open_is_said(tmp_path: Path) -> None:
    measured = {"applicability_interval": [0.981, 1.0], "pass_rate_interval": [0.7, 0.82]}
    open_one = RUBRIC | measured | {"kept": True, "uncertain": True, "uncertain_about": ["filter", "stratum"]}
    apart = RUBRIC | {"id": "answer", "applicability": None, "pass_rate": None, "kept": False, "stratum": None}
    rubrics = {"judged": 9, "confidence": 0.95, "pool": "teacher", "problems": []} | {
        "rubrics": [open_one, apart | {"reason": "asks_for_right_answer", "uncertain": False, "uncertain_about": []}],
        "right_answers": {"graded": 8, "pass_rate": 0.5, "pass_rate_interval": [0.2, 0.8]},
    }
    (tmp_path / "rubrics.json").write_text(json.dumps(rubrics), "utf-8")
    words = Page(make_page(tmp_path, [row_of("q1", messages=trace("t"))])).words
    for shown in ("0.981 to 1.000", "0.700 to 0.820", "uncertain: filter, stratum", "no: asks_for_right_answer"):
        assert shown in words
    assert "0.500 0.200 to 0.800 is right" in " ".join(words.split())
    assert "No rubric was kept" not in words


def test_the_spread_of_the_rows(tmp_path: Path) -> None:
    words = " ".join(Page(make_page(tmp_path, [row_of("q1", messages=trace("t"))], [row_of("q2")])).words.split())
    assert "Balance and diversity" in words
    assert "answer type: 1 class" in words
    assert "complexity:" not in words, "no row has any"


@pytest.mark.parametrize("rubrics", [None, {"judged": 0, "rubrics": [], "problems": []}])
def test_an_empty_run(tmp_path: Path, rubrics: dict[str, Any] | None) -> None:
    if rubrics is not None:
        (tmp_path / "rubrics.json").write_text(json.dumps(rubrics), "utf-8")
    page = Page(make_page(tmp_path, [], stages={}, ledger={}, roles={}))
    for shown in (
        "This run has no SFT rows.",
        "This run has no RL rows.",
        "No record was rejected.",
    ):
        assert shown in page.words
    assert ("No rubrics" in page.words) is (rubrics is not None)
    assert "Difficulty" not in page.words
    assert "Balance" not in page.words


def test_a_recipe_without_a_set_speaks_of_none(tmp_path: Path) -> None:
    html = make_page(tmp_path / "rl", [], [row_of("q1")], sets=["rl"])
    page = Page(html)
    assert "Questions with their attempts." in page.words
    said = page.words.replace("rubric_judge", "").replace("Groundtrace", "")
    for absent in ("SFT", "trace", "ubric"):
        assert absent not in said
    assert 'id="sft"' not in html
    row = row_of("q1", attempts=None, pass_rate=None, k=None, messages=trace("t"))
    html = make_page(tmp_path / "sft", [row], sets=["sft"])
    page = Page(html)
    said = page.words.replace("rubric_judge", "")
    for absent in ("RL", "attempt", "ubric", "Difficulty", "unscored", "pass rate"):
        assert absent not in said
    assert 'id="rl"' not in html


def test_further_scores_stand_before_the_final_one() -> None:
    scores = {"outcome": 1.0, "temporal": None, "final": 0.5}
    extra = [{"name": "brevity", "value": 0.25}]
    shown = gallery._scores({"scores": scores, "extra_scores": extra})
    assert shown == (("outcome", 1.0), ("temporal", None), ("brevity", 0.25), ("final", 0.5))
    assert gallery._scores({"scores": dict.fromkeys(scores)}) == ()


def test_rows_with_nothing_in_them(tmp_path: Path) -> None:
    bare = {"id": "q1", "question": "", "answer": "", "answer_type": "text", "messages": None}
    page = Page(make_page(tmp_path, [bare], [{"id": "q2", "question": "", "answer": "", "answer_type": "text"}]))
    assert page.words.count("no images") == 2


def test_the_gallery_is_chosen_by_the_hash_of_ids(tmp_path: Path) -> None:
    ids = [f"q{n}" for n in range(60)]
    html = make_page(tmp_path, [row_of(name) for name in ids], [row_of(name) for name in ids])
    shown = re.findall(r'<article class="entry">\n<header><code class="t">(\w+)</code>', html)
    by_hash = sorted(ids, key=order_key)
    assert shown == by_hash[:24] + by_hash[:12]
    assert make_page(tmp_path, [row_of(name) for name in reversed(ids)], [row_of(name) for name in ids]) == html


def test_the_page_stays_small(tmp_path: Path) -> None:
    noise = [picture(400, 300, noise=True)] * 3
    attempts = [{"text": "<&>" * 50_000, "answer": "<" * 9000, "correct": False}] * 20
    big = {"images": noise[:2], "overlays": noise[:1], "attempts": attempts, "messages": trace("<" * 100_000)}
    rows = [row_of(f"q{n}", **big) for n in range(6)]
    html = make_page(tmp_path, rows, rows)
    assert len(html) < 6_000_000
    assert "more characters" in html


def test_pictures_that_cannot_be_shown_are_said_to_be_missing(tmp_path: Path) -> None:
    broken = [{"bytes": b"\x00\x00\x00\x18ftypmp42", "path": "clip.mp4"}, picture()]
    page = Page(make_page(tmp_path, [row_of("q1", images=broken)]))
    assert len(page.named("img")) == 1
    assert "original 1: cannot be shown here" in page.words


@pytest.mark.parametrize(
    ("width", "height", "shown"), [(40, 20, (40, 20)), (1300, 650, (640, 320)), (2, 1500, (1, 640))]
)
def test_pictures_are_made_smaller_never_larger(width: int, height: int, shown: tuple[int, int]) -> None:
    uri = ImageRoom(1).embed(np.full((height, width, 3), 90, np.uint8))
    assert uri is not None
    decoded = decode_image(base64.b64decode(uri.split(",", 1)[1]))
    assert (decoded.width, decoded.height) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", [("text", "plain", ())]),
        ("<think>a</think>", [("markup", "<think>", ()), ("text", "a", ()), ("markup", "</think>", ())]),
        ('<points x1="1" y1="2.5" alt="a">a</points>', [("points", "a", ((1, "1, 2.5"),))]),
        (
            '<points x1="1" y1="2" x2="3" y2="4" alt="a">a</points> b <point x="5" y="6">c</point>',
            [
                ("points", "a", ((1, "1, 2"), (2, "3, 4"))),
                ("text", " b ", ()),
                ("points", "c", ((3, "5, 6"),)),
            ],
        ),
        ('<box alt="b">[1,2,3,4]</box>', [("box", "b", ((1, "1, 2, 3, 4"),))]),
        ("<box>[1,2]</box>", [("markup", "<box>", ()), ("text", "[1,2]", ()), ("markup", "</box>", ())]),
        ('<points alt="a">a</points>', [("text", '<points alt="a">a', ()), ("markup", "</points>", ())]),
        ("x" * 3001, [("text", "x" * 3000, ()), ("more", "… 1 more characters", ())]),
    ],
)
def test_spans(text: str, expected: list[tuple[str, str, tuple[tuple[int, str], ...]]]) -> None:
    assert [(span.kind, span.text, span.marks) for span in spans_of(text, 3000)] == expected


@given(st.text(alphabet='<>/pointsbx1y2="& .[]', max_size=300) | st.text(max_size=300))
def test_spans_lose_no_prose(text: str) -> None:
    spans = spans_of(text, 3000)
    if all(span.kind in ("text", "markup") for span in spans):
        assert "".join(span.text for span in spans) == text
    assert all(span.marks for span in spans if span.kind in ("points", "box"))


def test_scores_have_histograms_and_reasons_the_command_that_shows_their_records(tmp_path: Path) -> None:
    rows = [row_of(f"q{n}", messages=trace("x"), scores={"final": n / 4, "spatial": None}) for n in range(5)]
    odd = {"id": "r", "stage": "a stage", "reason": "o'dd & <b>", "detail": "", "media": []}
    page = make_page(tmp_path, rows, rejected=[odd])
    shown = Page(page)
    charts = [each["aria-label"] for each in shown.named("div") if each.get("role") == "img"]
    assert [each for each in charts if each and "score" in each] == ["histogram of the score final"]
    titles = [
        each["title"] for each in shown.named("div") if each.get("class") == "col" and "rows" in (each["title"] or "")
    ]
    assert [title.rpartition(": ")[2] for title in titles if title] == [
        f"{count} rows" for count in (1, 0, 1, 0, 0, 1, 0, 1, 0, 1)
    ]
    assert "beam view RUN --at 'set=rejected&stage=a%20stage&reason=o%27dd%20%26%20%3Cb%3E'" in shown.words


@pytest.mark.parametrize("digest", [None, "", "0" * 64, sha256_bytes(b"")])
def test_an_image_that_is_not_the_one_that_the_run_read_is_missing(digest: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture()["bytes"])
    medium = {"uri": "input:a.png", "sha256": digest, "width": 40, "height": 20}
    rejected = {"id": "r", "question": "Is it?", "stage": "verify", "reason": "low_score", "media": [medium]}
    page = Page(make_page(tmp_path, [], rejected=[rejected]))
    assert "Is it?" in page.words and not [each for each in page.named("img") if "data:" in (each["src"] or "")]


def test_each_example_of_a_reason_has_its_image_and_question(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture()["bytes"])
    medium = {"uri": "input:a.png", "sha256": sha256_bytes(picture()["bytes"]), "width": 40, "height": 20}
    common = {"stage": "verify", "reason": "low_score", "detail": "why", "media": [medium]}
    rejected = [{"id": f"r{n}", "question": f"Is it {n}?", **common} for n in range(4)]
    page = Page(make_page(tmp_path, [], rejected=[*rejected, {"id": "r4", **common}]))
    shown = [f"Is it {n}?" in page.words for n in range(4)]
    assert sum(shown) + ("r4" in page.words) == 3
    assert len([each for each in page.named("img") if (each["src"] or "").startswith("data:")]) == sum(shown) >= 2
