"""Asks models for replies that must have a certain form, and repairs bad replies. In a repair, the model gets its bad
reply and a description of the problem, and answers again.

The module also defines how a stage (a step of a pipeline) declares the prompts that it sends to a role (the job of a
model, such as "judge").
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from groundtrace.inference.caller import Caller, CallResult
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
"""The largest token budget of a repeated request to an endpoint without its own limit (``max_tokens_limit`` is 0).

If a reply is truncated and cannot be parsed, the same request is sent again with twice the token budget. The reason is
that a model that thinks before it answers can use up the whole budget for its thinking, before the first word of its
answer. The token budget is not part of a cache key (:func:`groundtrace.inference.request.cache_key`). So complete
replies that are in the cache from requests with a smaller budget can still be used.
"""


class TruncatedReply(BadReply):
    """Raised if a truncated reply cannot be used. Either it does not have the requested form, or its missing end may
    hold a part of the answer.
    """


@dataclass(frozen=True)
class Asks:
    """Declares the prompts that a stage (a step of a pipeline) or a scorer (code that checks a response) may send to
    one role. A role is the job of a model, such as "judge". ``prompts`` are the names of the prompts.

    ``required`` is True if the stage or scorer cannot run without an endpoint for the role. ``all_media`` is True if a
    request holds all media of the question, and False if it holds only one medium. ``clips`` is True if the prompts are
    sent only for input with clips (frames of a video). ``when`` is a function that gets the stage's settings, and
    returns True if the prompts are sent. If ``when`` is None, the prompts are always sent.
    """

    role: str
    prompts: tuple[str, ...]
    required: bool = True
    all_media: bool = True
    clips: bool = False
    when: Callable[[Any], bool] | None = None

    def to(self, models: ModelsSettings) -> "Asks":
        """Return a copy with the prompts that the role's model really gets. A role is the job of a model, such as
        "pointer". In the copy, this project's own prompts for points and boxes
        (:data:`groundtrace.inference.families.plain.PLAIN`) are replaced by the prompts of the model's family (models
        that write coordinates in the same way). ``models`` are the settings that define the model of each role. If the
        role has no model, this object itself is returned.
        """
        if not models.has_role(self.role):
            return self
        family = models.endpoint(self.role).model_family
        own = {PLAIN.point_prompt: family.asked_to_point, PLAIN.box_prompt: family.box_prompt}
        return replace(self, prompts=tuple(own.get(name) or name for name in self.prompts))


async def ask_for(
    caller: Caller,
    role: str,
    prompt: RenderedPrompt,
    sampling: Sampling,
    read: Callable[[CallResult], T],
    form: str = "",
) -> tuple[T, CallResult]:
    """Send a prompt to a model until the reply has the requested form. Returns two values: the result of ``read`` on
    the good reply, and the call that returned this reply.

    ``role`` is the job of the model, such as "judge". ``caller`` makes the calls, with the sampling parameters
    ``sampling``. ``read`` is a function that parses a reply, and raises :class:`BadReply` if the reply does not have
    the requested form. ``form`` describes this form for the model; it is "" if no description is needed.

    The largest token budget is the endpoint's ``max_tokens_limit``, or :data:`MAX_TOKENS` if that limit is 0. After a
    BadReply, a new request is sent. There are three cases:

    - The reply was complete: the new request has a repair prompt, which states the problem and the ``form`` (if given).
    - The reply was truncated at less than the largest budget: the new request has the same prompt and twice the budget,
      but at most the largest one.
    - The reply was truncated at the largest budget: the new request has a repair prompt and the original budget. With
      the largest budget, the longer repair prompt might not fit into the server's context.

    A repair prompt is sent at most ``repair_attempts`` times (a setting of the endpoint).

    Raises CallError if a call fails, and BudgetUsedUp if the run's budget does not suffice. If the last reply is still
    bad, raises its BadReply with the cache key of the reply, or a :class:`TruncatedReply` if the reply was truncated.
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


def _is_cut_short(answered: CallResult) -> bool:
    return any(completion.is_truncated for completion in answered.completions)


def untruncated(read: Callable[[CallResult], T]) -> Callable[[CallResult], T]:
    """Return a function that parses a reply as ``read`` does, but raises BadReply if the reply is truncated. Without
    this check, a truncated reply would look complete. E.g. if the end of a list of objects in an image is missing,
    these objects would seem to be absent from the image.
    """

    def read_whole(reply: CallResult) -> T:
        if _is_cut_short(reply):
            raise BadReply("the end of the reply is missing")
        return read(reply)

    return read_whole


def repair_prompt(prompt: RenderedPrompt, reply: str, problem: str, form: str = "") -> RenderedPrompt:
    """Return a prompt that asks the model to correct an unusable reply. It consists of ``prompt``, the model's
    ``reply``, the ``problem`` with this reply, and the requested ``form``. If ``form`` is "", the last part is left
    out.

    The appended text is made from the prompt file :data:`PROMPT`. The name of the result consists of the names of
    ``prompt`` and of this file. The SHA-256 of the result is a digest of the SHA-256 values of ``prompt`` and the file.
    """
    quoted = quote(reply, problem, limit=MAX_SHOWN_CHARS)
    shown, shown_problem = quoted.texts
    asked = load_prompt(PROMPT).render(reply=shown, problem=shown_problem, form=form, mark=quoted.mark)
    return replace(
        prompt,
        name=f"{prompt.name}+{PROMPT}",
        sha256=hashlib.sha256(f"{prompt.sha256}{asked.sha256}".encode()).hexdigest(),
        user=prompt.user + asked.user,
    )
