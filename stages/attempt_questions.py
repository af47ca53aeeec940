"""Lets the policy (the model to be trained) answer each question k times, and grades the answers (attempts).

The inputs are drafts (questions with their data). The outputs are drafts with k attempts. Each attempt is right, wrong
or unscored (not graded). A draft is rejected if a call failed, or if fewer than ``k_min`` attempts could be graded. An
answer in prose is graded too, because the policy model may not have been trained to put its answers in tags. A
truncated attempt is graded only if its answer section is complete; otherwise it is unscored, not wrong.

In Argos App. C.1, the first step samples one answer to the question. The paper calls this answer the initial rollout.
Here, one of the attempts is the initial rollout. The stage
:class:`groundtrace.stages.propose_entities.ProposeEntities` chooses this attempt, and uses it to find the things that
the question is about.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import POINTS, answer_format, instruction, lettered_choices
from groundtrace.grading.responses.prose import stated_answer
from groundtrace.grading.responses.response import closed_answer
from groundtrace.inference.caller import Caller
from groundtrace.inference.request import Completion, Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.scorers.outcome import needs_judge, score_outcome
from groundtrace.schemas.records import Attempt, Draft, Question, Verdict
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage

UNGRADABLE = "ungradable"
PROMPT, TRAINED_PROMPT = "attempt.v1", "attempt_as_trained.v1"


@settings
class AttemptSettings:
    """Holds the settings of the attempts, i.e. the answers that the policy model samples for each question."""

    k: Annotated[PositiveInt, "the number of attempts at each question"] = 4
    k_min: Annotated[PositiveInt, "a question with fewer graded attempts is rejected as ungradable"] = 3
    temperature: Annotated[Temperature, "the policy's sampling temperature"] = 1.0
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of an attempt"] = 2048
    as_trained: Annotated[bool, "ask with the user turns of the shards, for a policy that was trained on them"] = False

    def __post_init__(self) -> None:
        if self.k_min > self.k:
            raise ValueError(f"k_min must be at most k = {self.k}, got {self.k_min}")

    @property
    def sampling(self) -> Sampling:
        """Return the sampling settings of the attempts (the policy model's answers to one question): their number,
        temperature and maximum length.
        """
        return Sampling(self.k, self.temperature, max_tokens=self.max_tokens)


def attempt_prompt(question: Question, settings: AttemptSettings, form: str = POINTS) -> RenderedPrompt:
    """Return the prompt with which the policy (the model to be trained) answers a question.

    ``form`` is a form of response, such as reasoning with points. If ``settings.as_trained`` is True, the prompt
    requests this form, with the same words as the user turns of the training rows. If it is False, ``form`` is ignored,
    and the prompt only requests reasoning in think tags and the answer in answer tags.
    """
    variables = {
        "question": question.question,
        "choices": lettered_choices(question),
        "answer_format": answer_format(question),
    }
    if settings.as_trained:
        variables["instruction"] = instruction(question, form)
    return load_prompt(TRAINED_PROMPT if settings.as_trained else PROMPT).render(
        {"original": shown(question.media)}, **variables
    )


async def attempt(draft: Draft, session: Session, settings: AttemptSettings, judged: bool, form: str = POINTS) -> Draft:
    """Let the policy (the model to be trained) answer a question k times, and return the draft (a question with its
    data) with the k graded answers.

    Equal answers are graded once. ``session`` makes the calls. ``settings`` holds the number k and the sampling.
    ``judged`` is True if a judge model grades answers in free text. Without such a judge, a question with free text as
    its gold answer is rejected before any call, because only answers equal to the gold answer could be graded. ``form``
    is the form of response that the prompt requests (:func:`attempt_prompt`).

    Raises :class:`Reject` if fewer than ``settings.k_min`` answers could be graded.
    """
    question = draft.question
    if not judged and needs_judge(question):
        raise Reject(UNGRADABLE, "the gold answer is free text, and roles.judge names no endpoint that can grade it")
    prompt = attempt_prompt(question, settings, form)
    sampling = settings.sampling
    answered = await session.generate("policy", prompt, sampling)
    attempts = await graded(question, answered.completions, session if judged else None)
    require_graded(attempts, settings, answered.call.keys[0])
    return replace(draft, attempts=attempts)


async def graded(question: Question, completions: Sequence[Completion], caller: Caller | None) -> tuple[Attempt, ...]:
    """Grade the policy model's replies to a question, and return them as attempts, in order. Equal answers are graded
    once.

    ``completions`` are the replies. ``caller`` makes the calls to the judge model; None means that there is no judge.
    """
    attempts: list[Attempt] = []
    found: dict[str | None, Verdict] = {}
    for completion in completions:
        predicted = (closed_answer if completion.is_truncated else stated_answer)(completion.text)
        if predicted is None and completion.is_truncated:
            attempts.append(Attempt(completion.text, None, None, TRUNCATED, f"{CUT_OFF} before its answer was closed"))
            continue
        if predicted not in found:
            found[predicted] = await score_outcome(question, predicted, caller)
        verdict = found[predicted]
        correct = None if verdict.value is None else verdict.value >= 1
        method, _, reason = verdict.reason.partition(": ")
        attempts.append(Attempt(completion.text, predicted, correct, method, reason))
    return tuple(attempts)


def require_graded(attempts: Sequence[Attempt], settings: AttemptSettings, key: str) -> None:
    """Raise :class:`Reject` if fewer than ``settings.k_min`` attempts (sampled answers to one question) were graded.

    The detail of the rejection has the number of graded attempts, and the most frequent reason why attempts could not
    be graded. ``key`` is the cache key of the first attempt's reply; the rejection holds this key.
    """
    unscored = [f"{attempt.method}: {attempt.reason}" for attempt in attempts if attempt.correct is None]
    if len(attempts) - len(unscored) < settings.k_min:
        scored = f"{len(attempts) - len(unscored)} of {settings.k} attempts could be graded"
        [(why, _)] = Counter(unscored).most_common(1)
        raise Reject(UNGRADABLE, f"{scored}: {why}", key)


def _as_trained(settings: AttemptSettings) -> bool:
    return settings.as_trained


def _in_own_words(settings: AttemptSettings) -> bool:
    return not settings.as_trained


STAGE = Stage(
    "attempt",
    "the policy answers each question attempt.k times, and the answers are graded",
    reasons={UNGRADABLE: "fewer attempts could be graded than attempt.k_min"},
    asks=(
        Asks("policy", (PROMPT,), when=_in_own_words),
        Asks("policy", (TRAINED_PROMPT,), when=_as_trained),
        *outcome.ASKS,
    ),
    settings=AttemptSettings,
)


@dataclass
class AttemptQuestions(CallingStage):
    """Stage (pipeline step) that lets the policy (the model to be trained) answer every question k times, and grades
    these attempts.

    ``models`` holds the settings of the run's models. If ``settings.as_trained`` is True, the prompts have the same
    words as the user turns of the run's training rows. They then request a response of the form ``form``, such as
    reasoning with points.
    """

    settings: AttemptSettings
    models: ModelsSettings
    form: str = POINTS
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the policy (the model
        to be trained) answer the question k times and grades the answers (:func:`attempt`).
        """
        return partial(attempt, settings=self.settings, judged=self.models.judges_text, form=self.form)
