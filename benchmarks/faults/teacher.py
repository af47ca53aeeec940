"""A teacher that reads its traces from a script: the endpoint kind ``faults.teacher:ScriptedTeacher``."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from groundtrace.embedded.endpoint import ClassicalEndpoint
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore


class ScriptedTeacher(ClassicalEndpoint):
    """The embedded engine, but its traces are those of a script where it has one for the question.

    ``model`` is the path of the script: a JSON object of texts by :func:`script_key`.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        super().__init__(replace(settings, model="colour"), media, threads)
        written = Path(settings.model).read_text("utf-8")
        self._texts: dict[str, str] = json.loads(written)
        self._script = hashlib.sha256(written.encode()).hexdigest()

    @property
    def revision(self) -> str:
        """That of the engine, and the script's hash: another script is another model."""
        return f"{super().revision}/{self._script}"

    async def generate(self, request: Request) -> Reply:
        """The scripted trace, whatever the sample; everything else as the embedded engine has it."""
        prompt = request.prompt
        if prompt.name.startswith("trace.") and prompt.media:
            text = self._texts.get(script_key(prompt.media[0].sha256, prompt.variable("question")))
            if text is not None:
                return Reply(tuple(Completion(text) for _ in request.indices))
        return await super().generate(request)


def script_key(sha256: str, question: str) -> str:
    """The name of a question in a script: the SHA-256 of its image's file and its words."""
    return f"{sha256} {question}"
