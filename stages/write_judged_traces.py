"""Writes one judge-think-answer trace for each question, by its complexity (SAIL-RL §3.4, App. A.1).

The inputs are drafts (questions with their data) with a complexity, i.e. the label ``simple`` or ``complex``. The
outputs are drafts with one trace ``<judge>…</judge><think>…</think>\\boxed{…}`` (Conditional Annotation). For a complex
question the prompt shows the teacher model the gold answer, and the teacher writes all three sections. For a simple
question the teacher writes only the judge section. This stage adds a think section of one blank line, and the gold
answer in ``\\boxed``.

A reply for a complex question must have a judge section, a think section and one ``\\boxed`` answer. If it has these
three parts, they are joined in a fixed way ("standardized", App. A.1), without the text around ``\\boxed``. A reply of
any other form stays unchanged, so that verification rejects it. The server may return the teacher's own reasoning
separately. This reasoning is not used, because it mentions the gold answer that the teacher saw.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import answer_format, lettered_choices
from groundtrace.grading.responses.boxed import all_boxed
from groundtrace.grading.responses.placeholders import as_written
from groundtrace.grading.responses.response import outside_think, parse_response
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks, ask_for, untruncated
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.complexity import COMPLEXITY, SIMPLE
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage

GUIDED_PROMPT, DIRECT_PROMPT = "judged_trace.v1", "direct_judgement.v1"
NO_THOUGHT = "<think>\n\n</think>"
"""The exact think section of a simple question (App. A.1)."""
MAX_JUDGEMENT_CHARS = 1000
_MARKUP = re.compile(r"<\s*/?\s*(?:judge|think|answer|points?|box)\b|\\boxed", re.IGNORECASE)


@settings
class JudgedTraceSettings:
    """Holds the sampling settings of the teacher model's traces (responses).

    A trace has three sections: judgement, reasoning and answer. The paper SAIL-RL does not give these values. It only
    states that sequences of training have at most 20K tokens.
    """

    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a trace"] = 8192

    @property
    def sampling(self) -> Sampling:
        """Return the sampling settings of a trace (one response of the teacher): one sample, with its temperature and
        maximum length.
        """
        return Sampling(1, self.temperature, max_tokens=self.max_tokens)


def direct_trace(judgement: str, answer: str) -> str:
    """Return the trace (response to learn from) of a simple question: the judge section, an empty think section, and
    the gold answer.

    ``judgement`` is the text of the judge section: why the question can be answered directly. ``answer`` is the gold
    answer.
    """
    return f"<judge>{judgement}</judge>\n{NO_THOUGHT}\n\\boxed{{{answer}}}"


def standardised(text: str) -> str:
    """Return a judge-think-answer reply with its sections joined in a fixed way. A text of another form is returned
    unchanged.

    ``text`` is the teacher model's reply. Text outside the judge section, the think section and ``\\boxed`` is removed.
    """
    response = parse_response(text)
    boxes = all_boxed(outside_think(text))
    if not response.has_format or response.judge is None or len(boxes) != 1 or response.answer != boxes[0]:
        return text
    return f"<judge>{response.judge}</judge>\n<think>\n{response.think}\n</think>\n\\boxed{{{boxes[0]}}}"


def read_judgement(reply: CallResult) -> str:
    """Return the text of the teacher model's reply: why a question can be answered directly, in one or two sentences.

    Raises BadReply if the reply has no words, has more than :data:`MAX_JUDGEMENT_CHARS` characters, or contains tags,
    an answer or special tokens.
    """
    text = " ".join(as_written(reply.text).split())
    if not any(map(str.isalpha, text)) or len(text) > MAX_JUDGEMENT_CHARS:
        raise BadReply(
            f"the reply must be one or two short sentences with at most {MAX_JUDGEMENT_CHARS} characters in all, got "
            f"{len(text)} characters: {text!r:.80}"
        )
    if found := find_control(text):
        raise BadReply(f"the reply must have no special tokens and control characters, got {found!r}")
    if _MARKUP.search(unicodedata.normalize("NFKC", text)):
        raise BadReply(f"the reply must be only a reasoning, without tags and answer, got {text!r:.80}")
    return text


async def write_trace(draft: Draft, session: Session, settings: JudgedTraceSettings) -> Draft:
    """Let the teacher model write a trace (response to learn from) that fits the question's complexity, i.e. its label
    ``simple`` or ``complex``, and return the draft (a question with its data) with this trace.

    ``session`` makes the call, with the sampling settings in ``settings``. Raises :class:`Reject` if the trace was
    truncated, and ValueError for a draft without a complexity.
    """
    if draft.added(COMPLEXITY) is None:
        raise ValueError(
            f"{draft.id}: WriteJudgedTraces needs the question's complexity: put this stage after AnnotateComplexity"
        )
    question = draft.question
    asked = {"question": question.question, "choices": lettered_choices(question)}
    media = {"original": shown(question.media)}
    if draft.added(COMPLEXITY) == SIMPLE:
        prompt = load_prompt(DIRECT_PROMPT).render(media, **asked)
        judgement, _ = await ask_for(session, "teacher", prompt, settings.sampling, untruncated(read_judgement))
        text = direct_trace(judgement, question.answer)
    else:
        asked |= {"answer": question.answer, "answer_format": answer_format(question)}
        prompt = load_prompt(GUIDED_PROMPT).render(media, **asked)
        answered = await session.generate("teacher", prompt, settings.sampling)
        text = standardised(as_written(answered.text, len(question.media)))
        if answered.completions[0].is_truncated:
            cut = replace(draft, traces=(read_trace(0, text, question.media),))
            raise Reject(TRUNCATED, f"the trace: {CUT_OFF}", answered.call.keys[0], cut)
    return replace(draft, traces=(read_trace(0, text, question.media),))


STAGE = Stage(
    "judged_trace",
    "the teacher decides whether to think; guided with the gold answer, it reasons about complex questions",
    asks=(Asks("teacher", (GUIDED_PROMPT,)), Asks("teacher", (DIRECT_PROMPT,))),
    settings=JudgedTraceSettings,
)


@dataclass
class WriteJudgedTraces(CallingStage):
    """Stage (pipeline step) that lets the teacher model write one trace for every question: a judge section, a think
    section and the answer.

    ``models`` holds the settings of the run's models. The think section is empty if the question has the label
    ``simple``.
    """

    settings: JudgedTraceSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        write a trace (response to learn from) that fits the complexity of the question (:func:`write_trace`).
        """
        return partial(write_trace, settings=self.settings)
