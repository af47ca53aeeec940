"""Trainings that tests run twice: in one process, and on two ranks (processes with gloo, on the CPU).

Each function below :data:`SCENARIOS` runs in both ways without knowing which, and returns plain values and whole
weights. The two ranks run all of them in one go, because a process takes seconds to start.
"""

import io
import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from transformers import Qwen3VLForConditionalGeneration

from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import ranks
from groundtrace.trainer.checkpoint import Progress, load_checkpoint, save_checkpoint
from groundtrace.trainer.encode import encode_messages, sft_sample
from groundtrace.trainer.grpo import grpo_step
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.reference import reference_of
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.row_sampler import LengthLimit, RowSampler
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import ModelSettings
from groundtrace.trainer.sft import sft_step
from groundtrace.trainer.sharding import gathered_parts, is_sharded, shard
from groundtrace.trainer.tiny_model import build_config, build_processor, save_model
from groundtrace.trainer.vllm_rollouts import VllmSampler

from ..added import WHOLE_RL, WHOLE_SFT
from ..vllm import tiny_qwen3vl
from .conftest import CONVERSATIONS, draw
from .runs import Said, settings_of, trainee_of

STEPS = 3
OPTIMISER = {"lr": 1e-3, "weight_decay": 0.1, "max_grad_norm": 0.5}
KINDS = ("one", "text", "tool", "two")


def write_tied(folder: Path) -> None:
    """A tiny model whose input and output embeddings are one weight."""
    torch.manual_seed(7)
    tokenizer = tiny_qwen3vl.build_tokenizer()
    text = tiny_qwen3vl.TEXT | {"tie_word_embeddings": True}
    config = build_config(tokenizer, tiny_qwen3vl.CONTEXT_TOKENS, text, tiny_qwen3vl.VISION)
    model = Qwen3VLForConditionalGeneration(config).eval()
    save_model(folder, model, build_processor(tokenizer, tiny_qwen3vl.PATCH_PX, tiny_qwen3vl.MAX_PX))


def loaded(path: Path, **settings: Any) -> VisionLanguageModel:
    """A fresh model, in float32 on the CPU; its adapters, if any, have the same random values in each process."""
    torch.manual_seed(5)
    chosen: dict[str, Any] = {"path": str(path), "dtype": "float32"} | settings
    return load_model(ModelSettings(**chosen), device="cpu")


def samples_of(vlm: VisionLanguageModel, kinds: Sequence[str]) -> list[Sample]:
    """Conversations of these kinds, with pictures that are all different."""
    found = []
    for number, kind in enumerate(kinds):
        turns, sizes = CONVERSATIONS[kind]
        images = [vlm.encode_image(draw(*size, number), f"{size}-{number}") for size in sizes]
        found.append(encode_messages(vlm, f"{kind}-{number}", turns, images))
    return found


def own(rows: Sequence[Any]) -> list[Any]:
    """The rows of this rank."""
    return list(rows[ranks.index() :: ranks.count()])


def weights_now(vlm: VisionLanguageModel) -> dict[str, torch.Tensor]:
    """Copies of all weights, whole."""
    found = {}
    for prefix, part in gathered_parts(vlm.model):
        for name, weight in part.named_parameters():
            if not is_sharded(weight):
                found[prefix + name] = weight.detach().float().clone()
    return found


def run_sft(
    path: Path, steps: Sequence[Sequence[str]], tokens: int = 10**6, optimiser: Mapping[str, Any] | None = None,
    **model: Any,
) -> dict[str, Any]:  # fmt: skip
    """SFT steps over conversations of these kinds: their metrics, and the weights after them."""
    vlm = loaded(path, **model)
    shard(vlm.model)
    settings = settings_of(path, optimiser=OPTIMISER | dict(optimiser or {})).sft.optimiser
    made = Optimiser(vlm.model, settings, len(steps))
    lines = [sft_step(vlm, made, own(samples_of(vlm, kinds)), step, tokens) for step, kinds in enumerate(steps)]
    names = ("loss", "grad_norm", "samples", "targets", "tokens")
    return {"metrics": [{name: line[name] for name in names} for line in lines], "weights": weights_now(vlm)}


def write_data(folder: Path, side: str, count: int) -> Path:
    """So many questions with a picture as shards of a side; every fourth picture of ``sft`` does not decode."""

    def png(number: int) -> bytes:
        stream = io.BytesIO()
        draw(64 + 32 * (number % 2), 64, number).save(stream, "PNG")
        return b"no picture" if side == "sft" and number % 4 == 1 else stream.getvalue()

    rows = []
    for number in range(count):
        prompt = [{"role": "user", "content": f"<image>How many are red, {number}?"}]
        fields = {"id": f"q{number}", "source": "drawn", "license": "CC0-1.0", "question": "How many are red?"}
        fields |= {"answer": "3", "answer_type": "numeric", "images": [{"bytes": png(number), "path": None}]}
        rows.append(
            fields | {"prompt": prompt, "messages": [*prompt, {"role": "assistant", "content": "There are 3."}]}
        )
    (folder / side).mkdir(parents=True, exist_ok=True)
    schema = {"sft": WHOLE_SFT, "rl": WHOLE_RL}[side]
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / side / "train-00000.parquet")
    return folder


MIXED = ["<answer>3</answer>", "<answer>4</answer> as seen", "<answer>3</answer> indeed", "none"]
FLAT = ["<answer>3</answer>"] * 4
SCRIPT = {f"q{number}": [MIXED if number % 3 else FLAT] for number in range(6)}
"""The answers to each question, whenever it is asked; dynamic sampling replaces two questions, which teach nothing."""


def run_grpo(path: Path, folder: Path, grpo: Mapping[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    """GRPO steps over scripted answers, with the reward's own verdicts: their metrics, and the weights after them."""
    ranks.first_before_others(lambda: write_data(folder, "rl", 6) if ranks.is_first() else None)
    settings = settings_of(
        path,
        optimiser=OPTIMISER,
        model=model,
        grpo={"steps": STEPS, "prompts_per_step": 3, "kl_beta": 0.05} | dict(grpo or {}),
        reward={"options": {"skip": ["format", "spatial", "counting", "reasoning"]}},
    )
    vlm = loaded(path, **model)
    reference = reference_of(vlm)
    shard(vlm.model)
    if reference is not vlm.model:
        shard(reference)
    output = folder / f"out-{ranks.count()}-{ranks.index()}"
    trainee = trainee_of(vlm, settings, Said(vlm, SCRIPT), output, folder, reference)
    lines, ids = [], []
    for step in range(STEPS):
        groups, metrics = grpo_step(trainee, step)
        ids.append(sorted(itertools.chain(*ranks.gathered([group.row.id for group in groups]))))
        lines.append({name: value for name, value in metrics.items() if not name.endswith("_s")})
    trainee.reward.close()
    return {"metrics": lines, "ids": ids, "weights": weights_now(vlm)}


def run_sampled(path: Path, folder: Path) -> dict[str, Any]:
    """GRPO steps over sampled answers: how far the sampler's log-probabilities are from the trainer's."""
    ranks.first_before_others(lambda: write_data(folder, "rl", 6) if ranks.is_first() else None)
    grpo = {"steps": STEPS, "prompts_per_step": 3, "dynamic_sampling": False, "overlong": "soft", "overlong_buffer": 24}
    settings = settings_of(path, optimiser={"lr": 1e-2}, grpo=grpo, rollout={"max_new_tokens": 24})
    vlm = loaded(path)
    shard(vlm.model)
    sampler = TransformersSampler(vlm, settings.rollout)
    trainee = trainee_of(vlm, settings, sampler, folder / f"out-{ranks.count()}-{ranks.index()}", folder)
    found = [grpo_step(trainee, step) for step in range(STEPS)]
    trainee.reward.close()
    texts = [[each.text for each in group.scored] for groups, _ in found for group in groups]
    return {
        "gaps": [metrics["logprob_gap"] for _, metrics in found],
        "norms": [metrics["grad_norm"] for _, metrics in found],
        "texts": ranks.gathered(texts),
    }


def run_saved(path: Path, folder: Path, **model: Any) -> dict[str, Any]:
    """A model and a checkpoint after a step, in folders named by the number of ranks; and the next step."""
    optimiser = OPTIMISER | model.pop("optimiser", {})
    vlm = loaded(path, **model)
    shard(vlm.model)
    made = Optimiser(vlm.model, settings_of(path, optimiser=optimiser).sft.optimiser, 4)
    rows = own(samples_of(vlm, KINDS))
    sft_step(vlm, made, rows, 0, 10**6)
    vlm.save(folder / f"model-{ranks.count()}")
    save_checkpoint(folder / f"from-{ranks.count()}", Progress(1, 4), made, {"command": "sft"}, keep=1)
    metrics = sft_step(vlm, made, rows, 1, 10**6)
    return {"next": metrics["loss"], "weights": weights_now(vlm)}


def run_resumed(path: Path, checkpoint: Path, **model: Any) -> dict[str, Any]:
    """The step after a checkpoint that :func:`run_saved` wrote on the same or another number of ranks."""
    optimiser = OPTIMISER | model.pop("optimiser", {})
    vlm = loaded(path, **model)
    shard(vlm.model)
    made = Optimiser(vlm.model, settings_of(path, optimiser=optimiser).sft.optimiser, 4)
    progress = load_checkpoint(checkpoint, made, {"command": "sft"})
    metrics = sft_step(vlm, made, own(samples_of(vlm, KINDS)), 1, 10**6)
    return {"progress": (progress.step, progress.position), "next": metrics["loss"], "weights": weights_now(vlm)}


def run_draws(path: Path, folder: Path) -> dict[str, Any]:
    """The ids of each draw over two epochs of rows, some of which cannot be used, and what was left out."""
    ranks.first_before_others(lambda: write_data(folder, "sft", 12) if ranks.is_first() else None)
    vlm, told = loaded(path), list[tuple[str, str]]()
    shards = Shards(folder, "sft", folder / f"rows-{ranks.count()}-{ranks.index()}")
    draws = RowSampler(
        shards,
        lambda found: [(found, sft_sample(vlm, found))],
        3,
        LengthLimit(500),
        lambda row, why: told.append((row, why)),
    )
    taken = []
    for _ in range(6):
        ids = [row.id for row, _ in draws.take(3)]
        shares = ranks.gathered(ids)
        taken.append([each for group in itertools.zip_longest(*shares) for each in group if each is not None])
    return {"ids": taken, "position": draws.position, "left_out": sorted(set(told))}


def run_published(path: Path, folder: Path) -> dict[str, Any]:
    """Who makes a vLLM server load the weights, and the files that the server reads."""
    vlm, told = loaded(path), list[int]()
    shard(vlm.model)
    sampler = VllmSampler(vlm, settings_of(path).rollout, str(folder / "served"))

    async def reload() -> None:
        told.append(ranks.index())

    sampler._reload = reload
    sampler.sync()
    return {"told": ranks.gathered(told), "files": sorted(file.name for file in (folder / "served").iterdir())}


def failing(path: Path) -> dict[str, Any]:
    """An error on the last rank is an error on all, and the ranks can go on together."""

    def work() -> int:
        if ranks.index() == ranks.count() - 1:
            raise OSError("the disk is full")
        return 1

    try:
        ranks.together(work)
        found = "nothing"
    except (OSError, ranks.FailedElsewhere) as error:
        found = f"{type(error).__name__}: {error}"
    return {"errors": ranks.gathered(found), "total": ranks.total(2), "totals": ranks.totals({"a": 1.5})}


Scenario = Callable[[Mapping[str, Path], Path], dict[str, Any]]
IMAGES = [KINDS] * STEPS
SCENARIOS: dict[str, Scenario] = {
    "float32": lambda models, _: run_sft(models["qwen3"], IMAGES),
    "bfloat16": lambda models, _: run_sft(models["qwen3"], IMAGES, dtype="bfloat16"),
    "qwen25": lambda models, _: run_sft(models["qwen25"], IMAGES),
    "tied": lambda models, _: run_sft(models["tied"], IMAGES),
    "checkpointing": lambda models, _: run_sft(models["qwen3"], IMAGES, gradient_checkpointing=True),
    "frozen": lambda models, _: run_sft(models["qwen3"], IMAGES, freeze_vision=True, freeze_projector=True),
    "frozen tower": lambda models, _: run_sft(models["qwen3"], IMAGES, freeze_vision=True),
    "adapters": lambda models, _: run_sft(models["qwen3"], IMAGES, optimiser={"lr": 1e-2}, lora_rank=4),
    "bfloat16 adapters": lambda models, _: run_sft(models["qwen3"], IMAGES, dtype="bfloat16", lora_rank=4),
    "muon": lambda models, _: run_sft(models["qwen3"], IMAGES, optimiser={"muon_lr": 1e-2}),
    "text": lambda models, _: run_sft(models["qwen3"], [("text",) * 3] * STEPS),
    "one has no image": lambda models, _: run_sft(models["qwen3"], [("one", "text", "two", "text")] * STEPS),
    "one has nothing": lambda models, _: run_sft(models["qwen3"], [("two",), ("text",), KINDS]),
    "unequal": lambda models, _: run_sft(models["qwen3"], [("two", "text", "tool", "text", "one")] * STEPS, tokens=1),
    "grpo": lambda models, folder: run_grpo(models["qwen3"], folder),
    "grpo bfloat16": lambda models, folder: run_grpo(models["qwen3"], folder, dtype="bfloat16"),
    "grpo adapters": lambda models, folder: run_grpo(models["qwen3"], folder, lora_rank=4),
    "grpo two updates": lambda models, folder: run_grpo(models["qwen3"], folder, {"updates_per_rollout": 2}),
    "grpo one prompt": lambda models, folder: run_grpo(models["qwen3"], folder, {"prompts_per_step": 1}),
    "sampled": lambda models, folder: run_sampled(models["qwen3"], folder),
    "saved": lambda models, folder: run_saved(models["qwen3"], folder),
    "saved bfloat16": lambda models, folder: run_saved(models["qwen3"], folder, dtype="bfloat16"),
    "saved adapters": lambda models, folder: run_saved(models["tied"], folder, lora_rank=4),
    "saved muon": lambda models, folder: run_saved(models["qwen3"], folder, optimiser={"muon_lr": 1e-2}),
    "draws": lambda models, folder: run_draws(models["qwen3"], folder),
    "published": lambda models, folder: run_published(models["qwen3"], folder),
    "failing": lambda models, _: failing(models["qwen3"]),
}


def on_two_ranks(names: Sequence[str], models: Mapping[str, Path], folder: Path) -> dict[str, Any]:
    """The results of scenarios on two ranks, those of the first rank."""
    run_ranks(_scenarios, list(names), dict(models), folder)
    return torch.load(folder / "found.pt", weights_only=False)


def _scenarios(names: Sequence[str], models: Mapping[str, Path], folder: Path) -> None:
    found = {}
    for name in names:
        place = folder / name.replace(" ", "-")
        place.mkdir(exist_ok=True)
        found[name] = SCENARIOS[name](models, place)
    if ranks.is_first():
        torch.save(found, folder / "found.pt")


def run_ranks(work: Callable[..., Any], *args: Any, count: int = 2) -> None:
    """Call a function on each of ``count`` ranks."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_rank, (count, str(Path(folder) / "store"), work, args), nprocs=count)


def _rank(index: int, count: int, store: str, work: Callable[..., Any], args: Sequence[Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=index, world_size=count)
    work(*args)
    dist.barrier()
    dist.destroy_process_group()
