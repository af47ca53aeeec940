"""Trainings are kept under a hash of what determines their result, so that another result is never used for them."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.learning import training
from benchmarks.learning.training import EXAMS, Learnt, Trainings, Untrained, digest, in_parallel

UNTRAINED = Untrained(0, "texts")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for side in ("sft", "rl"):
        (tmp_path / "run" / side).mkdir(parents=True)
        (tmp_path / "run" / side / "train.parquet").write_bytes(side.encode())
    return tmp_path / "run"


def test_a_key_changes_with_everything_that_changes_the_model(rows: Path) -> None:
    plain = Learnt("sft", 0, rows, UNTRAINED)
    others = {
        plain.key,
        Learnt("grpo", 0, rows, UNTRAINED).key,
        Learnt("sft", 1, rows, UNTRAINED).key,
        Learnt("sft", 0, rows, Untrained(1, "texts")).key,
        Learnt("sft", 0, rows, Untrained(0, "other texts")).key,
        Learnt("sft", 0, rows, plain).key,
        Learnt("sft", 0, rows, UNTRAINED, ("sft.steps=7",)).key,
        Learnt("sft", 0, rows, UNTRAINED, ("sft.optimiser.lr=1e-5",)).key,
    }
    (rows / "sft" / "train.parquet").write_bytes(b"other rows")
    others.add(Learnt("sft", 0, rows, UNTRAINED).key)
    assert len(others) == 9


def test_a_key_does_not_change_with_what_changes_nothing(rows: Path, tmp_path: Path) -> None:
    plain = Learnt("sft", 0, rows, UNTRAINED)
    for settings in (("threads=3",), ("log.keep=7",), ("grpo.steps=3",), ("sft.steps=600",)):
        assert Learnt("sft", 0, rows, UNTRAINED, settings).key == plain.key
    rows.rename(tmp_path / "moved")
    assert Learnt("sft", 0, tmp_path / "moved", UNTRAINED).key == plain.key


def test_the_digest_is_of_rows_or_records(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no shards and no records\.jsonl"):
        digest(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"a")
    of_rows = digest(tmp_path)
    (tmp_path / "records.jsonl").write_text("{}\n", "utf-8")
    assert digest(tmp_path) != of_rows


def test_each_command_runs_once(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script stands for the trainer: it writes the files that show that a command has ended."""
    script = tmp_path / "stand_in.py"
    script.write_text(
        "import sys, pathlib\n"
        "words = sys.argv[1:]\n"
        "output = pathlib.Path(words[words.index('--output') + 1])\n"
        "(output / 'eval.json').write_text('{}')\n"
        "print(*words)\n",
        "utf-8",
    )
    monkeypatch.setattr(
        training,
        "command",
        lambda module, *words, log=None: _run([sys.executable, str(script), *map(str, words)], log),
    )
    held = tmp_path / "held"
    held.mkdir()
    (held / "records.jsonl").write_text("{}\n", "utf-8")
    trainings = Trainings(tmp_path / "out", ("batch.tokens=999",))
    model = trainings.learnt("sft", 3, rows, UNTRAINED, "sft.steps=7")
    assert not trainings.is_examined(model, held)
    for _ in range(2):
        trainings.train(model)
        for how in EXAMS:
            trainings.examine(model, held, how)
    assert trainings.is_examined(model, held)
    logs = sorted((tmp_path / "out").rglob("log.txt"))
    assert [len(log.read_text("utf-8").splitlines()) for log in logs] == [1, 1, 1]
    said = (trainings.folder(model) / "trained" / "log.txt").read_text("utf-8")
    assert said.startswith("sft --config") and "seed=3" in said and "batch.tokens=999" in said and "sft.steps=7" in said
    written = json.loads((trainings.folder(model) / "training.json").read_text("utf-8"))
    assert (written["does"], written["seed"], written["start"]) == ("sft", 3, UNTRAINED.key)
    assert trainings.answers(model, held, "sampled") != trainings.answers(model, held, "sampled", "eval.questions=5")


def _run(line: list[str], log: object) -> None:
    import subprocess

    subprocess.run(line, check=True, stdout=log)  # type: ignore[arg-type]


def test_an_error_of_parallel_work_is_raised() -> None:
    done: list[int] = []

    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_parallel([lambda: done.append(1), fail], 2)
    assert done == [1]
