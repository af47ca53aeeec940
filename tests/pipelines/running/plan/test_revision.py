"""The revision in a run.json and in the rows: also that of the user's own code."""

from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.schemas import registry
from groundtrace.schemas.revision import code_revision

SCORER = """
from groundtrace.rewards.scorer import Scorer
async def score(case):
    return None
MINE = Scorer("mine", "everything", score)
"""
SAMPLE = str(Path(__file__).parents[4] / "data" / "sample")


pytestmark = pytest.mark.usefixtures("own_modules")


def revision(folder: Path, number: str, value: int) -> str:
    """The revision of a run of a recipe with a module beside it that has a value."""
    (folder / number).mkdir()
    (folder / number / f"beside_{number}.py").write_text(f"VALUE = {value}\n")
    file = folder / number / f"recipe_{number}.py"
    file.write_text(f"from beside_{number} import VALUE\nfrom groundtrace.pipelines.grounded_cot import RECIPE\n")
    (folder / number / "not_imported.py").write_text(f"NUMBER = {number!r}\n")
    return make_plan(RunArguments(str(file), SAMPLE, str(folder / "run"))).revision


def test_a_bundled_recipe_has_the_revision_of_groundtrace(tmp_path: Path) -> None:
    assert make_plan(RunArguments("grounded_cot", SAMPLE, str(tmp_path / "run"))).revision == code_revision()


def test_only_files_that_the_recipe_imports_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a script or a notebook in the folder of the recipe makes the same rows as the command."""
    folder = tmp_path / "mine"
    first = revision(tmp_path, "mine", 1)
    (folder / "script.py").write_text("NUMBER = 1\n")
    monkeypatch.syspath_prepend(str(folder))
    __import__("script")
    (folder / "not_imported.py").write_text("NUMBER = 2\n")
    arguments = RunArguments(str(folder / "recipe_mine.py"), SAMPLE, str(tmp_path / "run"))
    assert make_plan(arguments).revision == first


def test_a_part_that_the_config_names_counts_only_for_this_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_configured", {})
    (tmp_path / "own_brevity.py").write_text(SCORER)
    plain = RunArguments("grounded_cot", SAMPLE, str(tmp_path / "run"))
    for override in ("plugins.scorers.mine=own_brevity:MINE", 'verify.scorers={"own_brevity:MINE" = {}}'):
        found = make_plan(replace(plain, overrides=(override,))).revision
        assert found.startswith(f"{code_revision()} with own code ")
        assert make_plan(plain).revision == code_revision()


def test_the_users_code_changes_the_revision(tmp_path: Path) -> None:
    first = revision(tmp_path, "a", 1)
    assert first.startswith(f"{code_revision()} with own code ")
    assert revision(tmp_path, "b", 2) not in (first, code_revision())
