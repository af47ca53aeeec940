"""Rubric mining (RuCL §3.2): candidates from the teacher once a run, judged on a sample, filtered and stratified.

In: the drafts of the RL side, with attempts. Out: ``kept``, the same drafts with the run's rubrics, and ``mined``, one
:class:`MinedRubrics` for the run. The sample is the questions
whose ids hash lowest; the rollout judged of each is its first attempt. A reply that fails is listed as a problem and
left out of the statistics; it never counts as a score.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton, PCollection

from inference.asking import Asks, ask_for
from inference.request import Sampling
from inference.session import Session
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from rewards.judge_guard import question_text
from rewards.rubrics import (
    RubricScore,
    RubricSettings,
    candidates_of_reply,
    measure,
    stratify,
)
from rewards.scorers import rubric_scores
from rewards.scorers.rubric_scores import judge_rubrics
from schemas.coding import record
from schemas.messages import Part, TextPart, shown
from schemas.ordering import order_key
from schemas.quoting import quote
from schemas.records import Call, Draft, Rejected, Rubric
from stages.plumbing.calling import CallModels
from stages.plumbing.stage import REJECTED, DraftStage, Stage, apply

CANDIDATES_PROMPT = "rubric_candidates.v2"


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
    """Asks the teacher for candidates, with the images of its examples; returns one judging task for each draft.

    A teacher that takes one image a request is shown one example.
    """
    shows_several = session.models.settings.endpoint("teacher").multi_image
    parts, mark = examples_of(sample.drafts[: settings.examples if shows_several else 1])
    prompt = load_prompt(CANDIDATES_PROMPT).render(
        {"examples": parts}, max_rubrics=str(settings.max_rubrics), mark=mark
    )
    rubrics, _ = await ask_for(
        session,
        "teacher",
        prompt,
        Sampling(max_tokens=8192),
        lambda reply: candidates_of_reply(reply.text, settings.max_rubrics),
    )
    return tuple(RubricTask(draft.id, draft, rubrics, tuple(session.calls)) for draft in sample.drafts)


def examples_of(drafts: Sequence[Draft]) -> tuple[list[Part], str]:
    """Returns each draft's media, question, answer and first attempt, the texts quoted, and the quotation's mark."""
    names = ("QUESTION", "CORRECT ANSWER", "ATTEMPT")
    texts = [(question_text(d.question), d.question.answer, d.attempts[0].text) for d in drafts]
    quoted = quote(*itertools.chain.from_iterable(texts))
    shown_texts, parts = iter(quoted.texts), list[Part]()
    for number, draft in enumerate(drafts, 1):
        lines = [f"{name}:\nBEGIN {quoted.mark}\n{next(shown_texts)}\nEND {quoted.mark}" for name in names]
        parts += [TextPart(f"EXAMPLE {number}"), *shown(draft.question.media), TextPart("\n".join(lines))]
    return parts, quoted.mark


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


def rubrics_json(mined: MinedRubrics) -> str:
    """The content of ``rubrics.json``: every candidate as measured, whether it was kept, and what went wrong."""
    kept = {rubric.id: rubric.stratum for rubric in mined.kept}
    rows = [
        {
            "id": rubric.id,
            "description": rubric.description,
            "criteria": rubric.criteria,
            "applicability": rubric.applicability,
            "pass_rate": rubric.pass_rate,
            "kept": rubric.id in kept,
            "stratum": kept.get(rubric.id),
        }
        for rubric in mined.candidates
    ]
    return json.dumps(
        {"judged": mined.judged, "rubrics": rows, "problems": mined.problems}, indent=1, ensure_ascii=False
    )


def _as_sample(drafts: list[Draft]) -> Iterator[RubricSample]:
    if drafts:
        yield RubricSample("run", tuple(drafts))


def _each(tasks: tuple[RubricTask, ...]) -> Iterator[RubricTask]:
    yield from tasks


def _id_key(draft: Draft) -> str:
    return order_key(draft.id)


def _with_rubrics(draft: Draft, found: MinedRubrics) -> Draft:
    return replace(draft, rubrics=found.kept, calls=draft.calls + found.calls)


RUBRIC_CANDIDATES = Stage(
    "rubric_candidates",
    "the teacher proposes criteria, once for the run",
    asks=(Asks("teacher", (CANDIDATES_PROMPT,)),),
    settings=RubricSettings,
    max_calls=lambda settings: 1,
)
RUBRIC_JUDGE = Stage(
    "rubric_judge",
    "the judge applies them to a sample of the RL questions",
    asks=(Asks("judge", (rubric_scores.PROMPT,)),),
    settings=RubricSettings,
    max_calls=lambda settings: settings.sample,
)


@dataclass
class MineRubrics(DraftStage):
    """Mines the run's rubrics; see the module."""

    settings: RubricSettings
    models: ModelsSettings
    stage = RUBRIC_JUDGE

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts, ``mined``, and ``rejected``, which is empty: what fails here is a problem of the run's."""
        sample = (
            drafts
            | "SampleById" >> beam.combiners.Top.Smallest(self.settings.sample, key=_id_key)
            | "AsSample" >> beam.FlatMap(_as_sample)
        )
        candidates = CallModels(RUBRIC_CANDIDATES, partial(propose_rubrics, settings=self.settings), self.models)
        proposed = apply(sample, "Propose", candidates, kept=tuple[RubricTask, ...])
        tasks = proposed.kept | "EachTask" >> beam.FlatMap(_each) | "SpreadTasks" >> beam.Reshuffle()
        judged = apply(tasks, "Judge", CallModels(RUBRIC_JUDGE, judge_attempt, self.models), kept=Judged)
        failures = (proposed[REJECTED], judged[REJECTED]) | "Failures" >> beam.Flatten()
        mined = (
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
        kept = drafts | "Attach" >> beam.Map(_with_rubrics, AsSingleton(mined)).with_output_types(Draft)
        return {"kept": kept, "mined": mined, REJECTED: failures | "None" >> beam.Filter(lambda _: False)}
