"""Runs promptable segmenters (models that make a mask from a box or point) for
:class:`groundtrace.inference.endpoints.transformers_models.TransformersEndpoint`. In the paper Argos (Eq. 1), these
models are the segmenter h.

The features of an image are computed once and are used for all boxes and points, also those of later prompts. For a box
the model returns a single mask. For a point the model returns three masks, since a point may mean a part or a whole
object. The mask with the best score is used, as the models' authors advise. Masks have the size of the image. The mask
of a box may extend beyond this box. In a reply, each mask is cropped to the smallest rectangle that contains the mask.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import Sam2Model, Sam2Processor, SamModel, SamProcessor

from groundtrace.inference.endpoints.transformers_loading import load_weights, source
from groundtrace.inference.endpoints.transformers_models import IMAGES_KEPT, LazyImage, prepared
from groundtrace.inference.errors import NOT_SENT, CallError, Failure
from groundtrace.inference.grounding import encode_mask
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.lru_cache import LruCache

PLACES_AT_ONCE = 16
"""The number of masks that are resized to the image's size together. 16 masks of 12 megapixels take 0.8 GB."""
_Place = list[float]
"""A box xyxy or a point xy, in pixels."""
_NUMBERS = {"boxes": 4, "points": 2}


class Segmenter(ABC):
    """Makes masks from boxes or points with a segmentation model of the ``transformers`` library. This is the base
    class of the segmenters SAM 2 and SAM 1. It reads the boxes or points of a prompt, and writes their masks as a
    reply. ``settings`` are the settings of the endpoint.
    """

    prompts = ("segment", "segment_points")
    model_class: ClassVar[Any]
    processor_class: ClassVar[Any]

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.model = load_weights(self.model_class, settings)
        self.processor = self.processor_class.from_pretrained(settings.model, **source(settings))
        self._seen: LruCache[dict[str, Any]] = LruCache(IMAGES_KEPT)

    def read(self, prompt: RenderedPrompt) -> list[_Place]:
        """Return the boxes [x1, y1, x2, y2] or the points [x, y] of a prompt, in pixels. Raises CallError if the prompt
        does not hold such lists.
        """
        what = "points" if prompt.name.startswith("segment_points") else "boxes"
        text = prompt.variable(what)
        try:
            places = [[float(value) for value in place] for place in json.loads(text)]
        except (ValueError, TypeError, RecursionError) as error:
            raise CallError(
                Failure.BAD_REQUEST, f"the prompt's {what} {text!r:.80} are malformed: {error}", partial=NOT_SENT
            ) from error
        if not all(len(place) == _NUMBERS[what] and all(map(math.isfinite, place)) for place in places):
            message = f"the prompt's {what} {text!r:.80} are malformed: each needs {_NUMBERS[what]} finite numbers"
            raise CallError(Failure.BAD_REQUEST, message, partial=NOT_SENT)
        return places

    def answer(self, image: LazyImage, asked: Sequence[list[_Place]]) -> list[str]:
        """Return one reply for each element of ``asked``, all about ``image``. An element is a list of places (boxes or
        points, in pixels). A reply is a JSON text with one mask for each place, in the order of the places.
        """
        masks = {
            size: map(
                mask_fields, self.masks(image, [each for places in asked for each in places if len(each) == size])
            )
            for size in _NUMBERS.values()
        }
        return [json.dumps({"masks": [next(masks[len(each)]) for each in places]}) for places in asked]

    @torch.inference_mode()
    def masks(self, image: LazyImage, places: Sequence[_Place]) -> Iterator[np.ndarray]:
        """Yield the mask of each place as a bool array (H, W). ``places`` are either all boxes or all points, in pixels
        of the image.
        """
        for start in range(0, len(places), PLACES_AT_ONCE):
            seen = self._seen.of(image.sha256, lambda: self._features(image.load()))
            part = torch.tensor([places[start : start + PLACES_AT_ONCE]], dtype=torch.float32)
            yield from self._segment(seen, part).cpu().numpy()

    def _features(self, pixels: np.ndarray) -> dict[str, Any]:
        """Return what the model needs to make masks for an image: the features of the image, its size and, for SAM 1,
        the size of the model's input. ``pixels`` is the image.
        """
        seen = prepared(self.processor.image_processor, pixels)
        embeddings = self.model.get_image_embeddings(seen.pop("pixel_values").to(self.model.device))
        return {**seen, "embeddings": embeddings}

    def _segment(self, seen: dict[str, Any], places: torch.Tensor) -> torch.Tensor:
        """Return one mask for each place, as a bool tensor (N, H, W) of the image's size. ``places`` are boxes
        (1, N, 4) or points (1, N, 2), in pixels of the image. ``seen`` is the result of :meth:`_features`."""
        scaled = self.scaled(seen, places).to(self.model.device)
        points = places.shape[-1] == 2
        asked = {"input_points": scaled[:, :, None]} if points else {"input_boxes": scaled}
        found = self.model(image_embeddings=seen["embeddings"], multimask_output=points, **asked)
        best = found.iou_scores[0].argmax(dim=1)
        masks = found.pred_masks[:, torch.arange(len(best), device=best.device), best]
        return self.full_size(seen, masks[:, :, None])[:, 0]

    @abstractmethod
    def scaled(self, seen: dict[str, Any], places: torch.Tensor) -> torch.Tensor:
        """Convert ``places``, which are boxes (1, N, 4) or points (1, N, 2), from pixels of the image to pixels of the
        model's input. ``seen`` holds the features and the sizes of the image. Returns a tensor of the same shape.
        """

    @abstractmethod
    def full_size(self, seen: dict[str, Any], masks: torch.Tensor) -> torch.Tensor:
        """Resize the model's masks (1, N, 1, h, w) to the image's size. Returns a bool tensor (N, 1, H, W). ``seen``
        holds the features of the image, its size and the size of the model's input.
        """


class Sam2(Segmenter):
    """Makes masks with SAM 2 in its image mode. The model's input is the image stretched to a square."""

    model_class = Sam2Model
    processor_class = Sam2Processor

    def scaled(self, seen: dict[str, Any], places: torch.Tensor) -> torch.Tensor:
        """Convert ``places``, which are boxes (1, N, 4) or points (1, N, 2), from pixels of the image to pixels of SAM
        2's input, a square. x and y have different scales. ``seen`` holds the size of the image.
        """
        return places * (self.processor.target_size / seen["original_sizes"][0]).flip(0).repeat(places.shape[-1] // 2)

    def full_size(self, seen: dict[str, Any], masks: torch.Tensor) -> torch.Tensor:
        """Resize the ``masks`` of SAM 2 (1, N, 1, h, w) to the image's size. Returns a bool tensor (N, 1, H, W).
        ``seen`` holds the size of the image.
        """
        return self.processor.post_process_masks(masks, seen["original_sizes"])[0]


class Sam(Segmenter):
    """Makes masks with SAM 1. The model's input is the image scaled so that the longer side has the model's input
    size.
    """

    model_class = SamModel
    processor_class = SamProcessor

    def scaled(self, seen: dict[str, Any], places: torch.Tensor) -> torch.Tensor:
        """Convert ``places``, which are boxes (1, N, 4) or points (1, N, 2), from pixels of the image to pixels of SAM
        1's input, which has the image's aspect ratio. ``seen`` holds the sizes of the image and of the input.
        """
        scale = seen["reshaped_input_sizes"][0] / seen["original_sizes"][0]
        return places * scale.flip(0).repeat(places.shape[-1] // 2)

    def full_size(self, seen: dict[str, Any], masks: torch.Tensor) -> torch.Tensor:
        """Resize the ``masks`` of SAM 1 (1, N, 1, h, w) to the image's size, without the padding of the model's input.
        Returns a bool tensor (N, 1, H, W). ``seen`` holds the sizes of the image and of the input.
        """
        return self.processor.post_process_masks(masks, seen["original_sizes"], seen["reshaped_input_sizes"])[0]


def mask_fields(mask: np.ndarray) -> dict[str, object]:
    """Convert a mask, a bool array (H, W), to the JSON fields of a mask in a reply
    (:func:`groundtrace.inference.grounding.encode_mask`). The mask is cropped to the smallest rectangle that contains
    all of its pixels. If the mask is empty, the width and the height of the rectangle are 0.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return encode_mask(0, 0, mask[:0, :0])
    top, left = int(rows[0]), int(columns[0])
    return encode_mask(left, top, mask[top : rows[-1] + 1, left : columns[-1] + 1])
