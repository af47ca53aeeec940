"""The digest of a model folder's weights."""

from pathlib import Path

import pytest

from groundtrace.trainer import weights_digest as module
from groundtrace.trainer.weights_digest import settings_digests, weights_digest


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / f"{name}.safetensors").write_bytes(data)
    return folder


def test_names_sizes_and_content_count(tmp_path: Path) -> None:
    digests = [
        weights_digest(write(tmp_path / str(number), **files))
        for number, files in enumerate(
            ({"a": b"123"}, {"a": b"124"}, {"b": b"123"}, {"a": b"1234"}, {"a": b"123", "b": b"4"})
        )
    ]
    assert len(set(digests)) == len(digests)
    assert digests[0] == weights_digest(write(tmp_path / "elsewhere", a=b"123"))


def test_other_files_do_not_count(tmp_path: Path) -> None:
    assert weights_digest(tmp_path) == ""
    before = weights_digest(write(tmp_path / "m", a=b"123"))
    (tmp_path / "m/README.md").write_text("mine", "utf-8")
    assert weights_digest(tmp_path / "m") == before


def test_files_of_a_training_and_folders_do_not_count(tmp_path: Path) -> None:
    before = weights_digest(write(tmp_path / "m", a=b"123"))
    (tmp_path / "m/training_args.bin").write_bytes(b"1")
    (tmp_path / "m/trainer_state.json").write_text("{}", "utf-8")
    (tmp_path / "m/x.bin").mkdir()
    assert weights_digest(tmp_path / "m") == before and settings_digests(tmp_path / "m") == []


def test_the_tokenizer_and_the_templates_have_digests(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", a=b"123")
    (folder / "additional_chat_templates").mkdir()
    names = ["additional_chat_templates/t.jinja", "merges.txt", "tokenizer.json"]
    for name in (*names, "README.md", "LICENSE.txt"):
        (folder / name).write_text("1", "utf-8")
    before = settings_digests(folder)
    assert [each.partition(" ")[0] for each in before] == names
    (folder / "tokenizer.json").write_text("2", "utf-8")
    after = settings_digests(folder)
    assert after[:2] == before[:2] and after[2] != before[2]


@pytest.mark.parametrize("place", [0, 5000, 9999])
def test_of_a_large_file_samples_count(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample begins in each of ten equal parts, and each change is longer than such a part."""
    monkeypatch.setattr(module, "MAX_WHOLE_BYTES", 100)
    monkeypatch.setattr(module, "SAMPLES", 10)
    monkeypatch.setattr(module, "SAMPLE_BYTES", 10)
    data = bytearray(10_000)
    before = weights_digest(write(tmp_path / "m", a=bytes(data)))
    data[place : place + 1200] = b"x" * len(data[place : place + 1200])
    assert weights_digest(write(tmp_path / "m", a=bytes(data))) != before
