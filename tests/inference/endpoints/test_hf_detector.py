"""Grounding DINO and OWLv2 with random weights: their boxes are those that the library itself finds."""

from typing import Any

import pytest
import torch
from PIL import Image

from groundtrace.inference.endpoints.hf_detector import MAX_BOXES, objects
from groundtrace.inference.endpoints.transformers_models import TransformersEndpoint
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.records import MediaRef

from ..vision_calls import (
    HEIGHT,
    WIDTH,
    boxes_px,
    detect,
    noise,
    one_by_one,
    together,
    use,
)

DETECTORS = ("grounding-dino", "owlv2")
LABELS = ("red square", "dog", "blue circle")


@pytest.fixture
def picture(medium) -> MediaRef:
    return medium(noise())


@pytest.mark.parametrize("name", DETECTORS)
def test_boxes_lie_inside_the_picture(tmp_path, picture, name) -> None:
    [text] = use(tmp_path, name, lambda endpoint: one_by_one(endpoint, [detect("dog", picture)]), threshold=0.0)
    boxes = boxes_px(text, picture)
    assert 0 < len(boxes) <= MAX_BOXES
    assert (boxes >= 0).all()
    assert (boxes <= [WIDTH, HEIGHT, WIDTH, HEIGHT]).all()
    assert (boxes[:, 2:] - boxes[:, :2] > 0.4).all()


@pytest.mark.parametrize("name", DETECTORS)
def test_a_higher_threshold_keeps_the_first_boxes(tmp_path, picture, name) -> None:
    def found(threshold: float) -> list[list[float]]:
        work = lambda endpoint: one_by_one(endpoint, [detect("dog", picture)])  # noqa: E731
        return boxes_px(use(tmp_path, name, work, threshold=threshold)[0], picture).tolist()

    all_boxes, sure = found(0.0), found(0.99)
    assert len(sure) < len(all_boxes)
    assert sure == all_boxes[: len(sure)]
    assert found(1.0) == []  # no score is above 1


@pytest.mark.parametrize("name", DETECTORS)
def test_the_library_itself_finds_these_boxes(tmp_path, picture, name) -> None:
    image = Image.fromarray(noise())

    async def work(endpoint: TransformersEndpoint) -> None:
        await endpoint.check()
        detector: Any = endpoint._loaded()
        for label in LABELS:
            text = detector.text_of(label)
            inputs = detector.processor(images=image, text=[[text]] if name == "owlv2" else text, return_tensors="pt")
            with torch.inference_mode():
                outputs = detector.model(**inputs)
            ids = {} if name == "owlv2" else {"input_ids": inputs.input_ids}
            [found] = detector.processor.post_process_grounded_object_detection(
                outputs, **ids, threshold=0.3, target_sizes=[(HEIGHT, WIDTH)]
            )
            expected = objects(found["boxes"], found["scores"], WIDTH, HEIGHT)
            [reply] = await one_by_one(endpoint, [detect(label, picture)])
            assert len(expected)
            assert boxes_px(reply, picture) == pytest.approx(expected.numpy(), abs=0.02)

    use(tmp_path, name, work)


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("owlv2", "unit"),
        ("owlv2", "norm1000"),
        ("owlv2", "molmo100"),
        ("owlv2", "gemini"),
        ("grounding-dino", "gemini"),
    ],
)
def test_every_frame_names_the_same_places(tmp_path, picture, name, frame) -> None:
    work = lambda endpoint: one_by_one(endpoint, [detect("dog", picture)])  # noqa: E731
    [in_px], [in_frame] = use(tmp_path, name, work), use(tmp_path, name, work, frame=frame)
    assert boxes_px(in_frame, picture, CoordinateFrame(frame)) == pytest.approx(boxes_px(in_px, picture), abs=0.05)


@pytest.mark.parametrize("name", DETECTORS)
def test_a_label_is_looked_for_by_itself_whatever_its_company(tmp_path, picture, name) -> None:
    prompts = [detect(label, picture) for label in LABELS]
    alone = use(tmp_path, name, lambda endpoint: one_by_one(endpoint, prompts))
    assert len(set(alone)) == len(LABELS)
    for reply, other in zip(use(tmp_path, name, lambda endpoint: together(endpoint, prompts)), alone, strict=True):
        assert boxes_px(reply, picture) == pytest.approx(boxes_px(other, picture), abs=0.02)


def test_labels_that_wait_share_a_forward_pass(tmp_path, picture) -> None:
    passes: list[int] = []

    async def work(endpoint: TransformersEndpoint) -> None:
        await endpoint.check()
        loaded: Any = endpoint._loaded()
        loaded.model.register_forward_hook(lambda _module, _inputs, outputs: passes.append(len(outputs.logits)))
        await together(endpoint, [detect(label, picture) for label in LABELS])

    use(tmp_path, "grounding-dino", work)
    assert passes == [len(LABELS)]


def test_objects_are_told_once_and_best_first() -> None:
    # Of 10x10 boxes, one shifted by 1 overlaps 90/110 = 0.82, one shifted by 2 overlaps 80/120 = 0.67.
    boxes = torch.tensor(
        [
            [20.0, 20, 30, 30],
            [21, 20, 31, 30],
            [23, 20, 33, 30],
            [-5, -5, 5, 5],
            [-9, 0, -1, 5],
            [95, 40, 120, 90],
        ]
    )
    scores = torch.tensor([0.5, 0.6, 0.4, 0.9, 0.8, 0.7])
    kept = [[0, 0, 5, 5], [95, 40, 100, 50], [21, 20, 31, 30], [23, 20, 33, 30]]
    assert objects(boxes, scores, 100, 50).tolist() == kept


def test_no_more_than_the_most_boxes() -> None:
    left = torch.arange(300, dtype=torch.float32)
    boxes = torch.stack([left, left * 0, left + 0.5, left * 0 + 1], dim=1)
    kept = objects(boxes, left / 300, 300, 10)
    assert kept[:, 0].tolist() == [299.0 - i for i in range(MAX_BOXES)]
