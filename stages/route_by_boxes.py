"""Chooses the streams of each RL question: grounded and textual if it has boxes, else only textual (iVGR §3.2, App. B).

A stream is a way of answering. In the grounded stream the policy model reasons with boxes, in the textual stream in
words alone. The inputs are drafts (questions with their data) of the RL side, i.e. of the questions that become RL
rows. The output ``kept`` has the questions with boxes, which get the grounded and the textual stream. The output
``general`` has the questions without boxes, which get only the textual stream. The recipe then measures the difficulty
of the general questions. Each question is one row. The trainer uses the row once in each stream. The column ``domain``
holds the class of the row, which is ``boxed`` or ``general``.

A question is rejected if its gold answer is free text and no judge can grade free text, because no reward could be
computed. In other recipes (pipelines), the stage that requests the policy's attempts (sampled answers) rejects such
questions. Here the policy attempts only general questions, because App. B filters only these by difficulty. So this
stage has to check the questions with boxes.

This stage also makes the prompts of the streams, because no later stage changes the text of a question.
"""

from dataclasses import dataclass, replace
from functools import partial

from groundtrace.grading.question_text import BOXES, user_text
from groundtrace.grading.question_text import TEXTUAL as TEXTUAL_FORM
from groundtrace.rewards.scorers.outcome import needs_judge
from groundtrace.rewards.streams import GROUNDED, STREAM_PROMPTS, STREAMS, TEXTUAL
from groundtrace.schemas.records import Draft
from groundtrace.stages.assign_domain import DOMAIN
from groundtrace.stages.attempt_questions import UNGRADABLE
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Route, Stage, Work

GENERAL = "general"
BOXED = "boxed"
"""The class of RL rows with boxes; the other class, ``general``, is general reasoning without boxes."""
BOTH, TEXTUAL_ONLY = (GROUNDED, TEXTUAL), (TEXTUAL,)
STREAM_FORMS = {GROUNDED: BOXES, TEXTUAL: TEXTUAL_FORM}
"""Maps each stream to the form of its responses (iVGR §3.2)."""


def route(draft: Draft, judged: bool = True) -> Draft | Route:
    """Return the draft (a question with its data) with the streams (ways of answering) of its question.

    A draft with boxes gets the grounded and the textual stream. A draft without boxes gets only the textual stream, and
    is returned as a route to the output ``general``. ``judged`` is True if a judge model grades answers in free text.
    Raises :class:`Reject` if the gold answer is free text and there is no such judge.
    """
    if not judged and needs_judge(draft.question):
        raise Reject(UNGRADABLE, "the gold answer is free text, and roles.judge names no endpoint that can grade it")
    if draft.reference_boxes:
        return asked_in(draft, BOTH).with_added(DOMAIN, BOXED)
    return Route(GENERAL, asked_in(draft, TEXTUAL_ONLY).with_added(DOMAIN, GENERAL))


def asked_in(draft: Draft, streams: tuple[str, ...]) -> Draft:
    """Return the draft (a question with its data) with the given streams (ways of answering: with boxes or in words
    alone) and with the prompt of each stream.

    Groundtrace's trainer reads the prompts of all streams. Other trainers read only the prompt of the last stream.
    After training, the model is meant to be used with the prompt of the last stream.
    """
    prompts = [{"stream": name, "content": user_text(draft.question, STREAM_FORMS[name])} for name in streams]
    added = draft.with_added(STREAMS, streams).with_added(STREAM_PROMPTS, prompts)
    return replace(added, form=STREAM_FORMS[streams[-1]])


STAGE = Stage(
    "streams",
    "questions with boxes are asked in both streams, grounded and textual; those without in the textual one alone",
    reasons={UNGRADABLE: "only a judge that reads could grade answers to it"},
    adds=(DOMAIN, STREAMS, STREAM_PROMPTS),
)


@dataclass
class RouteByBoxes(DraftStage):
    """Stage (pipeline step) that divides the RL questions by whether they have boxes, and gives them their streams
    (ways of answering).

    ``judged`` is True if a judge model grades answers in free text. The output ``kept`` has the questions with boxes,
    which are asked in two streams: with boxes, and in words alone. The output ``general`` has all other questions,
    which are asked in words alone.
    """

    judged: bool = True
    stage = STAGE
    routes = (GENERAL,)

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function gives the question its
        streams (ways of answering), with boxes or in words alone (:func:`route`).
        """
        return partial(route, judged=self.judged)
