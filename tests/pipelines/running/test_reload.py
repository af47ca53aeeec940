"""gt.reload: the next run of a session uses the present files of recipes, modules beside them, prompts and plug-ins."""

from pathlib import Path
from typing import Any

import pytest

import groundtrace as gt
from groundtrace.prompts import loader
from groundtrace.schemas import registry
from groundtrace.schemas.user_modules import StaleModule

SAMPLE = str(Path(__file__).parents[3] / "data/sample")
HELPER = "def count(text):\n    return len(text.split()) + {extra}\n"
RECIPE = """
import apache_beam as beam
import pyarrow as pa
from dataclasses import field
import groundtrace as gt
from groundtrace.config.settings import settings
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.schemas.columns import Column
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe
from groundtrace.stages.plumbing.stage import DraftStage, Stage
from reloaded_help import count

LENGTH = Column[int]("question_words", pa.int32(), "how many words the question has")


class MeasureQuestions(DraftStage):
    stage = Stage("measure", "the words are counted", adds=(LENGTH,))

    def work(self):
        return lambda draft: draft.with_added(LENGTH, count(draft.question.question))


def build(root, run, settings):
    ingested = root | "Ingest" >> IngestRecords(run.sources, settings.input, run.roots, run.limit)
    return Ends(rl=(ingested["kept"] | "Measure" >> MeasureQuestions()).kept)


RECIPE = Recipe(name="reloaded", settings=RunSettings, build=build, makes="Questions.")
"""
SCORER = """
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict
async def score(case):
    return Verdict("own", {value}, "")
OWN = Scorer("own", "everything", score)
"""


pytestmark = pytest.mark.usefixtures("own_modules")


def words(opened: gt.OpenedRun) -> int:
    [row] = opened.rl
    return row["question_words"] - len(row["question"].split())


@pytest.mark.slow
def test_two_edits_of_a_module_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "reloaded_help.py").write_text(HELPER.format(extra=1))
    (tmp_path / "reloaded.py").write_text(RECIPE)
    run: Any = {"pipeline": str(tmp_path / "reloaded.py"), "input": SAMPLE, "output": str(tmp_path / "run"), "limit": 1}
    opened = [gt.run(**run)]
    assert (words(opened[0]), words(gt.run(**run))) == (1, 1)
    for extra in (2, 3):
        (tmp_path / "reloaded_help.py").write_text(HELPER.format(extra=extra))
        with pytest.raises(StaleModule, match=r"reloaded_help\.py has changed .*: call gt\.reload\(\)"):
            gt.run(**run)
        assert gt.reload() == ["reloaded", "reloaded_help"]
        opened.append(gt.run(**run))
        assert words(opened[-1]) == extra
    assert len({each.summary.revision for each in opened}) == 3


def test_a_scorer_that_a_config_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_configured", {})
    config = {"plugins": {"scorers": {"own": "reloaded_scorer:OWN"}}, "verify": {"scorers": {"own": {}}}}
    image = f"{SAMPLE}/images/dev-1226-1-0.png"
    response = '<think>It has <points x1="12" y1="41" alt="blue square">one</points>.</think><answer>1</answer>'
    for value in (1.0, 0.5):
        (tmp_path / "reloaded_scorer.py").write_text(SCORER.format(value=value))
        gt.reload()
        found = gt.verify("How many blue squares are there?", response, [image], "1", config=config)
        assert [each.value for each in found.verdicts if each.name == "own"] == [value]


def test_a_prompt_of_ones_own_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_FOLDERS", [tmp_path])
    text = "id: own\nversion: 1\npurpose: a test\npaper: none\nvariables: []\nmedia: []\nuser: []\nreply_schema: null\n"
    for system in ("first", "second"):
        (tmp_path / "own.v1.yaml").write_text(f"{text}system: {system}\n")
        gt.reload()
        assert loader.load_prompt("own.v1").system == system
    loader.load_prompt.cache_clear()
