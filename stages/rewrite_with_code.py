"""Replaces the calculations of a solution in text by code and its results (CodeDance §7.2, Table 9).

The inputs are drafts (questions with their data) that have a right solution in text. The teacher model rewrites the
solution as a trajectory: texts that alternate with scripts and their outputs
(:mod:`groundtrace.grading.responses.turns`). The outputs of this stage are drafts with the trajectory as their only
trace (response to learn from).

The teacher also writes the output that it expects of each script. Each script is executed with the state of the scripts
before it. The script must succeed and print exactly the expected words; only blanks and the form of numbers (``2`` and
``2.0``) may differ. Otherwise the rewritten solution is unusable. The trajectory holds the real outputs. A draft is
rejected if no rewritten solution is usable.

The teacher must keep all sentences except calculations, in the same order. It must also keep the sentences in which the
solution tries a wrong approach. The paper describes no check of this. Here two shares of words are checked. They count
words that both solutions have in the same order:

- at least ``min_kept`` (e.g. 0.7, which means 70 %) of the new solution's words must be in the old solution;
- at least :data:`MIN_LEFT` of the old solution's words, without numbers, must be in the new solution.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
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
from groundtrace.schemas.text import words_in
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage
from groundtrace.stages.write_trajectories import LOST, MALFORMED, filed
from groundtrace.vision.media import MediaRoots, MediaStore

PROMPT = "rewrite.v1"
NO_CODE, OTHER_RESULT, OTHER_REASONING = "no_code", "other_result", "other_reasoning"
MIN_LEFT = 0.3
"""The least share of the old solution's words, without its numbers, that the new solution must still have."""
_TAG = re.compile(r"</?\w+\s*>")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")


@settings
class RewriteSettings:
    """Holds the settings with which the teacher model replaces the calculations of solutions by code. The paper
    CodeDance gives none of these values.
    """

    n: Annotated[PositiveInt, "the number of rewritings of each solution; the first usable one is kept"] = 1
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a rewriting"] = 8192
    min_kept: Annotated[Share, "the least share of the words of the new text that the old text has too"] = 0.7

    @property
    def sampling(self) -> Sampling:
        """Return the settings for sampling rewritten solutions from the teacher model: the number of replies, the
        temperature and the maximum length of a reply.
        """
        return Sampling(self.n, self.temperature, max_tokens=self.max_tokens)


def is_same_output(stated: str, printed: str) -> bool:
    """Return whether the output that the teacher model expects of a script, ``stated``, equals the real output,
    ``printed``.

    Both must have the same words in the same order. Numbers are compared by value: ``2`` and ``2.0`` are the same word.
    """
    words, others = stated.split(), printed.split()
    return len(words) == len(others) and all(map(_is_same_word, words, others))


def _is_same_word(word: str, other: str) -> bool:
    """Return whether two words are equal, or are one number in two forms, such as ``2`` and ``2.0``.

    Numbers are not compared as floats, because different large numbers can be equal as floats.
    """
    if word == other:
        return True
    return all(map(_NUMBER.fullmatch, (word, other))) and Decimal(word) == Decimal(other)


def share_kept(text: str, turns: Sequence[Turn]) -> float:
    """Return the share of the new solution's words that also occur in the old solution in the same order, from 0 to 1.

    ``text`` is the old solution. ``turns`` are the turns of the new solution. A turn is a text, perhaps with a script
    (code) after it. Returns 1 if the turns have no words.
    """
    old, new = _words(text), _words(_text_of(turns))
    return _common(old, new) / len(new) if new else 1.0


def share_left(text: str, turns: Sequence[Turn]) -> float:
    """Return the share of the old solution's words that also occur in the new solution in the same order, from 0 to 1.

    ``text`` is the old solution. ``turns`` are the turns of the new solution. A turn is a text, perhaps with a script
    (code) after it. Numbers are not counted, because code replaces calculations, which consist of numbers. Returns 1 if
    the old solution has only numbers or no words.
    """
    old, new = ([word for word in _words(each) if not word.isdigit()] for each in (text, _text_of(turns)))
    return _common(old, new) / len(old) if old else 1.0


def _text_of(turns: Sequence[Turn]) -> str:
    return " ".join(turn.text for turn in turns)


def _words(text: str) -> list[str]:
    return words_in(_TAG.sub(" ", text).lower())


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the length of the longest common subsequence (LCS) of two lists of words.

    The loop reads ``new`` word by word. Let L(n) be the length of the LCS of two lists: the first n words of ``old``,
    and the words of ``new`` that are already read. L(n) equals L(n - 1) or L(n - 1) + 1. The integer ``row`` has one
    bit for each word of ``old``. Its n-th bit is 0 if L(n) is larger than L(n - 1), else 1. After the loop, the number
    of zeros is the result. Each word of ``new`` needs one addition and a few simpler operations on long integers (Hyyrö
    2004). The module difflib is not used, because its time is cubic for texts of few different words.
    """
    places = dict[str, int]()
    for place, word in enumerate(old):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(old)) - 1
    row = every
    for word in new:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & every
    return len(old) - row.bit_count()


def read_rewriting(completion: Completion, text: str, settings: RewriteSettings) -> tuple[Turn, ...]:
    """Return the turns of a rewritten solution. A turn is a text, which may be followed by a script and the output that
    the teacher model expects of it.

    ``completion`` is the teacher's reply, and ``text`` is the old solution. Raises :class:`Reject` if the reply is
    truncated, has the wrong form, has no code, or differs too much from the old solution.
    """
    if completion.is_truncated:
        raise Reject(TRUNCATED, f"the rewriting: {CUT_OFF}")
    turns, fault = read_rewritten(completion.text)
    if fault:
        raise Reject(MALFORMED, fault)
    if len(turns) == 1:
        raise Reject(NO_CODE, "no calculation was replaced by code")
    if (share := share_kept(text, turns)) < settings.min_kept:
        raise Reject(
            OTHER_REASONING, f"only {share:.0%} of the rewritten words are words of the old solution in the same order"
        )
    if (share := share_left(text, turns)) < MIN_LEFT:
        raise Reject(OTHER_REASONING, f"only {share:.0%} of the words of the old solution are left")
    return turns


async def executed(
    turns: Sequence[Turn], question: Question, sandbox: SandboxSettings, store: MediaStore
) -> tuple[tuple[Turn, ...], tuple[Overlay, ...]]:
    """Execute the scripts of a rewritten solution. Returns the solution with the real outputs of the scripts, and the
    images that the scripts showed.

    ``turns`` is the solution. A turn is a text. In all turns but the last, the text is followed by a script, and by the
    output that the teacher model expects of this script. Only the standard output of a script is compared with the
    expected output, because the teacher cannot foresee the warnings of libraries. ``sandbox`` holds the settings of the
    sandbox, and ``store`` opens the question's images and stores the new ones.

    Raises :class:`Reject` if a script fails, or if its output differs from the expected output. Raises SandboxLost if
    the sandbox loses the state of the scripts.
    """
    images = [await asyncio.to_thread(store.pixels, medium.uri) for medium in question.media]
    observations = await observed([turn.code for turn in turns[:-1]], images, shared_sandbox(sandbox))
    found, shown_images = list[Turn](), list[Overlay]()
    for number, (turn, seen) in enumerate(zip(turns[:-1], observations, strict=True), 1):
        output = plain_output(seen.text)
        if seen.status != "ok" or not is_same_output(turn.output, plain_output(seen.stdout)):
            raise Reject(
                OTHER_RESULT, f"script {number}: {turn.output!r:.40} is stated, but the script gives {output!r:.80}"
            )
        found.append(replace(turn, status=seen.status, output=output, images=len(seen.images)))
        shown_images += await asyncio.to_thread(filed, seen, store)
    return (*found, turns[-1]), tuple(shown_images)


async def rewrite(
    draft: Draft, session: Session, settings: RewriteSettings, sandbox: SandboxSettings, roots: MediaRoots
) -> Draft:
    """Let the teacher model replace the calculations of a draft's solution by code, and return the draft (a question
    with its data) with the new solution.

    ``session`` makes the call. ``sandbox`` holds the settings of the sandbox that executes the code, and ``roots`` the
    folders of the images. Raises :class:`Reject` if a medium is a clip. Also raises :class:`Reject` if all of the
    teacher's rewritten solutions are unusable; the reason and the detail are then those of the first solution.
    """
    question, solution = draft.question, draft.traces[0].text
    if any(medium.frames for medium in question.media):
        raise Reject(MALFORMED, "the medium is a clip, but code opens images only")
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
        OTHER_REASONING: "the rewriting shares too few words with the solution, in their order (rewrite.min_kept)",
        LOST: "the sandbox lost the state of the trajectory",
    },
    asks=(Asks("teacher", (PROMPT,)),),
    settings=RewriteSettings,
    failures=(LOST,),
    executes=True,
)


@dataclass
class RewriteWithCode(CallingStage):
    """Stage (pipeline step) that lets the teacher model replace the calculations of every solution by code, which is
    executed.

    ``sandbox`` holds the settings of the sandbox, ``models`` the settings of the run's models, and ``roots`` the data
    folder and the run folder.
    """

    settings: RewriteSettings
    sandbox: SandboxSettings
    models: ModelsSettings
    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        replace the calculations of the solution by code, and executes the code (:func:`rewrite`).
        """
        return partial(rewrite, settings=self.settings, sandbox=self.sandbox, roots=self.roots)
