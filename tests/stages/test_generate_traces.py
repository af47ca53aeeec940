"""Traces: what the teacher is shown, and what is made of its replies."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.request import Completion
from groundtrace.inference.runtime import runtime
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Call, Draft, MediaRef, Overlay
from groundtrace.schemas.usage import Usage
from groundtrace.stages import generate_traces
from groundtrace.stages.generate_traces import (
    GenerateTraces,
    TraceSettings,
    as_trace,
    as_traces,
    listed_points,
    shown_overlays,
    with_traces,
)
from groundtrace.stages.plumbing.stage import Reject


def test_at_least_one_trace() -> None:
    with pytest.raises(ValueError, match="n must be greater than 0, got 0"):
        TraceSettings(n=0)


@pytest.mark.parametrize(
    ("points", "lines"),
    [
        ((), "none"),
        ((Point("dog", 1, 2),), "1. dog (1.0, 2.0)"),
        ((Point("dog", 1.25, 2.06), Point("cat", 3, 4, 1)), "1. dog (1.2, 2.1)\n2. cat (3.0, 4.0) in picture 2"),
    ],
)
def test_points_are_listed_by_number(points: tuple[Point, ...], lines: str) -> None:
    assert listed_points(points) == lines


MEDIA = tuple(MediaRef(f"input:{n}.png", "image", n * 64, n * 64, "0" * 16, 40, 30, 6, 99) for n in "abc")


@pytest.mark.parametrize(
    ("overlays", "shown"),
    [
        ((), [("input:a.png", False), ("input:b.png", False), ("input:c.png", False)]),
        (
            (Overlay(2, "run:media/z.png", "z", 1), Overlay(0, "run:media/x.png", "x", 1)),
            [("run:media/x.png", True), ("input:b.png", False), ("run:media/z.png", True)],
        ),
    ],
)
def test_the_teacher_sees_an_overlay_or_the_medium(
    overlays: tuple[Overlay, ...], shown: list[tuple[str, bool]], make_draft: Callable[..., Draft]
) -> None:
    draft = make_draft("q")
    draft = replace(draft, question=replace(draft.question, media=MEDIA), overlays=overlays)
    assert [(part.uri, part.upright) for part in shown_overlays(draft)] == shown


DOG = '<points x1="1" y1="2" alt="dog">dog</points>'
COMPLETIONS = [
    (Completion("<think>So.</think><answer>3</answer>"), "<think>So.</think><answer>3</answer>", "3", (), ()),
    (Completion("<answer>3</answer>", "So."), "<think>So.</think><answer>3</answer>", "3", (), ()),
    (Completion("<answer>3</answer>", f"A {DOG}."), f"<think>A {DOG}.</think><answer>3</answer>", "3", (1.0,), ()),
    (Completion("<think>In.</think><answer>3</answer>", "Out."), "<think>In.</think><answer>3</answer>", "3", (), ()),
    (
        Completion('<think><point x="1.0" y="2" alt="dog">dog</point></think><answer>a dog</answer>'),
        f"<think>{DOG}</think><answer>a dog</answer>",
        "a dog",
        (1.0,),
        (),
    ),
    (
        Completion("<think><box>[3,4,1,2]</box></think>\n<answer>3</answer>"),
        "<think><box>[3,4,1,2]</box></think>\n<answer>3</answer>",
        "3",
        (),
        ((1.0, 2.0, 3.0, 4.0),),
    ),
    (
        Completion("<image>\n<think>In <image> I see 3.</think><answer>3</answer><|im_end|>"),
        "\n<think>In the picture I see 3.</think><answer>3</answer>",
        "3",
        (),
        (),
    ),
    (
        Completion("<think>half \ud83d</think><answer>3</answer>"),
        "<think>half \ufffd</think><answer>3</answer>",
        "3",
        (),
        (),
    ),
    (Completion("<think>cut sh", finish_reason="length"), "<think>cut sh", None, (), ()),
    (Completion("no tags at all"), "no tags at all", None, (), ()),
]


@pytest.mark.parametrize(("completion", "text", "answer", "xs", "corners"), COMPLETIONS)
def test_a_completion_becomes_a_trace(
    completion: Completion, text: str, answer: str | None, xs: tuple[float, ...], corners: tuple
) -> None:
    trace = as_trace(4, completion)
    assert (trace.index, trace.text, trace.answer) == (4, text, answer)
    assert tuple(point.x for point in trace.points) == xs
    assert trace.boxes == tuple(Box("", *box) for box in corners)
    assert (trace.verdicts, trace.score) == ((), None)
    assert as_trace(4, Completion(trace.text)) == trace, "canonical text stays as it is"


SQUARES = ("red square", "blue square", "black square")


@pytest.fixture
def models(tmp_path: Path) -> Iterator[ModelsSettings]:
    """The embedded engine in every role, with the picture and the cache in the test's folder."""
    folders = str(tmp_path / "replies.sqlite"), str(tmp_path), str(tmp_path / "run")
    settings = ModelsSettings(tuple(embedded_endpoints().items()), tuple(embedded_roles().items()), *folders)
    yield settings
    runtime().close(settings)


def test_the_embedded_teacher(
    check_stage: Callable[..., None],
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: ModelsSettings,
    tmp_path: Path,
) -> None:
    write_scene(tmp_path / "a.png", width=400, height=100)
    marks = tuple(Point(f"{colour} square", 17.5 + 24 * n, 39.5) for n, colour in enumerate(("red", "blue", "black")))
    draft = make_draft("q", tmp_path, ("a.png",), question="How many squares are there?")
    unread = make_draft("unread", tmp_path, ("a.png",), question="What does the sign say?")

    def show(kept: Draft) -> tuple[str, list[int], set[str | None], list[int], list[bool]]:
        on_marks = [set(trace.points) == set(marks) for trace in kept.traces]
        keys = [len(set(call.keys)) for call in kept.calls if call.role == "teacher"]
        return kept.id, [trace.index for trace in kept.traces], {t.answer for t in kept.traces}, keys, on_marks

    check_stage(
        GenerateTraces(TraceSettings(n=3), models),
        [replace(draft, points=marks, entities=SQUARES), replace(unread, entities=("sign",))],
        [("q", [0, 1, 2], {"3"}, [3], [True] * 3), ("unread", [0, 1, 2], {"cannot read"}, [3], [False] * 3)],
        [],
        show=show,
    )


def test_where_nothing_is_to_be_pointed_at_no_trace_is_asked_for(
    check_stage: Callable[..., None], make_draft: Callable[..., Draft], models: ModelsSettings
) -> None:
    """The decision rests on the proposal, whose reply is named. What the pointer did not find is another matter."""
    calls = (Call("teacher", "propose.v2", "s", "m", ("proposed",), Usage(calls=1, worth_usd=0.5)),)
    check_stage(
        GenerateTraces(TraceSettings(n=1), models),
        [
            replace(make_draft("q"), calls=calls),
            make_draft("nobody asked"),
            replace(make_draft("kept"), entities=SQUARES),
        ],
        ["kept"],
        [("q", "no_entities", "proposed", 0.5), ("nobody asked", "no_entities", None, 0.0)],
        show_rejected=lambda found: (found.id, found.reason, found.cache_key, found.cost_usd),
    )


def test_a_teacher_that_cannot_be_asked(
    check_stage: Callable[..., None], make_draft: Callable[..., Draft], models: ModelsSettings
) -> None:
    wrong = replace(models, roles=tuple((dict(models.roles) | {"teacher": "edges"}).items()))
    asked = replace(make_draft("q"), entities=SQUARES)
    check_stage(GenerateTraces(TraceSettings(), wrong), [asked], [], [("q", "trace", "call_failed")])


def test_traces_are_told_apart_by_their_index_and_equal_completions_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(generate_traces, "read_trace", lambda *given: asked.append(given[1]) or read_trace(*given))
    texts = ["<answer>3</answer>", "<answer>4</answer>", "<answer>3</answer>"]
    completions = [*map(Completion, texts), Completion(texts[0], "So.")]
    traces = as_traces(completions)
    assert traces == tuple(as_trace(index, completion) for index, completion in enumerate(completions))
    assert traces[2] == replace(traces[0], index=2) and traces[3].text == f"<think>So.</think>{texts[0]}"
    assert asked[:3] == [*texts[:2], traces[3].text]
    assert len(asked) == 3 + len(completions)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("<think>A dog.</think><answer>2</answer><|im_end|>\n", "<think>A dog.</think><answer>2</answer>"),
        ("<think><image_1> shows a dog.</think>", "<think>picture 1 shows a dog.</think>"),
        ("<think>A.</think><answer><|begin_of_box|>2<|end_of_box|></answer>", "<think>A.</think><answer>2</answer>"),
        ("<think>A.<|im_end|> B.</think>", "<think>A.<|im_end|> B.</think>"),
    ],
)
def test_special_tokens_within_a_reply_stay_for_the_form_to_refuse(reply: str, text: str) -> None:
    assert as_trace(0, Completion(reply)).text == text


def test_what_was_cut_off_is_no_trace(make_draft: Callable[..., Draft]) -> None:
    """Not even one whose answer was closed before; the others keep the numbers of their samples."""
    cut, whole = Completion("<think>a</think><answer>3</answer> So", finish_reason="length"), Completion("b")
    kept = with_traces(make_draft("q"), [cut, whole, cut, whole], "key")
    assert [(trace.index, trace.text) for trace in kept.traces] == [(1, "b"), (3, "b")]


@pytest.mark.parametrize(("count", "which"), [(1, "the trace"), (3, "each of 3 traces")])
def test_where_all_were_cut_off_the_question_is_rejected(
    count: int, which: str, make_draft: Callable[..., Draft]
) -> None:
    with pytest.raises(Reject) as ended:
        with_traces(make_draft("q"), [Completion("<think>a", finish_reason="length")] * count, "key")
    why = ended.value
    said = f"{which}: the reply was cut off at a limit of tokens"
    assert (why.reason, why.detail, why.key) == ("truncated", said, "key")
    assert why.draft is not None and len(why.draft.traces) == count, "who looks at the rejection sees what there was"
