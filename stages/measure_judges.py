"""Measures the reliability of the three thinking judges of SAIL-RL (§3.1): their agreement with planted faults.

In: verified drafts. Out: one :class:`JudgeReport` for the run, ``judges.json``; no draft passes. The sample is the
chains of thought with the lowest id hashes. First, all three judges judge each chain unchanged, and ought to find no
fault. Then each judge judges the chain with a planted fault that this judge ought to find (arithmetic makes it,
:mod:`groundtrace.rewards.planting`): a wrong step for the judge of logic, a wrong claim for that of grounding, another
answer for that of consistency. An unchanged trace is called clean because its answer and form were verified: a judge
that finds a fault in it may have found one that verification missed. The paper gives no figures for its judges.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import AsList, PCollection
from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.responses.response import Response, parse_response
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.planting import other_answer, with_wrong_claim, with_wrong_step
from groundtrace.rewards.scorers.thinking import (
    ASPECTS,
    CONSISTENCY,
    CONSISTENCY_PROMPT,
    GROUNDING,
    GROUNDING_PROMPT,
    LOGIC,
    LOGIC_PROMPT,
    score_aspects,
)
from groundtrace.schemas.intervals import wilson
from groundtrace.schemas.records import Draft, Question, Rejected
from groundtrace.stages.plumbing.calling import call_models
from groundtrace.stages.plumbing.keeping import draft_key
from groundtrace.stages.plumbing.spreading import SpreadByKey
from groundtrace.stages.plumbing.stage import REJECTED, SIDE_CALLS, DraftStage, Stage

CALLS_A_TRACE = 2 * len(ASPECTS)


@settings
class JudgeSampleSettings:
    """The number of traces on which the judges are measured."""

    sample: Annotated[PositiveInt, "the number of chains of thought; each needs six calls to the judge"] = 50


@dataclass(frozen=True)
class Judgement:
    """One judge's verdict on one text. ``value`` is 1 if no fault was found, 0 if one was found, None without a
    verdict.
    """

    judge: str
    planted: bool
    value: float | None


@dataclass(frozen=True)
class MeasuredTrace:
    """The judgements on one trace, and the judges for which no fault could be planted in it."""

    judgements: tuple[Judgement, ...]
    unplanted: tuple[str, ...]


@dataclass(frozen=True)
class JudgeReport:
    """The judgements on all traces of the sample, and the problems of the stage."""

    measured: tuple[MeasuredTrace, ...] = ()
    problems: tuple[str, ...] = ()


def plants_of(question: Question, response: Response) -> dict[str, Response | None]:
    """Return, for each judge, the response with the fault that it ought to find; None if it cannot be planted."""
    thought = response.think or ""
    claim, answer = with_wrong_claim(thought, question), other_answer(question)
    return {
        LOGIC: _with(response, think=with_wrong_step(thought)),
        GROUNDING: None if claim is None else _with(response, think=claim),
        CONSISTENCY: None if answer is None else _with(response, answer=answer),
    }


def _with(response: Response, think: str | None = None, answer: str | None = None) -> Response:
    """Return the response with another thought or with another answer."""
    text = (
        f"<judge>{response.judge}</judge><think>{think or response.think}</think>\\boxed{{{answer or response.answer}}}"
    )
    return parse_response(text)


async def measure(draft: Draft, session: Session) -> MeasuredTrace:
    """Ask the judges about the kept trace, once unchanged and once with each planted fault; return their judgements."""
    question, response = draft.question, parse_response(draft.traces[draft.best or 0].text)
    verdicts = [(verdict, False) for verdict in await score_aspects(question, response, session)]
    plants = plants_of(question, response)
    for name, planted in plants.items():
        if planted is not None:
            verdicts += [(verdict, True) for verdict in await score_aspects(question, planted, session, (name,))]
    judgements = tuple(Judgement(verdict.name, planted, verdict.value) for verdict, planted in verdicts)
    return MeasuredTrace(judgements, tuple(name for name, planted in plants.items() if planted is None))


def judges_json(report: JudgeReport) -> str:
    """Return the content of ``judges.json``: each judge's agreement on clean texts, on planted faults, and on both."""
    judgements = [judgement for measured in report.measured for judgement in measured.judgements]
    unplanted = [name for measured in report.measured for name in measured.unplanted]
    judges = {}
    for name in ASPECTS:
        own = [judgement for judgement in judgements if judgement.judge == name]
        clean = [judgement for judgement in own if not judgement.planted]
        planted = [judgement for judgement in own if judgement.planted]
        judges[name.removeprefix("thinking_")] = {
            "clean": agreement_of(clean),
            "planted": agreement_of(planted) | {"not_plantable": unplanted.count(name)},
            "all": agreement_of(own),
        }
    content = {"traces": len(report.measured), "confidence": 0.95, "judges": judges, "problems": report.problems}
    return json.dumps(content, indent=1, ensure_ascii=False)


def agreement_of(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Return the number of verdicts, how many of them are right about the planted fault, and this share with Wilson's
    interval.

    ``unjudged`` counts the texts without a verdict; the share is null if no text has one.
    """
    judgements = list(judgements)
    judged = [judgement for judgement in judgements if judgement.value is not None]
    agree = sum((judgement.value == 0) == judgement.planted for judgement in judged)
    share, interval = (agree / len(judged), list(wilson(agree, len(judged)))) if judged else (None, None)
    return {
        "judged": len(judged),
        "agree": agree,
        "share": share,
        "interval": interval,
        "unjudged": len(judgements) - len(judged),
    }


def report_of(measured: Iterable[MeasuredTrace], failures: Iterable[Rejected]) -> JudgeReport:
    """Return the run's report; its order does not depend on which call ended first."""
    problems = sorted(f"{failure.id}: {failure.detail}" for failure in failures)
    return JudgeReport(tuple(sorted(measured, key=repr)), tuple(problems))


def _thinks(draft: Draft) -> bool:
    return draft.best is not None and bool(parse_response(draft.traces[draft.best].text).think)


STAGE = Stage(
    "judges",
    "the three thinking judges are held against faults planted in a sample of the traces",
    asks=(Asks("judge", (LOGIC_PROMPT, GROUNDING_PROMPT)), Asks("judge", (CONSISTENCY_PROMPT,), all_media=False)),
    settings=JudgeSampleSettings,
    max_calls=lambda settings: CALLS_A_TRACE * settings.sample,
)


@dataclass
class MeasureJudges(DraftStage):
    """Measures the judges; see the module."""

    settings: JudgeSampleSettings
    models: ModelsSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Return ``measured`` and an empty ``rejected``: a failure here is listed as a problem of the run."""
        sample = (
            drafts
            | "Thinks" >> beam.Filter(_thinks)
            | "SampleById" >> beam.combiners.Top.Smallest(self.settings.sample, key=draft_key)
            | "Each" >> beam.FlatMap(list).with_output_types(Draft)
            | "Spread" >> SpreadByKey(draft_key, str, Draft)
        )
        judged = call_models(sample, "Judge", STAGE, measure, self.models, kept=MeasuredTrace)
        report = (
            drafts.pipeline
            | "OneRun" >> beam.Create([None])
            | "Report"
            >> beam.Map(lambda _, rows, failed: report_of(rows, failed), AsList(judged.kept), AsList(judged[REJECTED]))
        )
        rejected = judged[REJECTED] | "None" >> beam.Filter(lambda _: False)
        return {"measured": report, SIDE_CALLS: judged[SIDE_CALLS], REJECTED: rejected}
