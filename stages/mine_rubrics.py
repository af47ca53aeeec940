"""Rubric mining (RuCL §3.2): candidates from the teacher once a run, judged on a sample, filtered and stratified.

In: the drafts of the RL side, with attempts. Out: one :class:`MinedRubrics` for the run. The sample is the questions
whose ids hash lowest; the rollout judged of each is its first attempt. A reply that fails is listed as a problem and
left out of the statistics; it never counts as a score.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import apache_beam as beam
from apache_beam.pvalue import AsList, PCollection

from inference.asking import ask_for
from inference.request import Sampling
from inference.session import Session
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from rewards.rubrics import (
    RubricScore,
    RubricSettings,
    candidates_of_reply,
    measure,
    stratify,
)
from rewards.scorers.rubric_scores import judge_rubrics
from schemas.coding import record
from schemas.ordering import order_key
from schemas.records import Call, Draft, Rejected, Rubric
from stages.plumbing.calling import REJECTED, CallModels, split

CANDIDATES, JUDGE = "rubric_candidates", "rubric_judge"
CANDIDATES_PROMPT = "rubric_candidates.v1"


@record
class RubricSample:
    """The drafts on which rubrics are measured; its id stands for the run in errors."""

    id: str
    drafts: tuple[Draft, ...]


@record
class RubricTask:
    """One attempt to be judged by all candidates; ``calls`` are those that made the candidates."""

    id: str
    draft: Draft
    rubrics: tuple[Rubric, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Judged:
    """The scores of one attempt."""

    rubrics: tuple[Rubric, ...]
    scores: tuple[RubricScore, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class MinedRubrics:
    """What mining found: the rubrics kept, all candidates as measured, and what went wrong on the way."""

    kept: tuple[Rubric, ...] = ()
    candidates: tuple[Rubric, ...] = ()
    judged: int = 0
    problems: tuple[str, ...] = ()
    calls: tuple[Call, ...] = field(default=())


async def propose_rubrics(sample: RubricSample, session: Session, settings: RubricSettings) -> tuple[RubricTask, ...]:
    """Ask the teacher for candidates; one judging task for each draft of the sample."""
    examples = "\n\n".join(
        f"QUESTION: {draft.question.question}\nANSWER: {draft.question.answer}\nATTEMPT: {draft.attempts[0].text}"
        for draft in sample.drafts[: settings.examples]
    )
    prompt = load_prompt(CANDIDATES_PROMPT).render(examples=examples, max_rubrics=str(settings.max_rubrics))
    rubrics, _ = await ask_for(
        session,
        "teacher",
        prompt,
        Sampling(max_tokens=8192),
        lambda reply: candidates_of_reply(reply.text, settings.max_rubrics),
    )
    return tuple(RubricTask(draft.id, draft, rubrics, tuple(session.calls)) for draft in sample.drafts)


async def judge_attempt(task: RubricTask, session: Session) -> Judged:
    """Ask the judge for applicability and score of each candidate on the draft's first attempt."""
    judged = await judge_rubrics(task.draft.question, task.draft.attempts[0].text, task.rubrics, session)
    return Judged(task.rubrics, tuple(each.score for each in judged), task.calls)


def summarise(judged: Iterable[Judged], failures: Iterable[Rejected], settings: RubricSettings) -> MinedRubrics:
    """The run's rubrics from all that was judged."""
    rows = list(judged)
    problems = tuple(sorted(f"{failure.stage} {failure.id}: {failure.detail}" for failure in failures))
    if not rows:
        return MinedRubrics(problems=problems)
    measured = measure(rows[0].rubrics, (row.scores for row in rows))
    return MinedRubrics(stratify(measured, settings), measured, len(rows), problems, rows[0].calls)


def _as_sample(drafts: list[Draft]) -> Iterator[RubricSample]:
    if drafts:
        yield RubricSample("run", tuple(drafts))


def _each(tasks: tuple[RubricTask, ...]) -> Iterator[RubricTask]:
    yield from tasks


def _id_key(draft: Draft) -> str:
    return order_key(draft.id)


@dataclass
class MineRubrics(beam.PTransform):
    """Mine the run's rubrics; see the module."""

    settings: RubricSettings
    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> PCollection:
        """A collection of exactly one :class:`MinedRubrics`."""
        sample = (
            drafts
            | "SampleById" >> beam.combiners.Top.Smallest(self.settings.sample, key=_id_key)
            | "AsSample" >> beam.FlatMap(_as_sample)
        )
        candidates = CallModels(CANDIDATES, partial(propose_rubrics, settings=self.settings), self.models)
        proposed = split(sample, "Propose", candidates, kept=tuple[RubricTask, ...])
        tasks = proposed.kept | "EachTask" >> beam.FlatMap(_each) | "SpreadTasks" >> beam.Reshuffle()
        judged = split(tasks, "Judge", CallModels(JUDGE, judge_attempt, self.models), kept=Judged)
        failures = (proposed[REJECTED], judged[REJECTED]) | "Failures" >> beam.Flatten()
        return (
            drafts.pipeline
            | "OneRun" >> beam.Create([None])
            | "Summarise"
            >> beam.Map(
                lambda _, rows, failed, settings: summarise(rows, failed, settings),
                AsList(judged.kept),
                AsList(failures),
                self.settings,
            )
        )
