"""What is verified: one response to one question, with all that a scorer may look at and the means to look."""

from dataclasses import dataclass
from functools import cached_property

from groundtrace.inference.caller import Caller
from groundtrace.rewards.form import GROUNDED_FORM, Form
from groundtrace.rewards.locating import ObjectMasks, Served
from groundtrace.rewards.pointing_score import DEFAULT_POINTING, PointingSettings
from groundtrace.rewards.scorers.tool_calls import Trajectory
from groundtrace.schemas.columns import HasValues, Value
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Question, Trace, Verdict
from groundtrace.schemas.responses.response import Response, parse_response


@dataclass(frozen=True)
class Context(HasValues):
    """What is known of a question beside its record; None where it is unknown.

    What the stages of the recipe added to the question, and what was kept of the input, is read by its column:
    ``context.added(COLUMN)``.

    Attributes:
        stream: in which stream the response was asked for (:mod:`groundtrace.rewards.streams`).
        reference: the best grounded reasoning found for the question so far (iVGR Eq. 4).
        values: those of the added columns.
    """

    stream: str | None = None
    reference: str | None = None
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Case:
    """One response under verification.

    Attributes:
        question: what was asked.
        text: the response in canonical tags and original pixels.
        answer: its final answer, None where it gives none.
        points: its points, each with its medium and, of a clip, its frame.
        boxes: its boxes, likewise.
        masks: finds the objects of a label in the question's media, and holds the caller that reaches the models.
        entities: the phrases that a pointer was asked for, of the things that the question speaks of; None where
            nobody told what it speaks of.
        pointable: those of them that it found.
        form: what a response must look like.
        context: what else is known of the question.
        outcome: the verdict on the answer, once there is one.
        trajectory: of a response in several turns, how the code of each turn ended.
        pointing: how points are weighed.
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

    @property
    def caller(self) -> Caller:
        """Reaches the models."""
        return self.masks.caller

    @property
    def served(self) -> Served:
        """What these models serve."""
        return self.masks.served

    @property
    def locatable(self) -> bool:
        """Whether labels can be looked for in the question's media."""
        return bool(self.served.locators(self.question.source))

    @property
    def judge(self) -> Caller | None:
        """The caller where it reaches a judge, else None."""
        return self.caller if "judge" in self.served.roles else None

    @property
    def clips(self) -> int:
        """How many of the question's media are clips."""
        return sum(bool(medium.frames) for medium in self.question.media)

    @cached_property
    def response(self) -> Response:
        """The text taken apart."""
        return parse_response(self.text)


def case_of(
    trace: Trace, masks: ObjectMasks, entities: tuple[str, ...] | None = (), pointable: tuple[str, ...] = ()
) -> Case:
    """Returns the case of a trace on the question of ``masks``."""
    return Case(masks.question, trace.text, trace.answer, trace.points, trace.boxes, masks, entities, pointable)
