"""Runs open-vocabulary detectors and promptable segmenters of the ``transformers`` library as an endpoint in this
process.

The endpoint's model is a local folder or a hub id. The checkpoint's config determines the class of the model
(:data:`MODELS`). The class determines the prompts that the model answers:

- Grounding DINO and OWLv2 answer ``detect`` prompts with the boxes of a named object. The paper Argos, §3.1, calls them
  pseudo-boxes: b* = g(o), with the detector g and the object o.
- SAM 2 and SAM answer ``segment`` prompts with the masks of given boxes. These are the masks of Argos, Eq. 1.
- SAM 2 and SAM answer ``segment_points`` prompts with the masks at given points, which a pointing model found.

The paper Argos does not name its detector and its segmenter, so the user chooses the models in the config.

Only safetensors are loaded, and no code of a checkpoint is run. The optional dependency ``vision`` of this project
installs the libraries. They are imported when the first model is loaded, so a worker without such an endpoint does not
need them.
"""

import asyncio
import importlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from PIL import Image

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.endpoints.transformers_loading import check_config, not_sent, of_library, one_line, source
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.media import MediaStore

READING_REVISION = "1"
"""The revision of the code that converts a model's output to a reply. It must be increased if a change of this code
gives another reply for the same output, so that old replies in the cache are not used.
"""
IMAGES_KEPT = 8
"""The number of images whose features a model caches. With the largest supported model, the features of one image take
about 20 MB.
"""
MODELS: dict[str, str] = {
    "grounding-dino": "groundtrace.inference.endpoints.hf_detector:GroundingDino",
    "owlv2": "groundtrace.inference.endpoints.hf_detector:Owlv2",
    "sam": "groundtrace.inference.endpoints.hf_segmenter:Sam",
    "sam2": "groundtrace.inference.endpoints.hf_segmenter:Sam2",
    # the model_type of the published SAM 2 checkpoints
    "sam2_video": "groundtrace.inference.endpoints.hf_segmenter:Sam2",
}
"""Maps the ``model_type`` in a checkpoint's config to the class that runs the model, written as ``module:Class``."""


@dataclass(frozen=True)
class LazyImage:
    """Holds an image that is decoded only if its pixels are needed. ``sha256`` identifies the image. ``load`` decodes
    it and returns the upright pixels: RGB, uint8, (H, W, 3).
    """

    sha256: str
    load: Callable[[], np.ndarray]


class VisionModel(Protocol):
    """Defines the interface of a loaded detector or segmenter. ``prompts`` are the ids of the prompts that the model
    answers, e.g. "detect". Only one thread uses the model.
    """

    prompts: tuple[str, ...]
    """The ids of the prompts that the model answers."""

    def read(self, prompt: RenderedPrompt) -> Any:
        """Return the part of the prompt that the model needs: a label (the name of an object), or a list of boxes or
        points. The result is one element of ``asked`` in :meth:`answer`. Raises CallError if the model cannot answer
        the prompt.
        """
        ...

    def answer(self, image: LazyImage, asked: Sequence[Any]) -> list[str]:
        """Return one reply (JSON text) for each element of ``asked``, all about one image. An element is a label (the
        name of an object), or a list of boxes or points, as :meth:`read` returns it. A reply does not depend on the
        other elements.
        """
        ...


@dataclass(eq=False)
class _Batch:
    """Holds the waiting prompts about one image, until the model's thread answers them.

    ``part`` is the image. ``answers`` is the future of the answers: a text or an error for each prompt, in order. It is
    None only until the batch has been passed to the thread.
    """

    part: MediaPart
    prompts: list[RenderedPrompt] = field(default_factory=list)
    answers: "asyncio.Future[list[str | CallError]] | None" = None


class TransformersEndpoint:
    """Implements an endpoint (:class:`groundtrace.inference.endpoint.Endpoint`) with a detector or a segmenter that
    runs in this process.

    ``settings`` are the endpoint's settings. ``media`` is the store from which the images of prompts are read. The
    model is loaded at the first use and runs in a separate thread, so that it never blocks the event loop. Requests
    about one image that arrive while the thread is busy are answered together. The argument ``threads`` is not used,
    since torch runs a forward pass on all cores or on the GPU. Loading is not retried after an error.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        self.settings = settings
        self._media = media
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vision-model")
        self._lock = threading.Lock()
        self._waiting: dict[str, _Batch] = {}
        self._model: VisionModel | None = None
        self._broken: CallError | None = None

    @property
    def revision(self) -> str:
        """Return the revision from the settings, the score threshold for boxes, and the revision of the code that
        writes the reply (:data:`READING_REVISION`). A change of any of these changes the replies, so all three are part
        of the cache key.
        """
        return f"{self.settings.revision}#reading={READING_REVISION}&threshold={self.settings.threshold:g}"

    async def generate(self, request: Request) -> Reply:
        """Return a reply with one sample (result as JSON text) for each number in ``request.indices`` (the numbers of
        the requested samples). All samples are equal, since the models are deterministic. Raises CallError if the
        request fails.
        """
        if request.continuation is not None:
            raise not_sent(f"{self.settings.model} writes no text and cannot score a continuation: use another model")
        batch, place = self._join(self._one_image(request.prompt), request.prompt)
        assert batch.answers is not None
        answer = (await asyncio.shield(batch.answers))[place]  # other requests may wait for the same batch
        if isinstance(answer, CallError):
            raise answer
        return Reply(tuple(Completion(answer) for _ in request.indices))

    def _one_image(self, prompt: RenderedPrompt) -> MediaPart:
        if len({part.sha256 for part in prompt.media}) != 1 or prompt.media[0].kind != "image":
            raise not_sent(
                f"{self.settings.model} needs one image, but the prompt {prompt.name} has no image, several images or "
                "a video: use another model"
            )
        return prompt.media[0]

    def _join(self, part: MediaPart, prompt: RenderedPrompt) -> tuple[_Batch, int]:
        """Add a prompt to the waiting batch of prompts about the image ``part``. Returns the batch, and the index of
        the prompt in this batch.

        A new batch is created if no batch about this image waits. Prompts can be added until the thread that runs the
        model takes the batch.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            batch = self._waiting.get(part.sha256)
            if batch is None:
                batch = self._waiting[part.sha256] = _Batch(part)
                batch.answers = loop.run_in_executor(self._thread, self._answers, batch)
            batch.prompts.append(prompt)
            return batch, len(batch.prompts) - 1

    def _answers(self, batch: _Batch) -> list[str | CallError]:
        with self._lock:
            del self._waiting[batch.part.sha256]
        try:
            return self._answered(batch)
        except CallError as error:
            return [CallError(error.failure, error.message, partial=error.partial) for _ in batch.prompts]

    def _answered(self, batch: _Batch) -> list[str | CallError]:
        model = self._loaded()
        answers: dict[int, str | CallError] = {}
        asked: dict[int, Any] = {}
        for place, prompt in enumerate(batch.prompts):
            try:
                if prompt.name.split(".")[0] not in model.prompts:
                    raise not_sent(
                        f"{self.settings.model} answers {_listed(model)} prompts, not {prompt.name}: use another model"
                    )
                asked[place] = model.read(prompt)
            except CallError as error:
                answers[place] = error
        image = LazyImage(batch.part.sha256, lambda: self._media.pixels(batch.part.uri))
        try:
            texts = model.answer(image, list(asked.values())) if asked else []
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's own, which is not imported here
                raise
            raise CallError(
                Failure.OVERLOADED, one_line(f"the model has run out of memory: use a smaller model ({error})")
            ) from error
        answers.update(zip(asked, texts, strict=True))
        return [answers[place] for place in range(len(batch.prompts))]

    def _loaded(self) -> VisionModel:
        if self._broken is not None:
            raise self._broken
        if self._model is None:
            try:
                self._model = load_model(self.settings)
            except CallError as error:
                self._broken = error
                raise
        return self._model

    async def check(self) -> str:
        """Load the model. Returns one line for the user that names the model and the prompts that it answers. Raises
        CallError if the model cannot be loaded (:func:`load_model`).
        """
        model = await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded)
        return f"answers {_listed(model)} prompts with {self.settings.model}"

    async def close(self) -> None:
        """Wait for the thread of the model to end, and free the model's memory."""
        self._thread.shutdown()
        self._model = None


def prompts_of(settings: EndpointSettings) -> frozenset[str]:
    """Return the ids of the prompts that the model of these settings answers, e.g. "detect". The checkpoint's config is
    read, but its weights are not loaded. Raises CallError if the libraries cannot be imported, the checkpoint does
    not exist, or its class is not in :data:`MODELS`.
    """
    return frozenset(of_library(settings, _class_of).prompts)


def load_model(settings: EndpointSettings) -> VisionModel:
    """Load the detector or segmenter that the settings name, on the GPU if this machine has one.

    Raises CallError with ``UNSUPPORTED`` if the libraries cannot be imported. Raises CallError with ``BAD_REQUEST`` in
    these cases:

    - The checkpoint does not exist.
    - The checkpoint's class is not in :data:`MODELS`.
    - The checkpoint has no safetensors, or lacks weights.
    """
    return of_library(settings, lambda settings: _class_of(settings)(settings))


def _class_of(settings: EndpointSettings) -> Any:
    import torch  # noqa: F401  # transformers can be imported without it, and then fails with another message
    from transformers import AutoConfig

    check_config(settings)
    config = AutoConfig.from_pretrained(settings.model, **source(settings))
    if config.model_type not in MODELS:
        known = ", ".join(MODELS)
        raise not_sent(
            f"the model {settings.model} has the type {config.model_type!r}: use a model of the type {known}",
            Failure.BAD_REQUEST,
        )
    module, name = MODELS[config.model_type].split(":")
    return getattr(importlib.import_module(module), name)


def prepared(image_processor: Any, pixels: np.ndarray) -> Any:
    """Resize and normalise an image for a model, and return its tensors on the CPU. ``image_processor`` is the model's
    processor, and ``pixels`` is the image: RGB, uint8, (H, W, 3).

    Raises CallError if the image is so thin that one side would have no pixel after resizing.
    """
    height, width = pixels.shape[:2]
    try:
        return image_processor(Image.fromarray(pixels), return_tensors="pt")
    except ValueError as error:
        raise not_sent(f"an image of {width}x{height} px cannot be resized ({error}): leave the image out") from error


def _listed(model: VisionModel) -> str:
    return " and ".join(model.prompts)
