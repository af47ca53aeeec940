"""Rejects traces with leaks. A trace is a response of the teacher model. A leak is text about something that was shown
only to the teacher.

The teacher may have been shown numbered labels drawn on the image, coordinates, the gold answer or a hint (Argos
App. G: overlays; SAIL-RL App. A.1: guided prompting).

The inputs are verified drafts (questions with their data). The outputs are the drafts whose best trace (the chosen
response) shows no sign of a leak. First, the trace is searched for a short list of phrases
(:mod:`groundtrace.rewards.leaks`). A trace with such a phrase certainly has a leak. Then the judge model checks every
other trace whose think section (reasoning) is not empty. If the judge cannot decide, or its call fails, the draft is
rejected. The judge checks no traces if its endpoint cannot read prose, or if the setting ``ask`` is ``none``. The run,
its data card and its report then state that only phrases were searched for.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from groundtrace.config.settings import settings
from groundtrace.grading.responses.response import parse_response
from groundtrace.grading.responses.tag_prose import proses_of
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.judge import JudgeTask, judge, yes_or_no
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.leaks import find_leak, phrases
from groundtrace.schemas.records import Draft
from groundtrace.schemas.text import counted
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

LEAK, UNVERIFIABLE = "leak", "unverifiable"
PROMPT = "judge_leak.v2"


@settings
class LeakSettings:
    """Holds the setting that decides whether the judge model checks traces (responses of the teacher) for leaks. A leak
    is text about something that was shown only to the teacher model.
    """

    ask: Annotated[
        Literal["all", "none"], "whether the judge checks all traces in which no leaking phrase was found, or none"
    ] = "all"


def reasoning_of(text: str) -> str:
    """Return the texts of two sections of a trace (response of the teacher), one below the other, without their tags.

    The judge section (``<judge>``) holds the teacher's decision to think or to answer directly. The think section
    (``<think>``) holds the reasoning. A missing section is left out. ``text`` is the whole trace.
    """
    response = parse_response(text)
    return "\n".join(filter(None, (response.judge, response.think)))


def trace_key(draft: Draft) -> str | None:
    """Return the cache key of the first reply in the latest call to the teacher model for a draft (question with its
    data).

    The key becomes part of a rejection. Returns None if the teacher was not called.
    """
    return next((call.keys[0] for call in reversed(draft.calls) if call.role == "teacher"), None)


async def reject_leak(draft: Draft, session: Session, judged: bool) -> Draft:
    """Return the draft (a question with its data) unchanged if its best trace (the chosen response of the teacher) has
    no leak; otherwise raise :class:`Reject`.

    A leak is text about something that was shown only to the trace's writer. First, the trace is searched for a short
    list of leaking phrases. If none is found, and ``judged`` is True, the judge model then checks the trace. There is
    one exception: the judge does not check a trace with an empty think section. ``session`` makes the call to the
    judge. Also raises :class:`Reject` if the judge could not decide. Raises ValueError for a draft without a best
    trace.
    """
    if draft.best is None:
        raise ValueError(f"{draft.id}: RejectLeaks needs a verified trace: put this stage after VerifyTraces")
    text, question = draft.traces[draft.best].text, draft.question
    phrase = next(filter(None, (find_leak(prose, question) for prose in proses_of(text))), None)
    if phrase is not None:
        raise Reject(LEAK, f"the trace has the words {phrase!r:.120}", trace_key(draft))
    if not judged or not parse_response(text).think:  # no think section: the teacher saw no gold answer
        return draft
    texts = {"question": question_text(question), "answer": question.answer, "reasoning": reasoning_of(text)}
    verdict = await judge("leak", JudgeTask(PROMPT, texts, yes_or_no("leaks")), session)
    if verdict.value is None:
        raise Reject(UNVERIFIABLE, f"the judge could not check the trace for leaks: {verdict.reason}", trace_key(draft))
    if verdict.value:
        raise Reject(LEAK, f"the judge finds a leak: {verdict.reason}", trace_key(draft))
    return draft


def _is_asked(settings: LeakSettings) -> bool:
    return settings.ask == "all"


def unchecked(settings: LeakSettings, models: ModelsSettings, traces: int) -> str:
    """Return a sentence for the data card about traces (responses of the teacher) that the judge model did not check
    for leaks; "" if the judge checks traces.

    ``settings`` and ``models`` determine whether the judge checks traces. ``traces`` is the number of traces that
    passed this stage.
    """
    if models.judges_text and _is_asked(settings):
        return ""
    why = "leak.ask is none" if models.judges_text else "roles.judge names no model that reads text"
    return (
        f"Only a list of {len(phrases())} phrases was used to find leaks in {counted(traces, 'trace')}, because {why}: "
        "they may mention marks, answers or hints that only the teacher was shown, in words that are not in the list."
    )


STAGE = Stage(
    "leak",
    "traces that speak of what only their writer was shown are dropped",
    reasons={
        LEAK: "the trace speaks of marks, coordinates, an answer or a hint that only its writer was shown",
        UNVERIFIABLE: "the judge could not tell whether it does",
    },
    asks=(Asks("judge", (PROMPT,), required=False, all_media=False, when=_is_asked),),
    settings=LeakSettings,
    failures=(UNVERIFIABLE,),
    unchecked=unchecked,
)


@dataclass
class RejectLeaks(CallingStage):
    """Stage (pipeline step) that rejects drafts (questions with their data) whose trace (response of the teacher)
    mentions something that was shown only to the trace's writer.

    ``models`` holds the settings of the run's models.
    """

    settings: LeakSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if its
        trace (response of the teacher) mentions something that was shown only to the trace's writer
        (:func:`reject_leak`).
        """
        return partial(reject_leak, judged=self.models.judges_text and _is_asked(self.settings))
