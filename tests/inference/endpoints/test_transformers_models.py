"""The endpoint around the vision models: batches, features kept, errors, and checkpoints that cannot be loaded."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.endpoints.transformers_loading import of_library
from groundtrace.inference.endpoints.transformers_models import TransformersEndpoint
from groundtrace.inference.errors import NOT_SENT, CallError
from groundtrace.inference.grounding import masks_of_reply
from groundtrace.inference.models import Models
from groundtrace.inference.request import Continuation, Request, Sampling
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.schemas.records import MediaRef
from groundtrace.vision.media import MediaStore

from ..asking import call
from ..tiny_vision_models import checkpoint
from ..vision_calls import (
    boxes_px,
    detect,
    noise,
    one_by_one,
    request,
    segment,
    segment_points,
    together,
    use,
    whole,
)

DETECTORS, SEGMENTERS = ("grounding-dino", "owlv2"), ("sam2", "sam")
LABELS = ("red square", "dog", "blue circle")
POINTS = ([100.5, 20.0], [20.0, 200.5])
BOXES = ([10.0, 10.0, 100.5, 100.0], [50.0, 60.0, 300.0, 200.0], [0.0, 0.0, 20.0, 211.0])


@pytest.fixture
def picture(medium) -> MediaRef:
    return medium(noise())


@pytest.mark.parametrize(
    ("name", "encoder"),
    [("owlv2", "owlv2.vision_model"), ("sam2", "vision_encoder"), ("sam", "vision_encoder")],
)
def test_a_pictures_features_are_computed_once(tmp_path, medium, name, encoder) -> None:
    pictures, passes = [medium(noise(seed), f"{seed}.png") for seed in range(2)], []

    async def work(endpoint: TransformersEndpoint) -> None:
        await endpoint.check()
        loaded: Any = endpoint._loaded()
        loaded.model.get_submodule(encoder).register_forward_hook(lambda *_: passes.append(1))
        for each in [*pictures, *pictures]:
            asked = (
                [detect(label, each) for label in LABELS] if name == "owlv2" else [segment([b], each) for b in BOXES]
            )
            await one_by_one(endpoint, asked)

    use(tmp_path, name, work)
    assert len(passes) == len(pictures)


@pytest.mark.parametrize("name", [*DETECTORS, *SEGMENTERS])
def test_the_same_again_gives_the_same_again(tmp_path, picture, name) -> None:
    prompts = [detect(label, picture) for label in LABELS] if name in DETECTORS else [segment(BOXES, picture)]
    first = use(tmp_path, name, lambda endpoint: one_by_one(endpoint, prompts))
    assert use(tmp_path, name, lambda endpoint: one_by_one(endpoint, prompts)) == first
    reply = use(tmp_path, name, lambda endpoint: endpoint.generate(request(prompts[0], n=3)))
    assert [completion.text for completion in reply.completions] == [first[0]] * 3


@pytest.mark.parametrize("name", [*DETECTORS, *SEGMENTERS])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (300, 3)])
def test_small_and_thin_pictures(tmp_path, medium, name, width, height) -> None:
    thin = medium(noise(1, width, height))
    prompt = detect("dog", thin) if name in DETECTORS else segment([[0, 0, width, height]], thin)
    [text] = use(tmp_path, name, lambda endpoint: one_by_one(endpoint, [prompt]), threshold=0.0)
    assert len(boxes_px(text, thin)) >= 0 if name in DETECTORS else masks_of_reply(text, 1, thin)


LINE = MediaPart("input:line.png", "1" * 64)
VIDEO = MediaPart("input:clip.mp4", "2" * 64, "video")
OTHER = MediaPart("input:other.png", "3" * 64)


@pytest.mark.parametrize(
    ("name", "build", "said"),
    [
        ("grounding-dino", lambda p: segment(BOXES, p), "unsupported: .*answers detect prompts, not segment.v1"),
        (
            "sam2",
            lambda p: detect("dog", p),
            "unsupported: .*answers segment and segment_points prompts, not detect.v1",
        ),
        ("grounding-dino", lambda _: detect("dog"), "unsupported: .*needs one image"),
        ("owlv2", lambda p: detect("dog", p, OTHER), "unsupported: .*needs one image"),
        ("sam", lambda _: segment(BOXES, VIDEO), "unsupported: .*needs one image"),
        ("grounding-dino", lambda p: detect("", p), "unknown_label: .*cannot search for '.'"),
        ("owlv2", lambda p: detect("-", p), r"unknown_label: .*a letter or a digit"),
        ("grounding-dino", lambda p: detect("a dog " * 40, p), "unknown_label: .*83 tokens.*at most 32 tokens"),
        ("owlv2", lambda p: detect("unpronounceable", p), "unknown_label: .*17 tokens.*at most 16 tokens"),
        ("sam2", lambda p: segment("[[1, 2, 3", p), "bad_request: the prompt's boxes"),
        ("sam2", lambda p: segment([[1, 2, 3]], p), "bad_request: .*each needs 4 finite numbers"),
        ("sam", lambda p: segment([["a", 2, 3, 4]], p), "bad_request: the prompt's boxes"),
        ("sam", lambda p: segment("[[NaN, 2, 3, 4]]", p), "bad_request: .*each needs 4 finite numbers"),
        ("sam", lambda p: segment("7", p), "bad_request: the prompt's boxes"),
        ("sam", lambda p: segment_points(BOXES, p), "bad_request: the prompt's points .*each needs 2 finite numbers"),
        ("grounding-dino", lambda _: detect("dog", LINE), "unsupported: an image of 2000x1 px cannot be resized"),
        ("sam", lambda _: segment(BOXES, LINE), "unsupported: an image of 2000x1 px cannot be resized"),
    ],
)
def test_what_cannot_be_asked(tmp_path, medium, picture, name, build, said) -> None:
    medium(noise(1, 2000, 1), "line.png")
    with pytest.raises(CallError, match=said) as caught:
        use(tmp_path, name, lambda endpoint: one_by_one(endpoint, [build(picture)]))
    assert caught.value.partial == NOT_SENT
    assert not caught.value.retryable


def test_an_error_is_its_own_prompts_only(tmp_path, picture) -> None:
    prompts = [detect("dog", picture), detect("", picture), segment(BOXES, picture), detect("square", picture)]
    dog, empty, wrong, square = use(tmp_path, "grounding-dino", lambda endpoint: together(endpoint, prompts))
    assert isinstance(empty, CallError)
    assert isinstance(wrong, CallError)
    assert dog != square
    assert len(boxes_px(dog, picture))


def test_no_log_probabilities(tmp_path, picture) -> None:
    asked = Request(detect("dog", picture), Sampling(), (0,), Continuation("", "dog"))
    with pytest.raises(CallError, match=r"unsupported: .*cannot score a continuation"):
        use(tmp_path, "owlv2", lambda endpoint: endpoint.generate(asked))


def test_out_of_memory_fails_the_call_and_not_the_run(tmp_path, picture) -> None:
    def fill(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    async def work(endpoint: TransformersEndpoint) -> None:
        await endpoint.check()
        loaded: Any = endpoint._loaded()
        handle = loaded.model.register_forward_pre_hook(fill)
        with pytest.raises(CallError, match=r"overloaded: the model has run out of memory: use a smaller model \(CUDA"):
            await one_by_one(endpoint, [detect("dog", picture)])
        handle.remove()
        await one_by_one(endpoint, [detect("dog", picture)])

    use(tmp_path, "grounding-dino", work)


def test_opening_an_endpoint_imports_no_torch() -> None:
    code = (
        "import sys\n"
        "from groundtrace.inference.endpoint import open_endpoint\n"
        "from groundtrace.inference.settings import EndpointSettings\n"
        "from groundtrace.vision.media import MediaStore\n"
        "open_endpoint(EndpointSettings('transformers', 'somewhere'), MediaStore('a', 'b'), 1)\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_check(tmp_path) -> None:
    assert use(tmp_path, "sam2", lambda endpoint: endpoint.check()).startswith(
        "answers segment and segment_points prompts with "
    )


@pytest.mark.parametrize("changes", [{"threshold": 0.31}, {"revision": "v2"}])
def test_what_changes_the_reply_changes_the_key(tmp_path, changes) -> None:
    media = MediaStore(str(tmp_path), str(tmp_path))
    settings = EndpointSettings("transformers", "some/model")
    keys = {TransformersEndpoint(each, media, 1).revision for each in (settings, replace(settings, **changes))}
    assert len(keys) == 2


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_score(threshold) -> None:
    with pytest.raises(ValueError, match="threshold"):
        EndpointSettings("transformers", "some/model", threshold=threshold)


def test_masks_of_a_label_through_the_models_argos_eq_1(tmp_path, picture) -> None:
    endpoints = [
        ("boxes", EndpointSettings("transformers", str(checkpoint("owlv2")))),
        ("masks", EndpointSettings("transformers", str(checkpoint("sam2")))),
    ]
    settings = ModelsSettings(
        endpoints=tuple(endpoints),
        roles=(("detector", "boxes"), ("segmenter", "masks")),
        cache_path=str(tmp_path / "replies.sqlite"),
        input_root=str(tmp_path / "data"),
        run_root=str(tmp_path / "run"),
    )

    async def ask(models: Models) -> tuple[list[bytes], int]:
        detected = await models.generate("detector", detect("dog", picture), Sampling())
        boxes = boxes_px(detected.text, picture).tolist()
        segmented = await models.generate("segmenter", segment(boxes, picture), Sampling())
        masks = masks_of_reply(segmented.text, len(boxes), picture)
        return [whole(mask).tobytes() for mask in masks], detected.call.usage.requests + segmented.call.usage.requests

    masks, requests = call(settings, ask)
    assert masks
    assert requests == 2
    assert call(settings, ask) == (masks, 0)  # from the cache: no model is loaded


def test_two_threads_do_not_use_the_library_for_loading_at_the_same_time() -> None:
    """transformers imports its modules lazily, and a second thread that imports one meanwhile gets an ImportError."""
    inside = threading.Lock()

    def load(_: EndpointSettings) -> bool:
        is_alone = inside.acquire(blocking=False)
        time.sleep(0.05)
        if is_alone:
            inside.release()
        return is_alone

    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda name: of_library(EndpointSettings("transformers", name), load), ["a", "b"])
    assert list(found) == [True, True]
