"""The embedded engine through Models: each prompt in the form asked for, deterministic, and honest about its limits."""

import json

import numpy as np
import pytest

from groundtrace.embedded.endpoint import HANDLERS
from groundtrace.grading.messages import MediaPart, media_part
from groundtrace.grading.responses.response import parse_response
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import json_object, masks_of_reply
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.rewards.rubrics import candidates_of_reply, scores_of_reply
from groundtrace.schemas.records import MediaRef

YELLOW, BLUE, GREY = (255, 255, 0), (0, 0, 255), (211, 211, 211)
SHAPES = {"yellow square": [(30, 20, 60, 50), (200, 50, 230, 80)], "blue square": [(320, 10, 350, 40)]}
ROLES = {"policy": "colour", "teacher": "colour", "pointer": "colour", "judge": "colour"}
ROLES |= {"detector": "edges", "segmenter": "edges"}
COUNT = "How many yellow squares are there?"


def scene(count: int = 2) -> np.ndarray:
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for label, boxes in SHAPES.items():
        for x1, y1, x2, y2 in boxes[:count]:
            pixels[y1:y2, x1:x2] = YELLOW if label.startswith("yellow") else BLUE
    return pixels


def crowd() -> np.ndarray:
    """Squares so small and close that a coarse view blurs some of them together."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for n in range(14):
        pixels[20 + 30 * (n % 2) : 32 + 30 * (n % 2), 20 + 26 * n : 32 + 26 * n] = YELLOW
        pixels[33 + 30 * (n % 2) : 37 + 30 * (n % 2), 20 + 26 * n : 24 + 26 * n] = BLUE
    return pixels


def attempt_prompt(*media: MediaRef, question: str = COUNT, choices: str = "") -> RenderedPrompt:
    shown = {"original": [media_part(each) for each in media]}
    return load_prompt("attempt.v1").render(shown, question=question, choices=choices, answer_format="")


def trace_prompt(original: MediaRef, points: str) -> RenderedPrompt:
    overlay = MediaPart("run:media/" + "f" * 64 + ".png", "f" * 64)
    shown = {"original": [media_part(original)], "overlay": [overlay]}
    return load_prompt("trace.v1").render(shown, question=COUNT, choices="", points=points, answer_format="")


def show(name: str, medium: MediaRef, **variables: str) -> RenderedPrompt:
    return load_prompt(name).render({"original": [media_part(medium)]}, **variables)


def inside(x: float, y: float, label: str) -> bool:
    return any(x1 <= x < x2 and y1 <= y < y2 for x1, y1, x2, y2 in SHAPES[label])


def test_attempt(engine, medium) -> None:
    response = parse_response(engine("policy", attempt_prompt(medium(scene()))).text)
    assert response.has_format
    assert response.answer == "2"
    assert len(response.points) == 2
    assert all(inside(point.x, point.y, point.label) for point in response.points)


def test_attempt_among_choices(engine, medium) -> None:
    prompt = attempt_prompt(
        medium(scene()), question="What colour is the rightmost square?", choices="A. blue\nB. yellow"
    )
    assert parse_response(engine("policy", prompt).text).answer == "blue"


def test_propose(engine, medium) -> None:
    prompt = show("propose.v2", medium(scene()), question=COUNT, answer="2", rollout="", max_entities="5", mark="m")
    assert json_object(engine("teacher", prompt).text) == {"entities": ["yellow square"]}


def test_propose_does_not_read_the_answer(engine, medium) -> None:
    picture = medium(scene())
    replies = {
        engine(
            "teacher",
            show("propose.v2", picture, question=COUNT, answer=answer, rollout="", max_entities="5", mark="m"),
        ).text
        for answer in ("2", "17", "a blue square")
    }
    assert len(replies) == 1


@pytest.mark.parametrize("entity", ["yellow square", "blue square", "square"])
def test_point(engine, medium, entity) -> None:
    picture = medium(scene())
    answered = engine("pointer", show("point.v1", picture, entity=entity))
    points = PLAIN.points(answered.text, entity, picture, 0).found
    labels = [entity] if entity in SHAPES else list(SHAPES)
    assert len(points) == sum(len(SHAPES[label]) for label in labels)
    assert all(any(inside(point.x, point.y, label) for label in labels) for point in points)


@pytest.mark.parametrize("entity", ["green circle", "dog", ""])
def test_point_at_nothing(engine, medium, entity) -> None:
    picture = medium(scene())
    answered = engine("pointer", show("point.v1", picture, entity=entity))
    assert PLAIN.points(answered.text, entity, picture, 0).found == ()


def test_trace_takes_the_coordinates_of_the_marks(engine, medium) -> None:
    marks = "1. yellow square (41, 31)\n2. yellow square (219, 69)\n3. blue square (335, 25)"
    response = parse_response(engine("teacher", trace_prompt(medium(scene()), marks)).text)
    assert response.has_format
    assert response.answer == "2"
    assert sorted((point.x, point.y) for point in response.points) == [(41, 31), (219, 69)]


def test_trace_does_not_take_a_mark_that_is_off(engine, medium) -> None:
    marks = "1. yellow square (120, 31)\n2. blue square (45, 35)"
    points = parse_response(engine("teacher", trace_prompt(medium(scene()), marks)).text).points
    assert len(points) == 2
    assert all(inside(point.x, point.y, "yellow square") for point in points)
    assert (45, 35) not in [(point.x, point.y) for point in points] or inside(45, 35, "yellow square")


@pytest.mark.parametrize("label", ["yellow square", "blue square"])
def test_detect_and_segment(engine, medium, label) -> None:
    picture = medium(scene())
    detected = engine("detector", show("detect.v1", picture, label=label))
    boxes = PLAIN.boxes(detected.text, label, picture, 0).found
    found = sorted((box.x1, box.y1, box.x2, box.y2) for box in boxes)
    assert found == [pytest.approx(box, abs=2) for box in sorted(SHAPES[label])]
    listed = json.dumps([[box.x1, box.y1, box.x2, box.y2] for box in boxes])
    masks = masks_of_reply(engine("segmenter", show("segment.v1", picture, boxes=listed)).text, len(boxes), picture)
    for mask, box in zip(masks, boxes, strict=True):
        assert mask.holds(*box.centre)
        assert not mask.holds(box.x1 - 5, box.y1)
        assert mask.pixels.sum() == pytest.approx(900, rel=0.1)


def test_detect_nothing(engine, medium) -> None:
    assert json_object(engine("detector", show("detect.v1", medium(scene()), label="red circle")).text) == {"boxes": []}


def test_detector_and_pointer_see_by_different_algorithms() -> None:
    assert not set(HANDLERS["colour"]) & set(HANDLERS["edges"])


POINTS = '<points x1="45" y1="35" alt="yellow square">yellow square</points>'


@pytest.mark.parametrize(("predicted", "supports"), [("1", "yes"), ("2", "yes"), ("one", "yes"), ("²", "cannot_judge")])
def test_judge_reasoning(engine, medium, predicted, supports) -> None:
    judged = {"question": COUNT, "reasoning": POINTS, "predicted": predicted, "mark": "0123456789abcdef"}
    prompt = show("judge_reasoning.v3", medium(scene()), **judged)
    assert json_object(engine("judge", prompt).text)["supports"] == supports


@pytest.mark.parametrize(("place", "supports"), [("left", "yes"), ("right", "no")])
def test_judge_reasoning_sees_the_place(engine, medium, place, supports) -> None:
    judged = {"question": COUNT, "reasoning": f"{POINTS} is in the {place} third of the image.", "predicted": "1"}
    prompt = show("judge_reasoning.v3", medium(scene()), **judged, mark="0123456789abcdef")
    assert json_object(engine("judge", prompt).text)["supports"] == supports


STATEMENT = 'Is the following statement about the image true? "There are 2 yellow squares." Answer yes or no.'


@pytest.mark.parametrize(
    ("label", "x", "counted", "stated"),
    [
        ("yellow square", 40, "yes", "yes"),
        ("object", 40, "yes", "yes"),
        ("yellow square", 1, "no", "cannot_judge"),  # nothing is there
        ("yellow square", 335, "no", "cannot_judge"),  # a blue square is there
        ("blue square", 335, "no", "cannot_judge"),  # the question is not about blue squares
        ("blue square", 1, "no", "cannot_judge"),
        ("gizmo", 40, "no", "cannot_judge"),
    ],
)
def test_judge_reasoning_sees_what_is_pointed_at(engine, medium, label, x, counted, stated) -> None:
    """A point supports an answer only if it is on an object that its label names and the question means."""
    reasoning = f'I look at the picture. <points x1="{x}" y1="30" alt="{label}">{label}</points>'
    for question, predicted, supports in ((COUNT, "2", counted), (STATEMENT, "yes", stated)):
        judged = {"question": question, "reasoning": reasoning, "predicted": predicted, "mark": "m"}
        prompt = show("judge_reasoning.v3", medium(scene()), **judged)
        assert json_object(engine("judge", prompt).text)["supports"] == supports, question


@pytest.mark.parametrize("limit", [1, 3, 20])
def test_rubric_candidates(engine, limit) -> None:
    prompt = load_prompt("rubric_candidates.v3").render({"examples": []}, mark="m", max_rubrics=str(limit))
    assert 1 <= len(candidates_of_reply(engine("teacher", prompt).text, limit).rubrics) <= limit


@pytest.mark.parametrize("question", [COUNT, "What is the man doing?"])
def test_rubric_judge(engine, medium, question) -> None:
    candidates = load_prompt("rubric_candidates.v3").render({"examples": []}, mark="m", max_rubrics="20")
    rubrics = candidates_of_reply(engine("teacher", candidates).text, 20).rubrics
    listed = json.dumps([{"id": each.id} for each in rubrics] + [{"id": "unknown"}])
    prompt = show(
        "rubric_judge.v3",
        medium(scene()),
        question=question,
        answer="2",
        attempt=f"<think>{POINTS}</think><answer>2</answer>",
        mark="0123456789abcdef",
        rubrics=listed,
    )
    text = engine("judge", prompt).text
    scores = {score.rubric_id: score.score for score in scores_of_reply(text, rubrics)}
    unknown = {"id": "unknown", "applicable": False, "rationale": "beyond this engine", "score": None}
    assert json_object(text)["scores"][-1] == unknown
    assert scores["coherence"] is None
    if question == COUNT:
        assert (scores["presence"], scores["grounding"], scores["target"], scores["conclusion"]) == (1, 1, 1, 0)
    else:
        assert {name for name, score in scores.items() if score is None} == {"target", "coherence"}
    assert (scores["answer_type"], scores["one_final_part"]) == (1, 1)


@pytest.mark.parametrize(
    ("gold", "attempt", "answer_type", "one_final_part"),
    [
        ("2", "<think>Two.</think><answer>2</answer>", 1, 1),
        ("2", "<think>Two.</think><answer>cannot read</answer>", 0, 1),
        ("2", "It is 2.", 0, 0),
        ("yes", "<think>Seen.</think><answer>no</answer>", 1, 1),
        ("yes", "<think>Seen.</think><answer>2</answer>", 0, 1),
        ("red", "<think>Seen.</think><answer>red</answer>", None, 1),
        ("2", "<answer>2</answer><think>Two.</think><answer>3</answer>", 1, 0),
    ],
)
def test_rubrics_of_form_need_no_eyes(engine, medium, gold, attempt, answer_type, one_final_part) -> None:
    listed = json.dumps([{"id": name} for name in ("answer_type", "one_final_part")])
    fields = {"question": "What is the man doing?", "answer": gold, "attempt": attempt, "rubrics": listed}
    prompt = show("rubric_judge.v3", medium(scene()), mark="0123456789abcdef", **fields)
    found = json_object(engine("judge", prompt).text)["scores"]
    assert [each["score"] for each in found] == [answer_type, one_final_part]


def test_samples_are_deterministic(engine, medium) -> None:
    prompt = attempt_prompt(medium(crowd()))
    first = engine("policy", prompt, strength=1.0, n=6, temperature=1.0)
    again = engine("policy", prompt, strength=1.0, n=6, temperature=1.0)
    assert first.completions == again.completions
    fewer = engine("policy", prompt, strength=1.0, n=2, temperature=1.0)
    assert fewer.completions == first.completions[:2]


def test_samples_differ_by_what_is_seen(engine, medium) -> None:
    prompt = attempt_prompt(medium(crowd()))
    coarse = engine("policy", prompt, strength=1.5, n=8, temperature=1.0).completions
    exact = engine("policy", prompt, strength=0.0, n=8, temperature=1.0).completions
    assert len(set(coarse)) > 1
    assert len(set(exact)) == 1


def test_the_strength_is_part_of_the_key(engine, medium) -> None:
    prompt = attempt_prompt(medium(scene()))
    keys = {engine("policy", prompt, strength=s, cache="r.sqlite").call.keys[0] for s in (0.0, 0.5, 0.5)}
    assert len(keys) == 2


def test_a_second_run_is_answered_from_the_cache(engine, medium) -> None:
    prompt = attempt_prompt(medium(scene()))
    first = engine("policy", prompt, cache="r.sqlite", n=3)
    again = engine("policy", prompt, cache="r.sqlite", n=3)
    assert again.completions == first.completions
    assert (again.call.usage.requests, again.call.usage.cached) == (0, 3)
    assert again.call.usage.cost_usd == 0.0
