"""Defines the input of a scorer (a check of a response): one response to one question, facts about the question, and
access to the models.
"""

from dataclasses import dataclass
from functools import cached_property

from groundtrace.grading.responses.response import Response, parse_response
from groundtrace.inference.caller import Caller
from groundtrace.rewards.form import GROUNDED_FORM, Form
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.pointing_score import DEFAULT_POINTING, PointingSettings
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.columns import HasValues, Value
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Question, Trace, Verdict


@dataclass(frozen=True)
class Context(HasValues):
    """Holds facts about a question that are not in its record. An unknown fact is None.

    Stages (steps) of the pipeline compute values for a question, such as its complexity. Each of these values is in a
    column that the stage adds. Columns of the input can be kept as added columns, too. ``context.added(COLUMN)``
    returns the question's value in an added column; None if the question has no value in this column.

    Attributes:
        stream: the stream of the response: ``grounded`` (with boxes) or ``textual`` (only in words)
            (:mod:`groundtrace.rewards.streams`).
        reference: the best reasoning with boxes that training has found for the question. A reasoning only in words is
            compared with this reference (iVGR Eq. 4).
        values: the values of the added columns.
    """

    stream: str | None = None
    reference: str | None = None
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Case:
    """Holds one response that is to be verified, with the data that scorers (checks of a response) need.

    Attributes:
        question: the question, with its images and clips.
        text: the response, with points and boxes in the tags of this project and coordinates in pixels of the original
            image.
        answer: the response's final answer; None if it has no answer.
        points: the response's points, each with the index of its image or clip and, in a clip, its frame.
        boxes: the response's boxes, each with the index of its image.
        masks: a Python object that finds in the question's images everything that a label names, such as all cups. It
            also holds the caller, which is the object with which scorers call the models.
        entities: the phrases for objects in the question, for which the pointer (the model that points at objects)
            searched; None if they are unknown.
        pointable: the entities that the pointer found.
        form: the form that the response must have.
        context: further facts about the question.
        outcome: the verdict on the answer; None before the answer is graded.
        trajectory: for a response in several turns, the result of each turn's code; None for other responses.
        pointing: the weights of the pointing score.
        frame_fault: why the coordinates of a tag in the response could not be converted to pixels, for example because
            they are outside the model's coordinate frame; "" if all were converted.
    """

    question: Question
    text: str
    answer: str | None
    points: tuple[Point, ...]
    boxes: tuple[Box, ...]
    masks: ObjectMasks
    entities: tuple[str, ...] | None = ()
    pointable: tuple[str, ...] = ()
    form: Form = GROUNDED_FORM
    context: Context = Context()
    outcome: Verdict | None = None
    trajectory: Trajectory | None = None
    pointing: PointingSettings = DEFAULT_POINTING
    frame_fault: str = ""

    @property
    def caller(self) -> Caller:
        """Return the object with which scorers (checks of the response) call the models."""
        return self.masks.caller

    @property
    def served(self) -> ServedRoles:
        """Return the model roles (such as judge) that have endpoints in this run, with facts about these roles."""
        return self.masks.served

    @property
    def locatable(self) -> bool:
        """Return whether the run has a model that can find objects in the question's images."""
        return bool(self.served.locators(self.question.source))

    @property
    def judge(self) -> Caller | None:
        """Return the object with which scorers call the judge (a grading model); None if the run has no judge."""
        return self.caller if "judge" in self.served.roles else None

    @property
    def clips(self) -> int:
        """Return the number of video clips that the question has."""
        return sum(bool(medium.frames) for medium in self.question.media)

    @cached_property
    def response(self) -> Response:
        """Return the response after parsing, with its sections such as the think section and the answer."""
        return parse_response(self.text)


def case_of(
    trace: Trace, masks: ObjectMasks, entities: tuple[str, ...] | None = (), pointable: tuple[str, ...] = ()
) -> Case:
    """Return the case that scorers (checks of a response) get for a trace (a teacher's response).

    A case holds a response with its question and the data that scorers need.

    ``masks`` finds objects in the images of the question that the trace answers. ``entities`` are the phrases for
    objects in the question, for which the pointer (the model that points at objects) searched; None if they are
    unknown. ``pointable`` are the phrases for which the pointer found an object.
    """
    return Case(masks.question, trace.text, trace.answer, trace.points, trace.boxes, masks, entities, pointable)
