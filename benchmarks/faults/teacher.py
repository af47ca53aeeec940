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
    """The embedded engine, except that a trace comes from a script if the script has one for the question.

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
        """Return the scripted trace, the same for every sample; any other reply is that of the embedded engine."""
        prompt = request.prompt
        if prompt.name.startswith("trace.") and prompt.media:
            text = self._texts.get(script_key(prompt.media[0].sha256, prompt.variable("question")))
            if text is not None:
                return Reply(tuple(Completion(text) for _ in request.indices))
        return await super().generate(request)


def script_key(sha256: str, question: str) -> str:
    """Return the key of a question in a script, made of the SHA-256 of its image's file and its text."""
    return f"{sha256} {question}"
