"""Replaces the calculations of a solution in text by code and its results (CodeDance §7.2, Table 9).

In: drafts with a right solution in text. Out: drafts whose only trace is the solution with scripts and their outputs,
as a trajectory (:mod:`groundtrace.grading.responses.turns`); or a rejection. The teacher also writes what each script
prints. Each script is executed, with the state of those before it, and must print exactly that, up to blanks around it
and the form of numbers (``2`` and ``2.0``). The trajectory holds the real outputs.

The teacher must keep the other sentences, with attempts that failed. Here at least ``min_kept`` of the words of the new
solution must be in the old one; the paper states no such check.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import Share, settings
from groundtrace.grading.messages import shown
from groundtrace.grading.question_text import answer_format, lettered_choices
from groundtrace.grading.responses.traces import read_trace
from groundtrace.grading.responses.turns import Turn, as_tags, plain_output, read_rewritten
from groundtrace.inference.request import Completion, Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.executing import observed
from groundtrace.sandbox import SandboxLost, SandboxSettings
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.schemas.records import Draft, Overlay, Question
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage
from groundtrace.stages.write_trajectories import LOST, MALFORMED, filed
from groundtrace.vision.media import MediaRoots, MediaStore

PROMPT = "rewrite.v1"
NO_CODE, OTHER_RESULT, OTHER_REASONING = "no_code", "other_result", "other_reasoning"
_TAG = re.compile(r"</?\w+\s*>")
_WORD = re.compile(r"\w+")


@settings
class RewriteSettings:
    """How solutions are rewritten. The paper gives none of these values."""

    n: Annotated[PositiveInt, "the number of rewritings of each solution; the first usable one is kept"] = 1
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a rewriting"] = 8192
    min_kept: Annotated[Share, "the least share of the words of the new text that the old text has too"] = 0.7

    @property
    def sampling(self) -> Sampling:
        """The sampling settings of the rewritings."""
        return Sampling(self.n, self.temperature, max_tokens=self.max_tokens)


def is_same_output(stated: str, printed: str) -> bool:
    """Return whether a script printed the stated text: the same words in order; ``2`` and ``2.0`` are the same."""
    words, others = stated.split(), printed.split()
    return len(words) == len(others) and all(map(_is_same_word, words, others))


def _is_same_word(word: str, other: str) -> bool:
    try:
        return word == other or float(word) == float(other)
    except ValueError:
        return False


def share_kept(text: str, turns: Sequence[Turn]) -> float:
    """Return the share of the words in the turns' texts that the old text has too, each as often; 1 without words."""
    old, new = (Counter(_WORD.findall(_TAG.sub(" ", each).lower())) for each in (text, " ".join(t.text for t in turns)))
    return (old & new).total() / new.total() if new else 1.0


def read_rewriting(completion: Completion, text: str, settings: RewriteSettings) -> tuple[Turn, ...]:
    """Return the turns of a rewriting of ``text``, with the outputs that it states. Raises :class:`Reject`."""
    if completion.is_truncated:
        raise Reject(TRUNCATED, f"the rewriting: {CUT_OFF}")
    turns, fault = read_rewritten(completion.text)
    if fault:
        raise Reject(MALFORMED, fault)
    if len(turns) == 1:
        raise Reject(NO_CODE, "no calculation was replaced by code")
    if (share := share_kept(text, turns)) < settings.min_kept:
        raise Reject(OTHER_REASONING, f"{share:.0%} of the words are from the old solution")
    return turns


async def executed(
    turns: Sequence[Turn], question: Question, sandbox: SandboxSettings, store: MediaStore
) -> tuple[tuple[Turn, ...], tuple[Overlay, ...]]:
    """Return the turns with the real outputs of their code, and the images that it showed.

    Raises :class:`Reject` if a script prints anything else than is stated, and SandboxLost.
    """
    images = [await asyncio.to_thread(store.pixels, medium.uri) for medium in question.media]
    observations = await observed([turn.code for turn in turns[:-1]], images, shared_sandbox(sandbox))
    found, shown_images = list[Turn](), list[Overlay]()
    for number, (turn, seen) in enumerate(zip(turns[:-1], observations, strict=True), 1):
        output = plain_output(seen.text)
        if not is_same_output(turn.output, output):
            raise Reject(OTHER_RESULT, f"script {number}: {turn.output!r:.40} is stated, it gives {output!r:.80}")
        found.append(replace(turn, status=seen.status, output=output, images=len(seen.images)))
        shown_images += await asyncio.to_thread(filed, seen, store)
    return (*found, turns[-1]), tuple(shown_images)


async def rewrite(
    draft: Draft, session: Session, settings: RewriteSettings, sandbox: SandboxSettings, roots: MediaRoots
) -> Draft:
    """Return the draft with its solution rewritten. Raises the first rewriting's :class:`Reject` if none is usable."""
    question, solution = draft.question, draft.traces[0].text
    if any(medium.frames for medium in question.media):
        raise Reject(MALFORMED, "a clip has no image that code could open")
    prompt = load_prompt(PROMPT).render(
        {"original": shown(question.media)},
        question=question.question,
        choices=lettered_choices(question),
        answer_format=answer_format(question),
        reasoning=solution,
    )
    answered = await session.generate("teacher", prompt, settings.sampling)
    faults, store = list[Reject](), roots.store()
    for completion in answered.completions:
        try:
            turns = read_rewriting(completion, solution, settings)
            turns, images = await executed(turns, question, sandbox, store)
        except Reject as fault:
            faults.append(fault)
        except SandboxLost as error:
            faults.append(Reject(LOST, str(error)))
        else:
            return replace(draft, traces=(read_trace(0, as_tags(turns), question.media),), overlays=images)
    raise Reject(faults[0].reason, faults[0].detail, answered.call.keys[0])


STAGE = Stage(
    "rewrite",
    "calculations of the solution in text are replaced by code, which is executed",
    reasons={
        MALFORMED: "the rewriting does not have the form asked for",
        NO_CODE: "the rewriting has no code",
        OTHER_RESULT: "a script prints anything else than the rewriting states",
        OTHER_REASONING: "the rewriting shares too few words with the solution (rewrite.min_kept)",
        LOST: "the sandbox lost the state of the trajectory",
    },
    asks=(Asks("teacher", (PROMPT,)),),
    settings=RewriteSettings,
    failures=(LOST,),
    executes=True,
)


@dataclass
class RewriteWithCode(CallingStage):
    """Rewrites the solution of every draft with code; see the module."""

    settings: RewriteSettings
    sandbox: SandboxSettings
    models: ModelsSettings
    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return :func:`rewrite`, with the settings of this stage, as the work on one draft."""
        return partial(rewrite, settings=self.settings, sandbox=self.sandbox, roots=self.roots)
