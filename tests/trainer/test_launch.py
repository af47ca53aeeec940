"""The processes of a training on several GPUs."""

from pathlib import Path

import pytest

from groundtrace.trainer import launch
from groundtrace.trainer.launch import Ranks


def test_ranks_import_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    for name in ("argparse", "groundtrace", "warnings"):
        (tmp_path / f"data/{name}.py").write_text(f"open('foreign', 'a').write('{name} ')")
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    ranks = Ranks(["--help"], 2, tmp_path)
    try:
        assert ranks.wait() is None
    finally:
        ranks.close()
    assert (tmp_path / "rank-1.log").read_text().startswith("usage: trainer ")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["argparse.py", "groundtrace.py", "warnings.py"]


@pytest.mark.parametrize(
    ("has_gpus", "said"),
    [(True, ""), (False, "trainer: torch finds no GPU on this machine, so the 2 processes of --gpus use the CPU\n")],
)
def test_ranks_on_the_cpu_are_announced(
    has_gpus: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Done:
        def __init__(self, *_: object) -> None:
            """Start nothing."""

        def wait(self) -> None:
            """Wait for nothing."""

        close = wait

    monkeypatch.setattr(launch, "Ranks", Done)
    monkeypatch.setattr(launch.torch.cuda, "is_available", lambda: has_gpus)
    monkeypatch.setattr(launch.torch.cuda, "device_count", lambda: 2)
    assert launch.launch(["sft"], 2) is None
    assert capsys.readouterr().err == said
