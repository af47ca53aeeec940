"""The rows of the shards: every column, what stands in it, and that it fits the schema."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from groundtrace.grading.question_text import user_text
from groundtrace.schemas.arrow import (
    INPUT_ROW,
    REJECTED_SCHEMA,
    RL_SCHEMA,
    SFT_SCHEMA,
    rejected_schema,
    rl_schema,
    sft_schema,
)
from groundtrace.schemas.columns import Column
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Attempt, Call, Draft, MediaRef, Origin, Overlay, Rejected, Trace, Verdict
from groundtrace.stages.plumbing.rows import RowContext, rejected_row, rl_row, sft_row

CONTEXT = RowContext("grounded_cot", "abc123", False)
LIGHT = Column[float]("light", pa.float64(), "how light the image is, 0 to 1")
PARTS = Column[list]("parts", pa.list_(pa.string()), "what it is made of")
KEPT = Column[str]("collected_by", pa.string(), "the input's column collected_by, as text")
SETS = {"sft": (LIGHT, KEPT), "rl": (LIGHT, PARTS, KEPT), "rejected": (LIGHT, KEPT)}
OPEN = replace(CONTEXT, added=SETS)
ORIGIN = Origin(("a.png", ""), (KEPT.value_of("Ann"),), "a.csv, line 2")
MEDIA = tuple(MediaRef(f"input:{n}.png", "image", n * 64, n * 64, "0" * 16, 40, 30, 1, 99) for n in "ab")
VERDICTS = (
    Verdict("outcome", 1.0, "exact"),
    Verdict("spatial", 0.5, "1 of 2", ('{"label": "dog"}',)),
    Verdict("reasoning", None, "cannot judge", failed=True),
)
TRACES = (
    Trace(0, "wrong", "9", (), (), (Verdict("outcome", 0.0, "exact"),), 0.0),
    Trace(1, "right", "3", (Point("dog", 1.5, 2, 1),), (Box("dog", 0, 1, 2, 3, 1),), VERDICTS, 0.75),
)
CALLS = (
    Call("policy", "attempt.v1", "s1", "small", ("k1", "k2")),
    Call("teacher", "trace.v1", "s3", "large", ("k3", "k4")),
    Call("judge", "judge_answer.v1", "s2", "large", ("k2", "k5")),
    Call("policy", "attempt.v1", "s1", "small", ("k1", "k2")),
)


@pytest.fixture
def draft(make_draft: Callable[..., Draft]) -> Draft:
    """A draft with something in every field."""
    question = make_draft("q", gold_boxes=(Box("dog", 0, 0, 9, 9),)).question
    return Draft(
        replace(question, media=MEDIA),
        attempts=(Attempt("t1", "3", True, "exact", ""), Attempt("t2", None, None, "judge", "unsure")),
        entities=("dog", "cat"),
        points=(Point("dog", 1, 2), Point("dog", 3, 4, 1)),
        overlays=(Overlay(1, "run:media/o.png", "o", 1),),
        traces=TRACES,
        best=1,
        calls=CALLS,
    )


COMMON: dict[str, Any] = {
    "id": "q",
    "source": "drawn",
    "license": "CC0-1.0",
    "recipe": "grounded_cot",
    "images": ["input:a.png", "input:b.png"],
    "frames": None,
    "overlays": ["run:media/o.png"],
    "question": "How many squares are there?",
    "answer": "3",
    "answer_type": "numeric",
    "choices": None,
    "gold_boxes": [{"label": "dog", "x1": 0, "y1": 0, "x2": 9, "y2": 9, "media_index": 0}],
    "boxes_source": "gold",
    "entities": ("dog", "cat"),
    "pointable": ("dog",),
    "pass_rate": 1.0,
    "k": 1,
    "attempts": [
        {"text": "t1", "answer": "3", "correct": True},
        {"text": "t2", "answer": None, "correct": None},
    ],
    "media_names": None,
    "lineage": {
        "prompts": [
            {"id": "attempt.v1", "sha256": "s1"},
            {"id": "judge_answer.v1", "sha256": "s2"},
            {"id": "trace.v1", "sha256": "s3"},
        ],
        "models": [
            {"role": "judge", "model": "large"},
            {"role": "policy", "model": "small"},
            {"role": "teacher", "model": "large"},
        ],
        "revision": "abc123",
        "self_judged": False,
        "self_checked": False,
        "cache_keys": ["k1", "k2", "k3", "k4", "k5"],
    },
}
ASKED = (
    "<image><image>How many squares are there?\nThink inside <think> and </think>, and point at the things that you"
    ' rely on as <points x1="X" y1="Y" alt="label">label</points>. Then give only the final answer inside <answer>'
    " and </answer>. Where you point into another picture than the first, say which one: picture 2, picture 3. Answer"
    " with a number alone."
)


def test_an_sft_row(draft: Draft) -> None:
    assert sft_row(draft, CONTEXT) == COMMON | {
        "points": [{"label": "dog", "x": 1.5, "y": 2, "media_index": 1, "frame": None, "t_s": None}],
        "boxes": [{"label": "dog", "x1": 0, "y1": 1, "x2": 2, "y2": 3, "media_index": 1}],
        "scores": {"outcome": 1.0, "spatial": 0.5, "temporal": None, "reasoning": None, "final": 0.75},
        "verdicts": [
            {"name": "outcome", "value": 1.0, "failed": False, "reason": "exact", "evidence": []},
            {"name": "spatial", "value": 0.5, "failed": False, "reason": "1 of 2", "evidence": ['{"label": "dog"}']},
            {"name": "reasoning", "value": None, "failed": True, "reason": "cannot judge", "evidence": []},
        ],
        "messages": [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "right"}],
    }


def test_rows_hold_what_stages_added_and_what_was_kept_of_the_input(draft: Draft) -> None:
    asked = replace(draft.question, origin=ORIGIN)
    added = replace(draft, question=asked).with_added(LIGHT, 0.25).with_added(PARTS, ["a", "b"])
    told = {"light": 0.25, "collected_by": "Ann", "media_names": ["a.png", None]}
    assert sft_row(added, OPEN) == sft_row(draft, CONTEXT) | told
    assert rl_row(added, OPEN) == rl_row(draft, CONTEXT) | told | {"parts": ["a", "b"]}
    rejected = Rejected("q", "verify", "x", "y", draft=added)
    bare = replace(rejected, draft=draft)
    assert rejected_row(rejected, OPEN) == rejected_row(bare, CONTEXT) | told | {"input_row": "a.csv, line 2"}
    none = {"light": None, "collected_by": None}
    assert sft_row(draft, OPEN) == sft_row(draft, CONTEXT) | none
    for row, schema in (
        (sft_row(added, OPEN), sft_schema(SETS["sft"])),
        (rl_row(added, OPEN), rl_schema(SETS["rl"])),
        (rejected_row(rejected, OPEN), rejected_schema(SETS["rejected"])),
    ):
        assert set(row) <= set(schema.names)


def test_the_place_in_the_input_is_in_training_rows_only_on_request(draft: Draft) -> None:
    named = replace(draft, question=replace(draft.question, origin=ORIGIN))
    asked = replace(CONTEXT, added={"sft": (INPUT_ROW,), "rl": (INPUT_ROW,)})
    for as_row in (sft_row, rl_row):
        assert as_row(named, asked) == as_row(named, CONTEXT) | {"input_row": "a.csv, line 2"}
        assert "input_row" not in as_row(named, CONTEXT)


def test_what_did_not_become_a_question_keeps_what_the_input_says_of_it() -> None:
    row = rejected_row(Rejected("q", "ingest", "media_missing", "", origin=ORIGIN), OPEN)
    assert (row["media_names"], row["collected_by"], row["light"]) == (["a.png", None], "Ann", None)
    assert row["input_row"] == "a.csv, line 2"


def test_an_rl_row(draft: Draft) -> None:
    assert rl_row(draft, CONTEXT) == COMMON | {
        "prompt": [{"role": "user", "content": ASKED}],
        "data_source": "drawn",
        "ability": "numeric",
        "reward_model": {"style": "rule", "ground_truth": "3"},
        "extra_info": {"index": "q", "split": "train"},
        "problem": ASKED,
    }


def test_a_draft_is_asked_in_its_own_form(draft: Draft) -> None:
    judged = replace(draft, form="judge")
    for row in (sft_row(judged, CONTEXT), rl_row(judged, CONTEXT)):
        turns: Any = row["messages"] if "messages" in row else row["prompt"]
        assert "<judge>" in turns[0]["content"]
        assert "<points" not in turns[0]["content"]


def test_a_detectors_boxes_stand_where_gold_has_none_and_say_so(draft: Draft) -> None:
    found = (Box("dog", 1, 2, 3, 4),)
    boxed = replace(draft, pseudo_boxes=found)
    assert rl_row(boxed, CONTEXT)["gold_boxes"] == COMMON["gold_boxes"]
    bare = replace(boxed, question=replace(boxed.question, gold_boxes=None))
    row = rl_row(bare, CONTEXT)
    assert row["gold_boxes"] == [{"label": "dog", "x1": 1, "y1": 2, "x2": 3, "y2": 4, "media_index": 0}]
    assert row["boxes_source"] == "detector"
    assert rl_row(replace(bare, pseudo_boxes=None), CONTEXT)["boxes_source"] is None


def test_a_question_that_nobody_attempted_has_no_attempts_and_no_k(draft: Draft) -> None:
    row = rl_row(replace(draft, attempts=()), CONTEXT)
    assert [row[name] for name in ("k", "pass_rate", "attempts")] == [None, None, None]


def test_an_unverified_draft_is_no_sft_row(draft: Draft) -> None:
    with pytest.raises(ValueError, match="q: an SFT row needs a verified trace"):
        sft_row(replace(draft, best=None), CONTEXT)


@pytest.mark.parametrize(("make", "schema"), [(sft_row, SFT_SCHEMA), (rl_row, RL_SCHEMA)])
def test_rows_fit_their_schema(make: Callable[..., dict[str, Any]], schema: pa.Schema, draft: Draft) -> None:
    bare = replace(draft, question=replace(draft.question, gold_boxes=None), attempts=(), overlays=(), calls=())
    for given in (draft, bare):
        row = json.loads(json.dumps(make(given, CONTEXT)))
        assert set(row) <= set(schema.names)
        pictures = {"images": None, "overlays": None}
        (back,) = pa.Table.from_pylist([row | pictures], schema=schema).to_pylist()
        assert {name: value for name, value in back.items() if value is not None} == {
            name: value for name, value in row.items() if value is not None and name not in pictures
        }


def test_a_rejection_of_what_did_not_become_a_question() -> None:
    rejected = Rejected("q", "verify", "wrong_answer", "none is right", "key", 0.5, rejected_by="outcome")
    row = rejected_row(rejected, CONTEXT)
    assert pa.Table.from_pylist([row], schema=REJECTED_SCHEMA).to_pylist() == [row]
    known = {name: value for name, value in row.items() if value is not None}
    assert list(known) == ["id", "stage", "reason", "detail", "rejected_by", "cache_key", "cost_usd"]
    assert known["rejected_by"] == "outcome"


def test_a_rejection_keeps_the_record_as_far_as_it_came(draft: Draft) -> None:
    rejected = Rejected("q", "verify", "wrong_answer", "none is right", draft=draft)
    row = json.loads(json.dumps(rejected_row(rejected, CONTEXT)))
    (back,) = pa.Table.from_pylist([row], schema=REJECTED_SCHEMA).to_pylist()
    assert back == row
    assert (row["question"], row["answer"]) == (draft.question.question, draft.question.answer)
    assert [medium["uri"] for medium in row["media"]] == [medium.uri for medium in draft.question.media]
    assert [attempt["text"] for attempt in row["attempts"]] == [attempt.text for attempt in draft.attempts]
    assert [trace["text"] for trace in row["traces"]] == [trace.text for trace in draft.traces]
    (trace, *_) = draft.traces
    assert row["traces"][0]["score"] == trace.score
    assert [(v["name"], v["value"], v["failed"]) for v in row["traces"][0]["verdicts"]] == [
        (verdict.name, verdict.value, verdict.failed) for verdict in trace.verdicts
    ]
    assert row["images"] is None


def test_a_rejection_holds_its_images_where_that_is_asked_for(draft: Draft) -> None:
    row = rejected_row(Rejected("q", "verify", "x", "y", draft=draft), replace(CONTEXT, rejected_images=True))
    assert row["images"] == [uri for medium in draft.question.media for uri in medium.image_uris]


def test_an_sft_row_holds_the_traces_not_chosen_where_that_is_asked_for(draft: Draft) -> None:
    chosen = draft.traces[draft.best or 0]
    other = replace(chosen, index=len(draft.traces), text="<think>another</think><answer>3</answer>")
    several = replace(draft, traces=(*draft.traces, other))
    assert "other_traces" not in sft_row(several, CONTEXT)
    row = json.loads(json.dumps(sft_row(several, replace(CONTEXT, other_traces=True))))
    assert other.text in [trace["text"] for trace in row["other_traces"]]
    assert chosen.text not in [trace["text"] for trace in row["other_traces"]]
    assert {"other_traces"} == set(sft_schema(other_traces=True).names) - set(SFT_SCHEMA.names)
    (back,) = pa.Table.from_pylist(
        [row | {"images": None, "overlays": None}], sft_schema(other_traces=True)
    ).to_pylist()
    assert back["other_traces"] == row["other_traces"]


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["How many?"]),
        ({"media": MEDIA[:1]}, ["<image>How many?"]),
        ({"media": MEDIA[:1], "choices": ("2", "3")}, ["<image>How many?", "A. 2", "B. 3"]),
    ],
)
def test_the_users_turn(fields: dict, lines: list[str], make_draft: Callable[..., Draft]) -> None:
    question = replace(make_draft("q", question="How many?").question, **fields)
    assert user_text(question).split("\n")[:-1] == lines


@pytest.mark.parametrize(
    ("answer_type", "form"),
    [
        ("mcq", "the letter or the text of the right choice"),
        ("numeric", "a number alone"),
        ("bool", "yes or no"),
        ("text", "as briefly as the question allows"),
        ("boxes", "<box>[x1,y1,x2,y2]</box>"),
    ],
)
def test_the_form_of_the_answer(answer_type: str, form: str, make_draft: Callable[..., Draft]) -> None:
    assert form in user_text(make_draft("q", answer_type=answer_type).question).split("\n")[-1]
