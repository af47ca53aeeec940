"""Holds the results of a response in several turns, after the code in its turns was executed (CodeDance §3.1).

Such a response is called a trajectory. One execution of a turn's code is called a call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from groundtrace.grading.responses.turns import Turn
from groundtrace.schemas.columns import Column


def _turns(plain: Sequence[Mapping[str, Any]]) -> tuple[Turn, ...]:
    return tuple(Turn(**each) for each in plain)


TURNS = Column[tuple[Turn, ...]](
    "turns",
    pa.list_(
        pa.struct(
            [
                ("text", pa.string()),
                ("code", pa.string()),
                ("status", pa.string()),
                ("output", pa.string()),
                ("images", pa.int32()),
            ]
        )
    ),
    "the turns of the trajectory: text, code and its result, whose images follow the question's in images",
    read=_turns,
)
OPERATIONS = Column[list[str]](
    "operations",
    pa.list_(pa.string()),
    "the kinds of operations in the code of the trajectory, read from its syntax trees",
    is_class=True,
)
MODE = Column[str](
    "mode", pa.string(), "how the question is answered: directly, in text, or with executed code", is_class=True
)
TRAJECTORY = "trajectory"
"""The name of the field :attr:`groundtrace.rewards.case.Case.trajectory`. A recipe (which computes rewards) that scores
tool calls has this name as a key of its ``needs``.
"""
DIRECT, IN_TEXT, WITH_CODE = "direct", "text", "code"


@dataclass(frozen=True)
class Execution:
    """Holds the result of executing the code of one turn.

    Attributes:
        ended_well: whether the code ended without an error and had output (status ``ok``).
        pretence: the reason why the code only pretends to use the image; "" if it does not pretend
            (:func:`groundtrace.rewards.pretence.pretence`).
        looked_at: the indices of the object groups that the code looked at. A group is one or several neighbouring
            objects of the question. The code looked at a group if its output depends on the group, or marks it.
        selectivity: how much more the output shows the question's objects than the rest of the image, from 0 to 1
            (:func:`groundtrace.rewards.selectivity.selectivity`).
        is_overview: whether the output is only an overview: the unchanged image, or a text that does not depend on the
            image's content, such as the image's size.
    """

    ended_well: bool
    pretence: str = ""
    looked_at: frozenset[int] = frozenset()
    selectivity: float = 1.0
    is_overview: bool = False

    @property
    def succeeded(self) -> bool:
        """Return whether the code ran successfully: it ended well, and did not only pretend to use the image."""
        return self.ended_well and not self.pretence


@dataclass(frozen=True)
class Trajectory:
    """Holds the results of a response in several turns.

    Attributes:
        turns: the result of each turn's code; None for a turn without code.
        kind: the kind of question. :class:`groundtrace.rewards.scorers.tool_calls.ToolCallSettings` has weights for
            each kind.
        groups: the number of groups of neighbouring objects of the question, which :attr:`looked_share` needs. It is 0
            in three cases: the objects are unknown, calculation alone can answer the question, or it was not checked
            at which objects the code looked.
        written: the turns as the policy (the model in training) wrote them, and for each turn the code's result as the
            policy received it; () if the response has only one turn.
    """

    turns: tuple[Execution | None, ...]
    kind: str = "general"
    groups: int = 0
    written: tuple[Turn, ...] = ()

    @property
    def calls(self) -> int:
        """Return the number of turns whose code was executed."""
        return sum(turn is not None for turn in self.turns)

    @property
    def succeeded(self) -> int:
        """Return the number of executions that count as successful (:attr:`Execution.succeeded`)."""
        return sum(turn is not None and turn.succeeded for turn in self.turns)

    @property
    def counted_calls(self) -> int:
        """Return the number of executions for the success rate, which is ``succeeded`` divided by this number.

        An overview is an execution that only shows the unchanged image, or prints a text that does not depend on the
        image's content (:attr:`Execution.is_overview`). If the first execution is an overview and a later execution
        succeeds, the first one is not counted, and so does not lower the reward. Each further overview is counted, and
        lowers the reward. Further overviews are counted for this reason: a search for a colour that finds nothing may
        show the unchanged image, and is then an overview as well. If all overviews were free, a policy that does not
        know the question's objects could search for all colours, one after the other, at no cost.
        """
        first = next((turn for turn in self.turns if turn is not None), None)
        return self.calls - (first is not None and first.is_overview and self.succeeded > 0)

    @property
    def looked_share(self) -> float:
        """Return how well the successful calls (executions of code) looked at the object groups, from 0 to 1.

        The result is 1 if ``groups`` is 0. A group is one or several neighbouring objects of the question. A call
        looked at a group if the call's output depends on the group or marks the group, e.g. with a box. The selectivity
        of a call, from 0 to 1, is how much more its output shows the question's objects than the rest of the image. The
        value of a group is the highest selectivity of the calls that looked at the group; 0 if no call looked at it.
        The result is the mean of the values of all groups. So a call that shows the whole image before a crop does not
        lower the result.
        """
        best = dict[int, float]()
        for turn in self.turns:
            if turn is not None and turn.succeeded:
                best.update({group: max(turn.selectivity, best.get(group, 0.0)) for group in turn.looked_at})
        return sum(best.values()) / self.groups if self.groups else 1.0

    @property
    def executed(self) -> tuple[bool, ...]:
        """Return one value for each turn: whether the turn has code that was executed."""
        return tuple(turn is not None for turn in self.turns)

    @property
    def failed(self) -> tuple[bool, ...]:
        """Return one value for each turn: whether the turn has code that failed, which includes code without output."""
        return tuple(turn is not None and not turn.ended_well for turn in self.turns)
