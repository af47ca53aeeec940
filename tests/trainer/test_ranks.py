"""Two ranks train as one process does: losses, gradient norms and weights over three steps (docs/training.md).

The tolerances are those of the documentation. Sums of float32 numbers depend on their order, and Adam divides a
gradient by its own size: where a gradient is nothing but rounding, its sign decides, and a weight moves by up to ``lr``
in each step. So most weights must agree closely, and each to within the largest possible difference of Adam's steps.
"""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from groundtrace.trainer import ranks
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.filler import filler
from groundtrace.trainer.model import VisionLanguageModel

from . import ranked
from .ranked import SCENARIOS, on_two_ranks, run_ranks, run_resumed, write_tied

FAST = ("float32", "one has nothing", "grpo", "failing")
"""The scenarios of the one test that ``make test`` runs."""
LONG = tuple(name for name in SCENARIOS if name not in FAST)
MAX_MOVED = 2 * ranked.STEPS
"""Adam moves a weight by at most about ``lr`` in a step, in either direction."""


@pytest.fixture(scope="session")
def models(folders: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    tied = tmp_path_factory.mktemp("tied") / "tied"
    write_tied(tied)
    return {**folders, "tied": tied}


@pytest.fixture(scope="session")
def two(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The result of a long scenario on two ranks. Its attribute ``folder`` has a folder for each of them."""
    folder = tmp_path_factory.mktemp("two")
    found = on_two_ranks(LONG, models, folder)

    def result(name: str) -> dict[str, Any]:
        return found[name]

    result.folder = folder  # type: ignore[attr-defined]
    return result


@pytest.fixture
def one(models: Mapping[str, Path], tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """The result of a scenario in this process."""
    return lambda name: SCENARIOS[name](models, tmp_path)


def check_alike(one: Mapping[str, Any], two: Mapping[str, Any], relative: float, lr: float, apart: float) -> None:
    """Losses and norms agree up to ``relative``; a share of at most ``apart`` weights differs by over ``lr`` / 100.

    No weight differs by more than Adam's steps can make it.
    """
    assert len(one["metrics"]) == len(two["metrics"]) == ranked.STEPS
    for alone, shared in zip(one["metrics"], two["metrics"], strict=True):
        assert alone.keys() == shared.keys()
        for name, value in alone.items():
            expected = None if value is None else pytest.approx(value, rel=relative, abs=relative)
            assert shared[name] == expected, name
    assert one["weights"].keys() == two["weights"].keys()
    pairs = [(one["weights"][name], two["weights"][name]) for name in one["weights"]]
    differences = torch.cat([(alone - shared).abs().flatten() for alone, shared in pairs])
    assert differences.max() <= MAX_MOVED * lr
    assert (differences > lr / 100).float().mean() <= apart


@pytest.mark.ranks
def test_two_ranks_train_as_one_process(
    models: Mapping[str, Path], one: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SFT and GRPO; and an error on one rank is an error on both. One test, so that two processes start once."""
    found = on_two_ranks(FAST, models, tmp_path_factory.mktemp("two"))
    for name in ("float32", "one has nothing", "grpo"):
        check_alike(one(name), found[name], relative=1e-5, lr=1e-3, apart=1e-3)
    assert found["failing"]["errors"] == [
        "FailedElsewhere: rank 1 failed with OSError: the disk is full",
        "OSError: the disk is full",
    ]
    assert (found["failing"]["total"], found["failing"]["totals"]) == (4, {"a": 3.0})
    alone = one("grpo")
    assert found["grpo"]["ids"] == alone["ids"], "dynamic sampling replaces as many groups as both ranks lack"
    assert alone["metrics"][0]["groups_sampled"] > alone["metrics"][0]["groups_kept"] == 3, "some were replaced"


FLOAT32 = (
    *("qwen25", "tied", "checkpointing", "frozen", "frozen tower", "text"),
    *("one has no image", "unequal", "grpo adapters", "grpo one prompt"),
)


@pytest.mark.ranks
@pytest.mark.parametrize("name", FLOAT32)
def test_in_float32(name: str, one: Callable[..., Any], two: Callable[..., Any]) -> None:
    check_alike(one(name), two(name), relative=1e-5, lr=1e-3, apart=1e-3)


@pytest.mark.ranks
def test_adapters(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    check_alike(one("adapters"), two("adapters"), relative=1e-5, lr=1e-2, apart=1e-3)


@pytest.mark.ranks
def test_muon(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    """Muon orthogonalises in bfloat16, so sums in another order differ more."""
    check_alike(one("muon"), two("muon"), relative=1e-3, lr=1e-2, apart=0.1)


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["bfloat16", "bfloat16 adapters", "grpo bfloat16"])
def test_in_bfloat16(name: str, one: Callable[..., Any], two: Callable[..., Any]) -> None:
    check_alike(one(name), two(name), relative=1e-2, lr=1e-3, apart=0.2)


@pytest.mark.ranks
def test_several_updates_of_a_rollout(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    """Samples are dealt to the updates within each rank, so only what does not depend on the deal is the same."""
    alone, shared = one("grpo two updates"), two("grpo two updates")
    assert shared["ids"] == alone["ids"]
    for name in ("reward", "response_tokens", "groups_kept", "entropy"):
        assert shared["metrics"][0][name] == pytest.approx(alone["metrics"][0][name], rel=0.05), name
    assert all(line["grad_norm"] > 0 for line in shared["metrics"])


@pytest.mark.ranks
def test_sampled_answers_are_those_of_the_present_weights(two: Callable[..., Any]) -> None:
    """Before each rollout all ranks gather the weights; stale ones would have other log-probabilities."""
    found = two("sampled")
    assert max(found["norms"][:-1]) > 0, "the weights changed before a later rollout"
    assert all(gap < 1e-4 for gap in found["gaps"]), found["gaps"]
    first, second = found["texts"]
    assert first and second and not any(group in second for group in first), "the ranks draw with other seeds"


@pytest.mark.ranks
def test_the_first_rank_gives_the_weights_to_vllm(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    found = two("published")
    assert found["told"] == [[0], []]
    assert found["files"] == one("published")["files"] and "model.safetensors" in found["files"]


SAVED = ("saved", "saved bfloat16", "saved adapters", "saved muon")
HOW: dict[str, dict[str, Any]] = {
    "saved": {},
    "saved bfloat16": {"dtype": "bfloat16"},
    "saved adapters": {"lora_rank": 4},
    "saved muon": {"optimiser": {"muon_lr": 1e-2}},
}


def _resume(cases: Mapping[str, tuple[Path, Path]], out: Path) -> None:
    found = {name: run_resumed(*paths, **HOW[name]) for name, paths in cases.items()}
    if ranks.is_first():
        torch.save(found, out)


@pytest.mark.ranks
def test_checkpoints_continue_on_another_number_of_ranks(two: Any, models: Mapping[str, Path], tmp_path: Path) -> None:
    """From two ranks to one process and the reverse; from one process to one process, bit for bit."""
    paths = {name: models["tied" if name == "saved adapters" else "qwen3"] for name in SAVED}
    alone, on_one, on_two = dict[str, Any](), dict[str, Path](), dict[str, Path]()
    for name in SAVED:
        (tmp_path / name).mkdir()
        alone[name] = SCENARIOS[name](models, tmp_path / name)
        [on_one[name]] = checkpoints(tmp_path / name / "from-1")
        [on_two[name]] = checkpoints(two.folder / name.replace(" ", "-") / "from-2")
    run_ranks(_resume, {name: (paths[name], on_one[name]) for name in SAVED}, tmp_path / "there.pt")
    there = torch.load(tmp_path / "there.pt", weights_only=False)

    for name in SAVED:
        here = run_resumed(paths[name], on_two[name], **HOW[name])
        again = run_resumed(paths[name], on_one[name], **HOW[name])
        assert here["progress"] == there[name]["progress"] == (1, 4)
        loose = 3e-2 if name == "saved bfloat16" else 1e-4
        assert here["next"] == pytest.approx(two(name)["next"], rel=loose), name
        assert there[name]["next"] == pytest.approx(alone[name]["next"], rel=loose), name
        assert again["next"] == alone[name]["next"], name
        check_same_form(on_one[name], on_two[name])


def check_same_form(on_one: Path, on_two: Path) -> None:
    """The checkpoint of two ranks has a file of each rank, and the same content but for the numbers."""
    files = sorted(file.suffix for file in on_two.rglob("*") if file.is_file())
    assert files == [".pt", ".safetensors", ".safetensors"], "one file of each rank, and that of the first"
    whole, other = (read_checkpoint(path)["optimiser"] for path in (on_one, on_two))
    shapes = [{name: value.shape for name, value in state["masters"].items()} for state in (whole, other)]
    assert shapes[0] == shapes[1]
    for one, two in zip(whole["optimisers"], other["optimisers"], strict=True):
        assert one["param_groups"] == two["param_groups"]
        assert {key: value.keys() for key, value in one["state"].items()} == {
            key: value.keys() for key, value in two["state"].items()
        }


@pytest.mark.ranks
@pytest.mark.parametrize("name", SAVED)
def test_saved_models_have_the_same_files(name: str, one: Callable[..., Any], two: Any, tmp_path: Path) -> None:
    one(name)
    two(name)
    alone, shared = tmp_path / "model-1", two.folder / name.replace(" ", "-") / "model-2"
    names = sorted(path.name for path in alone.iterdir())
    assert sorted(path.name for path in shared.iterdir()) == names
    for each in names:
        if not each.endswith(".safetensors"):
            assert (shared / each).read_text("utf-8") == (alone / each).read_text("utf-8"), each
    weights, others = load_file(alone / "model.safetensors"), load_file(shared / "model.safetensors")
    assert {key: (value.dtype, value.shape) for key, value in weights.items()} == {
        key: (value.dtype, value.shape) for key, value in others.items()
    }


@pytest.mark.ranks
def test_draws_are_the_same_rows_in_the_same_order(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    """Each rank encodes only its own rows, so it must learn from the other which of them cannot be used."""
    alone = one("draws")
    assert two("draws") == alone
    assert len(alone["left_out"]) == 3
    assert len(set(itertools.chain(*alone["ids"]))) == 9


def test_one_process_exchanges_nothing() -> None:
    assert (ranks.count(), ranks.index(), ranks.is_first(), ranks.may_interrupt()) == (1, 0, True, True)
    assert (ranks.gathered("x"), ranks.of_first("x"), ranks.total(3), ranks.totals({"a": 1})) == (
        ["x"],
        "x",
        3,
        {"a": 1},
    )
    assert ranks.own_seed(5) == 5
    assert ranks.all_arrive()
    assert ranks.together(lambda: 7) == ranks.first_before_others(lambda: 7) == 7


@pytest.mark.parametrize("has_image", [True, False])
def test_a_filler_has_no_targets(has_image: bool, vlm: VisionLanguageModel) -> None:
    found = filler(vlm, has_image)
    assert found.targets == 0
    assert bool(found.is_image.any()) == bool(found.images) == has_image
