"""Mines rubrics (criteria for judging answers) once in each run (RuCL §3.2).

The teacher model proposes candidate rubrics. The judge model applies them to a sample of attempts, i.e. of answers that
the policy model (the model to be trained) gave to the questions. Then the candidates are filtered and sorted into two
groups (strata), easy and hard.

The inputs are the drafts (questions with their data) that become RL rows. The outputs are ``kept``, the same drafts
with the run's rubrics, and ``mined``, one :class:`groundtrace.rewards.mined_rubrics.MinedRubrics` for the run. The
sample consists of the questions with the lowest id hashes among all questions with attempts. The judge judges the first
attempt at each question of the sample. A failed reply is listed as a problem and left out of the statistics; it is
never used as a score.

The candidates come from the teacher or from the default pool, a fixed list. In §3.2 the teacher sees task category,
image, question and gold answer of some examples. Here it also sees an attempt at each example. Proposed rubrics that
require a right answer are not measured; the result has a separate list of them.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton, PCollection

from groundtrace.grading.messages import Part, TextPart, shown
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.mined_rubrics import MinedRubrics
from groundtrace.rewards.rubrics import (
    RUBRICS,
    TEACHER,
    Candidates,
    RubricScore,
    RubricSettings,
    candidates_of_reply,
    default_candidates,
    measure,
    stratify,
)
from groundtrace.rewards.scorers import rubric_scores
from groundtrace.rewards.scorers.rubric_scores import judge_rubrics
from groundtrace.schemas.coding import record
from groundtrace.schemas.quoting import quote
from groundtrace.schemas.records import Call, Draft, Rejected
from groundtrace.stages.plumbing.calling import call_models
from groundtrace.stages.plumbing.keeping import draft_key
from groundtrace.stages.plumbing.spreading import SpreadByKey
from groundtrace.stages.plumbing.stage import REJECTED, SIDE_CALLS, DraftStage, Stage

CANDIDATES_PROMPT = "rubric_candidates.v3"


@record
class RubricSample:
    """Holds the drafts (questions with their data) on which rubrics (criteria for judging answers) are measured.

    ``id`` is the name of the sample in error messages.
    """

    id: str
    drafts: tuple[Draft, ...]


@record
class RubricTask:
    """Holds a draft (a question with its data), and the candidate rubrics (criteria) by which the judge model scores
    the draft's first attempt (sampled answer).

    ``id`` is the draft's id. ``calls`` are the calls in which the teacher model proposed the candidates.
    """

    id: str
    draft: Draft
    candidates: Candidates
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class AttemptScores:
    """Holds the judge model's scores of one attempt (sampled answer).

    ``candidates`` are the candidate rubrics (criteria), and ``scores`` has one score for each of them. ``calls`` are
    the calls in which the teacher model proposed the candidates. ``correct`` is True if the answer of the attempt is
    right, False if it is wrong, and None if it was not graded.
    """

    candidates: Candidates
    scores: tuple[RubricScore, ...]
    calls: tuple[Call, ...]
    correct: bool | None = None


async def propose_rubrics(sample: RubricSample, session: Session, settings: RubricSettings) -> tuple[RubricTask, ...]:
    """Request candidate rubrics (criteria) from the teacher model, and return one task for each draft (a question with
    its data) of the sample. In a task, the judge model gives the draft's first attempt (sampled answer) one score for
    each candidate.

    ``session`` makes the call. The teacher sees the first drafts of the sample as examples, with their images. If the
    teacher's endpoint takes only one image in a request, the teacher sees one example. If the run has no teacher, or if
    ``settings.pool`` is not "teacher", the function makes no call. It then takes the candidates from the default pool,
    which is a fixed list of rubrics.
    """
    if settings.pool == TEACHER and session.models.settings.has_role("teacher"):
        candidates = await _ask_teacher(sample, session, settings)
    else:
        candidates = default_candidates(settings.max_rubrics)
    return tuple(RubricTask(draft.id, draft, candidates, tuple(session.calls)) for draft in sample.drafts)


async def _ask_teacher(sample: RubricSample, session: Session, settings: RubricSettings) -> Candidates:
    shows_several = session.models.settings.endpoint("teacher").multi_image
    parts, mark = examples_of(sample.drafts[: settings.examples if shows_several else 1])
    prompt = load_prompt(CANDIDATES_PROMPT).render(
        {"examples": parts}, max_rubrics=str(settings.max_rubrics), mark=mark
    )
    candidates, _ = await ask_for(
        session,
        "teacher",
        prompt,
        Sampling(max_tokens=8192),
        lambda reply: candidates_of_reply(reply.text, settings.max_rubrics),
    )
    return candidates


def examples_of(drafts: Sequence[Draft]) -> tuple[list[Part], str]:
    """Return the examples that the teacher model sees, as parts of a prompt, and the delimiter of the quoted texts in
    them.

    An example has the draft's media and four quoted texts: kind of task, question, gold answer and first attempt. The
    delimiter is a text that occurs in none of them. The line before a quoted text is ``BEGIN`` with the delimiter, and
    the line after it is ``END`` with the delimiter. The kind of task (RuCL §3.2: task category) is the source's name
    and the answer type.
    """
    names = ("KIND OF TASK", "QUESTION", "CORRECT ANSWER", "ATTEMPT")
    texts = [(_kind_of_task(d), question_text(d.question), d.question.answer, d.attempts[0].text) for d in drafts]
    quoted = quote(*itertools.chain.from_iterable(texts))
    shown_texts, parts = iter(quoted.texts), list[Part]()
    for number, draft in enumerate(drafts, 1):
        lines = [f"{name}:\nBEGIN {quoted.mark}\n{next(shown_texts)}\nEND {quoted.mark}" for name in names]
        parts += [TextPart(f"EXAMPLE {number}"), *shown(draft.question.media), TextPart("\n".join(lines))]
    return parts, quoted.mark


def _kind_of_task(draft: Draft) -> str:
    return f"{draft.question.source}, {draft.question.answer_type}"


async def judge_attempt(task: RubricTask, session: Session) -> AttemptScores:
    """Let the judge model score an attempt (sampled answer) by each candidate rubric (criterion), and return the
    scores.

    ``task`` holds the candidates and the question, whose first attempt is scored. The judge also decides whether a
    candidate applies to the attempt. ``session`` makes the calls.
    """
    attempt = task.draft.attempts[0]
    judged = await judge_rubrics(task.draft.question, attempt.text, task.candidates.rubrics, session)
    return AttemptScores(task.candidates, tuple(each.score for each in judged), task.calls, attempt.correct)


def summarise(judged: Iterable[AttemptScores], failures: Iterable[Rejected], settings: RubricSettings) -> MinedRubrics:
    """Return the rubrics (criteria for judging answers) of the run, chosen by their statistics over all judged attempts
    (sampled answers).

    ``judged`` holds the scores of each attempt. ``failures`` are the rejections of failed calls, which become the list
    of problems. If ``judged`` is empty, the result has no rubrics.
    """
    rows = list(judged)
    problems = tuple(sorted(f"{failure.stage} {failure.id}: {failure.detail}" for failure in failures))
    if not rows:
        return MinedRubrics(problems=problems)
    candidates, graded = rows[0].candidates, [row.correct for row in rows if row.correct is not None]
    measured = measure(candidates.rubrics, (row.scores for row in rows))
    return MinedRubrics(
        stratify(measured, settings),
        measured,
        len(rows),
        problems,
        rows[0].calls,
        candidates.apart,
        candidates.pool,
        len(graded),
        sum(graded),
    )


def _as_sample(drafts: list[Draft]) -> Iterator[RubricSample]:
    if drafts:
        yield RubricSample("run", tuple(drafts))


def _each(tasks: tuple[RubricTask, ...]) -> Iterator[RubricTask]:
    yield from tasks


def _task_id(task: RubricTask) -> str:
    return task.id


def _is_attempted(draft: Draft) -> bool:
    return bool(draft.attempts)


def _with_rubrics(draft: Draft, found: MinedRubrics) -> Draft:
    return replace(draft.with_added(RUBRICS, found.kept), calls=draft.calls + found.calls)


def _asks_teacher(settings: RubricSettings) -> bool:
    return settings.pool == TEACHER


RUBRIC_CANDIDATES = Stage(
    "rubric_candidates",
    "the teacher proposes criteria, once for the run, or those of the default pool are taken",
    asks=(Asks("teacher", (CANDIDATES_PROMPT,), required=False, when=_asks_teacher),),
    settings=RubricSettings,
    max_calls=lambda settings: int(_asks_teacher(settings)),
)
RUBRIC_JUDGE = Stage(
    "rubric_judge",
    "the judge applies them to a sample of the RL questions",
    asks=(Asks("judge", (rubric_scores.PROMPT,)),),
    settings=RubricSettings,
    max_calls=lambda settings: settings.sample,
    adds=(RUBRICS,),
)


@dataclass
class MineRubrics(DraftStage):
    """Stage (pipeline step) that finds (mines) the rubrics of the run, i.e. criteria for judging answers, and adds them
    to every draft (a question with its data).

    ``models`` holds the settings of the run's models. The teacher proposes rubrics, and the judge applies them to a
    sample of attempts (the policy's sampled answers). How often attempts meet a rubric decides whether the rubric is
    kept.
    """

    settings: RubricSettings
    models: ModelsSettings
    stage = RUBRIC_JUDGE
    inner = (RUBRIC_CANDIDATES,)

    def expand(self, drafts: PCollection) -> Any:
        """Mine rubrics (criteria for judging answers) on a sample of the drafts, and return four outputs.

        ``kept`` has all drafts (questions with their data), to which the rubrics were added. ``mined`` has one element,
        the rubrics with their statistics. ``side_calls`` has all calls made. ``rejected`` is empty, because a failed
        call is listed as a problem in ``mined``.
        """
        sample = (
            drafts
            | "Attempted" >> beam.Filter(_is_attempted).with_output_types(Draft)
            | "SampleById" >> beam.combiners.Top.Of(self.settings.sample, draft_key, reverse=True).without_defaults()
            | "AsSample" >> beam.FlatMap(_as_sample).with_output_types(RubricSample)
        )
        propose = partial(propose_rubrics, settings=self.settings)
        proposed = call_models(sample, "Propose", RUBRIC_CANDIDATES, propose, self.models, kept=tuple[RubricTask, ...])
        each = proposed.kept | "EachTask" >> beam.FlatMap(_each).with_output_types(RubricTask)
        tasks = each | "SpreadTasks" >> SpreadByKey(_task_id, str, RubricTask)
        judged = call_models(tasks, "Judge", RUBRIC_JUDGE, judge_attempt, self.models, kept=AttemptScores)
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
            ).with_output_types(MinedRubrics)
        )
        kept = drafts | "Attach" >> beam.Map(_with_rubrics, AsSingleton(mined)).with_output_types(Draft)
        side_calls = (proposed[SIDE_CALLS], judged[SIDE_CALLS]) | "SideCalls" >> beam.Flatten()
        rejected = failures | "None" >> beam.Filter(lambda _: False)
        return {"kept": kept, "mined": mined, SIDE_CALLS: side_calls, REJECTED: rejected}
