"""Calls a judge, which is a model that grades texts, and turns its reply into a verdict (the result of a check).

The texts to judge are quoted in the prompt, and after a bad reply the judge is called again. An example:

    task = JudgeTask("judge_answer.v3", {"predicted": answer}, true_or_false("same"), fields={"gold": gold, …})
    verdict = await judge("outcome", task, caller)

Here ``judge_answer.v3`` is the name of a prompt, and ``predicted`` and ``gold`` are two of its variables. The text
``answer`` is quoted, and ``gold`` is not. The reply is a JSON object whose field ``same`` is true or false. The verdict
has the name ``outcome``.

If the judge fails, the verdict has failed, and its value is None. So a response never gets a low value because the
judge failed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from groundtrace.grading.messages import Part
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import ask_for
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.quoting import MAX_CHARS, quote
from groundtrace.schemas.records import Verdict

ROLE = "judge"
MAX_REASON_CHARS = 200
BRIEFLY = Sampling(max_tokens=2048)
"""The default sampling parameters of a judge. A judgement has only one or two lines.

A model that thinks before its judgement may need more tokens than this limit. If its reply is cut at the limit, a retry
in :mod:`groundtrace.inference.role_calls` raises the limit.
"""
VALUES = {"yes": 1.0, "no": 0.0, "cannot_judge": None}

T = TypeVar("T")
Reading = tuple[float | None, str]
"""The content of a judge's reply as a pair (value, reason). The value is in [0, 1]; None if the judge cannot decide."""


@dataclass(frozen=True)
class JudgeTask(Generic[T]):
    """Holds one question to a judge: its prompt, its texts, and the function that parses the reply.

    Attributes:
        prompt: the name of the prompt. Its variables are the keys of ``texts``, the keys of ``fields``, and ``mark``,
            the delimiter that encloses the quoted texts.
        texts: the texts to judge, by the name of the prompt's variable; :func:`groundtrace.schemas.quoting.quote`
            quotes all of them, in this order.
        read: a function that parses the reply. It raises BadReply if the reply has the wrong form.
        fields: the prompt's other variables, which are inserted without quoting.
        media: the images for the prompt's media slots, by the name of the slot. A media slot is a place in the prompt
            at which images are inserted. There may be texts between the images.
        max_chars: the maximum number of characters of each text that the judge sees.
        sampling: the sampling parameters, such as the temperature.
    """

    prompt: str
    texts: Mapping[str, str]
    read: Callable[[CallResult], T]
    fields: Mapping[str, str] = field(default_factory=dict)
    media: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    max_chars: int = MAX_CHARS
    sampling: Sampling = BRIEFLY


async def ask_judge(task: JudgeTask[T], caller: Caller, role: str = ROLE) -> T:
    """Send a task for a judge to the model of ``role``, and return the parsed reply.

    ``task`` holds the prompt, the texts to judge, and the function that parses the reply. ``caller`` is the object with
    which the model is called, and ``role`` is the model role that judges.

    Raises CallError if the call fails, BadReply if the reply cannot be parsed, and BudgetUsedUp if the run's budget for
    model calls is used up.
    """
    quoted = quote(*task.texts.values(), limit=task.max_chars)
    texts = dict(zip(task.texts, quoted.texts, strict=True))
    prompt = load_prompt(task.prompt).render(task.media, **task.fields, **texts, mark=quoted.mark)
    found, _ = await ask_for(caller, role, prompt, task.sampling, task.read)
    return found


async def judge(name: str, task: JudgeTask[Reading], caller: Caller, role: str = ROLE, prefix: str = "") -> Verdict:
    """Ask the judge, and return its decision as a verdict (the result of a check) with the name ``name``.

    The verdict has failed (value None) if the call failed, if the reply could not be parsed, or if the judge cannot
    decide. Raises BudgetUsedUp if the run's budget for model calls is used up.

    ``task`` holds the question to the judge, ``caller`` is the object with which it is called, ``role`` is the model
    role that judges, and ``prefix`` is put before the judge's reason in the verdict.
    """
    try:
        value, reason = await ask_judge(task, caller, role)
    except (CallError, BadReply) as error:
        return Verdict(name, None, f"{role}: {error}", failed=True)
    return Verdict(name, value, f"{prefix}{reason}", failed=value is None)


def true_or_false(field: str) -> Callable[[CallResult], Reading]:
    """Return a function that reads a judge's decision from its JSON reply: 1 for true, 0 for false, with the reason.

    ``field`` is the name of the field of the reply that holds true or false. For any other value, the returned function
    raises BadReply.
    """

    def read(reply: CallResult) -> Reading:
        fields = json_object(reply.text)
        value = fields.get(field)
        if not isinstance(value, bool):
            raise BadReply(f"the reply's field {field!r} must be true or false, got {value!r:.80}")
        return float(value), reason_of(fields)

    return read


def from_0_to_1(field: str, where: str = "") -> Callable[[CallResult], Reading]:
    """Return a function that reads a judge's decision from its JSON reply: a number from 0 to 1, with the reason.

    ``field`` is the name of the field of the reply that holds the number. For any other value, the returned function
    raises BadReply. ``where`` is the beginning of the error message, such as "logic: ".
    """

    def read(reply: CallResult) -> Reading:
        fields = json_object(reply.text)
        value = fields.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise BadReply(f"{where}the reply's field {field!r} must be a number from 0 to 1, got {value!r:.80}")
        return float(value), reason_of(fields)

    return read


def yes_or_no(field: str) -> Callable[[CallResult], Reading]:
    """Return a function that reads a judge's decision from its JSON reply: 1 for yes, 0 for no, with the reason.

    ``field`` is the name of the field of the reply that holds yes, no or cannot_judge. The value is None for
    cannot_judge. For any other value, the returned function raises BadReply.
    """

    def read(reply: CallResult) -> Reading:
        fields = json_object(reply.text)
        value = str(fields.get(field))
        if value not in VALUES:
            raise BadReply(f"the reply's field {field!r} must be yes, no or cannot_judge, got {value!r:.80}")
        return VALUES[value], reason_of(fields)

    return read


def reason_of(fields: Mapping[str, object]) -> str:
    """Return the judge's reason from its parsed reply, or "" if the reply has none.

    The reason is cut to :data:`MAX_REASON_CHARS` characters.
    """
    return str(fields.get("reason", ""))[:MAX_REASON_CHARS]
