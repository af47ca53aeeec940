"""Asking the endpoint of a tiny vision model, and reading what it replies."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groundtrace.grading.messages import MediaPart, media_part
from groundtrace.inference.endpoint import open_endpoint
from groundtrace.inference.endpoints.transformers_models import TransformersEndpoint
from groundtrace.inference.families.base import Family
from groundtrace.inference.grounding import Mask
from groundtrace.inference.request import Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.records import MediaRef
from groundtrace.vision.media import MediaStore

from .tiny_vision_models import checkpoint

WIDTH, HEIGHT = 317, 211


def noise(seed: int = 0, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def use(tmp_path: Path, model: str | Path, work: Callable[[TransformersEndpoint], Any], **changes: Any) -> Any:
    """Open the endpoint of a tiny checkpoint, or of a folder, await ``work`` of it, close it."""
    folder = model if isinstance(model, Path) else checkpoint(model)

    async def main() -> Any:
        settings = EndpointSettings(**{"kind": "transformers", "model": str(folder), **changes})
        endpoint = open_endpoint(settings, MediaStore(str(tmp_path / "data"), str(tmp_path / "run")), 2)
        assert isinstance(endpoint, TransformersEndpoint)
        try:
            return await work(endpoint)
        finally:
            await endpoint.close()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks of this size take longer to share out than to run
    try:
        return asyncio.run(main())
    finally:
        torch.set_num_threads(threads)


def show(name: str, *media: MediaRef | MediaPart, **variables: str) -> RenderedPrompt:
    parts = [part if isinstance(part, MediaPart) else media_part(part) for part in media]
    return load_prompt(name).render({"original": parts}, **variables)


def detect(label: str, *media: MediaRef | MediaPart) -> RenderedPrompt:
    return show("detect.v1", *media, label=label)


def segment(boxes: object, *media: MediaRef | MediaPart) -> RenderedPrompt:
    return show("segment.v1", *media, boxes=boxes if isinstance(boxes, str) else json.dumps(boxes))


def segment_points(points: object, *media: MediaRef | MediaPart) -> RenderedPrompt:
    return show("segment_points.v1", *media, points=json.dumps(points))


def request(prompt: RenderedPrompt, n: int = 1) -> Request:
    return Request(prompt, Sampling(n=n), tuple(range(n)))


async def one_by_one(endpoint: TransformersEndpoint, prompts: Sequence[RenderedPrompt]) -> list[str]:
    return [(await endpoint.generate(request(prompt))).completions[0].text for prompt in prompts]


async def together(endpoint: TransformersEndpoint, prompts: Sequence[RenderedPrompt]) -> list[Any]:
    """The replies and errors to prompts that all arrive while the model's thread is busy."""
    busy = threading.Event()
    endpoint._thread.submit(busy.wait, 60)
    calls = [asyncio.ensure_future(endpoint.generate(request(prompt))) for prompt in prompts]
    await asyncio.sleep(0)  # every call has run up to where it waits
    busy.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [answer.completions[0].text if isinstance(answer, Reply) else answer for answer in answers]


def boxes_px(text: str, picture: MediaRef, frame: CoordinateFrame = CoordinateFrame.PX) -> np.ndarray:
    boxes = Family("own", frame, any_corners=True).boxes(text, "x", picture, 0).found
    return np.array([[box.x1, box.y1, box.x2, box.y2] for box in boxes]).reshape(-1, 4)


def whole(mask: Mask) -> np.ndarray:
    pixels = np.zeros((HEIGHT, WIDTH), bool)
    height, width = mask.pixels.shape
    pixels[mask.y : mask.y + height, mask.x : mask.x + width] = mask.pixels
    return pixels
