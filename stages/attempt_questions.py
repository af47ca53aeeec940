"""Attempts: k sampled answers of the policy per question, graded.

In: drafts. Out: drafts with k attempts, each right, wrong or unscored, or a rejection when a call failed or fewer than
``k_min`` attempts could be graded. An answer in prose counts too: the policy may never have been trained to
mark its own. These attempts are also the initial rollouts of Argos App. C.1.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from inference.asking import Asks
from inference.request import Sampling, Temperature
from inference.session import Session
from inference.settings import ModelsSettings
from prompts.loader import RenderedPrompt, load_prompt
from rewards.scorers import outcome
from rewards.scorers.outcome import needs_judge, score_outcome
from schemas.config import settings
from schemas.messages import shown
from schemas.question_text import answer_format, lettered_choices, trace_instruction
from schemas.records import Attempt, Draft, Question, Verdict
from schemas.responses.prose import stated_answer
from stages.plumbing.calling import CallingStage, Work
from stages.plumbing.stage import Reject, Stage

UNGRADABLE = "ungradable"
PROMPT, TRAINED_PROMPT = "attempt.v1", "attempt_as_trained.v1"


@settings
class AttemptSettings:
    """The policy's attempts at a question."""

    k: Annotated[PositiveInt, "attempts at each question"] = 4
    k_min: Annotated[PositiveInt, "a question with fewer graded attempts is rejected as ungradable"] = 3
    temperature: Annotated[Temperature, "of the policy"] = 1.0
    max_tokens: Annotated[PositiveInt, "new tokens of an attempt"] = 2048
    as_trained: Annotated[bool, "ask in the words of the shards' user turns, for a policy trained on them"] = False

    def __post_init__(self) -> None:
        if self.k_min > self.k:
            raise ValueError(f"k_min must be at most k = {self.k}, got {self.k_min}")

    @property
    def sampling(self) -> Sampling:
        """How the attempts are sampled."""
        return Sampling(self.k, self.temperature, max_tokens=self.max_tokens)


def attempt_prompt(question: Question, settings: AttemptSettings) -> RenderedPrompt:
    """What the policy is asked."""
    said = {
        "question": question.question,
        "choices": lettered_choices(question),
        "answer_format": answer_format(question),
    }
    if settings.as_trained:
        said["instruction"] = trace_instruction(question)
    return load_prompt(TRAINED_PROMPT if settings.as_trained else PROMPT).render(
        {"original": shown(question.media)}, **said
    )


async def attempt(draft: Draft, session: Session, settings: AttemptSettings, judged: bool) -> Draft:
    """The draft with k answers of the policy, graded, equal ones once.

    Raises :class:`Reject` with too few graded; before asking where the gold answer is free text and there is no judge:
    then none but the right ones would be graded.
    """
    question = draft.question
    if not judged and needs_judge(question):
        raise Reject(UNGRADABLE, "the gold answer is free text, and roles.judge names no endpoint that reads it")
    prompt = attempt_prompt(question, settings)
    sampling = settings.sampling
    answered = await session.generate("policy", prompt, sampling)
    attempts: list[Attempt] = []
    graded: dict[str | None, Verdict] = {}
    for completion in answered.completions:
        predicted = stated_answer(completion.text)
        if predicted not in graded:
            graded[predicted] = await score_outcome(question, predicted, session if judged else None)
        verdict = graded[predicted]
        correct = None if verdict.value is None else verdict.value >= 1
        method, _, reason = verdict.reason.partition(": ")
        attempts.append(Attempt(completion.text, predicted, correct, method, reason))
    attempted = replace(draft, attempts=tuple(attempts))
    if attempted.scored_attempts < settings.k_min:
        unscored = next(attempt for attempt in attempts if attempt.correct is None)
        scored = f"{attempted.scored_attempts} of {settings.k} attempts could be graded"
        detail = f"{scored}: {unscored.method}: {unscored.reason}"
        raise Reject(UNGRADABLE, detail, answered.call.keys[0])
    return attempted


def _as_trained(settings: AttemptSettings) -> bool:
    return settings.as_trained


def _in_own_words(settings: AttemptSettings) -> bool:
    return not settings.as_trained


STAGE = Stage(
    "attempt",
    "the policy answers each question several times, and the answers are graded",
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
    """Attempts every question; see the module."""

    settings: AttemptSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """See :func:`attempt`."""
        return partial(attempt, settings=self.settings, judged=self.models.judges_text)
