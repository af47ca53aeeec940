"""Defines the tool of verl's ``tool_agent`` loop: a ``BaseTool`` that executes code in Groundtrace's sandbox.

verl's config names the tool in the file of ``actor_rollout_ref.rollout.multi_turn.tool_config_path``:

    tools:
      - class_name: groundtrace.publishing.tools.verl.ExecutePythonCode
        config: {type: native, sessions: 8, max_images: 16}

The rows of ``beam export --format verl --turns tools`` pass two values to ``create``:

- ``groundtrace`` is the row's reference: JSON text that names the row and its run.
- ``sandbox`` holds the limits on the executed code. They come from the config of the row's run.

verl keeps a state of each response (``agent_data``), and has resized the images in it. So the code gets the original
images instead, which are read from the row's run.

verl 0.9.1 calls ``create`` and ``release`` for each single call of the tool, and not for each response. So the tool
keeps the state of a response in a mapping. The key is the response's ``agent_data``, which is the same object for all
calls of the response. The tool writes how each call ended (``groundtrace_calls``) and the reason why a sandbox failed
(``groundtrace_lost``) to ``agent_data.extra_fields``. verl passes both values to the reward in ``extra_info``.

Deviation from our SFT rows: in SFT rows, the images of a result come after the text of the result. verl puts the images
before the text.
"""

import importlib
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from groundtrace.grading.responses.turns import TOOL_SCHEMA
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.tools.calls import MAX_IMAGES, Calls, images_of, limits_of

TOOLS = "verl.tools"
"""The name of a package of the trainer verl, from which this file imports modules.

The optional dependencies of Groundtrace do not include verl. So this file can be imported only where verl is installed:
in the trainer's process.
"""
_schemas: Any = importlib.import_module(f"{TOOLS}.schemas")
_BaseTool: Any = importlib.import_module(f"{TOOLS}.base_tool").BaseTool
CALLS, LOST = f"{COLUMN}_calls", f"{COLUMN}_lost"


class ExecutePythonCode(_BaseTool):
    """Executes the code of all responses of one worker process of verl, in Groundtrace's sandbox.

    ``config`` may hold two settings. ``sessions`` is the maximum number of responses that execute code at the same time
    in this process. ``max_images`` is the maximum number of images that all calls of a response together may display.
    ``tool_schema`` describes the tool to the policy (the model in training); None means the schema of Groundtrace.
    """

    def __init__(self, config: dict[str, Any], tool_schema: Any = None) -> None:
        super().__init__(config, tool_schema or _schemas.OpenAIFunctionToolSchema.model_validate(TOOL_SCHEMA))
        self._created: dict[str, dict[str, Any]] = {}
        self._calls: WeakKeyDictionary[Any, Calls] = WeakKeyDictionary()

    async def create(self, instance_id: str | None = None, **given: Any) -> tuple[str, Any]:
        """Store the values of a training row for one tool call. Return the call's id and a response without content.

        verl calls this method before it executes the tool call (:meth:`execute`). ``instance_id`` is the call's id;
        None means a new one. ``given`` holds the row's reference (JSON text that names the row in its run) and the
        limits of the sandbox.
        """
        id = instance_id or str(uuid4())
        self._created[id] = given.get("create_kwargs", given)
        return id, _schemas.ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **given: Any
    ) -> tuple[Any, float, dict[str, Any]]:
        """Execute the code of a tool call, with the variables that the response's earlier successful calls created.

        For this, the code of the earlier calls is executed again before the new code, in a new sandbox session.

        ``instance_id`` is the call's id from :meth:`create`. ``parameters`` holds the code under the key ``code``.
        ``given`` holds verl's state of the response as ``agent_data``. Return the result, the reward 0.0, and the
        status of the call. Raises ValueError for a call without code; verl shows this error to the policy.
        """
        code, agent = parameters.get("code"), given["agent_data"]
        if not isinstance(code, str):
            raise ValueError("the call's argument 'code' is missing or not a string: pass the Python code to execute")
        if agent not in self._calls:
            self._calls[agent] = self._begun(**self._created[instance_id])
        calls = self._calls[agent]
        result = await calls.run(code)
        agent.extra_fields |= {CALLS: list(calls.statuses), LOST: calls.lost}
        return _schemas.ToolResponse(text=result.text, image=list(result.images)), 0.0, {"status": result.status}

    async def release(self, instance_id: str, **given: Any) -> None:
        """Delete the row's reference and limits that :meth:`create` stored for a call.

        ``instance_id`` is the call's id. ``given`` is not used.
        """
        self._created.pop(instance_id, None)

    def _begun(self, groundtrace: str, sandbox: str = "", **_: Any) -> Calls:
        limits = limits_of(sandbox, self.config.get("sessions"))
        return Calls(images_of(groundtrace), limits, self.config.get("max_images", MAX_IMAGES))
