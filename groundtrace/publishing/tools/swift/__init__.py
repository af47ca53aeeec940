"""Defines a multi-turn scheduler for ms-swift's GRPO, which executes code in Groundtrace's sandbox.

    swift rlhf --rlhf_type grpo … --external_plugins …/groundtrace/publishing/tools/swift/__init__.py \\
        --multi_turn_scheduler groundtrace --max_turns 6 --agent_template hermes --remove_unused_columns false

The scheduler reads rows of ``beam export --format swift --turns tools``. It uses two of their columns: ``groundtrace``
(the row's reference, JSON text that names the row in its run) and ``sandbox`` (the limits under which the run executed
code). The code gets the original images of the row from the run. swift trains on the tokens of a turn as they were
sampled, and leaves the tokens of the code's results out of the loss. ``rollout_infos`` of a response holds the images
of the row and of the code's results, how each call ended (``groundtrace_calls``), and the reason why a sandbox failed
(``groundtrace_lost``).

This file is in a folder of its own, because swift puts the folder of the file first in ``sys.path``. The parent folder
``tools`` contains our ``trl.py``. If the parent folder were in ``sys.path``, ``import trl`` would import our ``trl.py``
instead of the library TRL.
"""

import base64
import importlib
from typing import Any, ClassVar

from groundtrace.grading.responses.turns import read_turn
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.tools.calls import MAX_IMAGES, Calls, Result, images_of, limits_of, png_files

ROLLOUT = "swift.rollout"
"""The name of the package of ms-swift that holds the multi-turn schedulers.

Groundtrace's extras (optional dependencies) do not install ms-swift, because only ms-swift itself imports this file.
"""
_multi_turn: Any = importlib.import_module(f"{ROLLOUT}.multi_turn")
CALLS, LOST = f"{COLUMN}_calls", f"{COLUMN}_lost"
_STATE, _RESULT = "_groundtrace_state", "_groundtrace_result"


class CodeScheduler(_multi_turn.MultiTurnScheduler):
    """Executes the code of each turn of a response in Groundtrace's sandbox, as a multi-turn scheduler of ms-swift.

    A response ends after ``max_turns`` turns (an option of ms-swift). It ends earlier if a turn has no code, has text
    after its code, or has a wrong form, such as a tool call that cannot be parsed. A subclass can change the two
    attributes.

    Attributes:
        sessions: the maximum number of responses that execute code at the same time in each process; None means the
            sandbox's default.
        max_images: the maximum number of images that all calls of a response together may display.
    """

    sessions: ClassVar[int | None] = None
    max_images: ClassVar[int] = MAX_IMAGES

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Execute the code of a new turn, if the turn has code and is not the last turn of the response.

        ``infer_request`` holds the earlier turns of the response, ``response_choice`` is the new turn, and
        ``current_turn`` is the number of the new turn. Return a dict with two keys. ``done`` states whether the
        response is complete. ``rollout_infos`` states how the code of each call ended, and why a sandbox failed ("" if
        none failed).
        """
        written = read_turn(str(response_choice.message.content or ""))
        is_last = self.check_finished(infer_request, response_choice, current_turn)
        calls = self._calls_of(infer_request)
        if is_last or written.fault or written.after or not written.code:
            return {"done": True, "rollout_infos": _infos(calls)}
        setattr(infer_request, _RESULT, await calls.run(written.code))
        return {"done": False, "rollout_infos": _infos(calls)}

    def step(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Append the result of the new turn's code to the messages, with the images that the code displayed.

        ``infer_request`` holds the messages and images of the response; this method extends both. ``response_choice``
        (the new turn) and ``current_turn`` (its number) are not used. Return a dict: ``infer_request`` is the extended
        request, and ``rollout_infos`` holds all of its images.
        """
        result: Result = getattr(infer_request, _RESULT)
        infer_request.messages.append({"role": "tool", "content": result.marked_text})
        infer_request.images += [base64.b64encode(data).decode("ascii") for data in png_files(result.images)]
        return {"infer_request": infer_request, "rollout_infos": {"images": list(infer_request.images)}}

    def _calls_of(self, infer_request: Any) -> Calls:
        """Return the object that executes the code of the response in ``infer_request``.

        The object is created at the first call, and stored in an attribute of ``infer_request`` for the later turns.
        """
        if not hasattr(infer_request, _STATE):
            row = infer_request.data_dict
            limits = limits_of(row.get("sandbox") or "", self.sessions)
            setattr(infer_request, _STATE, Calls(images_of(row[COLUMN]), limits, self.max_images))
        return getattr(infer_request, _STATE)


def _infos(calls: Calls) -> dict[str, Any]:
    return {CALLS: list(calls.statuses), LOST: calls.lost}


_multi_turn.multi_turns[COLUMN] = CodeScheduler
