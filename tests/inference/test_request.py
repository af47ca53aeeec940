"""Cache keys: the recorded ones, what changes a key and what does not; and what a sampling may be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.messages import MediaPart, Part, TextPart
from groundtrace.inference.request import KEY_VERSION, Sampling, cache_key
from groundtrace.prompts.loader import RenderedPrompt

CASES = json.loads((Path(__file__).parent / "data" / "keys.json").read_text(encoding="utf-8"))
PROMPT = RenderedPrompt(
    "ask.v1", "0" * 64, "Be brief.", (TextPart("How many?"), MediaPart("input:a.png", "a" * 64)), None, (("x", "1"),)
)
KEY = cache_key("m", "1", PROMPT, Sampling(), 0)


def key(prompt: RenderedPrompt = PROMPT, model: str = "m", revision: str = "1", index: int = 0, **sampling: Any) -> str:
    return cache_key(model, revision, prompt, Sampling(**sampling), index)


def part(fields: dict[str, str]) -> Part:
    return TextPart(**fields) if "text" in fields else MediaPart(uri="anywhere", **fields)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["case"])
def test_golden(case: dict) -> None:
    """A key that changes throws away every reply that users have paid for: raise KEY_VERSION only for a reason."""
    prompt = RenderedPrompt(
        "p.v1", "", case["system"], tuple(part(fields) for fields in case["user"]), case["schema"], ()
    )
    found = cache_key(case["model"], case["revision"], prompt, Sampling(8, *case["sampling"]), case["sample"])
    assert found == case["key"]


def test_golden_keys_are_of_this_version() -> None:
    assert CASES["version"] == KEY_VERSION
    assert len({case["key"] for case in CASES["cases"]}) == len(CASES["cases"])


CHANGES = {
    "model": {"model": "n"},
    "revision": {"revision": "2"},
    "sample": {"index": 1},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "system": {"prompt": replace(PROMPT, system="Be long.")},
    "text": {"prompt": replace(PROMPT, user=(TextPart("How many"), PROMPT.user[1]))},
    "order of parts": {"prompt": replace(PROMPT, user=PROMPT.user[::-1])},
    "one part more": {"prompt": replace(PROMPT, user=(*PROMPT.user, TextPart("")))},
    "text split in two": {"prompt": replace(PROMPT, user=(TextPart("How"), TextPart(" many?"), PROMPT.user[1]))},
    "medium": {"prompt": replace(PROMPT, user=(PROMPT.user[0], MediaPart("input:a.png", "b" * 64)))},
    "medium's kind": {"prompt": replace(PROMPT, user=(PROMPT.user[0], MediaPart("input:a.png", "a" * 64, "video")))},
    "text that names a medium": {"prompt": replace(PROMPT, user=(PROMPT.user[0], TextPart("a" * 64)))},
    "reply schema": {"prompt": replace(PROMPT, reply_schema="{}")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_the_key(change: str) -> None:
    assert key(**CHANGES[change]) != KEY


def test_no_two_changes_give_the_same_key() -> None:
    assert len({key(**change) for change in CHANGES.values()}) == len(CHANGES)


SAME = {
    "n": {"n": 9},
    "max_tokens": {"max_tokens": 9},
    "prompt's name": {"prompt": replace(PROMPT, name="ask.v2")},
    "prompt file": {"prompt": replace(PROMPT, sha256="1" * 64)},
    "variables with the same text": {"prompt": replace(PROMPT, variables=())},
    "where the medium lies": {"prompt": replace(PROMPT, user=(PROMPT.user[0], MediaPart("run:b.png", "a" * 64)))},
}


@pytest.mark.parametrize("change", SAME)
def test_leaves_the_key(change: str) -> None:
    assert key(**SAME[change]) == KEY


@settings(max_examples=60)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_has_a_key_of_its_own(first: str, second: str) -> None:
    keys = [key(replace(PROMPT, user=(TextPart(text),))) for text in (first, second)]
    assert all(len(found) == 64 and set(found) <= set("0123456789abcdef") for found in keys)
    assert (keys[0] == keys[1]) == (first == second)


def test_a_lone_surrogate_has_a_key() -> None:
    assert len(key(replace(PROMPT, system="\ud800"))) == 64


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 0},
        {"max_tokens": 0},
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
    ],
)
def test_impossible_sampling(fields: dict) -> None:
    with pytest.raises(ValueError, match="must be"):
        Sampling(**fields)
