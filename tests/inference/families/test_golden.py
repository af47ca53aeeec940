"""Replies as the families' documentation shows them, quirks and negatives among them, parsed to the pixel.

Each line of ``data/FAMILY.jsonl`` has what was asked for, the image's width and height, the reply, and either the
pixels, computed by hand, or words of the :class:`groundtrace.inference.grounding.BadReply`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.grounding import BadReply
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import MediaRef

DATA = Path(__file__).parent / "data"
MIN_REPLIES = 8
MAX_CUT_CHARS = 300


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]


NAMES = sorted(file.stem for file in DATA.glob("*.jsonl"))
CASES = [(name, case) for name in NAMES for case in cases(name)]


def numbers(found: Point | Box) -> tuple[float, ...]:
    return (found.x, found.y) if isinstance(found, Point) else (found.x1, found.y1, found.x2, found.y2)


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}: {case['case']}" for name, case in CASES])
def test_golden(name: str, case: dict[str, Any]) -> None:
    width, height = case["size"]
    image = MediaRef("input:a.png", "image", "s", "p", "d", width, height, 1, 1)
    family = FAMILIES.named(name)
    read = family.points if case["ask"] == "points" else family.boxes
    if "bad" in case:
        with pytest.raises(BadReply, match=case["bad"]):
            read(case["reply"], case["label"], image, 3)
        return
    reading = read(case["reply"], case["label"], image, 3)
    found = reading.found
    assert [numbers(one) for one in found] == [pytest.approx(tuple(px)) for px in case["px"]]
    assert {(one.label, one.media_index) for one in found} <= {(case["label"], 3)}
    assert reading.called == case.get("called", "")


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_of_each_family(name: str) -> None:
    read = cases(name)
    assert len(read) >= MIN_REPLIES
    assert len({case["case"] for case in read}) == len(read)
    kinds = {("bad" if "bad" in case else "none" if not case["px"] else "found") for case in read}
    assert kinds == {"bad", "none", "found"}


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_cut_gives_no_other_place(name: str) -> None:
    """Every beginning of a reply is refused, or gives places of the whole reply: its first items.

    But for thinking whose end is what tells it from a reply, and for other things that come before the one asked for.
    """
    family = FAMILIES.named(name)
    for case in cases(name):
        if not case.get("px") or "think" in case["case"] or len(case["reply"]) > MAX_CUT_CHARS:
            continue
        image = MediaRef("input:a.png", "image", "s", "p", "d", *case["size"], 1, 1)
        read = family.points if case["ask"] == "points" else family.boxes
        whole = {numbers(one) for one in read(case["reply"], case["label"], image, 3).found}
        for end in range(len(case["reply"])):
            try:
                part = read(case["reply"][:end], case["label"], image, 3)
            except BadReply:
                continue
            if not part.called:
                assert {numbers(one) for one in part.found} <= whole, case["reply"][:end]
