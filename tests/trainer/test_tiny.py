"""``trainer tiny``: a model whose tokenizer covers the rows of a run, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.question_text import TRACE_INSTRUCTION
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer.model import load_model
from groundtrace.trainer.settings import ModelSettings
from groundtrace.trainer.tiny import SPEECH, shared_sentences, texts_of

from .paper_rows import drafts, rows_of, traced
from .runs import Command

IDS = ("662-1-0-c0", "662-1-0-c1", "3949-1-0-c0")
TEXT = '<think>Here: <points x1="200" y1="25" alt="blue">blue</points>.</think> <answer>1</answer>'
IN_FRAME = TEXT.replace('x1="200"', 'x1="50"')


@pytest.fixture
def data(tmp_path: Path, write_shards: Callable[..., Path]) -> Path:
    """A run over three questions, whose images are 400x100 pixels: one for SFT and two for RL."""
    found = [traced(draft, TEXT) for draft in drafts(*IDS)]
    write_shards(tmp_path / "run", rows_of(found[:1], "sft", "grounded_cot"), "sft")
    return write_shards(tmp_path / "run", rows_of(found[1:], "rl", "grounded_cot"), "rl")


def test_the_texts_of_a_row(data: Path, tmp_path: Path) -> None:
    """Prompts have no image mark, and points are whole percents of the image."""
    prompts, responses = texts_of(Shards(data, "sft", tmp_path / "cache")[0])
    assert responses == [IN_FRAME]
    [prompt] = prompts
    assert prompt.startswith("How many blue triangles") and TRACE_INSTRUCTION in prompt and "<image>" not in prompt
    prompts, responses = texts_of(Shards(data, "rl", tmp_path / "cache")[0])
    assert (len(prompts), responses) == (1, [])


def test_a_point_outside_the_image(tmp_path: Path, write_shards: Callable[..., Path]) -> None:
    found = [traced(draft, TEXT.replace('"25"', '"250"')) for draft in drafts(IDS[0])]
    run = write_shards(tmp_path / "bad", rows_of(found, "sft", "grounded_cot"), "sft")
    with pytest.raises(UnusableRow, match=r"nlvr-dev-662-1-0-c0: .*outside"):
        texts_of(Shards(run, "sft", tmp_path / "cache")[0])


def test_a_run_without_a_usable_row(run: Command, tmp_path: Path, write_shards: Callable[..., Path]) -> None:
    found = [traced(draft, TEXT.replace('"25"', '"250"')) for draft in drafts(IDS[0])]
    data = write_shards(tmp_path / "bad", rows_of(found, "sft", "grounded_cot"), "sft")
    ran = run.words(["tiny", str(tmp_path / "model"), "--data", str(data)], tmp_path)
    said = "e.g. because images cannot be opened: repeat the run that made this folder, or name another run in --data"
    ran.check_refused(2, f"no row in {data} can be used for training, {said}")


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        (["How many are red? Answer with a number."] * 4, ["Answer with a number.", "How many are red?"]),
        (["One.", "Two.", "Three."], []),
        (["Is it so?\nAnswer yes or no.", *["What is it?"] * 3], ["Answer yes or no.", "What is it?", "Is it so?"]),
        (["Is it so? Answer yes or no.", *["What is it?"] * 5], ["What is it?"]),
        ([], []),
    ],
)
def test_shared_sentences(prompts: list[str], shared: list[str]) -> None:
    """A fifth of the prompts have them, and they have three words or more."""
    assert shared_sentences(prompts) == shared


def test_the_command(run: Command, data: Path, tmp_path: Path) -> None:
    ran = run.words(["tiny", str(tmp_path / "deep" / "model"), "--data", str(data)], tmp_path)
    assert (ran.code, ran.out.strip()) == (0, str(tmp_path / "deep" / "model")), ran.err
    assert "weights; the tokenizer is made for 3 prompts" in ran.err
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]
    settings = ModelSettings(
        str(tmp_path / "deep" / "model"), dtype="float32", frame=SPEECH.frame, decimals=SPEECH.decimals
    )
    vlm = load_model(settings, device="cpu")
    tokens = vlm.tokenizer.tokenize(f'{TRACE_INSTRUCTION} <points x1="50" y1="25" alt="')
    assert len(tokens) <= 10, "the instruction is two tokens, and a tag few"
    assert sum(weight.numel() for weight in vlm.model.parameters()) < 3_000_000


def test_the_seed_and_the_side_of_images(run: Command, data: Path, tmp_path: Path) -> None:
    def made(name: str, *more: str) -> tuple[bytes, Any]:
        folder = tmp_path / name
        assert run.words(["tiny", str(folder), "--data", str(data), *more], tmp_path).code == 0
        settings = ModelSettings(str(folder), dtype="float32", frame=SPEECH.frame, decimals=SPEECH.decimals)
        processor = load_model(settings, device="cpu").processor.image_processor
        return (folder / "model.safetensors").read_bytes(), processor.size["longest_edge"]

    assert made("a") == made("b")
    assert made("c", "--seed", "1")[0] != made("a2")[0]
    assert (made("d")[1], made("e", "--image-side", "128")[1]) == (64**2, 128**2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{home}", "--data", "{data}"), "already exists: choose another folder as OUT"),
        (("{home}/model", "--data", "{data}", "--image-side", "31"), "--image-side must be at least 32, got 31"),
        (
            ("{home}/model", "--data", "{home}/nowhere"),
            "has no shards: give the output folder of a `beam run`, which has sft/*.parquet",
        ),
        (("/proc/model", "--data", "{data}"), "cannot write /proc/model: No such file or directory"),
    ],
)
def test_what_it_refuses(words: tuple[str, ...], said: str, run: Command, data: Path, tmp_path: Path) -> None:
    ran = run.words(["tiny", *(word.format(home=tmp_path, data=data) for word in words)], tmp_path)
    ran.check_refused(2, said)
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_seed_that_torch_does_not_take(run: Command, data: Path, tmp_path: Path) -> None:
    ran = run.words(["tiny", str(tmp_path / "model"), "--data", str(data), "--seed", str(2**64)], tmp_path)
    assert ran.code == 2
    assert "argument --seed: must be a number of at most 63 bits" in ran.err


def test_an_empty_folder_by_another_name_and_a_neighbour(
    run: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OUT may be the empty working folder, or a link to one; a folder beside it is not used."""
    own, linked = tmp_path / "own", tmp_path / "linked"
    for folder in (own, linked, tmp_path / "own.partial"):
        folder.mkdir()
    (tmp_path / "own.partial" / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(linked)
    monkeypatch.chdir(own)
    assert run.words(["tiny", ".", "--data", str(data)], tmp_path).code == 0
    assert run.words(["tiny", str(tmp_path / "link"), "--data", str(data)], tmp_path).code == 0
    assert (own / "model.safetensors").is_file() and (linked / "model.safetensors").is_file()
    assert [path.name for path in (tmp_path / "own.partial").iterdir()] == ["mine"]
