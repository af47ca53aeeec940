"""Checkpoints appear whole or not at all, and say why they cannot be resumed from."""

import copy
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.checkpoint import (
    STATE,
    CheckpointError,
    Progress,
    checkpoints,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.settings import OptimiserSettings

RUN = {"command": "sft", "optimiser.lr": 0.1, "reward.options.skip": ["format"]}
"""The identity of a run."""


def _optimiser(size: int = 3, start: float = 1.0, dtype: torch.dtype = torch.float32) -> Optimiser:
    model = nn.ParameterList([nn.Parameter(torch.full((size,), start, dtype=dtype))])
    return Optimiser(model, OptimiserSettings(lr=0.1), 10)


def _moved(optimiser: Optimiser) -> Optimiser:
    (optimiser.masters["0"].sum() * 2).backward()
    optimiser.step(0)
    return optimiser


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_round_trip(tmp_path: Path, dtype: torch.dtype) -> None:
    trained = _moved(_optimiser(dtype=dtype))
    torch.manual_seed(5)
    path = save_checkpoint(tmp_path, Progress(7, 31, {"mean": 0.5, "note": "x"}), trained, RUN, keep=2)
    drawn = torch.rand(4)

    fresh = _optimiser(start=9.0, dtype=dtype)
    progress = load_checkpoint(path, fresh, RUN)
    assert progress == Progress(7, 31, {"mean": 0.5, "note": "x"})
    assert torch.equal(torch.rand(4), drawn), "random numbers go on where they were"
    assert torch.equal(fresh.masters["0"], trained.masters["0"])
    assert torch.equal(fresh._weights["0"], trained._weights["0"])
    torch.testing.assert_close(fresh.state_dict(), trained.state_dict(), rtol=0, atol=0)


def test_the_latest_stay(tmp_path: Path) -> None:
    optimiser = _optimiser()
    for step in (1, 2, 10, 1_000_000, 3):
        save_checkpoint(tmp_path, Progress(step), optimiser, RUN, keep=9)
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-000001",
        "step-000002",
        "step-000003",
        "step-000010",
        "step-1000000",
    ]


def test_older_ones_are_deleted(tmp_path: Path) -> None:
    for step in range(1, 6):
        save_checkpoint(tmp_path, Progress(step), _optimiser(), RUN, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000004", "step-000005"]


def test_a_repeated_step_takes_the_place_of_the_first(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, Progress(4, 1), _optimiser(), RUN, keep=2)
    path = save_checkpoint(tmp_path, Progress(4, 2), _optimiser(), RUN, keep=2)
    assert load_checkpoint(path, _optimiser(), RUN).position == 2
    assert [found.name for found in tmp_path.iterdir()] == ["step-000004"]


def test_an_interrupted_write_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)

    def killed(state: object, path: Path) -> None:
        path.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, Progress(2), _optimiser(), RUN, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"], "the half that was written is gone"


def test_what_is_no_checkpoint_is_passed_over(tmp_path: Path) -> None:
    for name in ("step-000001", "step-12", "step-latest", ".step-000002.77"):
        (tmp_path / name).mkdir()
    (tmp_path / ".step-000002.77" / STATE).write_bytes(b"")
    (tmp_path / "step-12" / STATE).write_bytes(b"")
    assert checkpoints(tmp_path) == []
    assert checkpoints(tmp_path / "missing") == []


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "flipped"])
def test_a_damaged_file(tmp_path: Path, damage: str) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    data = (path / STATE).read_bytes()
    flipped = bytearray(data)
    flipped[0:4] = b"\0\0\0\0"
    flipped[-22:-18] = b"\0\0\0\0"
    damaged = {"truncated": data[: len(data) // 2], "empty": b"", "text": b"no checkpoint", "flipped": bytes(flipped)}
    (path / STATE).write_bytes(damaged[damage])
    with pytest.raises(CheckpointError, match="step-000001 cannot be read"):
        load_checkpoint(path, _optimiser(), RUN)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("progress", "step", "x"),
        ("progress", "position", [1]),
        ("progress", "memory", 5),
        ("progress", "random", {}),
        ("progress", "random", {"torch": 5, "cuda": []}),
        ("progress", "more", 5),
        ("optimiser", "masters", 5),
        ("optimiser", "optimisers", 5),
        ("optimiser", "optimisers", [5]),
    ],
)
def test_values_that_no_trainer_wrote(section: str, key: str, value: Any, tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    state = torch.load(path / STATE, weights_only=True)
    state[section][key] = value
    torch.save(state, path / STATE)
    with pytest.raises(CheckpointError, match="step-000001"):
        load_checkpoint(path, _optimiser(), RUN)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    torch.save({"identity": Path("a class of its own")}, path / STATE)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(path, _optimiser(), RUN)


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        (STATE, "", "is not a regular file, but a pipe: move it away"),
        ("shards/a.safetensors", "", "is not a regular file, but a pipe: move it away"),
        (STATE, "../../private/trainer.pt", "is a link that leads out of"),
        ("shards", "../../private", "is a link that leads out of"),
        ("shards/a.safetensors", "../../../private/a.safetensors", "is a link that leads out of"),
        ("other", "/dev/zero", "is a link that leads out of"),
    ],
)
def test_files_from_a_stranger(tmp_path: Path, name: str, target: str, said: str) -> None:
    """A pipe (no target), and links to files of the user."""
    path = save_checkpoint(tmp_path / "out", Progress(1), _optimiser(), RUN, keep=2)
    (tmp_path / "private").mkdir()
    shutil.copy(path / STATE, tmp_path / "private" / STATE)
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).unlink(missing_ok=True)
    if target:
        (path / name).symlink_to(target)
    else:
        os.mkfifo(path / name)
    for read in (read_checkpoint, lambda path: load_checkpoint(path, _optimiser(), RUN)):
        with pytest.raises(UnsafeFile, match=f"{name} {said}"):
            read(path)


@pytest.mark.parametrize("kind", ["deflated", "overlapping"])
def test_a_small_file_that_needs_much_memory(tmp_path: Path, kind: str) -> None:
    path = save_checkpoint(tmp_path, Progress(1, 0, {"note": "x" * 5_000}), _optimiser(), RUN, keep=2)
    with zipfile.ZipFile(path / STATE) as whole:
        parts = {each.filename: whole.read(each) for each in whole.infolist()}
    method = zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path / STATE, "w", method) as changed:
        for name, data in parts.items():
            changed.writestr(name, data)
        if kind == "overlapping":  # many entries of the list have the same bytes
            first = changed.infolist()[0]
            for number in range(50):
                again = copy.copy(first)
                again.filename = f"trainer/more/{number}"
                changed.filelist.append(again)
    assert torch.load(path / STATE, weights_only=True)["progress"]["memory"] == {"note": "x" * 5_000}
    for read in (read_checkpoint, lambda path: load_checkpoint(path, _optimiser(), RUN)):
        with pytest.raises(CheckpointError, match=r"cannot be read: the parts of trainer\.pt are compressed, or"):
            read(path)


def test_a_bytearray_of_any_size(tmp_path: Path) -> None:
    class Large:
        def __reduce__(self) -> Any:
            return bytearray, (2**20,)

    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    state = torch.load(path / STATE, weights_only=True)
    torch.save({**state, "note": Large()}, path / STATE)
    assert len(torch.load(path / STATE, weights_only=True)["note"]) == 2**20
    for read in (read_checkpoint, lambda path: load_checkpoint(path, _optimiser(), RUN)):
        with pytest.raises(
            CheckpointError, match=r"cannot be read: trainer\.pt contains a bytearray, which the trainer"
        ):
            read(path)


def test_a_description_with_more_values_than_bytes(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    state = torch.load(path / STATE, weights_only=True)
    values: list[Any] = ["x"]
    for _ in range(9):
        values = [values] * 10
    torch.save(state | {"identity": {"model.path": values}}, path / STATE)
    for read in (read_checkpoint, lambda path: load_checkpoint(path, _optimiser(), RUN)):
        with pytest.raises(CheckpointError, match="description of the training has more than 10000 values"):
            read(path)
    torch.save(state | {"identity": 5}, path / STATE)
    with pytest.raises(CheckpointError, match="another version of the trainer wrote it"):
        read_checkpoint(path)


def test_a_checkpoint_behind_a_link(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "out", Progress(1), _optimiser(), RUN, keep=2)
    (tmp_path / "named").symlink_to(path)
    (path / STATE).rename(path / "other")
    (path / STATE).symlink_to("other")
    assert load_checkpoint(tmp_path / "named", _optimiser(), RUN) == Progress(1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"optimiser.lr": 0.2},
            "optimiser.lr was 0.1 and is now 0.2. Restore the earlier settings, data, weights and code, or choose",
        ),
        ({"command": "grpo"}, "command was 'sft' and is now 'grpo'"),
        ({"reward.options.skip": []}, r"reward.options.skip was \['format'\] and is now \[\]"),
        ({"reward.options.new": 1}, "reward.options.new was left out and is now 1"),
        ({"optimiser.lr": None}, "optimiser.lr was 0.1 and is now left out"),
    ],
)
def test_another_run_is_refused_by_its_first_difference(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _moved(_optimiser()), RUN, keep=2)
    other = _optimiser()
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(path, other, {k: v for k, v in (RUN | changes).items() if v is not None})
    assert torch.equal(other.masters["0"], _optimiser().masters["0"]), "nothing was taken from it"


def test_a_checkpoint_without_an_identity(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, Progress(1), _optimiser(), RUN, keep=2)
    torch.save({"progress": {}, "run_sha256": "aa"}, path / STATE)
    said = "step-000001 cannot be read, because another version of the trainer wrote it"
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(path, _optimiser(), RUN)


@pytest.mark.parametrize("size", [3, 1])
def test_weights_of_another_shape(tmp_path: Path, size: int) -> None:
    """A weight of one element would be broadcast over a longer one."""
    path = save_checkpoint(tmp_path, Progress(1), _moved(_optimiser(size)), RUN, keep=2)
    other = _optimiser(4)
    with pytest.raises(
        CheckpointError, match=rf"0 has the shape \({size},\) in the checkpoint, but \(4,\) in the model"
    ):
        load_checkpoint(path, other, RUN)
    assert torch.equal(other.masters["0"], _optimiser(4).masters["0"]), "nothing was taken from it"
