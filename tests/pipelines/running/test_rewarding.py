"""gt.reward: what responses to a row of a run earn, as in a training."""

from pathlib import Path
from typing import Any

import pytest

import groundtrace as gt
from groundtrace.config.errors import ConfigError
from groundtrace.schemas.registry import load
from groundtrace.schemas.user_modules import StaleModule

RECIPE = """
from typing import ClassVar
from groundtrace.config.settings import settings
from groundtrace.rewards.recipes.base import Earned, Recipe, verdicts_of
from groundtrace.rewards.scorers import outcome

@settings
class HalfSettings:
    most: float = 0.5

class Half(Recipe):
    name: ClassVar[str] = "half"
    Settings: ClassVar[type] = HalfSettings
    runs = (outcome.SCORER,)
    def __init__(self, settings):
        self.settings = settings
    async def score(self, cases, memory):
        verdicts = [await verdicts_of(self.runs, case) for case in cases]
        return [Earned(self.settings.most * found[0].value, found) for found in verdicts]
"""


@pytest.fixture
def opened(demo: Path) -> gt.OpenedRun:
    return gt.open_run(demo / "runs/demo")


def responses(row: Any) -> list[str]:
    return [f"<think>It is so.</think><answer>{answer}</answer>" for answer in (row["answer"], "no such answer")]


@pytest.mark.usefixtures("own_modules")
def test_a_recipe_of_ones_own(opened: gt.OpenedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_reward.py").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    row = opened.rl[0]
    config = {"reward": {"recipe": "half_reward:Half", "options": {"most": 0.25}}}
    right, wrong = gt.reward(row, responses(row), config)
    assert (right.reward, right.outcome, wrong.reward, wrong.outcome) == (0.25, 1.0, 0.0, 0.0)
    (tmp_path / "reward.toml").write_text('[reward]\nrecipe = "half_reward:Half"\n')
    assert [each.reward for each in gt.reward(row, responses(row), "reward.toml")] == [0.5, 0.0]


@pytest.mark.usefixtures("own_modules")
def test_a_recipe_that_imports_changed_code_is_refused(
    opened: gt.OpenedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first import of the recipe does not hide that a module which it uses was imported before its change."""
    monkeypatch.chdir(tmp_path)
    parts, row = tmp_path / "half_parts.py", opened.rl[0]
    parts.write_text("MOST = 0.5\n")
    (tmp_path / "half_reward.py").write_text(f"import half_parts\n{RECIPE}")
    load("half_parts:MOST")
    parts.write_text("MOST = 0.25\n")
    for _ in range(2):
        with pytest.raises(StaleModule, match=r"half_parts\.py has changed since Python imported it.*gt\.reload\(\)"):
            gt.reward(row, responses(row), {"reward": {"recipe": "half_reward:Half"}})
    gt.reload()
    assert gt.reward(row, responses(row), {"reward": {"recipe": "half_reward:Half"}})[0].reward == 0.5


RETURNED = "return [Earned(self.settings.most * found[0].value, found) for found in verdicts]"


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize(
    ("name", "new", "message"),
    [
        ("nan_reward", "return [Earned(float('nan'), v) for v in verdicts]", r"it returned Earned\(reward=nan"),
        ("floats_reward", "return [0.5 for _ in cases]", r"it returned 0\.5: return Earned\(reward, verdicts\)"),
        ("fewer_reward", "return [Earned(0.5, v) for v in verdicts][1:]", r"1 results: .* each of 2 cases"),
        ("none_reward", "return None", "it returned None: return a list of Earned, one for each of 2 cases"),
        ("texts_reward", "return [Earned(0.5, ('a',)) for _ in cases]", "verdicts are a tuple of Verdict"),
    ],
)
def test_a_wrong_result_of_a_recipe_is_refused(
    opened: gt.OpenedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    new: str,
    message: str,
) -> None:
    (tmp_path / f"{name}.py").write_text(RECIPE.replace(RETURNED, new))
    monkeypatch.chdir(tmp_path)
    row = opened.rl[0]
    where = f"the method score of the reward recipe {name}:Half failed for the record {row.id}: "
    with pytest.raises(gt.UserError, match=rf"{where}.*{message}"):
        gt.reward(row, responses(row), {"reward": {"recipe": f"{name}:Half"}})


@pytest.mark.usefixtures("own_modules")
def test_a_verdict_of_a_scorer_that_the_recipe_does_not_run_is_refused(
    opened: gt.OpenedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "return [Earned(Earned(None, each).value('outcom'), each) for each in verdicts]"
    (tmp_path / "typo_reward.py").write_text(RECIPE.replace(RETURNED, asked))
    monkeypatch.chdir(tmp_path)
    row = opened.rl[0]
    with pytest.raises(gt.UserError, match=r"typo_reward:Half asks for the value of 'outcom', .* use one of outcome, "):
        gt.reward(row, responses(row), {"reward": {"recipe": "typo_reward:Half"}})
    # a recipe may make verdicts itself, for some responses only, and names them in `shown`
    made = RECIPE.replace(RETURNED, asked).replace(
        'name: ClassVar[str] = "half"', 'shown = ("outcom",)\n    name = "half"'
    )
    (tmp_path / "made_reward.py").write_text(made)
    assert gt.reward(row, responses(row), {"reward": {"recipe": "made_reward:Half"}})[0].reward is None


@pytest.mark.usefixtures("own_modules")
def test_a_recipe_that_is_not_asynchronous_is_refused(
    opened: gt.OpenedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = RECIPE[: RECIPE.index("    async def score")] + "    def score(self, cases, memory):\n        return []\n"
    (tmp_path / "sync_reward.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gt.UserError, match="it is not asynchronous: define it with `async def`"):
        gt.reward(opened.rl[0], ["a"], {"reward": {"recipe": "sync_reward:Half"}})


@pytest.mark.usefixtures("own_modules")
def test_a_recipe_without_settings_in_its_constructor_is_refused(
    opened: gt.OpenedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = RECIPE.index("    def __init__"), RECIPE.index("    async def score")
    (tmp_path / "bare_reward.py").write_text(RECIPE[:start] + RECIPE[end:])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"bare_reward:Half does not take its settings .* `settings: HalfSettings`"):
        gt.reward(opened.rl[0], ["a"], {"reward": {"recipe": "bare_reward:Half"}})


def test_a_bundled_recipe(opened: gt.OpenedRun) -> None:
    row = opened.rl[0]
    right, wrong = gt.reward(row, responses(row), {"reward": {"recipe": "argos"}})
    assert right.value("outcome") == 1.0 and wrong.reward == 0.0


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"model": {"frame": "molmo100"}}, "x = 163 is outside 0 to 100, the range of the frame molmo100"),
        ({"speech": {"frame": "gemini"}}, "x = 1630 is outside 0 to 1000, the range of the frame gemini"),
        ({}, ""),
    ],
)
def test_the_frame_of_coordinates_is_that_of_the_config(
    opened: gt.OpenedRun, config: dict[str, Any], fault: str
) -> None:
    row = opened.rl[0]
    written = {"x1": "10", "y1": "1630"} if "speech" in config else {"x1": "163", "y1": "20"}
    place = " ".join(f'{name}="{value}"' for name, value in written.items())
    text = f'<think>Here: <points {place} alt="a">a</points>.</think><answer>{row["answer"]}</answer>'
    [found] = gt.reward(row, [text], {"reward": {"recipe": "argos"}, **config})
    [reason] = [verdict.reason for verdict in found.verdicts if verdict.name == "format"]
    assert reason.endswith(fault) and ("cannot be read" in reason) == bool(fault)


def test_mistakes_are_user_errors(opened: gt.OpenedRun) -> None:
    row = opened.rl[0]
    with pytest.raises(gt.UserError, match=r"cannot use a row of the set sft: use a row of the set rl, as opened\.rl"):
        gt.reward(opened.sft[0], ["<answer>1</answer>"], {})
    with pytest.raises(gt.UserError, match="responses = '<answer>1</answer>': its type must be"):
        gt.reward(row, "<answer>1</answer>", {})
    with pytest.raises(ConfigError, match=r"reward\.recipe must be one of .*argos"):
        gt.reward(row, ["<answer>1</answer>"], {"reward": {"recipe": "argus"}})
