"""The embedded engine and rubrics: those that it proposes, and what it says of an attempt by them.

They are the foundational ones that RuCL's Table 1 names as presence, target, answer type and conclusion, and grounding
and the form of the response; coherence of the steps is proposed too, and declared not applicable, since the engine
cannot judge it. All look at what an attempt says in words as at what it points at or boxes: questions are asked plainly
as well, and then nothing is pointed at. Whether one applies is told by question and image alone: those about what is to
be seen do wherever the image is made of flat shapes, which is all that the engine can see.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from groundtrace.inference.endpoints.classical_judge import answered
from groundtrace.inference.endpoints.classical_sight import CANNOT_READ, Scene, question_of, read_scene
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.answers.numerals import read_numerals
from groundtrace.schemas.answers.polarity import polarity
from groundtrace.schemas.responses.conclusions import conclusions
from groundtrace.schemas.responses.response import Response, parse_response
from groundtrace.schemas.responses.tags import scan_tags
from groundtrace.vision.classical.answer import Reading, walls_of
from groundtrace.vision.classical.claims import Claim, read_claims, read_nouns
from groundtrace.vision.classical.labels import Noun, read_label
from groundtrace.vision.classical.query import AttributeQuery, CountQuery, Query, nouns_of
from groundtrace.vision.classical.shapes import Box, Shape

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
        "Reasoning and final part stand apart in the form that was asked for.",
        "1 when there is one final part behind the reasoning and nothing after it, else 0.",
    ),
    (
        "conclusion",
        "The final answer is what the reasoning arrives at.",
        "1 when each conclusion that the reasoning states is the answer or, where it states none, the number told "
        "last or the number of things pointed at or boxed is. 0 when one is another, or it arrives at nothing.",
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
_OF_GROUPS = re.compile(r"\b(\d+) of the (\d+) (tower|boxe)s\b")
_SECTION = re.compile(r"</?(?:think|answer|judge)\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class _Seen:
    """An attempt beside what is seen."""

    prompt: RenderedPrompt
    scene: Scene
    shapes: Sequence[Shape]
    response: Response
    prose: str

    @cached_property
    def places(self) -> list[tuple[Noun | None, float, float]]:
        """What is pointed at or boxed, None for words that the engine does not know, and where."""
        points = [(read_label(point.label), point.x, point.y) for point in self.response.points]
        return points + [(read_label(box.label), *box.centre) for box in self.response.boxes]

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What is said in words."""
        return read_claims(self.prose)

    @cached_property
    def groups(self) -> list[bool]:
        """Of each statement such as "2 of the 3 towers" whether the engine sees the same; none where it sees none."""
        seen = None if self.reading is None else _OF_GROUPS.search(self.reading.reason)
        return [] if seen is None else [said.group() == seen.group() for said in _OF_GROUPS.finditer(self.prose)]

    @cached_property
    def walls(self) -> tuple[Box, ...]:
        """What can be touched."""
        return walls_of(self.scene.size, self.scene.panels)

    @cached_property
    def query(self) -> Query | None:
        """The question, where it can be read."""
        return question_of(self.prompt)

    @cached_property
    def reading(self) -> Reading | None:
        """The engine's own answer."""
        return read_scene(self.prompt, self.scene, list(self.shapes))

    @cached_property
    def wanted(self) -> tuple[Noun, ...]:
        """What the question speaks of; nothing where it says so in words that the engine does not know."""
        return read_nouns(self.prompt.variable("question")) if self.query is None else nouns_of(self.query)

    def asks_for(self, noun: Noun) -> bool:
        """Whether the question may speak of things of the noun, or means some that it sees."""
        meant = () if self.reading is None else self.reading.evidence
        return not self.wanted or any(map(noun.overlaps, self.wanted)) or any(map(noun.matches, meant))


def candidate_rubrics(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """The engine's own rubrics."""
    limit = int(prompt.variable("max_rubrics"))
    rows = [{"id": name, "description": text, "criteria": criteria} for name, text, criteria in RUBRICS[:limit]]
    return json.dumps({"rubrics": rows})


def judge_rubrics(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Applicability and score of each rubric that was asked about; unknown ones are not applicable."""
    attempt = prompt.variable("attempt")
    seen = _Seen(prompt, scene, scene.shapes or (), parse_response(attempt), _prose(attempt))
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


def _score(rubric: str, seen: _Seen) -> bool | None:
    """Whether the rubric is met; None when it does not apply or this engine cannot tell."""
    match rubric:
        case "one_final_part":
            return seen.response.has_format
        case "answer_type":
            return _has_kind(seen.response.answer, seen.prompt.variable("answer"))
        case "conclusion":
            return _concludes(seen)
        case "presence" | "grounding" | "target" if seen.scene.shapes is None:
            return None
        case "presence":
            return _is_present(seen)
        case "grounding":
            return _is_grounded(seen)
        case "target":
            return _is_on_target(seen)
    return None


def _has_kind(answer: str | None, gold: str) -> bool | None:
    """Whether an answer is a number or a yes or no, as the gold one is; None where the gold one is neither."""
    said = "" if answer is None else answer
    if read_numerals(gold).single is not None:
        return read_numerals(said).single is not None
    return None if polarity(gold) is None else polarity(said) is not None


def _concludes(seen: _Seen) -> bool:
    """Whether the answer is what the reasoning states or, where it states nothing, counts."""
    predicted = seen.response.answer
    if predicted is None or predicted == CANNOT_READ:
        return False
    stated = conclusions(seen.response.think or "", answered(seen.prompt.variable("question"), predicted))
    if stated:
        return all(each.right for each in stated)
    if not isinstance(seen.query, CountQuery):
        return False
    noun, touch = seen.query.noun, seen.query.touch
    told = [c.amount.n for c in seen.claims if c.amount and c.is_number and (c.noun, c.touch) == (noun, touch)]
    places = {(x, y) for _, x, y in seen.places}
    return predicted == str(told[-1] if told else len(places)) and bool(told or places)


def _is_present(seen: _Seen) -> bool:
    named = [noun is not None and any(map(noun.matches, seen.shapes)) for noun, _, _ in seen.places]
    named += [claim.named_rightly(seen.shapes, seen.walls) for claim in seen.claims]
    says_something = seen.places or seen.groups or any(_says_something(claim, seen) for claim in seen.claims)
    return bool(says_something) and all(named)


def _says_something(claim: Claim, seen: _Seen) -> bool:
    """Whether a claim could be wrong on what is asked. That something odd is missing can always be said, and so can
    that there are things, as long as nobody says how many.
    """
    if claim.of_none:
        return not seen.wanted or any(map(claim.noun.covers, seen.wanted))
    return _is_exact(claim)


def _is_exact(claim: Claim) -> bool:
    """Whether a claim tells a kind of thing, or how many things there are."""
    return claim.is_number or not claim.noun.is_general


def _is_grounded(seen: _Seen) -> bool:
    """Whether places and numbers are as seen; of a question about a look also what is merely spoken of."""
    about_looks = isinstance(seen.query, AttributeQuery)
    told = [claim for claim in seen.claims if claim.amount is not None or about_looks]
    numbers = [claim for claim in told if claim.is_number or about_looks]
    rests_on = any(noun is not None and seen.asks_for(noun) for noun, _, _ in seen.places) or bool(seen.groups)
    rests_on |= any(seen.asks_for(claim.noun) and _says_something(claim, seen) for claim in numbers)
    return (
        rests_on
        and all(_on_object(noun, x, y, seen.shapes) for noun, x, y in seen.places)
        and all(claim.holds(seen.shapes, seen.walls) for claim in told)
        and all(seen.groups)
    )


def _on_object(noun: Noun | None, x: float, y: float, shapes: Sequence[Shape]) -> bool:
    """Whether an object of the noun lies under the place."""
    for shape in shapes:
        x1, y1, x2, y2 = shape.box_px
        if noun is not None and noun.matches(shape) and x1 <= x < x2 and y1 <= y < y2:
            return True
    return False


def _is_on_target(seen: _Seen) -> bool | None:
    """Whether all places, or where there are none the counts, are of a kind asked about; None where no kind is read."""
    if not seen.wanted:
        return None
    if seen.places:
        return all(noun is not None and seen.asks_for(noun) for noun, _, _ in seen.places)
    return bool(seen.groups) or any(seen.asks_for(claim.noun) and _is_exact(claim) for claim in seen.claims)
