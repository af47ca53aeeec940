"""The arithmetic of a step's memory, by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from groundtrace.trainer.memory import (
    GIB,
    AverageRow,
    available_bytes,
    estimate,
    fullest_row,
    gathered_bytes,
    observed_patches,
    rows_like,
)
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.settings import (
    EnvironmentSettings,
    ForwardBatchSettings,
    GrpoSettings,
    MachineSettings,
    ModelSettings,
    OptimiserSettings,
    RolloutSettings,
    SftSettings,
    TrainerSettings,
    ValidationSettings,
)


def _model(dtype: torch.dtype, is_tower_trained: bool = True) -> Any:
    """40 weights of which 10 are the tower's, and 3 frozen float32 ones.

    Hidden size 4, 2 layers, 1 pair of 2 numbers for keys and values, 10 tokens in the vocabulary; the tower has 3
    layers of hidden size 5, patches of 10 px with 600 values, and a token for four of them.
    """
    parts = {"language": nn.Parameter(torch.zeros(10, 3, dtype=dtype)), "norm": nn.Parameter(torch.zeros(3))}
    model: Any = nn.ModuleDict({"text": nn.ParameterDict(parts)})
    model["visual"] = nn.ParameterList([nn.Parameter(torch.zeros(10, dtype=dtype))])
    parts["norm"].requires_grad_(False)
    model["visual"].requires_grad_(is_tower_trained)
    model._no_split_modules = ["ParameterList"]
    text = SimpleNamespace(
        hidden_size=4, num_hidden_layers=2, vocab_size=10, num_attention_heads=2, num_key_value_heads=1
    )
    tower = SimpleNamespace(
        hidden_size=5, depth=3, patch_size=10, spatial_merge_size=2, in_channels=3, temporal_patch_size=2
    )
    model.config = SimpleNamespace(text_config=text, vision_config=tower)
    return model


ROWS = AverageRow(tokens=4.0, patches=12.0)
"""Two rows stand in the 8 tokens of a pass."""
BF16 = {
    "weights": 40 * 2 + 3 * 4,
    "float32 master weights": 40 * 4,
    "gradients of these": 40 * 4,
    "optimiser moments": 40 * 8,
    "weights that FSDP gathers": 0,
    "a server on the same GPU": 0,
    "gradients": 0,
    "activations": 8 * 4 * 2 * 34,  # tokens * hidden * layers * 34 bytes
    "activations of the vision tower": 24 * 5 * 3 * 34,  # patches * hidden * layers * 34 bytes
    "a chunk of logits": 3 * 4 * 8 * 10,  # three float32 copies of tokens * vocabulary
    "reference model": 0,
}
FLOAT32 = {"weights": 43 * 4, "float32 master weights": 0, "gradients of these": 0, "gradients": 40 * 4}


@pytest.mark.parametrize(
    ("settings", "dtype", "changes"),
    [
        ({}, "bfloat16", {}),
        (
            {"model": {"gradient_checkpointing": True}},
            "bfloat16",
            {"activations": 8 * 4 * (2 + 17) * 2, "activations of the vision tower": 24 * 5 * (3 + 17) * 2},
        ),
        ({"optimiser": {"muon_lr": 0.02}}, "bfloat16", {"optimiser moments": 40 * 4}),
        ({"grpo": {"kl_beta": 0.01}}, "bfloat16", {}),  # SFT has no reference model
        ({}, "float32", {**FLOAT32, "activations": 8 * 4 * 2 * 68, "activations of the vision tower": 24 * 5 * 3 * 68}),
        (
            {"model": {"gradient_checkpointing": True}},
            "float32",
            {
                **FLOAT32,
                "activations": 8 * 4 * (2 + 17) * 4,
                "activations of the vision tower": 24 * 5 * (3 + 17) * 4,
            },
        ),
    ],
)
def test_estimate(settings: dict[str, dict[str, Any]], dtype: str, changes: dict[str, int]) -> None:
    found = estimate(_model(getattr(torch, dtype)), _made(dtype, **settings), ROWS)
    assert dict(found.parts) == BF16 | changes
    assert found.total == sum((BF16 | changes).values())


def test_each_gpu_holds_its_share_and_what_is_gathered() -> None:
    """Of 43 weights the tower's 10 are one block: twice, with gradients in 16 and 32 bits; and the others once."""
    settings = _made("bfloat16", grpo={"kl_beta": 0.1}, rollout={"kind": "vllm", "max_new_tokens": 4})
    whole = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True).parts)
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True, gpus=4).parts)
    sharded = ("weights", "float32 master weights", "gradients of these", "optimiser moments", "reference model")
    assert {name: found[name] for name in sharded} == {name: whole[name] / 4 for name in sharded}
    assert found["weights that FSDP gathers"] == (30 * 2 + 3 * 4) + 30 * 2 + (2 + 1) * 10 * 2 + 10 * 4
    others = whole.keys() - {*sharded, "weights that FSDP gathers"}
    assert {name: found[name] for name in others} == {name: whole[name] for name in others}


def test_weights_that_are_not_trained_have_no_gathered_gradient() -> None:
    assert gathered_bytes(_model(torch.bfloat16, is_tower_trained=False)) == 30 * 2 + 3 * 4 + 30 * 2 + 2 * 10 * 2


def test_the_optimiser_needs_a_copy_if_that_is_more_than_the_activations() -> None:
    """One token without images: 34 bytes for each of 4 hidden dimensions and 2 layers, and 120 bytes of logits."""
    settings = replace(_made("bfloat16"), batch=ForwardBatchSettings(2, 2))
    model = _model(torch.bfloat16)
    model["more"] = nn.ParameterList([nn.Parameter(torch.zeros(1000, dtype=torch.bfloat16))])
    found = dict(estimate(model, settings, AverageRow(2.0)).parts)
    assert found["a temporary copy in the optimiser's step"] == 4 * 1040
    assert "activations" not in found, "they are freed before the step"


@pytest.mark.parametrize(("is_grpo", "share", "gib"), [(True, 0, 1.5), (False, 0, 0), (False, 0.1, 1.5)])
def test_a_server_on_the_same_gpu(is_grpo: bool, share: float, gib: float) -> None:
    """SFT samples answers only for its validation."""
    settings = replace(_made("bfloat16", validation={"share": share}), machine=MachineSettings(server_gib=1.5))
    for gpus in (1, 8):
        found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo, gpus).parts)
        assert found["a server on the same GPU"] == gib * GIB


def test_the_rollouts_of_each_gpu() -> None:
    """16 prompts on 4 GPUs: 4 prompts of 2 answers each."""
    settings = _made("bfloat16", grpo={"group_size": 2}, rollout={"max_new_tokens": 9000})
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True, gpus=4).parts)
    assert found["the rollouts' keys and values"] == 4 * 2 * 9004 * 2 * 2 * 1 * 2 * 2
    assert found["the rollouts' images"] == 4 * 12 * (600 * 4 + 34 * 5)
    assert found["the rollouts' gathered weights"] == 40 * 2 + 3 * 4


def test_the_fullest_row() -> None:
    """Each token of an image shows four patches."""
    settings = replace(_made("bfloat16", rollout={"max_new_tokens": 30}), batch=ForwardBatchSettings(100, 200))
    assert fullest_row(_model(torch.bfloat16), settings, is_grpo=False) == AverageRow(100, 400)
    assert fullest_row(_model(torch.bfloat16), settings, is_grpo=True) == AverageRow(70, 280)


def _made(dtype: str, **sections: Any) -> TrainerSettings:
    return TrainerSettings(
        ModelSettings("x", dtype=dtype, **sections.get("model", {})),
        batch=ForwardBatchSettings(8, 8),
        sft=SftSettings(optimiser=OptimiserSettings(**sections.get("optimiser", {}))),
        grpo=GrpoSettings(**sections.get("grpo", {})),
        rollout=RolloutSettings(**sections.get("rollout", {})),
        environment=EnvironmentSettings(**sections.get("environment", {})),
        validation=ValidationSettings(**sections.get("validation", {})),
    )


def test_a_tower_that_is_not_trained_keeps_nothing_of_its_layers() -> None:
    model = _model(torch.bfloat16, is_tower_trained=False)
    assert dict(estimate(model, _made("bfloat16"), ROWS).parts)["activations of the vision tower"] == 24 * 5 * 34


def test_a_projector_that_is_trained_alone_keeps_nothing_of_the_layers() -> None:
    model = _model(torch.bfloat16, is_tower_trained=False)
    merger = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(10, dtype=torch.bfloat16))})
    model["visual"] = nn.ModuleDict({"blocks": model["visual"], "merger": merger})
    assert dict(estimate(model, _made("bfloat16"), ROWS).parts)["activations of the vision tower"] == 24 * 5 * 34


def test_each_command_has_the_moments_of_its_own_optimiser() -> None:
    settings = replace(_made("bfloat16"), grpo=GrpoSettings(optimiser=OptimiserSettings(muon_lr=0.02)))
    for is_grpo, size in ((False, 8), (True, 4)):
        found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo).parts)
        assert found["optimiser moments"] == 40 * size


@pytest.mark.parametrize(("group_size", "patches"), [(2, 12), (4, 12)])
def test_a_group_shares_its_images(group_size: int, patches: int) -> None:
    """Answers of 4 tokens: one row stands in a pass, and one image at least."""
    settings = _made("bfloat16", grpo={"group_size": group_size}, rollout={"max_new_tokens": 4, "kind": "vllm"})
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True).parts)
    assert found["activations of the vision tower"] == patches * 5 * 3 * 34


@pytest.mark.parametrize(("at_once", "answers"), [(64, 32), (2, 4)])
def test_rollouts_that_need_more_than_the_update(at_once: int, answers: int) -> None:
    """16 prompts of 2 answers, or 2 at a time: keys and values of 1004 tokens each, 2 layers, 1 head of 2 numbers."""
    settings = _made(
        "bfloat16",
        grpo={"group_size": 2, "kl_beta": 0.1},
        rollout={"max_new_tokens": 1000, "prompts_at_once": at_once},
    )
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True).parts)
    assert found["the rollouts' keys and values"] == answers * 1004 * 2 * 2 * 1 * 2 * 2
    assert found["the rollouts' images"] == (16 if at_once > 16 else 2) * 12 * (600 * 4 + 34 * 5)
    assert found["reference model"] == 40 * 2 + 3 * 4
    adapted = replace(settings, model=replace(settings.model, lora_rank=8))
    assert dict(estimate(_model(torch.bfloat16), adapted, ROWS, is_grpo=True).parts)["reference model"] == 0
    assert "activations" not in found, "the two are not held at once"
    elsewhere = replace(settings, rollout=replace(settings.rollout, kind="vllm"))
    assert "activations" in dict(estimate(_model(torch.bfloat16), elsewhere, ROWS, is_grpo=True).parts)


CODE: dict[str, Any] = {"kind": "sandbox", "options": {"sandbox": {"max_image_pixels": 1000}}}
"""An environment whose images are of 10 patches each."""


@pytest.mark.parametrize(
    ("environment", "tokens", "max_pixels", "patches"),
    [
        ({}, 400, None, 0),
        (CODE | {"max_images": 3}, 400, None, 30),
        (CODE | {"max_images": 3}, 400, 250, 9),  # the model shrinks them to 3 patches
        (CODE | {"max_images": 3}, 5, None, 20),  # no more tokens fit
        (CODE | {"max_images": 0}, 400, None, 0),
        (CODE | {"max_turns": 1}, 400, None, 0),  # nothing follows the only turn
        ({"kind": "tests.trainer.turns:Echo"}, 400, None, 1600),  # images of any size
        ({"kind": "tests.trainer.turns:Echo", "max_images": 2}, 400, 700, 14),
    ],
)
def test_observed_patches(environment: dict[str, Any], tokens: int, max_pixels: int | None, patches: int) -> None:
    settings = _made("bfloat16", environment=environment, rollout={"max_new_tokens": tokens})
    settings = replace(settings, model=replace(settings.model, max_pixels=max_pixels))
    assert observed_patches(_model(torch.bfloat16), settings) == patches


@pytest.mark.parametrize(("images", "observed"), [(0, 0), (3, 30)])
def test_each_response_is_shown_images_of_its_own(images: int, observed: int) -> None:
    """Answers of 20 tokens: the 72 tokens of a pass hold three responses, of one group or of several."""
    sections = {"environment": CODE | {"max_images": images}, "rollout": {"max_new_tokens": 20, "kind": "vllm"}}
    settings = replace(_made("bfloat16", **sections), batch=ForwardBatchSettings(24, 72))
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True).parts)
    assert found["activations of the vision tower"] == (12 + 3 * observed) * 5 * 3 * 34
    assert dict(estimate(_model(torch.bfloat16), settings, ROWS).parts)["activations of the vision tower"] == (
        72 // 4 * 12 * 5 * 3 * 34
    ), "SFT has no environment: the images of its trajectories are those of its rows"


def test_rollouts_with_images_of_observations() -> None:
    """Of 16 prompts at most 8 at a time, then of their 32 responses 8 at a time: each with 12 and 30 patches."""
    sections = {"environment": CODE | {"max_images": 3}, "rollout": {"max_new_tokens": 9000, "prompts_at_once": 8}}
    settings = _made("bfloat16", grpo={"group_size": 2}, **sections)
    found = dict(estimate(_model(torch.bfloat16), settings, ROWS, is_grpo=True).parts)
    assert found["the rollouts' images"] == 8 * (12 + 30) * (600 * 4 + 34 * 5)
    by_server = replace(settings, rollout=replace(settings.rollout, kind="vllm"))
    assert "the rollouts' images" not in dict(estimate(_model(torch.bfloat16), by_server, ROWS, is_grpo=True).parts)


def test_what_rows_are_like(sample: Any, qwen3: VisionLanguageModel) -> None:
    """A text and a picture of 64x96 px, which is 4x6 patches of 16 px."""
    found = rows_like([one := sample(qwen3, "one"), text := sample(qwen3, "text")])
    assert found == AverageRow((len(one) + len(text)) / 2, 24 / 2, 1 / 2)
    assert rows_like([]) == AverageRow()


def test_a_real_model_has_all_that_is_looked_at(vlm: VisionLanguageModel) -> None:
    """Of each family: the names of its sizes, and its tower by name."""
    settings = replace(_made("float32", rollout={"max_new_tokens": 10**5}), model=vlm.settings)
    settings = replace(settings, batch=ForwardBatchSettings(8, 10**5))
    for is_grpo in (False, True):
        found = dict(estimate(vlm.model, settings, ROWS, is_grpo).parts)
        assert found["the rollouts' keys and values" if is_grpo else "activations of the vision tower"] > 0
    assert any("visual." in name for name, _ in vlm.model.named_parameters())


def test_logits_are_counted_for_one_chunk() -> None:
    made = TrainerSettings(ModelSettings("x"), batch=ForwardBatchSettings(8, 10**6))
    assert dict(estimate(_model(torch.bfloat16), made, ROWS).parts)["a chunk of logits"] == 3 * 4 * 2048 * 10


def test_there_is_some_memory() -> None:
    assert available_bytes() > 2**26
