"""Writes a question for images that have none, with its answer and the object that it is about (CodeDance §3.2, §7.1).

The inputs are drafts that hold only images, without a question. The outputs are drafts with the teacher model's
question and answer, and the name of the object in the column ``object``. A draft is rejected if the teacher finds no
good question. The column ``question_source`` of the drafts is ``teacher``, because no person has checked the answer.
The answer is used as the gold answer only after later stages have confirmed it (:mod:`groundtrace.stages.judge_pairs`,
:mod:`groundtrace.stages.confirm_answers`).

The question and its answer are cleaned and checked like questions and answers of the input. The answer type is derived
in the same way. We wrote the prompt, because the paper does not print its prompt.
"""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import pyarrow as pa
from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.answers.registry import evident_type
from groundtrace.grading.input_record import InvalidRecord, checked_pair
from groundtrace.grading.messages import shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.families.base import after_thinking
from groundtrace.inference.grounding import BadReply, check_readable, json_object
from groundtrace.inference.request import Sampling, Temperature
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.columns import Column
from groundtrace.schemas.labels import label_fault
from groundtrace.schemas.records import Draft
from groundtrace.schemas.text import folded, words_in
from groundtrace.stages.clean_questions import clean_text
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

PROMPT = "write_question.v1"
NOTHING_TO_ASK = "nothing_to_ask"
MAX_QUESTION_CHARS, MAX_ANSWER_CHARS, MAX_ANSWER_WORDS = 2000, 200, 5
NO_ANSWERS = frozenset(
    {"unknown", "unclear", "unsure", "undetermined", "n/a", "null", "not sure", "not clear", "not visible", "no answer"}
    | {"not specified", "cannot tell", "can't tell", "cannot be determined", "i don't know", "i do not know"}
    | {"未知", "不知道", "无法确定", "看不清"}
)
"""Texts that do not count as answers, in the form of :func:`groundtrace.schemas.text.folded`.

A reply of the teacher model with such an answer is rejected. The prompt tells the teacher to write null, and not such a
text, if it can ask no question about the image.
"""
_TAG = re.compile(r"</?\w[^<>]*>")
_SEVERAL = re.compile(r"\b(?:or|about|around|approximately|roughly)\b|[~≈]", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:or|whether)\b|还是|或", re.IGNORECASE)
"""Matches words that offer a choice. A question with such a word is allowed to contain its answer, as in ``Is it red or
blue?``.
"""
RECORD, TEACHER = "record", "teacher"
QUESTION_SOURCE = Column[str](
    "question_source",
    pa.string(),
    "where question and answer come from: the record, or the teacher, whose answer no person has checked",
    is_class=True,
)
OBJECT = Column[str]("object", pa.string(), "the object that a written question is about, as the teacher named it")


@settings
class WriteSettings:
    """Holds the sampling settings with which the teacher model writes questions. The paper CodeDance does not give
    these values.
    """

    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.7
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


@dataclass(frozen=True)
class WrittenPair:
    """Holds a question that the teacher model wrote, with its answer in the normal form of its type.

    ``answer_type`` is the type, e.g. "numeric". ``label`` is the name of the object that the question is about.
    """

    question: str
    answer: str
    answer_type: str
    label: str


def read_pair(text: str, media_count: int = 1) -> WrittenPair | None:
    """Return the question, answer and object in the teacher model's reply. Returns None if the teacher finds no good
    question.

    ``text`` is the reply, and ``media_count`` is the number of images of the question. Raises BadReply if the reply has
    no usable question, answer or object.
    """
    fields = json_object(after_thinking(text))
    names = ("question", "answer", "object")
    if all(name in fields and fields[name] is None for name in names):
        return None
    for name in names:
        value = fields.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadReply(
                f"the reply's field {name!r} must be a text (or null if question, answer and object are all null), got "
                f"{value!r:.80}"
            )
        check_readable(value, name)
    question, answer, label = (" ".join(str(fields[name]).split()) for name in names)
    question = clean_text(question, media_count)
    if evident_type(answer.removesuffix("."), None).name != "text":  # "Yes." is yes, and "3." is 3
        answer = answer.removesuffix(".")
    if not question or len(question) > MAX_QUESTION_CHARS or len(answer) > MAX_ANSWER_CHARS:
        raise BadReply(
            f"the question must have 1 to {MAX_QUESTION_CHARS} characters, and the answer at most {MAX_ANSWER_CHARS}, "
            f"got {question!r:.80} and {answer!r:.80}"
        )
    if _TAG.search(question) or not any(map(str.isalnum, question)):
        raise BadReply(f"the question must be in words and without tags, got {question!r:.80}")
    if "<" in answer:
        raise BadReply(f"the answer must be without tags, got {answer!r:.80}")
    if folded(answer) in NO_ANSWERS or not answer.strip("."):
        raise BadReply(
            f"the field 'answer' has no answer, got {answer!r:.80}: write one, or null for question, answer and object"
        )
    if len(answer.split()) > MAX_ANSWER_WORDS:
        raise BadReply(f"the answer must have at most {MAX_ANSWER_WORDS} words, got {answer!r:.80}")
    if _SEVERAL.search(answer):
        raise BadReply(f'the answer must be exact, without words such as "or" and "about", got {answer!r:.80}')
    if is_given_away(question, answer):
        raise BadReply(f"the question must not contain its answer {answer!r:.80}, got {question!r:.80}")
    if fault := label_fault(label):
        raise BadReply(f"object: {fault}: {label!r:.80}")
    try:
        answer, answer_type = checked_pair(question, answer)
    except InvalidRecord as error:
        raise BadReply(str(error)) from error
    return WrittenPair(question, answer, answer_type, label)


def is_given_away(question: str, answer: str) -> bool:
    """Return whether a question contains all words of its answer, one after the other.

    For example, "What does the stop sign say?" contains the answer "stop". Returns False if the question offers a
    choice of answers, such as "red or blue".
    """
    asked, given = (words_in(folded(text)) for text in (question, answer))
    if not given or _CHOICE.search(question):
        return False
    return any(asked[at : at + len(given)] == given for at in range(len(asked) - len(given) + 1))


async def write(draft: Draft, session: Session, settings: WriteSettings) -> Draft:
    """Let the teacher model write a question about the images of a draft, and return the draft with the question.

    ``draft`` has images, but no question yet. The result has the question, its answer, and the name of the object that
    the question is about. ``session`` makes the call, with the sampling settings in ``settings``. Raises
    :class:`Reject` if the teacher finds no good question.
    """
    media = draft.question.media
    prompt = load_prompt(PROMPT).render({"original": shown(media)})
    sampling = Sampling(1, settings.temperature, max_tokens=settings.max_tokens)

    def read(reply: CallResult) -> WrittenPair | None:
        return read_pair(reply.text, len(media))

    pair, answered = await ask_for(session, "teacher", prompt, sampling, read)
    if pair is None:
        raise Reject(NOTHING_TO_ASK, "the teacher finds no question that needs a close look", answered.call.keys[0])
    question = replace(draft.question, question=pair.question, answer=pair.answer, answer_type=pair.answer_type)
    return replace(draft, question=question).with_added(QUESTION_SOURCE, TEACHER).with_added(OBJECT, pair.label)


STAGE = Stage(
    "write_questions",
    "where a record has no question, the teacher writes one with its answer, and names the object that it is about",
    reasons={NOTHING_TO_ASK: "the teacher finds nothing to ask about the image"},
    asks=(Asks("teacher", (PROMPT,)),),
    settings=WriteSettings,
    adds=(QUESTION_SOURCE, OBJECT),
)


@dataclass
class WriteQuestions(CallingStage):
    """Stage (pipeline step) that lets the teacher model write a question, with its answer, for images that have none.

    ``models`` holds the settings of the run's models.
    """

    settings: WriteSettings
    models: ModelsSettings
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        write a question about the draft's images (:func:`write`).
        """
        return partial(write, settings=self.settings)
