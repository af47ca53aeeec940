"""Asking a role for a reply of a certain form: what a part of the code asks of whom, and asking again.

A model that is asked again sees what it said and what is wrong with it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from inference.families.plain import PLAIN
from inference.grounding import BadReply
from inference.models import Answered, Caller
from inference.request import Sampling
from inference.settings import ModelsSettings
from prompts.loader import RenderedPrompt, load_prompt

T = TypeVar("T")
PROMPT, FORM_PROMPT = "repair.v1", "repair.v2"
MAX_SHOWN_CHARS = 4000


class CutShort(BadReply):
    """A reply that ended at the token limit, read as whatever it would be if it were whole."""


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

    def to(self, models: ModelsSettings) -> "Asks":
        """The same of these models: where the role's family has prompts of its own to point or to box, it names them.

        A description names those of our own form (:data:`inference.families.plain.PLAIN`).
        """
        if not models.has_role(self.role):
            return self
        family = models.endpoint(self.role).model_family
        own = {PLAIN.point_prompt: family.asked_to_point, PLAIN.box_prompt: family.box_prompt}
        return replace(self, prompts=tuple(own.get(name) or name for name in self.prompts))


async def ask_for(
    caller: Caller, role: str, prompt: RenderedPrompt, sampling: Sampling, read: Callable[[Answered], T], form: str = ""
) -> tuple[T, Answered]:
    """What ``read`` makes of the reply, and the call that gave it.

    A reply that ``read`` finds to be of the wrong form (:class:`BadReply`) is asked for again, with the problem said,
    as often as the endpoint's ``repair_attempts`` allows, and with the ``form`` that it must have, where one is given.
    One that was cut (:class:`CutShort`) is asked for again as it was, with twice the budget. Raises the last BadReply,
    with its key, and CallError.
    """
    attempts = caller.repair_attempts(role)
    answered, asked = await caller.generate(role, prompt, sampling), prompt
    while True:
        try:
            return read(answered), answered
        except BadReply as error:
            error.key = error.key or answered.call.keys[0]
            if not attempts:
                raise
            attempts -= 1
            if isinstance(error, CutShort):
                sampling = replace(sampling, max_tokens=2 * sampling.max_tokens)
            else:
                asked = repair_prompt(prompt, answered.text, str(error), form)
        answered = await caller.generate(role, asked, sampling, repair=True)


def repair_prompt(prompt: RenderedPrompt, reply: str, problem: str, form: str = "") -> RenderedPrompt:
    """The prompt with its bad reply, the problem and the form, if any, appended.

    Its name and digest are those of both prompts.
    """
    name, said = PROMPT, {"reply": reply[:MAX_SHOWN_CHARS], "problem": problem}
    if form:
        name, said = FORM_PROMPT, said | {"form": form}
    asked = load_prompt(name).render({}, **said)
    return replace(
        prompt,
        name=f"{prompt.name}+{name}",
        sha256=hashlib.sha256(f"{prompt.sha256}{asked.sha256}".encode()).hexdigest(),
        user=prompt.user + asked.user,
    )
