"""SAM 2 and SAM with random weights: their masks are those that the library itself finds."""

import json
import shutil
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image
from safetensors.torch import load_file, save_file

from groundtrace.inference.endpoints.hf_segmenter import PLACES_AT_ONCE, mask_fields
from groundtrace.inference.endpoints.transformers_models import TransformersEndpoint
from groundtrace.inference.grounding import masks_of_reply
from groundtrace.schemas.records import MediaRef

from ..tiny_vision_models import checkpoint
from ..vision_calls import (
    HEIGHT,
    WIDTH,
    noise,
    one_by_one,
    segment,
    segment_points,
    together,
    use,
    whole,
)

SEGMENTERS = ("sam2", "sam")
POINTS = ([100.5, 20.0], [20.0, 200.5])
BOXES = ([10.0, 10.0, 100.5, 100.0], [50.0, 60.0, 300.0, 200.0], [0.0, 0.0, 20.0, 211.0])


@pytest.fixture
def picture(medium) -> MediaRef:
    return medium(noise())


@pytest.mark.parametrize("name", SEGMENTERS)
@pytest.mark.parametrize("what", ["boxes", "points"])
def test_the_library_itself_finds_these_masks(tmp_path, picture, name, what) -> None:
    image, places = Image.fromarray(noise()), BOXES if what == "boxes" else POINTS
    given = {"input_boxes": [list(BOXES)]} if what == "boxes" else {"input_points": [[[point] for point in POINTS]]}
    prompt = segment(BOXES, picture) if what == "boxes" else segment_points(POINTS, picture)

    async def work(endpoint: TransformersEndpoint) -> None:
        await endpoint.check()
        segmenter: Any = endpoint._loaded()
        inputs = segmenter.processor(images=image, **given, return_tensors="pt")
        sizes = [inputs["original_sizes"], *([inputs["reshaped_input_sizes"]] if name == "sam" else [])]
        fed = {key: inputs[key].float() for key in ("pixel_values", *given)}
        with torch.inference_mode():
            outputs = segmenter.model(**fed, multimask_output=what == "points")
        candidates = segmenter.processor.post_process_masks(outputs.pred_masks, *sizes)[0].numpy()
        best = outputs.iou_scores[0].argmax(dim=1).tolist()
        expected = np.array([masks[i] for masks, i in zip(candidates, best, strict=True)])
        [reply] = await one_by_one(endpoint, [prompt])
        found = [whole(mask) for mask in masks_of_reply(reply, len(places), picture)]
        assert expected.shape == (len(places), HEIGHT, WIDTH)
        assert candidates.shape[1] == (1 if what == "boxes" else 3)
        assert 0 < expected.mean() < 1
        assert np.mean(np.array(found) != expected) < 1e-4  # rounding at a mask's edge

    use(tmp_path, name, work)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_boxes_at_once_give_the_masks_of_boxes_one_by_one(tmp_path, picture, name) -> None:
    many = [[8.0 * i, 5.0 * i, 8.0 * i + 40, 5.0 * i + 60] for i in range(PLACES_AT_ONCE + 3)]

    async def work(endpoint: TransformersEndpoint) -> None:
        [at_once] = await one_by_one(endpoint, [segment(many, picture)])
        single = await one_by_one(endpoint, [segment([box], picture) for box in many])
        masks = masks_of_reply(at_once, len(many), picture)
        assert len({whole(mask).tobytes() for mask in masks}) > 1
        for mask, reply in zip(masks, single, strict=True):
            assert np.mean(whole(mask) != whole(masks_of_reply(reply, 1, picture)[0])) < 1e-4
        prompts = [segment(many[:2], picture), segment([], picture), segment_points(POINTS, picture)]
        company = await together(endpoint, [*prompts, segment(many, picture)])
        for text, prompt in zip(company, [*prompts, segment(many, picture)], strict=True):
            [by_itself] = await one_by_one(endpoint, [prompt])
            sizes = [
                [mask["width"] * mask["height"] for mask in json.loads(each)["masks"]] for each in (text, by_itself)
            ]
            assert sizes[0] == pytest.approx(sizes[1], rel=0.01)

    use(tmp_path, name, work)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_no_boxes_no_masks(tmp_path, picture, name) -> None:
    assert use(tmp_path, name, lambda endpoint: one_by_one(endpoint, [segment([], picture)])) == ['{"masks": []}']


def test_a_checkpoint_of_the_video_model_serves_pictures(tmp_path, picture) -> None:
    """The published SAM 2 checkpoints are of the video model, which holds the image model's weights and more."""
    folder = tmp_path / "video"
    shutil.copytree(checkpoint("sam2"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "sam2_video"}))
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"memory_attention.layer_norm.bias": torch.zeros(32)}, folder / "model.safetensors")
    prompts = [segment(BOXES, picture)]
    replies = [use(tmp_path, each, lambda endpoint: one_by_one(endpoint, prompts)) for each in (folder, "sam2")]
    assert replies[0] == replies[1]


@given(arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.booleans()))
def test_a_mask_is_told_without_loss(pixels: np.ndarray) -> None:
    height, width = pixels.shape
    medium = MediaRef("input:a", "image", "0" * 64, "0" * 64, "0" * 16, width, height, 1, 1)
    [mask] = masks_of_reply(json.dumps({"masks": [mask_fields(pixels)]}), 1, medium)
    read = [[mask.holds(x + 0.5, y + 0.5) for x in range(width)] for y in range(height)]
    assert read == pixels.tolist()
    assert mask.pixels.sum() == pixels.sum()
