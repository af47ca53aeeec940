"""Models and data that cannot be used: a refusal in one line, or the row is left out with a reason. Nothing is trained
on what is not there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from groundtrace.trainer import sft
from groundtrace.trainer.checkpoint import checkpoints

from .runs import SAMPLE, Command, lines_of, metrics_of, records, rl_row, write_records

WriteShards = Callable[..., Path]


@pytest.fixture
def good(row: Callable[..., Any]) -> list[dict[str, Any]]:
    return [row(id=f"s{number}") for number in range(3)]


@pytest.fixture
def copied(tmp_path: Path, folders: Any) -> Path:
    """A copy of the model's folder, to break."""
    return Path(shutil.copytree(folders["qwen3"], tmp_path / "model"))


def bert(folder: Path) -> None:
    """A text model."""
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16, "num_hidden_layers": 1}
    for path in folder.iterdir():
        if path.name not in ("tokenizer.json", "tokenizer_config.json"):
            path.unlink()
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": 1, "vocab_size": 64}))


def llava(folder: Path) -> None:
    """A whole vision-language model of a family that the trainer does not know."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    shutil.rmtree(folder)
    text = LlamaConfig(vocab_size=600, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1)
    tower = CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=1, image_size=28, patch_size=14
    )
    config = LlavaConfig(
        vision_config=tower, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids("<|image_pad|>")
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor = LlavaProcessor(
        CLIPImageProcessor(), tokenizer, patch_size=14, chat_template="x", image_token="<|image_pad|>"
    )
    processor.save_pretrained(folder)


def without(name: str) -> Callable[[Path], None]:
    def removed(folder: Path) -> None:
        (folder / name).unlink()

    return removed


def cut(name: str) -> Callable[[Path], None]:
    def shortened(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:1000])

    return shortened


def lacking(folder: Path) -> None:
    """Weights without the first layer's."""
    path = folder / "model.safetensors"
    save_file({name: w for name, w in load_file(path).items() if "layers.0." not in name}, path, {"format": "pt"})


def without_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    for name in ("processor_config.json", "tokenizer_config.json"):
        path = folder / name
        if path.exists():
            fields = json.loads(path.read_text())
            fields.pop("chat_template", None)
            path.write_text(json.dumps(fields))


def with_values(name: str, **values: Any) -> Callable[[Path], None]:
    """Values that transformers does not expect; "text_config" has further ones."""

    def changed(folder: Path) -> None:
        fields = json.loads((folder / name).read_text("utf-8"))
        inner = values.pop("text_config", None)
        fields.update(values)
        if inner:
            fields["text_config"].update(inner)
        (folder / name).write_text(json.dumps(fields), "utf-8")

    return changed


def other_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"a":1}', "utf-8")


MODELS: list[tuple[str, Callable[[Path], None], str]] = [
    ("text model", bert, ""),
    ("another family", llava, "has the model type 'llava', but the trainer supports qwen2_5_vl, qwen3_vl"),
    ("no weights", without("model.safetensors"), "cannot load"),
    ("no config", without("config.json"), "cannot load"),
    ("no tokenizer", without("tokenizer.json"), "cannot load"),
    ("weights cut short", cut("model.safetensors"), "cannot load"),
    ("config cut short", cut("config.json"), "cannot load"),
    ("weights missing", lacking, "lacks"),
    ("no chat template", without_template, "has no chat template"),
    ("type is a list", with_values("config.json", model_type=["x"]), "config.json"),
    ("text for a number", with_values("config.json", text_config={"head_dim": "x"}), "config.json"),
    ("text for a section", with_values("config.json", vision_config="x"), "config.json"),
    ("number for a section", with_values("processor_config.json", image_processor=5), "processor_config.json"),
    ("list for a size", with_values("processor_config.json", image_processor={"size": [1]}), "processor_config.json"),
    ("another tokenizer", other_tokenizer, "tokenizer.json"),
    ("list of lists of ends", with_values("generation_config.json", eos_token_id=[[1]]), "generation_config.json"),
]


@pytest.mark.parametrize(("broken", "said"), [case[1:] for case in MODELS], ids=[case[0] for case in MODELS])
def test_models_that_cannot_be_used(
    broken: Callable[[Path], None], said: str, run: Command, copied: Path, good: Any, write_shards: WriteShards
) -> None:
    broken(copied)
    data = write_shards(run.home / "data", good)
    run("sft", data, f"model.path={copied}").check_refused(2, str(copied), said)


@pytest.mark.parametrize("path", ["/nowhere/at/all", "nowhere/at-all"])
def test_a_model_that_is_not_there(
    path: str, run: Command, good: Any, write_shards: WriteShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    run("sft", write_shards(run.home / "data", good), f"model.path={path}").check_refused(2, f"cannot load {path}")


@pytest.mark.parametrize(("command", "side", "column"), [
    ("sft", "sft", "messages"), ("sft", "sft", "images"), ("sft", "sft", "gold_boxes"), ("grpo", "rl", "prompt"),
    ("grpo", "rl", "answer_type"),
])  # fmt: skip
def test_a_missing_column(
    command: str, side: str, column: str, run: Command, good: Any, write_shards: WriteShards
) -> None:
    data = write_shards(run.home / "data", good, side)
    [path] = (data / side).glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    run(command, data).check_refused(2, str(data / side), f"has no column {column!r}")


EVALUATED = "has no shards and no records.jsonl: give the output folder of a `beam run`, or a folder with records.jsonl"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sft", "has no shards: give the output folder of a `beam run`, which has sft/*.parquet"),
        ("grpo", "has no shards: give the output folder of a `beam run`, which has rl/*.parquet"),
        ("eval", EVALUATED),
    ],
)
def test_no_shards(command: str, said: str, run: Command, tmp_path: Path) -> None:
    table = tmp_path / "empty" / "questions.csv"
    table.parent.mkdir()
    table.write_text("id,question\n1,How many?\n", "utf-8")
    for data in (table.parent, table, tmp_path / "gone"):
        run(command, data).check_refused(2, f"{data} {said}")


@pytest.mark.parametrize(
    ("command", "other", "said"),
    [
        ("grpo", "sft", "has SFT rows but no RL rows: lower split.sft_ratio or widen [difficulty] in the pipeline's"),
        ("sft", "rl", "has RL rows but no SFT rows: raise split.sft_ratio in the pipeline's config and repeat the run"),
    ],
)
def test_rows_of_the_other_side_alone(
    command: str, other: str, said: str, run: Command, good: Any, write_shards: WriteShards
) -> None:
    data = write_shards(run.home / "data", good, other)
    run(command, data).check_refused(2, f"{data} {said}", f"`trainer {other.replace('rl', 'grpo')}`")


def test_records_are_for_evaluations_alone(run: Command) -> None:
    data = write_records(run.home / "data", [])
    said = f"{data} has records.jsonl but no shards, and only `trainer eval` reads records.jsonl: give the output"
    for command in ("sft", "grpo"):
        run(command, data).check_refused(2, said)


def test_shards_without_rows(run: Command, write_shards: WriteShards) -> None:
    run("sft", write_shards(run.home / "data", [])).check_refused(2, "holds no rows")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_files_that_are_no_shards(content: bytes, run: Command) -> None:
    (run.home / "data" / "sft").mkdir(parents=True)
    (run.home / "data" / "sft" / "train.parquet").write_bytes(content)
    run("sft", run.home / "data").check_refused(2, "cannot be read")


@pytest.mark.parametrize("name", ["images", "messages", "gold_boxes"])
def test_a_column_of_another_type(name: str, run: Command, good: Any, write_shards: WriteShards) -> None:
    """The right name, and numbers in it: the data's fault, in words that name the column or the row."""
    data = write_shards(run.home / "data", good)
    [path] = (data / "sft").glob("*.parquet")
    table = pq.read_table(path)
    broken = table.set_column(table.column_names.index(name), name, pa.array([1] * len(table)))
    pq.write_table(broken.replace_schema_metadata(None), path)
    run("sft", data).check_refused(2)


ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("cut picture", {"images": [{"bytes": (SAMPLE / "images/dev-662-1-0.png").read_bytes()[:-30], "path": None}]},
     "image 1 does not decode"),
    ("no picture bytes", {"images": [{"bytes": b"", "path": "x.png"}]}, "image 1 does not decode"),
    ("bytes missing", {"images": [{"bytes": None, "path": "x.png"}]}, "image 1 does not decode"),
    ("mark without picture", {"images": []}, "more <image> marks than the 0 images"),
    ("images null", {"images": None}, "more <image> marks than the 0 images"),
    ("too long", {"prompt": [{"role": "user", "content": "<image>" + "How many? " * 400}],
                  "messages": [{"role": "user", "content": "<image>" + "How many? " * 400},
                               {"role": "assistant", "content": "3"}]}, "tokens"),
    ("no turns", {"prompt": [], "messages": []}, "the row has no messages"),
    ("turns null", {"prompt": None, "messages": None}, "the row has no messages"),
    ("content null", {"prompt": [{"role": "user", "content": None}],
                      "messages": [{"role": "user", "content": None}, {"role": "assistant", "content": "3"}]}, ""),
]  # fmt: skip


@pytest.mark.parametrize("command", ["sft", "grpo"])
@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_rows_that_cannot_be_used(
    command: str, changes: dict[str, Any], said: str, run: Command, row: Any, write_shards: WriteShards
) -> None:
    """Where all are so: a refusal, the reasons in a file, and no weights written."""
    data = write_shards(run.home / "data", [row(**changes)] * 2, {"sft": "sft", "grpo": "rl"}[command])
    ran = run(command, data)
    ran.check_refused(2, "none of the 2 rows can be used")
    lines = lines_of(ran.output / "left_out.jsonl")
    assert [line["row"] for line in lines].count("row 0") == [line["row"] for line in lines].count("row 1") == 1
    assert all(said in line["reason"] for line in lines)
    assert not (ran.output / "model").exists()
    assert checkpoints(ran.output / "checkpoints") == []


def test_rows_around_a_bad_one_are_used(run: Command, row: Any, good: Any, write_shards: WriteShards) -> None:
    data = write_shards(run.home / "data", [row(id="bad", images=[]), *good[:2]])
    ran = run("sft", data)
    assert ran.code == 0, ran.err
    [line] = lines_of(ran.output / "left_out.jsonl")
    assert "bad" in line["reason"]
    assert [metrics["samples"] for metrics in metrics_of(ran.output)] == [2, 2]
    assert json.loads((ran.output / "run.json").read_text("utf-8"))["rows_left_out"] == 1


def test_a_picture_is_never_cut_by_the_limit(run: Command, write_shards: WriteShards) -> None:
    """A limit that ends within the picture's tokens: the row is left out, not shortened."""
    rows = [rl_row(record) for record in records("662-1-0-c0")]
    ran = run("grpo", write_shards(run.home / "data", rows, "rl"), "batch.max_tokens=40")
    ran.check_refused(2, "none of the 1 rows can be used")
    [line] = lines_of(ran.output / "left_out.jsonl")
    assert "tokens" in line["reason"]
    assert "batch.max_tokens is 28" not in line["reason"], "40 are set, of which 12 are kept for the answer"


@pytest.fixture
def poisoned(copied: Path) -> Path:
    """The model's folder with one weight that is no number."""
    path = copied / "model.safetensors"
    weights = load_file(path)
    weights["model.language_model.norm.weight"][0] = torch.nan
    save_file(weights, path, {"format": "pt"})
    return copied


@pytest.mark.parametrize(("command", "side"), [("sft", "sft"), ("grpo", "rl")])
def test_weights_that_are_no_numbers(
    command: str, side: str, run: Command, poisoned: Path, good: Any, write_shards: WriteShards
) -> None:
    """Exit code 1, nothing written over, no model and no checkpoint made of it."""
    before = (poisoned / "model.safetensors").read_bytes()
    ran = run(command, write_shards(run.home / "data", good, side), f"model.path={poisoned}", "log.save_every=1")
    ran.check_refused(1)
    assert (poisoned / "model.safetensors").read_bytes() == before
    assert not (ran.output / "model").exists()
    assert checkpoints(ran.output / "checkpoints") == []


def test_a_loss_that_is_no_number_names_the_samples(
    run: Command, poisoned: Path, good: Any, write_shards: WriteShards
) -> None:
    ran = run("sft", write_shards(run.home / "data", good), f"model.path={poisoned}")
    ran.check_refused(1, "step 1: the loss is nan on the rows s", "no step was completed, so none is saved")


def test_checkpoints_stand_when_a_loss_is_no_number(
    run: Command, good: Any, write_shards: WriteShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step's loss is no number: what the first saved is there, byte for byte, to be gone on with."""
    real, data = sft.sft_loss, write_shards(run.home / "data", good)
    saved: dict[Path, bytes] = {}

    def second_is_nan(logprobs: torch.Tensor, denominator: float) -> torch.Tensor:
        found = checkpoints(run.home / "out" / "checkpoints")
        saved.update({path / "trainer.pt": (path / "trainer.pt").read_bytes() for path in found})
        return real(logprobs, denominator) * (torch.nan if found else 1)

    with monkeypatch.context() as patch:
        patch.setattr(sft, "sft_loss", second_is_nan)
        run("sft", data, "log.save_every=1").check_refused(1, "step 2: the loss is nan")
    [(path, content)] = saved.items()
    assert path.parent.name == "step-000001"
    assert path.read_bytes() == content
    done = run("sft", data, "log.save_every=1")
    assert done.code == 0, done.err
    assert [line["step"] for line in metrics_of(done.output)] == [1, 2]
