"""Makes the inputs of both sides of bench_trainer.py: a model with random weights, SFT rows, and rollouts for GRPO."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import torch
from learning.scenes import PHRASES, ask, render_scene
from transformers import GenerationConfig, Qwen2VLImageProcessor, Qwen3VLForConditionalGeneration

from groundtrace.grading.question_text import user_text
from groundtrace.grading.responses.tags import format_points_tag
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question
from groundtrace.trainer import tiny_model
from groundtrace.trainer.encode import prompt_sample, sft_sample, with_response
from groundtrace.trainer.loss import advantages
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import ModelSettings

SEED = 5
PHOTO_PX = (640, 480)
GRAIN = 12.0
PROMPT_TOKENS, ANSWER_TOKENS = 90, (200, 600)
VOCABULARY = 151_936
TEXT = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 14,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 8192,
    "vocab_size": VOCABULARY,
}
VISION = {
    "depth": 12,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "patch_size": 16,
    "out_hidden_size": 2048,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [2, 5, 8],
}
"""The widths of Qwen3-VL-2B, with half of its layers in the language model and in the vision tower."""
SHRUNK_TEXT = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "head_dim": 16, "vocab_size": 4096}
SHRUNK_VISION = {
    "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 128,
    "num_position_embeddings": 256, "deepstack_visual_indexes": [0],
}  # fmt: skip


@dataclass(frozen=True)
class SharedRow:
    """An SFT row for both sides: ``training_row`` for this trainer; rendered texts, image and token count for TRL."""

    training_row: TrainingRow
    prompt: str
    completion: str
    image: bytes
    tokens: int


@dataclass(frozen=True)
class StepWork:
    """The work of a step: ``tokens``, ``targets``, ``patches`` of distinct images, and the model's ``flop`` for them.

    A trainer may spend more.
    """

    tokens: int
    targets: int
    patches: int
    flop: float


def write_inputs(
    folder: Path, kind: str, shrink: bool, steps: int, rows: int, groups: int, size: int
) -> dict[str, Any]:
    """Write the folder; returns the number of ``weights`` and the :class:`StepWork` of ``sft`` and ``grpo``.

    SFT has ``steps`` steps of ``rows`` rows, all distinct; GRPO has ``groups`` groups of ``size`` rollouts, the same in
    every step.
    """
    rng = np.random.default_rng(SEED)
    made = tiny_rows(rng, steps * rows) if kind == "tiny" else large_rows(rng, steps * rows, shrink)
    texts = [turn["content"] for row in made for turn in row.messages]
    if kind == "tiny":
        tiny_model.make_tiny_model(folder / "model", texts, SEED, phrases=PHRASES)
        speech: dict[str, Any] = {"frame": "molmo100", "decimals": 0, "dtype": "float32"}
    else:
        make_large_model(folder / "model", texts, shrink)
        speech = {"dtype": "bfloat16"}
    (folder / "speech.json").write_text(json.dumps(speech), "utf-8")
    vlm = load_model(ModelSettings(str(folder / "model"), **speech), "cpu")
    if kind != "tiny":
        made = [_lengthened(vlm, row, rng) for row in made]
    samples = [sft_sample(vlm, row) for row in made]
    torch.save([_both(vlm, *pair) for pair in zip(made, samples, strict=True)], folder / "rows.pt")
    rollouts = make_rollouts(vlm, made, groups, size, rng)
    torch.save(rollouts, folder / "rollouts.pt")
    in_a_step = [counts(vlm, samples[step * rows :][:rows]) for step in range(steps)]
    mean: dict[str, Any] = {
        name: sum(getattr(each, name) for each in in_a_step) / steps for name in asdict(in_a_step[0])
    }
    weights = sum(weight.numel() for weight in vlm.model.parameters())
    return {"weights": weights, "sft": StepWork(**mean), "grpo": counts(vlm, rollouts)}


def tiny_rows(rng: np.random.Generator, number: int) -> list[TrainingRow]:
    """Return questions on rendered scenes, answered with points at the centres of the gold boxes."""
    rows: list[TrainingRow] = []
    while len(rows) < number:
        pixels, objects = render_scene(rng)
        image = _encoded(".png", pixels)
        for asked in ask(objects, 3, rng):
            labels = dict.fromkeys(placed.label for placed in asked.objects)
            boxes = [Box(placed.label, *placed.box_px) for placed in asked.objects]
            tags = [format_points_tag(label, [box.centre for box in boxes if box.label == label]) for label in labels]
            there = ", ".join(tags) or "none"
            answer = f"<think>The picture shows {there}.</think><answer>{asked.answer}</answer>"
            rows.append(_row(len(rows), asked.question, asked.answer, asked.answer_type, answer, image))
    return rows[:number]


def large_rows(rng: np.random.Generator, number: int, shrink: bool) -> list[TrainingRow]:
    """Return rows with one grainy, photo-like image each; :func:`_lengthened` later lengthens their texts."""
    width, height = (96, 64) if shrink else PHOTO_PX
    rows = []
    for index in range(number):
        coarse = cv2.resize(rng.integers(0, 255, (6, 8, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
        pixels = np.clip(coarse + rng.normal(0, GRAIN, coarse.shape), 0, 255).astype(np.uint8)
        words = " ".join(f"The object {n} is at {n % 100} and {n * 7 % 100}." for n in range(index, index + 40))
        rows.append(_row(index, words, "3", "numeric", words, _encoded(".jpg", pixels)))
    return rows


def _encoded(suffix: str, pixels: np.ndarray) -> bytes:
    return cv2.imencode(suffix, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))[1].tobytes()


def _row(index: int, asked: str, gold: str, kind: str, answer: str, image: bytes) -> TrainingRow:
    question = Question(f"row-{index:05d}", "bench", "CC0-1.0", (), asked, gold, kind)
    turns = ({"role": "user", "content": f"<image>{user_text(question)}"}, {"role": "assistant", "content": answer})
    return TrainingRow(question.id, "bench", turns, ((image, ""),), question)


def _lengthened(vlm: VisionLanguageModel, row: TrainingRow, rng: np.random.Generator) -> TrainingRow:
    """Return the row with a prompt and an answer of about the intended numbers of tokens, from its repeated words."""
    ids = vlm.tokenizer(row.messages[1]["content"], add_special_tokens=False).input_ids
    ids *= 1 + max(ANSWER_TOKENS) // len(ids)

    def cut(tokens: int) -> str:
        return vlm.tokenizer.decode(ids[:tokens])

    answer = cut(int(rng.integers(*ANSWER_TOKENS)))
    turns = ({"role": "user", "content": f"<image>{cut(PROMPT_TOKENS)}"}, {"role": "assistant", "content": answer})
    return replace(row, messages=turns)


def make_large_model(folder: Path, texts: list[str], shrink: bool) -> None:
    """Write a model with random bfloat16 weights, the tiny model's tokenizer, and a mostly unused vocabulary."""
    tokenizer = tiny_model.build_tokenizer(texts, PHRASES)
    config: Any = tiny_model.build_config(tokenizer, tiny_model.CONTEXT_TOKENS, tiny_model.TEXT, tiny_model.VISION)
    for part, sizes in (
        (config.text_config, TEXT | (SHRUNK_TEXT if shrink else {})),
        (config.vision_config, VISION | (SHRUNK_VISION if shrink else {})),
    ):
        for name, value in sizes.items():
            setattr(part, name, value)
    half = config.text_config.head_dim // 2
    rest = (half - 2) // 3
    config.text_config.rope_parameters |= {"rope_theta": 5e6, "mrope_section": [half - 2 * rest, rest, rest]}
    config.dtype = config.text_config.dtype = config.vision_config.dtype = torch.bfloat16
    torch.manual_seed(SEED)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen3VLForConditionalGeneration(config).bfloat16()
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id)
    model.save_pretrained(folder)
    processor = tiny_model.build_processor(tokenizer, tiny_model.PATCH_PX, 64**2)
    processor.image_processor = Qwen2VLImageProcessor(
        patch_size=VISION["patch_size"], merge_size=2, temporal_patch_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
        size={"shortest_edge": 64**2, "longest_edge": 2048**2},
    )  # fmt: skip
    tokenizer.model_max_length = TEXT["max_position_embeddings"]
    processor.save_pretrained(folder)


def _both(vlm: VisionLanguageModel, row: TrainingRow, sample: Sample) -> SharedRow:
    """Return the row for both sides; TRL gets the text before the answer, with one image token, and the answer."""
    start = sample.turns[-1].start
    picture_ids = sample.is_image.nonzero()[:, 0].tolist()
    before = torch.cat([sample.ids[: picture_ids[0] + 1], sample.ids[picture_ids[-1] + 1 : start]])
    prompt, completion = vlm.tokenizer.decode(before), vlm.tokenizer.decode(sample.ids[start:])
    return SharedRow(row, prompt, completion, row.images[0][0], len(sample))


def make_rollouts(
    vlm: VisionLanguageModel, rows: list[TrainingRow], groups: int, size: int, rng: np.random.Generator
) -> list[Sample]:
    """Return groups for the first rows, with random rewards: the responses are answers of this and the next rows."""
    answers = [sample.ids[sample.turns[-1].start :].tolist() for sample in (sft_sample(vlm, row) for row in rows)]
    made = []
    for index in range(groups):
        prompt = prompt_sample(vlm, rows[index])
        rewards = rng.permutation([1.0] * (size // 2) + [0.0] * (size - size // 2)).tolist()
        for place, gain in enumerate(advantages(rewards)):
            sample = with_response(prompt, answers[(index + place) % len(answers)], str(index))
            made.append(replace(sample, advantages=torch.full((len(sample),), float(gain or 0))))
    return made


def counts(vlm: VisionLanguageModel, samples: list[Sample]) -> StepWork:
    """Return the counts of the samples, with 6 FLOP per weight and input (forward and backward).

    The inputs are tokens for the language model's layers, patches of distinct images for the vision tower, and targets
    for the output layer. The products within attention are left out, and so is repeated work of a trainer.
    """
    model = vlm.model.model
    layers = sum(weight.numel() for weight in model.language_model.layers.parameters())
    tower = sum(weight.numel() for weight in model.visual.parameters())
    head = vlm.model.get_output_embeddings().weight.numel()
    pictures = {picture.key: len(picture.patches) for sample in samples for picture in sample.images}
    tokens, targets = sum(map(len, samples)), sum(sample.targets for sample in samples)
    patches = sum(pictures.values())
    return StepWork(tokens, targets, patches, 6.0 * (layers * tokens + tower * patches + head * targets))


def as_scored_by_trl(samples: list[Sample], pad_id: int) -> dict[str, Any]:
    """Return the rollouts in GRPOTrainer's form after scoring.

    Prompts are padded left, answers right, and each rollout has an image.
    """
    starts = [sample.turns[-1].start for sample in samples]
    longest = max(starts)
    width = max(len(sample) - start for sample, start in zip(samples, starts, strict=True))
    shape = (len(samples), longest + width)
    ids, real = torch.full(shape, pad_id), torch.zeros(shape, dtype=torch.int64)
    is_image = torch.zeros(shape, dtype=torch.int64)
    for row, (sample, start) in enumerate(zip(samples, starts, strict=True)):
        place = slice(longest - start, longest - start + len(sample))
        ids[row, place], real[row, place], is_image[row, place] = sample.ids, 1, sample.is_image.long()
    pictures = [picture for sample in samples for picture in sample.images]
    return {
        "prompt_ids": ids[:, :longest],
        "prompt_mask": real[:, :longest],
        "completion_ids": ids[:, longest:],
        "completion_mask": real[:, longest:],
        "advantages": torch.stack([cast(torch.Tensor, sample.advantages)[-1] for sample in samples]),
        "num_items_in_batch": real[:, longest:].sum(),
        "pixel_values": torch.cat([picture.patches for picture in pictures]),
        "image_grid_thw": torch.tensor([picture.grid for picture in pictures]),
        "num_images": [len(sample.images) for sample in samples],
        "mm_token_type_ids": is_image,
    }
