"""Implements the embedded engine (OpenCV, no model) for rubrics: it proposes rubrics and scores attempts by them.

A rubric is one criterion for grading; an attempt is a policy's sampled answer. Four of the engine's rubrics are the
foundational rubrics of RuCL's Table 1: presence, target, answer type and conclusion. One rubric is about grounding (the
points and boxes in the attempt), and one about the form of the response. The engine also proposes a rubric for the
coherence of the reasoning steps. This rubric is never applied, since the engine cannot judge it.

The rubrics presence, target, conclusion and grounding consider the text as well as points and boxes, since some prompts
do not request points. Whether a rubric applies depends only on the question with its gold (correct) answer, and on the
image. Rubrics about the image's content apply only to images of flat shapes, since the engine cannot read other images.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from groundtrace.embedded.judge import with_answer
from groundtrace.embedded.scenes import CANNOT_READ, Scene, question_of, read_scene
from groundtrace.embedded.sight.answer import SightAnswer, walls_of
from groundtrace.embedded.sight.claims import Claim, read_claims, read_nouns
from groundtrace.embedded.sight.labels import Noun, read_label
from groundtrace.embedded.sight.query import AttributeQuery, CountQuery, Query, nouns_of
from groundtrace.embedded.sight.shapes import Box, FoundShape
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import polarity
from groundtrace.grading.responses.conclusions import conclusions
from groundtrace.grading.responses.response import Response, parse_response
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.geometry import Box as PlacedBox

RUBRICS = (
    (
        "presence",
        "What the attempt names is in the picture.",
        "1 when each kind of thing that it points at, boxes or speaks of is there, and what it calls missing is "
        "missing. 0 when one is not so, or it names nothing, and calls nothing missing that is asked about.",
    ),
    (
        "target",
        "The attempt looks at the kind of thing asked about.",
        "1 when what it points at, boxes or counts is of that kind, else 0.",
    ),
    (
        "answer_type",
        "The final answer has the form that the question asks for.",
        "1 when a number where a number is asked for, and yes or no likewise, else 0.",
    ),
    (
        "one_final_part",
        "Reasoning and final part are separate, in the form that was asked for.",
        "1 when there is one final part behind the reasoning and nothing after it, else 0.",
    ),
    (
        "conclusion",
        "The final answer is what the reasoning arrives at.",
        "1 when each conclusion that the reasoning states is the answer or, where it states none, the last number "
        "stated or the number of things pointed at or boxed is. 0 when one is another, or it arrives at nothing.",
    ),
    (
        "grounding",
        "What the attempt rests on is as the picture shows it.",
        "1 when each point and box lies on the object that it names, each number of things is the number seen, and at "
        "least one of them is about what is asked. 0 when not.",
    ),
    (
        "coherence",
        "Each step follows from the one before.",
        "1 when no step is missing or contradicts another, else 0.",
    ),
)
MIN_BOX_IOU = 0.25
"""A box counts as being on an object if their IoU is at least this value.

For example, a box around the object may be twice as wide and twice as high as the object. The whole image, however, is
usually too large a box.
"""
_OUTSIDE = re.compile("‹(?:points?|box)\\b", re.IGNORECASE)
"""Matches a point or box tag that could not be converted to pixels, e.g. because its position is outside the image.

Such a tag has ``‹`` instead of ``<`` (:meth:`groundtrace.grading.responses.speech.Speech.to_pixels`). An attempt with
such a tag has a position that is on no object.
"""
_OF_GROUPS = re.compile(r"\b(\d+) of the (\d+) (tower|boxe)s\b")
_SECTION = re.compile(r"</?(?:think|answer|judge)\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class _AttemptEvidence:
    """Holds an attempt (a sampled answer of the policy), and what the embedded engine finds in the image: the shapes,
    and the answer. The embedded engine is code that reads drawn shapes in place of a model.
    """

    prompt: RenderedPrompt
    scene: Scene
    shapes: Sequence[FoundShape]
    response: Response
    prose: str

    @cached_property
    def places(self) -> list[tuple[Noun | None, float, float]]:
        """Return the label and the position (x, y in pixels) of each of the attempt's points and boxes.

        The position of a box is its centre. The label is None if :func:`read_label` cannot parse it, e.g. because it
        has an unknown word.
        """
        points = [(read_label(point.label), point.x, point.y) for point in self.response.points]
        return points + [(read_label(box.label), *box.centre) for box in self.response.boxes]

    @cached_property
    def places_hold(self) -> bool:
        """Return whether all points and boxes of the attempt are on the objects that they name.

        Each point, and the centre of each box, must be on an object that its label names. Each box must fit such an
        object (:data:`MIN_BOX_IOU`). No point or box may be outside the image.
        """
        if _OUTSIDE.search(self.prompt.variable("attempt")):
            return False
        boxes = [(read_label(box.label), box) for box in self.response.boxes]
        return all(_on_object(noun, x, y, self.shapes) for noun, x, y in self.places) and all(
            any(noun is not None and noun.matches(s) and _fits(box, s) for s in self.shapes) for noun, box in boxes
        )

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Return the claims about visible objects that the text of the policy's attempt (a response) makes."""
        return read_claims(self.prose)

    @cached_property
    def groups(self) -> list[bool]:
        """Compare the attempt's statements such as "2 of the 3 towers" with the engine's own statement of this form.

        Return one bool for each statement of the attempt: True if it equals the engine's statement. The list is empty
        if the attempt or the engine makes no such statement.
        """
        seen = None if self.reading is None else _OF_GROUPS.search(self.reading.reason)
        return [] if seen is None else [stated.group() == seen.group() for stated in _OF_GROUPS.finditer(self.prose)]

    @cached_property
    def walls(self) -> tuple[Box, ...]:
        """Return the boxes whose sides a shape can touch: the panels, or the whole image if it has no panels.

        Panels are areas of the image that are separated by bars.
        """
        return walls_of(self.scene.size, self.scene.panels)

    @cached_property
    def query(self) -> Query | None:
        """Return the parsed question; None if the engine cannot read it."""
        return question_of(self.prompt)

    @cached_property
    def reading(self) -> SightAnswer | None:
        """Return the engine's own answer; None if the engine cannot read the question or the image."""
        return read_scene(self.prompt, self.scene, list(self.shapes))

    @cached_property
    def wanted(self) -> tuple[Noun, ...]:
        """Return the nouns of the question that the engine knows, such as "blue circle"."""
        return read_nouns(self.prompt.variable("question")) if self.query is None else nouns_of(self.query)

    def asks_for(self, noun: Noun) -> bool:
        """Return whether the noun may describe objects that the question is about.

        These are the objects that the nouns of the question describe, and the objects on which the embedded engine
        bases its own answer to the question. If the engine knows no noun of the question, the result is True, because
        any object may then be meant.
        """
        meant = () if self.reading is None else self.reading.evidence
        return not self.wanted or any(map(noun.overlaps, self.wanted)) or any(map(noun.matches, meant))


def candidate_rubrics(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the embedded engine's own rubrics (grading criteria) as JSON, at most ``max_rubrics`` of them.

    ``max_rubrics`` is a variable of the prompt. The other arguments are not used: the rubrics are the same for all
    questions.
    """
    limit = int(prompt.variable("max_rubrics"))
    rows = [{"id": name, "description": text, "criteria": criteria} for name, text, criteria in RUBRICS[:limit]]
    return json.dumps({"rubrics": rows})


def judge_rubrics(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Score an attempt (a sampled answer) by the rubrics (grading criteria) in the prompt. Return the scores as JSON.

    Each rubric gets 1 (met), 0 (not met) or null (does not apply). A rubric that the embedded engine (OpenCV, no model)
    does not know also gets null. ``prompt`` holds the question, the gold (correct) answer, the attempt and the rubrics,
    and ``scene`` holds the image. The other arguments are not used.
    """
    attempt = prompt.variable("attempt")
    seen = _AttemptEvidence(prompt, scene, scene.shapes or (), parse_response(attempt), _prose(attempt))
    scores = []
    for rubric in json.loads(prompt.variable("rubrics")):
        value = _score(rubric["id"], seen)
        scores.append(
            {
                "id": rubric["id"],
                "applicable": value is not None,
                "rationale": "beyond this engine" if value is None else "by arithmetic on places, words and pixels",
                "score": None if value is None else int(value),
            }
        )
    return json.dumps({"scores": scores})


def _prose(attempt: str) -> str:
    for tag in reversed(scan_tags(attempt)):
        attempt = f"{attempt[: tag.start]} ; {attempt[tag.end :]}"
    return _SECTION.sub("\n", attempt)


def _score(rubric: str, seen: _AttemptEvidence) -> bool | None:
    """Return whether an attempt (a sampled answer) meets a rubric (a grading criterion).

    ``rubric`` is the id of the rubric, and ``seen`` holds the attempt and its image. The result is None if the rubric
    does not apply, or if the embedded engine (OpenCV, no model) cannot judge or does not know it.
    """
    match rubric:
        case "one_final_part":
            return seen.response.has_format
        case "answer_type":
            return _has_kind(seen.response.answer, seen.prompt.variable("answer"))
        case "conclusion":
            return _concludes(seen)
        case "presence" | "grounding" | "target" | "required_place" if seen.scene.shapes is None:
            return None
        case "presence":
            return _is_present(seen)
        case "grounding":
            return _is_grounded(seen)
        case "target":
            return _is_on_target(seen)
        case "required_place":
            return _gives_place(seen)
    return None


def _has_kind(answer: str | None, gold: str) -> bool | None:
    """Return whether an answer is of the same kind as the gold (correct) answer.

    There are two kinds of answers: numbers, and yes-no answers. Return None if ``gold`` is of neither kind.
    """
    text = "" if answer is None else answer
    if read_numerals(gold).single is not None:
        return read_numerals(text).single is not None
    return None if polarity(gold) is None else polarity(text) is not None


def _concludes(seen: _AttemptEvidence) -> bool:
    """Return whether the answer of an attempt equals all conclusions that its reasoning states.

    If the reasoning states no conclusion, the result depends on the question. For a counting question, the answer must
    equal the last stated number of the objects that the question counts. If no such number is stated, the answer must
    equal the number of points and boxes, and this number must not be 0. For any other question, the result is False. It
    is also False if the attempt has no answer, or the answer "cannot read".
    """
    predicted = seen.response.answer
    if predicted is None or predicted == CANNOT_READ:
        return False
    stated = conclusions(seen.response.think or "", with_answer(seen.prompt.variable("question"), predicted))
    if stated:
        return all(each.right for each in stated)
    if not isinstance(seen.query, CountQuery):
        return False
    noun, touch = seen.query.noun, seen.query.touch
    counts = [c.amount.n for c in seen.claims if c.amount and c.is_number and (c.noun, c.touch) == (noun, touch)]
    places = {(x, y) for _, x, y in seen.places}
    return predicted == str(counts[-1] if counts else len(places)) and bool(counts or places)


def _is_present(seen: _AttemptEvidence) -> bool:
    named = [noun is not None and any(map(noun.matches, seen.shapes)) for noun, _, _ in seen.places]
    named += [claim.named_rightly(seen.shapes, seen.walls) for claim in seen.claims]
    asserts_something = seen.places or seen.groups or any(_asserts_something(claim, seen) for claim in seen.claims)
    return bool(asserts_something) and all(named)


def _asserts_something(claim: Claim, seen: _AttemptEvidence) -> bool:
    """Return whether a claim is informative, i.e. whether it states something that could be false.

    Two kinds of claims are not informative. The first kind denies an object that the question does not name, such as
    "no circles" for a question about squares. The second kind has neither a class nor a number: "there are things".
    """
    if claim.of_none:
        return not seen.wanted or any(map(claim.noun.covers, seen.wanted))
    return _is_exact(claim)


def _is_exact(claim: Claim) -> bool:
    """Return whether a claim names a class of objects, or a number."""
    return claim.is_number or not claim.noun.is_general


def _is_grounded(seen: _AttemptEvidence) -> bool:
    """Return whether all points, boxes and counts fit the image, and one of them is about the question's objects.

    Counts are claims such as "2 circles" or "at least 2 circles", and statements such as "2 of the 3 towers". At least
    one label of a point or box, one claim with an exact number, or one of these statements must be about the objects
    of the question. So the result can be True for an attempt without points and boxes. If the question asks for a
    colour or a shape, all claims, also those without a number ("a blue block"), are treated like claims with an exact
    number.
    """
    about_looks = isinstance(seen.query, AttributeQuery)
    stated = [claim for claim in seen.claims if claim.amount is not None or about_looks]
    numbers = [claim for claim in stated if claim.is_number or about_looks]
    rests_on = any(noun is not None and seen.asks_for(noun) for noun, _, _ in seen.places) or bool(seen.groups)
    rests_on |= any(seen.asks_for(claim.noun) and _asserts_something(claim, seen) for claim in numbers)
    return (
        rests_on
        and seen.places_hold
        and all(claim.holds(seen.shapes, seen.walls) for claim in stated)
        and all(seen.groups)
    )


def _gives_place(seen: _AttemptEvidence) -> bool:
    """Return whether all points and boxes are on the objects that they name, and one of them is on a target.

    A target is an object that the question is about. Objects of two kinds are targets: those that a noun of the
    question describes, and those on which the embedded engine bases its own answer to the question. There is one
    exception: if the engine knows no noun of the question, and bases its answer on no object, every object is a target.

    The label of the point or box on the target must be a class, such as "black square". There is one exception: if the
    question names no class ("how many objects are there?"), the label may also be "object".

    An image can have no target: for example, the question is about red circles, and the image has no red circle. The
    result is then that of :func:`_is_grounded`, which can be True without any point or box. Places in words ("on the
    left") do not count, since the engine does not read them.
    """
    meant = () if seen.reading is None else seen.reading.evidence
    is_known = bool(seen.wanted or meant)
    asked = [s for s in seen.shapes if not is_known or s in meant or any(noun.matches(s) for noun in seen.wanted)]
    if not asked:
        return _is_grounded(seen)
    if not seen.places_hold:
        return False
    exact = [(n, x, y) for n, x, y in seen.places if n is not None and not (n.is_general and _asks_exactly(seen))]
    return any(_on_object(noun, x, y, asked) for noun, x, y in exact)


def _asks_exactly(seen: _AttemptEvidence) -> bool:
    """Return whether the question names a class of objects, not only "objects"."""
    return any(not noun.is_general for noun in seen.wanted)


def _fits(box: PlacedBox, shape: FoundShape) -> bool:
    return box.iou(PlacedBox("", *shape.box_px)) >= MIN_BOX_IOU


def _on_object(noun: Noun | None, x: float, y: float, shapes: Sequence[FoundShape]) -> bool:
    """Return whether the position (x, y) is within the box of a shape that the noun describes."""
    for shape in shapes:
        x1, y1, x2, y2 = shape.box_px
        if noun is not None and noun.matches(shape) and x1 <= x < x2 and y1 <= y < y2:
            return True
    return False


def _is_on_target(seen: _AttemptEvidence) -> bool | None:
    """Return whether the labels of all points and boxes in an attempt name objects that the question is about.

    ``seen`` holds the attempt (a sampled answer) and its question. The result is None if the engine knows no noun of
    the question. If the attempt has no points and boxes, its text decides. The result is then True in two cases:

    - The text states the class or the number of objects that the question is about ("3 circles").
    - The text and the engine's own answer both have a statement of the form "2 of the 3 towers".
    """
    if not seen.wanted:
        return None
    if seen.places:
        return all(noun is not None and seen.asks_for(noun) for noun, _, _ in seen.places)
    return bool(seen.groups) or any(seen.asks_for(claim.noun) and _is_exact(claim) for claim in seen.claims)
