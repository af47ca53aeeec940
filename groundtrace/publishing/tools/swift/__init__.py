"""The multi-turn scheduler of ms-swift's GRPO, which executes the code of each turn in our sandbox.

    swift rlhf --rlhf_type grpo … --external_plugins …/groundtrace/publishing/tools/swift/__init__.py \\
        --multi_turn_scheduler groundtrace --max_turns 6 --agent_template hermes --remove_unused_columns false

It takes the rows of ``beam export --format swift --turns tools``, of which it uses ``groundtrace``, the row's
reference, and ``sandbox``, the limits of the run; code gets the row's own images from the run. swift keeps a turn's
tokens as they were sampled, and masks results. ``rollout_infos`` of a response holds the images that it was shown, how
its calls ended (``groundtrace_calls``) and why a sandbox failed (``groundtrace_lost``).

The file has its own folder because swift puts that folder first in ``sys.path``: otherwise ``trl.py`` beside it would
be imported instead of TRL.
"""

import base64
import importlib
from typing import Any, ClassVar

from groundtrace.grading.responses.turns import read_turn
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.tools.calls import MAX_IMAGES, Calls, Result, images_of, limits_of, png_files

ROLLOUT = "swift.rollout"
"""The package of the trainer, in whose process alone this module is imported; no extra of ours brings it."""
_multi_turn: Any = importlib.import_module(f"{ROLLOUT}.multi_turn")
CALLS, LOST = f"{COLUMN}_calls", f"{COLUMN}_lost"
_STATE, _RESULT = "_groundtrace_state", "_groundtrace_result"


class CodeScheduler(_multi_turn.MultiTurnScheduler):
    """Executes the call of each turn; a response ends with a turn that has none, or with ``max_turns`` turns.

    ``sessions`` is the number of trajectories at once in each process, ``max_images`` the images that a response may be
    shown; a subclass can set both.
    """

    sessions: ClassVar[int | None] = None
    max_images: ClassVar[int] = MAX_IMAGES

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Execute the call of the turn; return whether the response has ended, and how its calls ended so far."""
        written = read_turn(str(response_choice.message.content or ""))
        is_last = self.check_finished(infer_request, response_choice, current_turn)
        calls = self._calls_of(infer_request)
        if is_last or written.fault or written.after or not written.code:
            return {"done": True, "rollout_infos": _infos(calls)}
        setattr(infer_request, _RESULT, await calls.run(written.code))
        return {"done": False, "rollout_infos": _infos(calls)}

    def step(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Append the result of the turn's call, with the images that it showed."""
        result: Result = getattr(infer_request, _RESULT)
        infer_request.messages.append({"role": "tool", "content": result.marked_text})
        infer_request.images += [base64.b64encode(data).decode("ascii") for data in png_files(result.images)]
        return {"infer_request": infer_request, "rollout_infos": {"images": list(infer_request.images)}}

    def _calls_of(self, infer_request: Any) -> Calls:
        """Return the calls of the response, which live as long as its request."""
        if not hasattr(infer_request, _STATE):
            row = infer_request.data_dict
            limits = limits_of(row.get("sandbox") or "", self.sessions)
            setattr(infer_request, _STATE, Calls(images_of(row[COLUMN]), limits, self.max_images))
        return getattr(infer_request, _STATE)


def _infos(calls: Calls) -> dict[str, Any]:
    return {CALLS: list(calls.statuses), LOST: calls.lost}


_multi_turn.multi_turns[COLUMN] = CodeScheduler
