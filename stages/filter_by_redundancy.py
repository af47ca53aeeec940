"""Filters by redundancy (SAIL-RL App. A.1, Quality Filtering): rejects reasoning that only repeats the answer.

The inputs are verified drafts (questions with their data). The overlap is the share of the think section's words that
the final answer contains. Drafts with an overlap of at most ``max_overlap`` pass. A draft with an empty think section
passes. The paper calls the measure "token overlap between the thought process and the final answer", but gives neither
its formula nor its threshold. Here frequent words such as "the" are not counted, and every other word is counted once,
however often it occurs.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from groundtrace.config.settings import Share, settings
from groundtrace.grading.answers.number_words import WORDS
from groundtrace.grading.responses.response import parse_response
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work

REDUNDANT = "redundant"
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
_NUMBERS = {word: str(number) for word, number in WORDS.items()}
_EMPTY_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those it its is are was were be been am do does did has have had of in on at to for "
        "from by with and or so as if then than there here i we you he she they me us my our your his her their will "
        "would can could should must may might thus hence therefore because since answer answers final correct right "
        "result solution option choice conclude conclusion obviously clearly just simply",
    )
)


@settings
class RedundancySettings:
    """Holds the largest share of a thought's words that the final answer may contain. A thought is the reasoning before
    the answer.
    """

    max_overlap: Annotated[Share, "the maximum share of the thought's words that are also in the answer"] = 0.5


def content_words(text: str) -> frozenset[str]:
    """Return the set of the content words of a text, in lower case. Frequent words such as "the" and "answer" are left
    out.

    Words for numbers become digits, e.g. "six" → "6". Each Chinese, Japanese or Korean character is a word.
    """
    words = (match.group().lower() for match in _TOKEN.finditer(visible(text)))
    return frozenset(_NUMBERS.get(word, word) for word in words if word not in _EMPTY_WORDS)


def overlap(thought: str, answer: str) -> float:
    """Return the share of the thought's content words that also occur in the answer, from 0 to 1.

    ``thought`` is the text of the think section, and ``answer`` the final answer. Returns 1 if the thought has no
    content words. Additional words in the answer never lower the share. Additional words in the thought raise it only
    if the answer also has these words.
    """
    words = content_words(thought)
    return len(words & content_words(answer)) / len(words) if words else 1.0


def filter_redundant(draft: Draft, settings: RedundancySettings) -> Draft:
    """Return the draft (a question with its data) unchanged if its reasoning is more than a repetition of the answer.
    The reasoning is the think section of the best trace, i.e. of the chosen response.

    The function computes the share of the reasoning's words that also occur in the answer (:func:`overlap`). Raises
    :class:`Reject` if this share is larger than ``settings.max_overlap``. Raises ValueError if the draft has no best
    trace.
    """
    if draft.best is None:
        raise ValueError(f"{draft.id}: FilterByRedundancy needs a verified trace: put this stage after VerifyTraces")
    trace = draft.traces[draft.best]
    thought = parse_response(trace.text).think
    if not thought:
        return draft
    share = overlap(thought, trace.answer or "")
    if share > settings.max_overlap:
        raise Reject(
            REDUNDANT, f"the answer contains {share:.2f} of the thought's words, more than {settings.max_overlap:g}"
        )
    return draft


STAGE = Stage(
    "redundancy",
    "reasoning that only repeats the answer is dropped",
    reasons={REDUNDANT: "too much of the reasoning is the answer"},
    settings=RedundancySettings,
)


@dataclass
class FilterByRedundancy(DraftStage):
    """Stage (pipeline step) that rejects drafts (questions with their data) whose reasoning only repeats the answer."""

    settings: RedundancySettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if its
        reasoning only repeats the answer (:func:`filter_redundant`).
        """
        return partial(filter_redundant, settings=self.settings)
