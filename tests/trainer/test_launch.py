"""The processes of a training on several GPUs."""

from pathlib import Path

import pytest

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
