"""Runs open-vocabulary detectors for :class:`groundtrace.inference.endpoints.transformers_models.TransformersEndpoint`.
In the paper Argos (§3.1), these models are the detector g.

A label is the name of an object to find, e.g. "red dog". A separate search is made for each label, even if several
labels are requested at the same time. Grounding DINO also accepts several labels as one text ("a cat. a dog."), but
then the labels influence each other. A reply would depend on labels that are not in its cache key. So labels that are
processed in the same forward pass are separate rows of a batch.

A reply lists the best :data:`MAX_BOXES` boxes above the endpoint's score threshold. The best box is first, and each
object is listed once.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torchvision.ops import nms
from transformers import (
    GroundingDinoForObjectDetection,
    GroundingDinoProcessor,
    Owlv2ForObjectDetection,
    Owlv2Processor,
)

from groundtrace.inference.endpoints.transformers_loading import load_weights, source
from groundtrace.inference.endpoints.transformers_models import IMAGES_KEPT, LazyImage, prepared
from groundtrace.inference.errors import NOT_SENT, CallError, Failure
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.coordinates import CoordinateFrame, box_from_px
from groundtrace.vision.lru_cache import LruCache

SAME_OBJECT_IOU = 0.7
"""The largest IoU of two boxes of one label that count as different objects. If the IoU is larger, the boxes count as
one object, since both detectors, Grounding DINO and OWLv2, often find an object several times.
"""
MAX_BOXES = 100
MIN_SIDE_PX = 0.5
LABELS_AT_ONCE = 8
"""The number of labels that Grounding DINO processes together. Each label needs a copy of the image. At the usual input
size, a 16 GB GPU has enough memory for this number.
"""
_DECIMALS = {CoordinateFrame.UNIT: 5}
_Found = tuple[torch.Tensor, torch.Tensor]
"""Boxes in pixels (N, 4) xyxy, and their scores (N,)."""


class Detector(ABC):
    """Finds the boxes of named objects in an image, with a detector of the ``transformers`` library. This is the base
    class of the detectors Grounding DINO and OWLv2. It reads the label (the object's name) of a prompt, and writes the
    boxes as a reply. ``settings`` are the settings of the endpoint.
    """

    prompts = ("detect",)
    model_class: ClassVar[Any]
    processor_class: ClassVar[Any]

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.model = load_weights(self.model_class, settings)
        self.processor = self.processor_class.from_pretrained(settings.model, **source(settings))

    def read(self, prompt: RenderedPrompt) -> str:
        """Return the label of a prompt, i.e. the name of the object to find, as text for the model. Raises CallError if
        the label has no letter or digit, or has more tokens than the model accepts.
        """
        text = self.text_of(prompt.variable("label"))
        tokens = len(self.processor.tokenizer(text).input_ids)
        if not any(letter.isalnum() for letter in text) or tokens > self.most_tokens:
            message = (
                f"{self.settings.model} cannot search for {text!r:.80} ({tokens} tokens): a label must have at most "
            )
            raise CallError(
                Failure.UNKNOWN_LABEL,
                f"{message}{self.most_tokens} tokens, and a letter or a digit: use another label",
                partial=NOT_SENT,
            )
        return text

    def answer(self, image: LazyImage, asked: Sequence[str]) -> list[str]:
        """Search the image for objects, and return one reply for each name in ``asked``. The names of the objects are
        in the form that :meth:`read` returns. A reply is a JSON text with the boxes that were found for its name, in
        the endpoint's coordinate frame.
        """
        (width, height), found = self.find(image, asked)
        return [self._reply(objects(boxes, scores, width, height), width, height) for boxes, scores in found]

    def _reply(self, boxes: torch.Tensor, width: int, height: int) -> str:
        frame = self.settings.model_family.frame
        decimals = _DECIMALS.get(frame, 2)
        rows = [box_from_px(frame, (x1, y1, x2, y2), width, height) for x1, y1, x2, y2 in boxes.tolist()]
        return json.dumps({"boxes": [[round(value, decimals) for value in row] for row in rows]})

    @abstractmethod
    def text_of(self, label: str) -> str:
        """Convert a label (the name of an object) to the text that the model expects. Each detector was trained with
        its own form, e.g. "red dog." for Grounding DINO.
        """

    @property
    @abstractmethod
    def most_tokens(self) -> int:
        """Return the largest number of tokens that a text may have, including the begin and end tokens."""

    @abstractmethod
    def find(self, image: LazyImage, texts: Sequence[str]) -> tuple[tuple[int, int], list[_Found]]:
        """Search the image for objects, and return two values. ``texts`` are the names of the objects in the form that
        the model expects, e.g. "red dog.". The first value is the image's width and height in pixels. The second is a
        list with one element for each text: the boxes above the score threshold, in pixels, and their scores.
        """


class GroundingDino(Detector):
    """Runs the detector Grounding DINO. As in the library's own post-processing, a box gets the score of its best
    token.
    """

    model_class = GroundingDinoForObjectDetection
    processor_class = GroundingDinoProcessor

    def text_of(self, label: str) -> str:
        """Return the label in the form that the model was trained on: in lower case, with a full stop at the end, e.g.
        "Red dog" → "red dog.". Other full stops are removed, since they would separate labels.
        """
        return " ".join(label.lower().replace(".", " ").split()) + "."

    @property
    def most_tokens(self) -> int:
        """Return the largest number of tokens that a text may have, including the begin and end tokens. It is read from
        Grounding DINO's config.
        """
        return self.model.config.max_text_len

    @torch.inference_mode()
    def find(self, image: LazyImage, texts: Sequence[str]) -> tuple[tuple[int, int], list[_Found]]:
        """Search the image for objects with Grounding DINO, and return two values. ``texts`` are the names of the
        objects, e.g. "red dog.". The first value is the image's width and height in pixels. The second is a list with
        one element for each text: the boxes above the score threshold, in pixels, and their scores.
        """
        pixels = image.load()
        height, width = pixels.shape[:2]
        seen = prepared(self.processor.image_processor, pixels).to(self.model.device)
        found: list[_Found] = []
        for start in range(0, len(texts), LABELS_AT_ONCE):
            part = list(texts[start : start + LABELS_AT_ONCE])
            words = self.processor.tokenizer(part, padding=True, return_token_type_ids=True, return_tensors="pt")
            words = words.to(self.model.device)
            rows = {name: value.expand(len(part), *value.shape[1:]) for name, value in seen.items()}
            results = self.processor.post_process_grounded_object_detection(
                self.model(**rows, **words),
                words.input_ids,
                threshold=self.settings.threshold,
                target_sizes=[(height, width)] * len(part),
            )
            found += [(result["boxes"], result["scores"]) for result in results]
        return (width, height), found


class Owlv2(Detector):
    """Runs the detector OWLv2. The features that it computes for an image do not depend on the label, so they are
    computed once for all labels. ``settings`` are the settings of the endpoint.
    """

    model_class = Owlv2ForObjectDetection
    processor_class = Owlv2Processor

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._seen: LruCache[tuple[tuple[int, int], torch.Tensor]] = LruCache(IMAGES_KEPT)

    def text_of(self, label: str) -> str:
        """Return the label with single spaces between its words. It is used without a template such as "a photo of a",
        which would not fit plurals and names.
        """
        return " ".join(label.split())

    @property
    def most_tokens(self) -> int:
        """Return the largest number of tokens that a text may have, including the begin and end tokens. It is read from
        OWLv2's config.
        """
        return self.model.config.text_config.max_position_embeddings

    @torch.inference_mode()
    def find(self, image: LazyImage, texts: Sequence[str]) -> tuple[tuple[int, int], list[_Found]]:
        """Search the image for objects with OWLv2, and return two values. ``texts`` are the names of the objects, e.g.
        "red dog". The first value is the image's width and height in pixels. The second is a list with one element for
        each text: the boxes above the score threshold, in pixels, and their scores.

        The texts are processed as separate rows of a batch, so that each text gets all boxes that match it.
        """
        (width, height), grid = self._seen.of(image.sha256, lambda: self._features(image.load()))
        words = self.processor(text=list(texts), return_tensors="pt").to(self.model.device)
        queries = self.model.owlv2.get_text_features(**words).pooler_output
        patches = grid.flatten(1, 2)
        logits, _ = self.model.class_predictor(patches, queries[None], (words.input_ids[:, 0] > 0)[None])
        boxes = self.model.box_predictor(patches, grid)
        rows = SimpleNamespace(logits=logits[0].T[:, :, None], pred_boxes=boxes.expand(len(texts), -1, -1))
        results = self.processor.post_process_grounded_object_detection(
            rows, threshold=self.settings.threshold, target_sizes=[(height, width)] * len(texts)
        )
        return (width, height), [(result["boxes"], result["scores"]) for result in results]

    def _features(self, pixels: np.ndarray) -> tuple[tuple[int, int], torch.Tensor]:
        """Return the image's size (width, height) in pixels, and the features of its patches, (1, rows, columns,
        hidden)."""
        height, width = pixels.shape[:2]
        seen = prepared(self.processor.image_processor, pixels).to(self.model.device)
        return (width, height), self.model.image_embedder(seen.pixel_values)[0]


def objects(boxes: torch.Tensor, scores: torch.Tensor, width: int, height: int) -> torch.Tensor:
    """Choose the boxes to return among those that the model found for one label (the name of an object). Returns them
    in pixels (N, 4) xyxy, clipped to the image, with the best score first.

    ``boxes`` are in pixels (N, 4) xyxy, and ``scores`` (N,) are their scores. ``width`` and ``height`` are the image's
    size. These boxes are removed:

    - boxes whose IoU with a better box is above :data:`SAME_OBJECT_IOU`, since they are duplicates;
    - boxes that, inside the image, are less than half a pixel wide or high (OWLv2 pads images to a square, so it can
      find boxes outside of the image);
    - all boxes after the best :data:`MAX_BOXES`.
    """
    limits = torch.tensor([width, height, width, height], dtype=boxes.dtype, device=boxes.device)
    boxes = torch.minimum(boxes.clamp(min=0), limits)
    inside = (boxes[:, 2:] - boxes[:, :2] >= MIN_SIDE_PX).all(dim=1)
    boxes, scores = boxes[inside], scores[inside]
    return boxes[nms(boxes, scores, SAME_OBJECT_IOU)[:MAX_BOXES]]
