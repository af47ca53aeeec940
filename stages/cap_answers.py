"""Limits two kinds of RL questions that a policy model could answer without using the image.

These are questions with the same answer as many others, and questions about things that are not in the image. No paper
describes these limits; they are our addition. The inputs are drafts (questions with their data) of the RL side, i.e. of
the questions that become RL rows. The outputs are ``kept`` and ``rejected`` (with the reason ``over_quota``). Of the
kept questions,

- at most the share ``max_absent`` is about absent things: the answer is a count of 0, or the pointer (the model that
  points at objects) found nothing. A policy model can answer these questions right without pointing at anything;
- at most the share ``max_same_answer`` of each closed kind of question has the same answer. The closed kinds are
  yes-or-no questions, choices by letter, and counts. For example, if 100 counts are kept and ``max_same_answer`` is
  0.6, at most 60 of the counts have the answer 2.

A share of very few questions is meaningless. So each of these limits allows at least :data:`MIN_KEPT` questions. Of the
questions that a limit concerns, those with the lowest id hashes are kept, so that the outcome depends only on the set
of questions.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsSingleton, PCollection
from pydantic import Field

from groundtrace.config.settings import Share, settings
from groundtrace.rewards.blindness import RewardedQuestion, closed_answer
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import OVER_QUOTA
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, apply, kept_output, rejected_output

MIN_KEPT = 5
"""The number of questions that each of the two limits always allows, even if their share is above the maximum share.

The limit ``max_absent`` counts all questions about absent things together. The limit ``max_same_answer`` counts the
questions with the same answer, separately for each closed kind of question (yes or no, choice by letter, count).
"""
AnswerKey = tuple[str, str, bool]
"""The key by which the limits count questions: kind, answer, and whether the question is about an absent thing.

The kind is ``bool`` (yes or no), ``mcq`` (choice by letter) or ``count``. These kinds are called closed, because they
have few possible answers. Kind and answer are "" for any other (open) question.
"""


@settings
class AnswerSettings:
    """Holds the maximum shares of RL questions that a policy model could answer without using the image.

    A share of 1 means that there is no limit.
    """

    max_absent: Annotated[
        Share,
        "of all RL rows, the maximum share whose question is about things that the image does not show: the right "
        "count is 0, or the pointer found none of its objects. A policy can answer such questions without looking, so "
        "further ones are rejected; 5 are always allowed",
    ] = 0.1
    max_same_answer: Annotated[
        float,
        Field(ge=0.5, le=1),
        "the maximum share of rows with the same answer, among yes/no questions, choices and counts separately",
    ] = 0.6


def key_of(draft: Draft) -> AnswerKey:
    """Return the key of a question: its kind, its answer, and whether it is about a thing that is not in the image.

    The questions with the same key are counted together for the limits of this stage. The kinds are ``bool`` (yes or
    no), ``mcq`` (choice by letter) and ``count``. E.g. "How many cats?" with the answer 0 gives
    ``("count", "0", True)``. Kind and answer are "" for all other questions.
    """
    kind, answer = closed_answer(draft.question) or ("", "")
    row = RewardedQuestion(draft.question, draft.entities, draft.pointable)
    return kind, answer, row.has_nothing_to_look_at


def written_key(draft: Draft) -> str:
    """Return the key by which the limits count a question, as JSON text such as ``["count", "0", true]``.

    The key has three values: the kind of the question, its answer, and whether the question is about a thing that is
    not in the image (:func:`key_of`). For an open question, kind and answer are "". Beam groups questions by this key.
    The key is a text, because every Beam runner encodes equal texts as equal bytes.
    """
    return json.dumps(key_of(draft))


def read_key(written: str) -> AnswerKey:
    """Parse the JSON text of a key, such as ``["count", "0", true]``, and return the key as a tuple.

    Questions with the same key are counted together for the limits. A key has three values: the kind of the question
    (``bool``, ``mcq`` or ``count``; "" for an open question), its answer ("" for an open question), and whether the
    question is about a thing that is not in the image.
    """
    kind, answer, absent = json.loads(written)
    return kind, answer, absent


def quotas_of(counts: Mapping[AnswerKey, int], settings: AnswerSettings) -> dict[AnswerKey, int]:
    """Return the number of questions to keep for each key that has too many questions.

    A key is a kind of question (such as a count), an answer, and whether the question is about an absent thing.
    ``counts`` maps each key (:func:`key_of`) to its number of questions. Keys within the limits are not in the result.

    ``settings`` holds two limits. ``max_absent`` is the maximum share of questions about absent things among all kept
    questions. ``max_same_answer`` is the maximum share of questions with the same answer among the kept questions of
    one closed kind. If questions are removed for one limit, fewer questions are kept, so the other limit allows fewer
    questions, too. Therefore the two limits are applied alternately until both are met. To meet ``max_same_answer``,
    questions about absent things are removed first.
    """
    left = dict(counts)
    while True:
        before = dict(left)
        _lower_absent(left, settings.max_absent)
        _lower_same(left, settings.max_same_answer)
        if left == before:
            return {key: number for key, number in left.items() if number < counts[key]}


def _lower_absent(left: dict[AnswerKey, int], share: float) -> None:
    absent = {key: number for key, number in left.items() if key[2]}
    seen = sum(left.values()) - sum(absent.values())
    most = sum(absent.values()) if share == 1 else math.floor(share / (1 - share) * seen + 1e-9)
    _lower(left, absent, max(MIN_KEPT, most))


def _lower_same(left: dict[AnswerKey, int], share: float) -> None:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for (kind, answer, _), number in left.items():
        if kind:
            kinds[kind][answer] += number
    for kind, answers in kinds.items():
        most = max(MIN_KEPT, math.floor(share * answers.total() + 1e-9))
        for answer, number in answers.items():
            excess = max(0, number - most)
            for key in ((kind, answer, True), (kind, answer, False)):  # questions about absent things go first
                gone = min(left.get(key, 0), excess)
                if gone:
                    left[key] -= gone
                    excess -= gone


def _lower(left: dict[AnswerKey, int], keys: Mapping[AnswerKey, int], most: int) -> None:
    """Reduce in ``left`` the counts of the given ``keys``, all by about the same factor, so that the sum of these
    counts is at most ``most``.

    ``left`` maps each key to its number of questions. ``keys`` is a copy of those entries of ``left`` that are to be
    reduced. Nothing changes if the sum of the counts in ``keys`` is not above ``most``.
    """
    total = sum(keys.values())
    if total <= most:
        return
    kept = {key: number * most // total for key, number in keys.items()}
    rest = sorted(keys, key=lambda key: (-(keys[key] * most % total), key))
    for key in rest[: most - sum(kept.values())]:
        kept[key] += 1
    left.update(kept)


class _CapAnswers(beam.DoFn):
    def __init__(self, settings: AnswerSettings) -> None:
        self._settings = settings

    def process(self, draft: Draft, quotas: dict[str, int], last: dict[str, str]) -> Iterator[object]:
        """Emit the draft (a question with its data) if it is within the limit for its key; otherwise emit a rejection.

        The key of a draft (:func:`written_key`) holds the kind of question, the answer, and whether the question is
        about an absent thing. ``quotas`` maps each key with too many drafts to the number of drafts to keep. ``last``
        maps each of these keys to the highest id hash to keep. Drafts with other keys are all kept.
        """
        count_in(STAGE.name)
        key = written_key(draft)
        if key not in quotas or order_key(draft.id) <= last.get(key, ""):
            yield kept_output(STAGE, draft)
            return
        kind, answer, absent = read_key(key)
        what = f"{kind} questions with the answer {answer!r}" if kind else "questions"
        if absent:
            what += " that have nothing to look at"
        detail = f"one of more than {quotas[key]} {what} (rl.{'max_absent' if absent else 'max_same_answer'})"
        yield rejected_output(STAGE.rejected(draft, Reject(OVER_QUOTA, detail), draft.calls))


def _quotas(counts: Iterable[tuple[str, int]], settings: AnswerSettings) -> dict[str, int]:
    found = quotas_of({read_key(key): number for key, number in counts}, settings)
    return {json.dumps(key): number for key, number in found.items()}


def _last_kept(group: tuple[str, Iterable[str]], quotas: dict[str, int]) -> tuple[str, str]:
    key, hashes = group
    kept = sorted(hashes)[: quotas[key]]
    return key, kept[-1] if kept else ""


STAGE = Stage(
    "cap_answers",
    "of RL questions, so many may have the same answer or nothing to look at",
    reasons={OVER_QUOTA: "left over by a quota or ratio"},
    settings=AnswerSettings,
    joins=True,
)


@dataclass
class CapAnswers(DraftStage):
    """Stage (pipeline step) that limits how many RL questions have the same answer, and how many are about things not
    in the image.

    A policy model then gains little reward by answering without using the image. The settings hold two maximum shares:
    that of the questions with one and the same answer, and that of the questions about absent things.
    """

    settings: AnswerSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Count the drafts (questions with their data) by key, find how many to keep of each key, and reject the
        excess.

        The key of a draft (:func:`written_key`) holds the kind of question, the answer, and whether the question is
        about an absent thing.

        Returns two outputs: ``kept`` has the kept drafts, and ``rejected`` has a rejection for each other draft.
        """
        settings = self.settings
        keyed: Any = drafts | "KeyByAnswer" >> beam.Map(
            lambda draft: (written_key(draft), order_key(draft.id))
        ).with_output_types(tuple[str, str])
        quotas = AsSingleton(
            keyed
            | "Count" >> beam.combiners.Count.PerKey()
            | "Counts" >> beam.combiners.ToList().without_defaults()
            | "Quotas" >> beam.Map(_quotas, settings).with_output_types(dict[str, int]),
            {},
        )
        last: Any = (
            keyed
            | "OverQuota" >> beam.Filter(lambda pair, quotas: pair[0] in quotas, quotas)
            | "ByAnswer" >> beam.GroupByKey()
            | "LastKept" >> beam.Map(_last_kept, quotas).with_output_types(tuple[str, str])
        )
        return apply(drafts, "Cap", _CapAnswers(settings), quotas, AsDict(last))
