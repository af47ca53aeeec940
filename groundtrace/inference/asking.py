"""Asking a role for a reply of a certain form: what a part of the code asks of whom, and asking again.

A model that is asked again sees what it said and what is wrong with it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from groundtrace.inference.caller import Answered, Caller
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Sampling
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.quoting import quote

T = TypeVar("T")
PROMPT = "repair.v2"
CUT_OFF = "the reply was cut off at a limit of tokens"
MAX_SHOWN_CHARS = 4000
MAX_TOKENS = 16_384
"""How far the budget of a reply grows that was cut short and cannot be read. Models that think before they answer can
use up the budget of a judgement without a word of it; the good replies of a smaller budget are kept (see
:func:`groundtrace.inference.request.cache_key`)."""


class TruncatedReply(BadReply):
    """A reply that was cut off, and so has not the form that was asked for or may lack a part of it."""


@dataclass(frozen=True)
class Asks:
    """What a stage or a scorer asks of one role: the prompts that it may send there.

    ``required`` False: it works without an endpoint for the role. ``all_media`` False: a request shows one medium, else
    all media of the question.
    """

    role: str
    prompts: tuple[str, ...]
    required: bool = True
    all_media: bool = True
    clips: bool = False
    when: Callable[[Any], bool] | None = None

    def to(self, models: ModelsSettings) -> "Asks":
        """The same of these models: where the role's family has prompts of its own to point or to box, it names them.

        A description names those of our own form (:data:`groundtrace.inference.families.plain.PLAIN`).
        """
        if not models.has_role(self.role):
            return self
        family = models.endpoint(self.role).model_family
        own = {PLAIN.point_prompt: family.asked_to_point, PLAIN.box_prompt: family.box_prompt}
        return replace(self, prompts=tuple(own.get(name) or name for name in self.prompts))


async def ask_for(
    caller: Caller, role: str, prompt: RenderedPrompt, sampling: Sampling, read: Callable[[Answered], T], form: str = ""
) -> tuple[T, Answered]:
    """Returns what ``read`` makes of the reply, and the call that gave it.

    A reply that ``read`` finds to be of the wrong form (:class:`BadReply`) is asked for again: where it was cut short
    with twice the budget, up to the endpoint's ``max_tokens_limit`` or else :data:`MAX_TOKENS`, and otherwise with the
    problem said, and the ``form`` that it must have where one is given, as often as the endpoint's ``repair_attempts``
    allows. Where the reply ran on to the largest of these budgets, the repair begins with the first again: a server
    may have no room for the largest in its context. Raises the last BadReply, with its key, as
    :class:`TruncatedReply` where that reply was cut short, and CallError.
    """
    attempts, asked, first = caller.repair_attempts(role), prompt, sampling
    limit = caller.max_tokens_limit(role) or MAX_TOKENS
    while True:
        answered = await caller.generate(role, asked, sampling, repair=asked is not prompt)
        try:
            return read(answered), answered
        except BadReply as error:
            error.key = error.key or answered.call.keys[0]
            if sampling.max_tokens < limit and _is_cut_short(answered):
                sampling = replace(sampling, max_tokens=min(limit, 2 * sampling.max_tokens))
                continue
            if not attempts:
                if not _is_cut_short(answered):
                    raise
                problem = TruncatedReply(f"{CUT_OFF}: {error}")
                problem.key = error.key
                raise problem from error
            attempts -= 1
            asked = repair_prompt(prompt, answered.text, str(error), form)
            if _is_cut_short(answered):
                sampling = first


def _is_cut_short(answered: Answered) -> bool:
    return any(completion.is_truncated for completion in answered.completions)


def whole(read: Callable[[Answered], T]) -> Callable[[Answered], T]:
    """``read`` of a reply that is whole: of a list that was cut off, what is missing would count as absent, and a
    sentence that was cut off can be read all the same.
    """

    def read_whole(reply: Answered) -> T:
        if _is_cut_short(reply):
            raise BadReply("its end is missing")
        return read(reply)

    return read_whole


def repair_prompt(prompt: RenderedPrompt, reply: str, problem: str, form: str = "") -> RenderedPrompt:
    """Returns the prompt with its bad reply, the problem and the ``form`` to have, if one is given, appended.

    Its name and digest are those of both prompts.
    """
    quoted = quote(reply, problem, limit=MAX_SHOWN_CHARS)
    shown, said = quoted.texts
    asked = load_prompt(PROMPT).render(reply=shown, problem=said, form=form, mark=quoted.mark)
    return replace(
        prompt,
        name=f"{prompt.name}+{PROMPT}",
        sha256=hashlib.sha256(f"{prompt.sha256}{asked.sha256}".encode()).hexdigest(),
        user=prompt.user + asked.user,
    )
