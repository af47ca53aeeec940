"""Two tiny models with random weights on the processor, pictures, samples of every kind, and shards to read."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

from groundtrace.trainer.encode import encode_messages
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.sample import EncodedImage, Sample
from groundtrace.trainer.settings import ModelSettings
from tests.added import WHOLE_RL, WHOLE_SFT

from ..vllm import tiny_qwen3vl
from . import tiny_qwen25vl
from .runs import Command, records, rl_row

FAMILIES = ("qwen3", "qwen25")

ASK = {"role": "user", "content": "How many are red?"}
ASK_ONE = {"role": "user", "content": "<image>How many are red?"}
ASK_TWO = {"role": "user", "content": "Compare <image> with <image> now."}
CONVERSATIONS: dict[str, tuple[tuple[Mapping[str, str], ...], tuple[tuple[int, int], ...]]] = {
    "text": ((ASK, {"role": "assistant", "content": "There are three."}), ()),
    "one": ((ASK_ONE, {"role": "assistant", "content": "Count each of them: seven."}), ((96, 64),)),
    "two": ((ASK_TWO, {"role": "assistant", "content": "The answer is B."}), ((64, 64), (128, 96))),
    "tool": (
        (
            {"role": "system", "content": "Look first."},
            ASK_ONE,
            {"role": "assistant", "content": "Crop the square."},
            {"role": "tool", "content": "crop: <image> done"},
            {"role": "assistant", "content": "It is blue, so the answer is one."},
        ),
        ((96, 96), (64, 128)),
    ),
}
"""Turns, and width and height of each picture. In ``tool`` an observation holds a picture."""


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each tiny model."""
    base = tmp_path_factory.mktemp("models")
    tiny_qwen3vl.write_model(base / "qwen3")
    tiny_qwen25vl.write_model(base / "qwen25", tiny_qwen3vl.build_tokenizer())
    return {family: base / family for family in FAMILIES}


@pytest.fixture(scope="session")
def load(folders: Mapping[str, Path]) -> Callable[..., VisionLanguageModel]:
    """A fresh model of a family, in float32 on the processor; for tests that change its weights or settings."""

    def loaded(family: str = "qwen3", **settings: Any) -> VisionLanguageModel:
        chosen = ModelSettings(**({"path": str(folders[family]), "dtype": "float32"} | settings))
        return load_model(chosen, device="cpu")

    return loaded


@pytest.fixture(scope="session")
def qwen3(load: Callable[..., VisionLanguageModel]) -> VisionLanguageModel:
    """A model that no test changes."""
    return load("qwen3")


@pytest.fixture(scope="session", params=FAMILIES)
def vlm(request: pytest.FixtureRequest, load: Callable[..., VisionLanguageModel]) -> VisionLanguageModel:
    """A model of each family that no test changes."""
    return load(request.param)


@pytest.fixture
def reference(vlm: VisionLanguageModel) -> Any:
    """The weights of ``vlm`` in a model that transformers alone runs, with its eager attention."""
    auto: Any = AutoModelForImageTextToText
    return auto.from_pretrained(vlm.settings.path, dtype=torch.float32, attn_implementation="eager")


def draw(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture of noise: no two alike, whatever their size."""
    noise = np.random.default_rng((seed, width, height)).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(noise)


@pytest.fixture(scope="session")
def image() -> Callable[..., Image.Image]:
    """See :func:`draw`."""
    return draw


@pytest.fixture(scope="session")
def png() -> Callable[..., bytes]:
    """A drawn picture as a file's bytes."""

    def encoded(width: int = 64, height: int = 64, seed: int = 0) -> bytes:
        stream = io.BytesIO()
        draw(width, height, seed).save(stream, "PNG")
        return stream.getvalue()

    return encoded


@pytest.fixture(scope="session")
def picture() -> Callable[..., EncodedImage]:
    """A drawn picture as a model's tower takes it."""

    def seen(vlm: VisionLanguageModel, width: int = 64, height: int = 64, seed: int = 0) -> EncodedImage:
        return vlm.encode_image(draw(width, height, seed), f"{width}x{height}-{seed}")

    return seen


@pytest.fixture(scope="session")
def sample(picture: Callable[..., EncodedImage]) -> Callable[..., Sample]:
    """One of :data:`CONVERSATIONS` as a sample; another seed draws other pictures."""

    def encoded(vlm: VisionLanguageModel, kind: str, seed: int = 0) -> Sample:
        turns, sizes = CONVERSATIONS[kind]
        return encode_messages(vlm, kind, turns, [picture(vlm, *size, seed) for size in sizes])

    return encoded


@pytest.fixture(scope="session")
def samples(sample: Callable[..., Sample]) -> Callable[[VisionLanguageModel], list[Sample]]:
    """All conversations, in an order in which text, pictures and tools alternate."""
    return lambda vlm: [sample(vlm, kind) for kind in ("one", "text", "tool", "two")]


@pytest.fixture(scope="session")
def conversations() -> Mapping[str, Any]:
    """See :data:`CONVERSATIONS`."""
    return CONVERSATIONS


@pytest.fixture(scope="session")
def inputs() -> Callable[[Sample], dict[str, torch.Tensor]]:
    """What transformers takes for one sample by itself."""

    def alone(sample: Sample) -> dict[str, torch.Tensor]:
        given = {
            "input_ids": sample.ids[None],
            "attention_mask": torch.ones(1, len(sample), dtype=torch.int64),
            "mm_token_type_ids": sample.is_image[None].int(),
        }
        if sample.images:
            given["pixel_values"] = torch.cat([picture.patches for picture in sample.images])
            given["image_grid_thw"] = torch.tensor([picture.grid for picture in sample.images])
        return given

    return alone


@pytest.fixture(scope="session")
def row(png: Callable[..., bytes]) -> Callable[..., dict[str, Any]]:
    """A row of a shard with changes; it has the columns of both sides."""
    prompt = [{"role": "user", "content": "<image>How many are red?"}]

    def changed(**changes: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "id": "q0",
            "source": "drawn",
            "license": "CC0-1.0",
            "images": [{"bytes": png(), "path": None}],
            "question": "How many are red?",
            "answer": "3",
            "answer_type": "numeric",
            "messages": [*prompt, {"role": "assistant", "content": "There are 3."}],
            "prompt": prompt,
        }
        return fields | changes

    return changed


@pytest.fixture(scope="session")
def write_shards() -> Callable[..., Path]:
    """Write rows as the shards of one side of a run, so many rows in each; returns the run's folder."""

    def write(run: Path, rows: Sequence[Mapping[str, Any]], side: str = "sft", per_shard: int = 100) -> Path:
        schema = {"sft": WHOLE_SFT, "rl": WHOLE_RL}[side]
        (run / side).mkdir(parents=True, exist_ok=True)
        for start in range(0, max(1, len(rows)), per_shard):
            table = pa.Table.from_pylist([dict(row) for row in rows[start : start + per_shard]], schema)
            pq.write_table(table, run / side / f"train-{start:05d}.parquet")
        return run

    return write


@pytest.fixture
def run(tmp_path: Path, folders: Any, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in this process and on a tiny model."""
    return Command(tmp_path, folders["qwen3"], capsys)


@pytest.fixture
def sft_data(tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path]) -> Path:
    """A run with three rows for SFT."""
    return write_shards(tmp_path / "sft-run", [row(id=f"s{number}") for number in range(3)])


@pytest.fixture
def rl_data(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """A run with two questions of the sample data for GRPO."""
    rows = [rl_row(record) for record in records("662-1-0-c0", "662-1-0-c1")]
    return write_shards(tmp_path / "rl-run", rows, "rl")
