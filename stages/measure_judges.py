"""Measures how reliably the three judges of SAIL-RL (§3.1) find faults in a chain of thought.

The inputs are verified drafts (questions with their data). The output is one :class:`JudgeReport` for the run,
``judges.json``; no draft is passed on. The judges are measured on a sample: the chains of thought of the drafts with
the lowest id hashes. First, all three judges judge each unchanged chain, and should find no fault. Then rules make a
copy of the chain for each judge, and put (plant) a fault into the copy (:mod:`groundtrace.rewards.planting`). The fault
is a wrong step for the judge of logic, a wrong claim for the judge of grounding, and another answer for the judge of
consistency. Each judge should find the fault that was planted for it. An unchanged chain is called clean, because the
answer and the form of its response were verified. If a judge finds a fault in a clean chain, the judge may be right,
because verification may have missed the fault. The paper gives no statistics of its judges.
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
    ThinkingSettings,
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
    """Holds the number of chains of thought on which the judges are measured."""

    sample: Annotated[PositiveInt, "the number of chains of thought; each needs six calls to the judge"] = 50


@dataclass(frozen=True)
class Judgement:
    """Holds the verdict of one judge on one chain of thought.

    ``judge`` is the name of the judge, such as "thinking_logic". It is also the name of the scorer, i.e. of the code
    that requests this verdict from the judge model. ``planted`` is True if a fault was put into the chain on purpose,
    to see whether the judge finds it. ``value`` is 1 if the judge found no fault, 0 if it found a fault, and None if it
    gave no verdict.
    """

    judge: str
    planted: bool
    value: float | None


@dataclass(frozen=True)
class MeasuredTrace:
    """Holds the judgements on one trace (a response with a chain of thought): unchanged, and with faults that were put
    into it on purpose (planted).

    ``unplanted`` lists the judges for which no fault could be planted in this trace.
    """

    judgements: tuple[Judgement, ...]
    unplanted: tuple[str, ...]


@dataclass(frozen=True)
class JudgeReport:
    """Holds the judgements on all traces (responses with a chain of thought) in the sample that the judges read.

    ``measured`` has one entry for each trace. ``problems`` lists the failed calls, each as one text.
    """

    measured: tuple[MeasuredTrace, ...] = ()
    problems: tuple[str, ...] = ()


def plants_of(question: Question, response: Response) -> dict[str, Response | None]:
    """Copy a response once for each of the three judges, put (plant) a fault into each copy, and return the copies.

    Each judge should find the fault in its copy. For example, the copy for the judge of logic has a wrong step. The
    result maps the name of each judge, such as "thinking_logic", to its copy. Fixed rules make the faults. If the rules
    cannot make a judge's fault in this response, the value is None. ``question`` is the question that was answered.
    """
    thought = response.think or ""
    claim, answer = with_wrong_claim(thought, question), other_answer(question)
    return {
        LOGIC: _with(response, think=with_wrong_step(thought)),
        GROUNDING: None if claim is None else _with(response, think=claim),
        CONSISTENCY: None if answer is None else _with(response, answer=answer),
    }


def _with(response: Response, think: str | None = None, answer: str | None = None) -> Response:
    """Return a copy of the response in which ``think`` replaces the think section, or ``answer`` the final answer.

    None means that this part of the response does not change.
    """
    text = (
        f"<judge>{response.judge}</judge><think>{think or response.think}</think>\\boxed{{{answer or response.answer}}}"
    )
    return parse_response(text)


async def measure(draft: Draft, session: Session) -> MeasuredTrace:
    """Let the judges judge the best trace (chosen response) of a draft (a question with its data): once unchanged, and
    once with each fault that rules can put into it (plant).

    ``session`` makes the calls. The result holds all judgements.
    """
    question, response = draft.question, parse_response(draft.traces[draft.best or 0].text)
    verdicts = [(verdict, False) for verdict in await score_aspects(question, response, session)]
    plants = plants_of(question, response)
    for name, planted in plants.items():
        if planted is not None:
            own = await score_aspects(question, planted, session, ThinkingSettings.only(name))
            verdicts += [(verdict, True) for verdict in own]
    judgements = tuple(Judgement(verdict.name, planted, verdict.value) for verdict, planted in verdicts)
    return MeasuredTrace(judgements, tuple(name for name, planted in plants.items() if planted is None))


def judges_json(report: JudgeReport) -> str:
    """Return the content of the run's file ``judges.json``: how often each judge was right (:func:`agreement_of`).

    ``report`` holds the judgements, i.e. whether a judge model found a fault in a chain of thought.

    The file has these statistics for unchanged (clean) chains of thought, for chains with faults that were put into
    them on purpose (planted), and for all chains.
    """
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
    """Return how often judgements are right, as a mapping from the names of statistics to their values.

    A judgement is right in two cases: the judge model found a fault in a text into which a fault was put on purpose
    (planted), or no fault in an unchanged text. The statistics are:

    - ``judged``: the number of judgements with a verdict, i.e. whose value is not None.
    - ``unjudged``: the number of judgements without a verdict.
    - ``agree``: the number of right judgements.
    - ``share``: ``agree`` divided by ``judged``; None if ``judged`` is 0.
    - ``interval``: the Wilson interval of ``share``; None if ``judged`` is 0.
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
    """Return the run's report on the judges.

    ``measured`` holds the judgements on each trace (response with a chain of thought). ``failures`` holds the
    rejections of failed calls, which become the list of problems. The report holds the traces and the problems in
    sorted order, so that it does not depend on the order in which the calls ended.
    """
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
    """Stage (pipeline step) that measures on a sample of traces (responses with chains of thought) how reliably the
    judges find faults.

    ``models`` holds the settings of the run's models. Rules put faults into copies of the traces. A judge is right if
    it finds the fault in such a copy, and no fault in an unchanged trace.
    """

    settings: JudgeSampleSettings
    models: ModelsSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Let the judges judge a sample of the drafts (questions with their data), and return three outputs.

        ``measured`` has one element, the report. ``side_calls`` has all calls to the judges. ``rejected`` is empty: a
        failed call is listed as a problem in the report.
        """
        sample = (
            drafts
            | "Thinks" >> beam.Filter(_thinks)
            | "SampleById" >> beam.combiners.Top.Of(self.settings.sample, draft_key, reverse=True).without_defaults()
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
