"""The defaults of a recipe with which the settings of two runs are compared."""

from pathlib import Path

import pytest

from groundtrace.pipelines.running.comparing import recipe_defaults


def test_the_defaults_are_those_of_bundled_recipes() -> None:
    assert recipe_defaults("grounded_cot")["attempt.k"] == 4


def test_a_file_that_a_run_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('it was imported')", "utf-8")
    (tmp_path / "grounded_cot").write_text("raise SystemExit('it was imported')", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert recipe_defaults("evil.py") == recipe_defaults(str(tmp_path / "evil.py")) == {}
    assert recipe_defaults("grounded_cot")
