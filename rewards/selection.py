"""Which scorers run for a response (Argos §3: the agentic verifier selects scoring functions for each sample).

:data:`RULES` is the table: what a scorer needs of the response, the question and the run's endpoints. It is the
default; ``judge`` may plan instead (:func:`plan_scorers`), but only among the scorers that the table allows. Deviation:
the paper's agent is always a model; a table costs nothing, and says of every scorer why it ran or did not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.repair import ask_for
from inference.request import Sampling
from inference.settings import ModelsSettings
from prompts.loader import load_prompt
from rewards.judge_guard import question_text, quote
from schemas.coordinates import CoordinateFrame
from schemas.messages import shown
from schemas.records import Question

PLAN_PROMPT = "plan_scorers.v1"
PLANNERS = ("rules", "judge")


@dataclass(frozen=True)
class Served:
    """What the run can serve: the roles that have endpoints, and what the scorers must know of these.

    ``detector_frame`` is the frame that the detector speaks (:class:`schemas.coordinates.CoordinateFrame`).
    ``own_pointer`` says that the pointer's endpoint made the points under verification: its word for them is marked in
    the verdict. ``synthetic_sources`` are the values of ``Question.source`` whose pictures are drawn charts, maps and
    the like.
    """

    roles: frozenset[str] = frozenset()
    detector_frame: CoordinateFrame = CoordinateFrame.PX
    own_pointer: bool = True
    synthetic_sources: frozenset[str] = frozenset()

    def locators(self, source: str) -> tuple[str, ...]:
        """The roles that may find a label in a picture of that source, in the order in which they are tried.

        A detector, and where it fails the pointer; on synthetic pictures the pointer alone (Argos §3.1). Empty where
        the first one or the segmenter has no endpoint.
        """
        roles = ("pointer",) if source in self.synthetic_sources else ("detector", "pointer")
        if not {roles[0], "segmenter"} <= self.roles:
            return ()
        return tuple(role for role in roles if role in self.roles)


def served_by(
    models: ModelsSettings, synthetic_sources: Sequence[str] = (), makers: Sequence[str] = ("pointer", "teacher")
) -> Served:
    """What these models serve. ``makers`` are the roles that made the points of the responses to be verified."""
    roles = frozenset(role for role, _ in models.roles)
    frame = models.endpoint("detector").model_family.frame if "detector" in roles else CoordinateFrame.PX
    made_by = {models.endpoint_name(role) for role in makers if role in roles}
    own = "pointer" in roles and models.endpoint_name("pointer") in made_by
    return Served(roles, frame, own, frozenset(synthetic_sources))


@dataclass(frozen=True)
class Contents:
    """What a response and its question give the scorers to work on.

    ``clips`` are the question's videos, ``times`` the moments and spans that the response names (looked for only if
    there are clips). ``pointable``: the pointer found an entity of the question. ``locatable``: the run can find labels
    in its pictures. ``counted`` is the number of points on what the question counts, None where it does not ask for a
    count.
    """

    answer_type: str
    points: int = 0
    boxes: int = 0
    times: int = 0
    think: bool = False
    clips: int = 0
    pointable: bool = False
    locatable: bool = False
    counted: int | None = None


Need = tuple[Callable[[Contents], bool], str]


@dataclass(frozen=True)
class Rule:
    """One row: the scorer runs, because of ``why``, where all ``roles`` have endpoints and all ``needs`` are met.

    A need is a test of the contents and what is said where it fails; the first that fails is said.
    """

    scorer: str
    why: str
    roles: tuple[str, ...]
    needs: tuple[Need, ...]


@dataclass(frozen=True)
class Choice:
    """Whether a scorer runs for a response, and why or why not."""

    scorer: str
    chosen: bool
    reason: str


_LOCATABLE: Need = (lambda c: c.locatable, "no detector and segmenter are configured")
_IMAGES: Need = (lambda c: not c.clips, "the points of a clip are scored with its times")
_NUMBER: Need = (lambda c: c.answer_type == "numeric", "the answer is not a number")
_CLIP: Need = (lambda c: c.clips > 0, "there is no clip")
_ONE_CLIP: Need = (lambda c: c.clips == 1, "a time does not say which of several clips is meant")
_TIMED: Need = (lambda c: c.times > 0, "no moment or span of time is named")
_POINTS: Need = (lambda c: c.points > 0 or c.pointable, "nothing to point at")
_ASKS_COUNT: Need = (lambda c: c.counted is not None, "the question does not ask how many")
_COUNTED: Need = (lambda c: bool(c.counted), "no point is on what is counted")
_THINK: Need = (lambda c: c.think, "no reasoning to judge")

RULES = (
    Rule("outcome", "every response has its answer graded", (), ()),
    Rule("spatial", "the response points, or should", (), (_IMAGES, _LOCATABLE, _POINTS)),
    Rule("counting", "points count what is asked for", (), (_IMAGES, _NUMBER, _ASKS_COUNT, _LOCATABLE, _COUNTED)),
    Rule("temporal", "the response speaks of times in a clip", ("judge",), (_CLIP, _ONE_CLIP, _TIMED)),
    Rule("reasoning", "the response reasons before it answers", ("judge",), (_THINK,)),
)
"""In the order in which verdicts stand. Boxes have no row: judging them takes gold boxes, which curation does not read;
they are scored for training (:mod:`rewards.scorers.boxes`)."""


def select_scorers(contents: Contents, served: Served) -> tuple[Choice, ...]:
    """One choice per row of the table."""
    return tuple(_choice(rule, contents, served) for rule in RULES)


def _choice(rule: Rule, contents: Contents, served: Served) -> Choice:
    absent = [role for role in rule.roles if role not in served.roles]
    if absent:
        return Choice(rule.scorer, False, f"no {' and '.join(absent)} is configured")
    unmet = next((said for holds, said in rule.needs if not holds(contents)), None)
    return Choice(rule.scorer, unmet is None, rule.why if unmet is None else unmet)


async def plan_scorers(
    choices: tuple[Choice, ...], question: Question, response: str, caller: Caller
) -> tuple[Choice, ...]:
    """The choices after the judge has left out what it finds useless here.

    It cannot add a scorer that the table refuses, and the outcome always runs. A failed call or a bad reply leaves the
    table's choices, which then say so.
    """
    offered = tuple(choice for choice in choices if choice.chosen and choice.scorer != "outcome")
    if not offered:
        return choices
    quoted = quote(response)
    prompt = load_prompt(PLAN_PROMPT).render(
        {"original": shown(question.media)},
        question=question_text(question),
        answer_type=question.answer_type,
        response=quoted.texts[0],
        mark=quoted.mark,
        scorers="\n".join(f"{choice.scorer}: {choice.reason}" for choice in offered),
    )
    names = {choice.scorer for choice in offered}
    try:
        wanted, _ = await ask_for(caller, "judge", prompt, Sampling(max_tokens=1024), lambda reply: _plan(reply, names))
    except (CallError, BadReply) as error:
        said = f"; the planner failed: {error}"
        return tuple(_with_reason(choice, choice.reason + said) if choice in offered else choice for choice in choices)
    return tuple(_planned(choice, wanted) if choice in offered else choice for choice in choices)


def _plan(reply: Answered, names: set[str]) -> dict[str, str]:
    """The reason of each scorer that the planner wants."""
    rows = json_object(reply.text).get("scorers")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadReply(f"scorers: expected a list of objects, got {rows!r:.80}")
    wanted = {str(row.get("name")): str(row.get("reason", ""))[:200] for row in rows}
    unknown = sorted(wanted.keys() - names - {"outcome"})
    if unknown:
        raise BadReply(f"{unknown[0]!r:.80} is not one of the scorers offered")
    return wanted


def _planned(choice: Choice, wanted: dict[str, str]) -> Choice:
    if choice.scorer in wanted:
        return _with_reason(choice, f"planned: {wanted[choice.scorer]}")
    return Choice(choice.scorer, False, "left out by the planner")


def _with_reason(choice: Choice, reason: str) -> Choice:
    return Choice(choice.scorer, choice.chosen, reason)
