"""Implements the embedded engine (OpenCV, no model) as an endpoint. It needs no download, no key and no GPU.

The engine uses only the image and the question of a request. It ignores the gold answer, which some prompts contain. It
does not guess: if it cannot read the image or the question, its answer is "cannot read". Some prompts require a list or
a verdict instead of an answer. If the engine cannot read the image or the question of such a prompt, it returns an
empty list, a negative verdict or "cannot_judge", or it raises CallError.

The setting ``model`` names the algorithm. ``colour`` clusters colours and follows contours; ``edges`` fits outlines to
gradients. A role is a job of a model, such as "judge". Only the roles detector and segmenter can use ``edges``. All
other roles use ``colour``.

A request can ask for several samples (texts), which are numbered. A sample depends only on the request and on the
sample's number.
"""

import asyncio
import functools
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from groundtrace.embedded import dual_stream, executable, images, judge_think_answer
from groundtrace.embedded.crop_and_answer import (
    answer_with_crops,
    attempt_with_boxes,
    is_one_image,
)
from groundtrace.embedded.judge import judge_answer, judge_label, judge_reasoning
from groundtrace.embedded.rubrics import candidate_rubrics, judge_rubrics
from groundtrace.embedded.scenes import (
    Scene,
    attempt,
    detect_boxes,
    point_at,
    propose,
    segment_boxes,
    segment_points,
    trace,
)
from groundtrace.inference.endpoint import EndpointError
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.lru_cache import LruCache
from groundtrace.vision.media import MediaStore

ENGINE_REVISION = "8"
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
        **judge_think_answer.HANDLERS,
        **dual_stream.HANDLERS,
        **executable.HANDLERS,
        **images.HANDLERS,
    },
    "edges": {"detect": detect_boxes, "segment": segment_boxes, "segment_points": segment_points},
}


def prompts_of(settings: EndpointSettings) -> frozenset[str]:
    """Return the ids of the prompts that the embedded engine (OpenCV, no model) can answer with the algorithm in
    ``settings.model``.

    The algorithm is "colour" or "edges". The result is empty for an unknown algorithm.
    """
    return frozenset(HANDLERS.get(settings.model, ()))


class ClassicalEndpoint:
    """Implements :class:`groundtrace.inference.endpoint.Endpoint` with the embedded engine (OpenCV, no model).

    ``settings`` names the algorithm, and the degree to which images are coarsened (scaled down and blurred) at random.
    ``media`` reads the images of the requests.
    ``threads`` is the number of threads on which the engine works; OpenCV releases the GIL. Raises EndpointError for an
    unknown algorithm.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        if settings.model not in HANDLERS:
            raise EndpointError(
                f"an endpoint of the kind 'classical' has the unknown model {settings.model!r}: set its key 'model' to "
                f"one of {', '.join(HANDLERS)}"
            )
        self.settings = settings
        self._media = media
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="classical")
        self._scenes: LruCache[Scene] = LruCache(_SCENES_KEPT)

    @property
    def revision(self) -> str:
        """Return the embedded engine's revision and the setting ``strength``, such as "6/0.75".

        ``strength`` is the degree to which images are coarsened (scaled down and blurred) at random. If one of the two
        changes, cached replies are no longer used.
        """
        return f"{ENGINE_REVISION}/{self.settings.strength:g}"

    async def generate(self, request: Request) -> Reply:
        """Return a reply with one sample (one text) for each of the request's sample indices.

        Raises CallError for a prompt that the embedded engine (OpenCV, no model) does not answer.
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
        """Return the scene of a prompt: the first image of the prompt, in which the engine finds shapes.

        The scene has no image if the prompt has no image, or several images. Images that were made from the first one
        are not counted, such as crops of the first image, or copies of it with marks. The scenes of recent images are
        cached.
        """
        if not prompt.media:
            return Scene(None)
        images = {part.sha256 for part in prompt.media}
        if len(images) > (2 if prompt.name.startswith("trace.") else 1) and not (
            is_one_image(prompt) or executable.one_image(prompt)
        ):
            return Scene(None)  # the engine reads one image, with its own crops and drawings, but not several images
        part = prompt.media[0]
        return self._scenes.of(part.sha256, lambda: Scene(functools.partial(self._media.pixels, part.uri)))

    def _generator(self, request: Request, index: int) -> np.random.Generator:
        """Return a random generator whose seed depends on the prompt's variables and images, and on ``index``.

        ``index`` is the number of the sample. It is different for each sample of a request.
        """
        seed = hashlib.sha256(
            repr((request.prompt.variables, [part.sha256 for part in request.prompt.media], index)).encode()
        ).digest()
        return np.random.default_rng(int.from_bytes(seed[:8], "big"))

    async def check(self) -> str:
        """Return one line that describes the embedded engine (OpenCV, no model). It is always ready, so nothing is
        checked.
        """
        return f"embedded, {self.settings.model}, strength {self.settings.strength:g}"

    async def close(self) -> None:
        """Stop the embedded engine's threads. The endpoint cannot be used afterwards."""
        self._threads.shutdown()
