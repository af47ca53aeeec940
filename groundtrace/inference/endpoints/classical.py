"""The embedded engine as an endpoint: no download, no key, no GPU.

It looks only at the image and the question of a request (the gold answer in a proposal's prompt is not read) and
says so when it cannot read them. Its model is the algorithm: ``colour`` clusters colours and follows contours,
``edges`` fits outlines to gradients; the detector and the segmenter are served by ``edges`` alone, everything else by
``colour``. Replies depend on the request and the sample's number only.
"""

import asyncio
import functools
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from groundtrace.inference.endpoints import classical_dual_stream, classical_judged
from groundtrace.inference.endpoints.classical_crop_and_answer import (
    answer_with_crops,
    attempt_with_boxes,
    is_one_image,
)
from groundtrace.inference.endpoints.classical_judge import judge_answer, judge_label, judge_reasoning
from groundtrace.inference.endpoints.classical_rubrics import candidate_rubrics, judge_rubrics
from groundtrace.inference.endpoints.classical_sight import (
    Scene,
    attempt,
    detect_boxes,
    point_at,
    propose,
    segment_boxes,
    segment_points,
    trace,
)
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.media import MediaStore
from groundtrace.vision.recent import Recent

ENGINE_REVISION = "6"
_SCENES_KEPT = 256

Handler = Callable[[RenderedPrompt, Scene, np.random.Generator, float], str]

HANDLERS: dict[str, dict[str, Handler]] = {
    "colour": {
        "attempt": attempt,
        "attempt_as_trained": attempt,
        "propose": propose,
        "point": point_at,
        "trace": trace,
        "attempt_with_boxes": attempt_with_boxes,
        "answer_with_crops": answer_with_crops,
        "judge_answer": judge_answer,
        "judge_label": judge_label,
        "judge_reasoning": judge_reasoning,
        "rubric_candidates": candidate_rubrics,
        "rubric_judge": judge_rubrics,
        **classical_judged.HANDLERS,
        **classical_dual_stream.HANDLERS,
    },
    "edges": {"detect": detect_boxes, "segment": segment_boxes, "segment_points": segment_points},
}


def prompts_of(settings: EndpointSettings) -> frozenset[str]:
    """The ids of the prompts that the algorithm answers."""
    return frozenset(HANDLERS.get(settings.model, ()))


class ClassicalEndpoint:
    """See :class:`groundtrace.inference.endpoint.Endpoint`. Work runs on a few threads; OpenCV releases the interpreter
    lock.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        if settings.model not in HANDLERS:
            raise ValueError(f"a classical endpoint's model is one of {', '.join(HANDLERS)}, got {settings.model!r}")
        self.settings = settings
        self._media = media
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="classical")
        self._scenes: Recent[Scene] = Recent(_SCENES_KEPT)

    @property
    def revision(self) -> str:
        """The engine's own revision and its strength, so that a changed engine is asked anew."""
        return f"{ENGINE_REVISION}/{self.settings.strength:g}"

    async def generate(self, request: Request) -> Reply:
        """See :class:`groundtrace.inference.endpoint.Endpoint`; raises CallError for a prompt that the engine does not
        serve.
        """
        name = request.prompt.name.split(".")[0]
        handler = HANDLERS[self.settings.model].get(name)
        if handler is None:
            message = f"the embedded engine {self.settings.model!r} cannot answer the prompt {request.prompt.name}"
            raise CallError(Failure.UNSUPPORTED, message)
        loop = asyncio.get_running_loop()

        def work() -> tuple[Completion, ...]:
            scene = self._scene(request.prompt)
            return tuple(
                Completion(handler(request.prompt, scene, self._generator(request, index), self.settings.strength))
                for index in request.indices
            )

        return Reply(await loop.run_in_executor(self._threads, work))

    def _scene(self, prompt: RenderedPrompt) -> Scene:
        """The first image of the prompt; what was found in the last few images is kept."""
        if not prompt.media:
            return Scene(None)
        images = {part.sha256 for part in prompt.media}
        if len(images) > (2 if prompt.name.startswith("trace.") else 1) and not is_one_image(prompt):
            return Scene(None)  # an original and its overlay or crops are one image; several are beyond this engine
        part = prompt.media[0]
        return self._scenes.of(part.sha256, lambda: Scene(functools.partial(self._media.pixels, part.uri)))

    def _generator(self, request: Request, index: int) -> np.random.Generator:
        """The generator of the jitter, fixed by prompt, image and sample number."""
        seed = hashlib.sha256(
            repr((request.prompt.variables, [part.sha256 for part in request.prompt.media], index)).encode()
        ).digest()
        return np.random.default_rng(int.from_bytes(seed[:8], "big"))

    async def check(self) -> str:
        """Always ready."""
        return f"embedded, {self.settings.model}, strength {self.settings.strength:g}"

    async def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown()
