"""Proposes entities (Argos §4.1, App. C.1, Figs. 5 and 6): the visible things that a question is about.

The teacher model names things that occur in the question, the gold answer or the initial rollout. The rollout is a
sampled answer of the policy model: its first right attempt, or its first attempt if no attempt is right. The inputs are
drafts (questions with their data) that have attempts. The outputs are drafts with at most ``max_entities`` entities. A
draft is rejected if the call failed. The draft of a clip also gets events, which are actions and interactions with
their times.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, TypeGuard

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import shown
from groundtrace.grading.responses.times import MAX_TIME_S
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply, check_readable, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.quoting import quote
from groundtrace.schemas.records import Draft, Event
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Stage

PROMPT, CLIP_PROMPT = "propose.v2", "propose_video.v2"
MAX_ENTITY_CHARS = 120
MAX_EVENT_CHARS = 300
MAX_QUOTED_CHARS = 8000
ROUNDING_S = 0.05


@settings
class ProposeSettings:
    """Holds the limits of the entities (visible things) that the teacher model proposes; the paper Argos allows 10 for
    each question.
    """

    max_entities: Annotated[PositiveInt, "the maximum number of entities of a question"] = 10
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a reply"] = 2048


def entities_of_reply(text: str, max_entities: int) -> tuple[str, ...]:
    """Return the first ``max_entities`` entities (phrases for visible things) in the teacher model's reply, each once.

    ``text`` is the reply. Raises BadReply if its form is wrong, or if an entity has a special token or a control
    character.
    """
    names = json_object(text).get("entities")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadReply(f"the reply's field 'entities' must be a list of phrases, got {names!r:.80}")
    for name in names:
        check_readable(name, "entities")
    cleaned = (" ".join(name.split())[:MAX_ENTITY_CHARS] for name in names)
    return tuple(dict.fromkeys(name for name in cleaned if name))[:max_entities]


def events_of_reply(text: str, last_s: float, most: int) -> tuple[Event, ...]:
    """Return the events of a clip that the teacher model's reply lists: at most ``most`` actions, and then at most
    ``most`` interactions.

    ``last_s`` is the time of the clip's last frame. An event that ends later is cut at this time. Raises BadReply for a
    wrong form, for a special token or a control character, for an event that starts outside the clip, and for an event
    that ends before it starts.
    """
    fields, events = json_object(text), list[Event]()
    for kind in ("actions", "interactions"):
        rows = fields.get(kind)
        if not isinstance(rows, list):
            raise BadReply(f"the reply's field {kind!r} must be a list of events, got {rows!r:.80}")
        events += [_event(row, last_s) for row in rows[:most]]
    return tuple(dict.fromkeys(events))


def _event(row: object, last_s: float) -> Event:
    fields = row if isinstance(row, dict) else {}
    description, start_s, end_s = (fields.get(name) for name in ("description", "start_s", "end_s"))
    if not isinstance(description, str) or not description.strip() or not (_is_number(start_s) and _is_number(end_s)):
        raise BadReply(
            f"an event must have a text 'description' and the numbers 'start_s' and 'end_s', but one is {row!r:.80}"
        )
    check_readable(description, "description")
    if not 0 <= start_s <= min(end_s, last_s + ROUNDING_S):
        raise BadReply(
            f"the event from {start_s:g} s to {end_s:g} s is wrong: start_s must be from 0 to {last_s:.2f}, "
            "and end_s must not be below start_s"
        )
    return Event(" ".join(description.split())[:MAX_EVENT_CHARS], min(start_s, last_s), min(end_s, last_s))


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number of seconds.

    The result is False for NaN, infinity, and whole numbers too large for a float.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_TIME_S


async def propose(draft: Draft, session: Session, settings: ProposeSettings) -> Draft:
    """Let the teacher model name the visible things that a question is about, and return the draft (a question with its
    data) with these entities. The list of entities may be empty.

    ``session`` makes the call, and ``settings`` limits the number of entities. The draft of a clip also gets events,
    i.e. actions and interactions with their times.
    """
    rollout = next((attempt for attempt in draft.attempts if attempt.correct), draft.attempts[0])
    question, most = draft.question, settings.max_entities
    last_s = max((medium.frames[-1].t_s for medium in question.media if medium.frames), default=None)
    quoted = quote(question.question, question.answer, rollout.text, limit=MAX_QUOTED_CHARS)
    asked = dict(zip(("question", "answer", "rollout"), quoted.texts, strict=True), mark=quoted.mark)
    if last_s is None:
        prompt = load_prompt(PROMPT).render({"original": shown(question.media)}, max_entities=str(most), **asked)
    else:
        prompt = load_prompt(CLIP_PROMPT).render({"frames": shown(question.media)}, **asked)

    def read(reply: CallResult) -> tuple[tuple[str, ...], tuple[Event, ...]]:
        events = () if last_s is None else events_of_reply(reply.text, last_s, most)
        return entities_of_reply(reply.text, most), events

    (entities, events), _ = await ask_for(session, "teacher", prompt, Sampling(max_tokens=settings.max_tokens), read)
    return replace(draft, entities=entities, events=events)


STAGE = Stage(
    "propose",
    "the teacher names what an answer has to point at",
    asks=(Asks("teacher", (PROMPT,)), Asks("teacher", (CLIP_PROMPT,), clips=True)),
    settings=ProposeSettings,
)


@dataclass
class ProposeEntities(CallingStage):
    """Stage (pipeline step) that lets the teacher model name the visible things (entities) that each question is about.

    ``models`` holds the settings of the run's models.
    """

    settings: ProposeSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model name
        the visible things that the question is about (:func:`propose`).
        """
        return partial(propose, settings=self.settings)
