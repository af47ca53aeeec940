"""The embedded engine as judge: only what arithmetic on text and pixels can decide; the rest is not applicable.

Its rubrics are the foundational ones that RuCL's Table 1 names as presence, target, answer type and conclusion, and
grounding and the form of the response; coherence of the steps is proposed too, and declared not applicable, since the
engine cannot judge it.
"""

import json

import numpy as np

from inference.endpoints.classical_prose import judged
from inference.endpoints.classical_sight import CANNOT_READ, Scene, question_of, read_scene
from inference.errors import CallError, Failure
from prompts.loader import RenderedPrompt
from schemas.answers.numerals import read_numerals
from schemas.answers.polarity import polarity
from schemas.geometry import Point
from schemas.records import Question
from schemas.responses.conclusions import conclusions
from schemas.responses.response import Response, parse_response
from vision.classical.names import read_name
from vision.classical.query import CountQuery, nouns_of

RUBRICS = (
    (
        "presence",
        "Everything that is pointed at is in the picture.",
        "1 when each label names a visible object, else 0.",
    ),
    ("target", "The points are on the kind of thing asked about.", "1 when each label fits the question, else 0."),
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
        "The final answer agrees with the things pointed at.",
        "1 when a count equals the number of points, else 0.",
    ),
    ("grounding", "Each point lies on the object that it names.", "1 when all points do, else 0."),
    (
        "coherence",
        "Each step follows from the one before.",
        "1 when no step is missing or contradicts another, else 0.",
    ),
)


def judge_answer(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Whether a candidate that abstains is right: never. Raises CallError for others: it cannot compare meanings."""
    if prompt.variable("predicted") != CANNOT_READ:
        raise CallError(Failure.UNSUPPORTED, "the embedded engine cannot compare meanings")
    return json.dumps({"reason": "the candidate abstains", "same": False})


def judge_reasoning(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Whether the reasoning's words go with what it points at and with the answer
    (:mod:`inference.endpoints.classical_prose`); for a counting question also whether the answer is the number of
    places pointed at or boxed, unless there are none and the reasoning concludes in words.
    """
    reasoning, predicted = prompt.variable("reasoning"), prompt.variable("predicted")
    number, side = read_numerals(predicted).single, polarity(predicted)
    kind, plain = ("bool", "yes" if side else "no") if side is not None else ("text", predicted)
    kind = "numeric" if side is None and number is not None else kind
    asked = Question("", "", "", (), prompt.variable("question"), plain, kind)
    response = parse_response(reasoning)
    places = {(point.x, point.y) for point in response.points} | {box.centre for box in response.boxes}
    counts = isinstance(question_of(prompt), CountQuery) and number is not None
    if counts and number is not None and number.value != len(places) and (places or not conclusions(reasoning, asked)):
        return _supports(False, f"{len(places)} places for the answer {predicted}")
    read = judged(reasoning, asked)
    if counts and read.supports:
        return _supports(True, f"{len(places)} places for the answer {predicted}")
    return _supports(read.supports, read.reason)


def _supports(value: bool | None, reason: str) -> str:
    said = "cannot_judge" if value is None else "yes" if value else "no"
    return json.dumps({"reason": reason[:200], "supports": said})


def candidate_rubrics(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """The engine's own rubrics."""
    limit = int(prompt.variable("max_rubrics"))
    rows = [{"id": name, "description": text, "criteria": criteria} for name, text, criteria in RUBRICS[:limit]]
    return json.dumps({"rubrics": rows})


def judge_rubrics(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Applicability and score of each rubric that was asked about; unknown ones are not applicable."""
    response = parse_response(prompt.variable("attempt"))
    scores = []
    for rubric in json.loads(prompt.variable("rubrics")):
        value = _score(rubric["id"], prompt, scene, response)
        scores.append(
            {
                "id": rubric["id"],
                "applicable": value is not None,
                "rationale": "beyond this engine" if value is None else "by arithmetic on points and pixels",
                "score": None if value is None else int(value),
            }
        )
    return json.dumps({"scores": scores})


def _score(rubric: str, prompt: RenderedPrompt, scene: Scene, response: Response) -> bool | None:
    """Whether the rubric is met; None when it does not apply or this engine cannot tell."""
    if rubric == "one_final_part":
        return response.has_format
    if rubric == "answer_type":
        return _has_kind(response.answer, prompt.variable("answer"))
    query = question_of(prompt)
    if query is None or scene.shapes is None:
        return None
    reads = response.answer is not None and response.answer != CANNOT_READ
    match rubric:
        case "presence" | "target" | "grounding" if not response.points:
            return False  # what points at nothing leaves out what these look at
        case "presence":
            return all(_on_object(point, scene, anywhere=True) for point in response.points)
        case "grounding":
            return all(_on_object(point, scene, anywhere=False) for point in response.points)
        case "target":
            reading = read_scene(prompt, scene, scene.shapes)
            wanted = {shape.label for shape in reading.evidence} if reading else set()
            return all(_fits(point.label, prompt) or point.label in wanted for point in response.points)
        case "conclusion":
            if not isinstance(query, CountQuery):
                return None
            return reads and response.answer == str(len(set(response.points)))
    return None


def _has_kind(answer: str | None, gold: str) -> bool | None:
    """Whether an answer is a number or a yes or no, as the gold one is; None where the gold one is neither."""
    said = "" if answer is None else answer
    if read_numerals(gold).single is not None:
        return read_numerals(said).single is not None
    return None if polarity(gold) is None else polarity(said) is not None


def _fits(label: str, prompt: RenderedPrompt) -> bool:
    query, name = question_of(prompt), read_name(label)
    if query is None or name is None:
        return False
    noun = name.noun
    colours, kinds = noun.colours or ("",), noun.kinds or ("",)
    return any(asked.allows(colours[0], kinds[0]) for asked in nouns_of(query))


def _on_object(point: Point, scene: Scene, anywhere: bool) -> bool:
    """Whether an object of the point's label is in the image, and, unless ``anywhere``, under the point."""
    name, shapes = read_name(point.label), scene.shapes or []
    if name is None:
        return False
    for index in name.among([shape.label for shape in shapes], [shape.box_px for shape in shapes], scene.panels):
        x1, y1, x2, y2 = shapes[index].box_px
        if anywhere or (x1 <= point.x < x2 and y1 <= point.y < y2):
            return True
    return False
