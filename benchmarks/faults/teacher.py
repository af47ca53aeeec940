"""A teacher that reads its traces from a script: the endpoint kind ``faults.teacher:ScriptedTeacher``."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from groundtrace.embedded.endpoint import ClassicalEndpoint
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore

TRACE, ENTITIES = "trace", "propose"
"""The tasks whose replies a script can hold, by the beginning of their prompts' names."""


class ScriptedTeacher(ClassicalEndpoint):
    """The embedded engine, except that traces and lists of entities come from a script if it has them for the question.

    ``model`` is the path of the script: a JSON object of texts by :func:`script_key`.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        super().__init__(replace(settings, model="colour"), media, threads)
        written = Path(settings.model).read_text("utf-8")
        self._texts: dict[str, str] = json.loads(written)
        self._script = hashlib.sha256(written.encode()).hexdigest()

    @property
    def revision(self) -> str:
        """The revision of the engine, and the hash of the script: another script counts as another model."""
        return f"{super().revision}/{self._script}"

    async def generate(self, request: Request) -> Reply:
        """Return the scripted reply, the same for every sample; any other reply is that of the embedded engine."""
        prompt = request.prompt
        task = prompt.name.partition(".")[0]
        if task in (TRACE, ENTITIES) and prompt.media:
            text = self._texts.get(script_key(prompt.media[0].sha256, prompt.variable("question"), task))
            if text is not None:
                return Reply(tuple(Completion(text) for _ in request.indices))
        return await super().generate(request)


def script_key(sha256: str, question: str, task: str = TRACE) -> str:
    """Return the key of a reply in a script: the task, the SHA-256 of the question's image file, and its text."""
    return f"{task} {sha256} {question}"
