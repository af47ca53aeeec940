"""Encodes an image for vLLM's ``/inference/v1/generate``: patches and grid in msgpack, in base64.

The format is that of ``encode_mm_kwargs_item`` in vLLM 0.32, which vLLM's own ``/render`` uses; the fields are those of
the Qwen-VL families.
"""

import base64
from typing import Any

import msgpack
import torch

from groundtrace.trainer.sample import EncodedImage

RAW_VIEW = 3
"""The code of the msgpack extension type that vLLM uses for a tensor's bytes."""


def packed_image(image: EncodedImage) -> str:
    """The image's patches, bit for bit, and its grid, encoded as one string."""
    whole = [[0, len(image.patches), None]]
    fields = {
        "pixel_values": _field(image.patches, "flat", {"slices": whole, "dim": 0, "keep_on_cpu": False}),
        "image_grid_thw": _field(torch.tensor(image.grid), "batched", {"keep_on_cpu": True}),
    }
    packed = msgpack.packb(fields)
    assert packed is not None
    return base64.b64encode(packed).decode("ascii")


def _field(tensor: torch.Tensor, kind: str, how: dict[str, Any]) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    data = msgpack.ExtType(RAW_VIEW, tensor.cpu().numpy().tobytes())
    return {"data": [name, list(tensor.shape), data], "field": [kind, how]}
