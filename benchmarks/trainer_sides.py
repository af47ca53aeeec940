"""The sides of bench_trainer.py, each run as a process of its own: this trainer and TRL, at SFT and at GRPO's update.

    python benchmarks/trainer_sides.py --side ours-sft|trl-sft|ours-grpo|trl-grpo --inputs FOLDER …

bench_trainer.py writes FOLDER: the model, ``rows.pt`` and ``rollouts.pt``. Prints the figures as a JSON line.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from trainer_clock import Clock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

LR = 1e-5
WORKERS = 4
"""The number of processes that make TRL's batches on a GPU. On a CPU, each trainer makes them in its own process."""
NEVER_LOGGED = 10**9


@dataclass(frozen=True)
class Work:
    """The work of a side: ``rows`` per step, and ``steps`` timed steps after ``warmup`` untimed ones.

    ``tokens`` limits a forward pass of this trainer; ``micro`` is the number of rows in a forward pass of TRL.
    """

    inputs: Path
    dtype: str
    rows: int
    steps: int
    warmup: int
    tokens: int
    micro: int
    attention: str

    @property
    def all_steps(self) -> int:
        """The number of all steps, timed or not."""
        return self.warmup + self.steps


def ours(work: Work) -> tuple[Any, Any, Any]:
    """Return this trainer's settings, model and optimiser."""
    from groundtrace.trainer.model import load_model
    from groundtrace.trainer.optimiser import Optimiser
    from groundtrace.trainer.optimiser_settings import OptimiserSettings
    from groundtrace.trainer.settings import ForwardBatchSettings, ModelSettings, TrainerSettings

    settings = TrainerSettings(
        ModelSettings(str(work.inputs / "model"), **json.loads((work.inputs / "speech.json").read_text("utf-8"))),
        batch=ForwardBatchSettings(max_tokens=work.tokens, tokens=work.tokens),
    )
    vlm = load_model(settings.model)
    return settings, vlm, Optimiser(vlm.model, OptimiserSettings(lr=LR), work.all_steps)


def ours_sft(work: Work) -> dict[str, Any]:
    """Make SFT steps, including the encoding of rows.

    On a GPU the next step's rows are encoded in the background, as in ``trainer sft``.
    """
    from groundtrace.trainer.encode import sft_sample
    from groundtrace.trainer.sft import sft_step

    _, vlm, optimiser = ours(work)
    rows, clock = torch.load(work.inputs / "rows.pt", weights_only=False), Clock(work.warmup)

    def encoded(step: int) -> list[Any]:
        return [sft_sample(vlm, row.training_row) for row in rows[step * work.rows :][: work.rows]]

    on_gpu = vlm.device.type == "cuda"
    with ThreadPoolExecutor(1) as thread:
        clock.start()
        ahead = thread.submit(encoded, 0) if on_gpu else None
        for step in range(work.all_steps):
            samples = clock.data(ahead.result if ahead else lambda step=step: encoded(step))
            if on_gpu:
                ahead = thread.submit(encoded, step + 1)
            metrics = sft_step(vlm, optimiser, samples, step, work.tokens)
            clock.first = clock.first or {name: metrics[name] or 0.0 for name in ("loss", "grad_norm")}
            clock.end()
    return clock.figures()


def ours_grpo(work: Work) -> dict[str, Any]:
    """Make the GRPO updates on the given rollouts, including collation."""
    from groundtrace.trainer.grpo import Trainee, update

    settings, vlm, optimiser = ours(work)
    samples, unused = torch.load(work.inputs / "rollouts.pt", weights_only=False), [None] * 4
    trainee = Trainee(vlm, optimiser, *unused, settings)  # type: ignore[arg-type]
    clock = Clock(work.warmup)
    clock.start()
    for step in range(work.all_steps):
        metrics = update(trainee, samples, step)
        clock.first = clock.first or {name: metrics[name] or 0.0 for name in ("loss", "grad_norm")}
        clock.end()
    return clock.figures()


def trl_parts(work: Work) -> tuple[Any, Any, dict[str, Any]]:
    """Return a model, its processor, and the options for both of TRL's trainers.

    With ``bfloat16``, float32 weights are updated and computations are in bfloat16, as in this trainer.
    ``bfloat16-only`` has no float32 weights: it needs less work and memory, but loses small updates.
    """
    from transformers import AutoModelForImageTextToText, AutoProcessor

    auto: Any = AutoModelForImageTextToText
    weights, folder = torch.bfloat16 if work.dtype == "bfloat16-only" else torch.float32, work.inputs / "model"
    model = auto.from_pretrained(folder, dtype=weights, attn_implementation=work.attention)
    options = {
        "output_dir": str(work.inputs / "trl"),
        "per_device_train_batch_size": work.micro,
        "gradient_accumulation_steps": work.rows // work.micro,
        "max_steps": work.all_steps,
        "learning_rate": LR,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "gradient_checkpointing": False,
        "bf16": work.dtype != "float32",
        "use_cpu": not torch.cuda.is_available(),
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": NEVER_LOGGED,
        "logging_first_step": True,
        "disable_tqdm": True,
        "dataloader_num_workers": WORKERS if torch.cuda.is_available() else 0,
    }
    return model, AutoProcessor.from_pretrained(folder), options


def timed(trainer: Any, clock: Clock) -> dict[str, Any]:
    """Train, and return the clock's figures."""
    from transformers import TrainerCallback

    class Timer(TrainerCallback):
        """Passes the trainer's events to the clock."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock.start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.end()

        def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
            if not clock.first and "grad_norm" in logs:
                clock.first = {name: float(logs[name]) for name in ("loss", "grad_norm")}

    fetch = trainer.get_batch_samples
    trainer.get_batch_samples = lambda *arguments: clock.data(fetch, *arguments)
    trainer.add_callback(Timer())
    trainer.train()
    return clock.figures()


def trl_sft(work: Work) -> dict[str, Any]:
    """Train SFTTrainer on the same rows; the rows of a step are sorted by length to reduce padding.

    SFTTrainer supports neither packing nor padding-free batches with images. Prompts are rendered in advance, which
    saves it the chat template and gives both sides the same tokens.
    """
    from datasets import Dataset, Features, Image, List, Value
    from trl import SFTConfig, SFTTrainer

    model, processor, options = trl_parts(work)
    rows = torch.load(work.inputs / "rows.pt", weights_only=False)
    starts = range(0, len(rows), work.rows)
    ordered = [row for at in starts for row in sorted(rows[at : at + work.rows], key=lambda row: -row.tokens)]
    features = Features({"prompt": Value("string"), "completion": Value("string"), "images": List(Image())})
    taken = [
        {"prompt": row.prompt, "completion": row.completion, "images": [{"bytes": row.image, "path": None}]}
        for row in ordered
    ]
    dataset = Dataset.from_list(taken, features=features)
    config = SFTConfig(
        **options, max_length=None, completion_only_loss=True, packing=False, train_sampling_strategy="sequential"
    )
    trainer = SFTTrainer(model, args=config, train_dataset=dataset, processing_class=processor)
    # Qwen3-VL's class declares that it takes no loss arguments, so Trainer would average the means of the forward
    # passes. SFTTrainer's own loss takes the step's number of targets.
    trainer.model_accepts_loss_kwargs = True
    return timed(trainer, Clock(work.warmup))


def trl_grpo(work: Work) -> dict[str, Any]:
    """Train GRPOTrainer on the same rollouts: they replace its sampling and scoring; all other steps are its own."""
    from datasets import Dataset
    from trainer_inputs import as_scored_by_trl
    from trl import GRPOConfig, GRPOTrainer

    model, processor, options = trl_parts(work)
    samples = torch.load(work.inputs / "rollouts.pt", weights_only=False)
    inputs = as_scored_by_trl(samples, processor.tokenizer.pad_token_id)
    group_size = sum(sample.group == samples[0].group for sample in samples)
    config = GRPOConfig(
        **options,
        loss_type="dapo",
        beta=0.0,
        epsilon_high=0.28,
        num_iterations=1,
        num_generations=group_size,
        max_completion_length=inputs["completion_ids"].shape[1],
    )
    dataset = Dataset.from_list([{"prompt": [{"role": "user", "content": "given"}]}] * (work.rows // group_size))
    trainer = GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=dataset,
        processing_class=processor,
    )
    on_device = {name: v.to(model.device) if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}
    trainer._generate_and_score_completions = lambda _: dict(on_device)
    return timed(trainer, Clock(work.warmup))


SIDES = {"ours-sft": ours_sft, "trl-sft": trl_sft, "ours-grpo": ours_grpo, "trl-grpo": trl_grpo}


def main() -> None:
    """Run one of the sides."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--attention", default="sdpa", help="attention implementation of TRL")
    for name in ("rows", "steps", "warmup", "tokens", "micro", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    arguments = vars(parser.parse_args())
    if threads := arguments.pop("threads"):
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    side = SIDES[arguments.pop("side")]
    print(json.dumps(side(Work(**arguments))))


if __name__ == "__main__":
    main()
