"""The task of lmms-eval in examples/lmms_eval: its functions on real rows, and its grading beside Groundtrace's own."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.schemas.arrow import rl_schema
from tests.trainer.paper_rows import drafts, rows_of

FOLDER = Path(__file__).resolve().parents[2] / "examples/lmms_eval"


@pytest.fixture(scope="module")
def utils() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lmms_utils", FOLDER / "utils.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def doc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A row of a run's RL shards as lmms-eval reads it: with decoded images."""
    path = tmp_path_factory.mktemp("run") / "train-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of(drafts("662-1-0-c0"), "rl", "grounded_cot"), rl_schema()), path)
    loaded = datasets.load_dataset("parquet", data_files={"test": str(path)}, cache_dir=str(path.parent / "cache"))
    return loaded["test"][0]


class _Loader(yaml.SafeLoader):
    """Reads ``!function utils.name`` as its text."""


_Loader.add_constructor("!function", lambda loader, node: f"!{node.value}")


def _functions(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [name for each in (value.values() if isinstance(value, dict) else value) for name in _functions(each)]
    return [value[1:]] if isinstance(value, str) and value.startswith("!") else []


def test_the_task_names_functions_that_exist(utils: ModuleType) -> None:
    task = yaml.load((FOLDER / "groundtrace_rows.yaml").read_text("utf-8"), _Loader)
    assert not (FOLDER.parents[1] / task["task"]).exists(), "lmms-eval would take a folder of this name for the task"
    named = _functions(task)
    assert len(named) == 6
    for name in named:
        file, _, function = name.partition(".")
        assert file == "utils" and callable(getattr(utils, function))
    assert [each["metric"] for each in task["metric_list"]] == ["accuracy", "has_answer"]


def test_a_row_as_messages(utils: ModuleType, doc: dict[str, Any]) -> None:
    [message] = utils.doc_to_messages(doc)
    picture, words = message["content"]
    assert (picture["type"], picture["url"].size) == ("image", (400, 100))
    assert words["text"].startswith("How many blue triangles are there in the image?")
    assert words["text"] == utils.doc_to_text(doc)
    assert len(utils.doc_to_visual(doc)) == 1


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think>It is 3.</think> <answer> 4 </answer>", "4"),
        ("<judge>simple</judge><think></think>\\boxed{yes}", "yes"),
        ("<answer>\\boxed{B}</answer>", "B"),
        ("\\boxed{1} no, <answer>2</answer>", "2"),
        ("the answer is 4", None),
        ("", None),
    ],
)
def test_the_answer_of_a_response(utils: ModuleType, response: str, answer: str | None) -> None:
    assert utils.answer_of(response) == answer


CHOICES = ("red", "dark blue")
GRADED = [
    ("3", "3", "numeric", None, True),
    ("3.0", "3", "numeric", None, True),
    ("1,000", "1000", "numeric", None, True),
    ("4", "3", "numeric", None, False),
    ("several", "3", "numeric", None, False),
    ("Yes.", "yes", "bool", None, True),
    ("no", "yes", "bool", None, False),
    ("B", "B", "mcq", CHOICES, True),
    ("(b)", "B", "mcq", CHOICES, True),
    ("Dark blue", "B", "mcq", CHOICES, True),
    ("A", "B", "mcq", CHOICES, False),
    ("a  Dog", "a dog", "text", None, True),
    ("a cat", "a dog", "text", None, False),
]


@pytest.mark.parametrize(("answer", "gold", "kind", "choices", "right"), GRADED)
def test_grading(utils: ModuleType, answer: str, gold: str, kind: str, choices: Any, right: bool) -> None:
    """What is right here is right for Groundtrace, too."""
    assert utils.is_right(answer, gold, kind, choices) is right
    if right:
        assert grade_answer(answer, gold, kind, choices).value == 1.0


def test_the_metrics(utils: ModuleType, doc: dict[str, Any]) -> None:
    def scored(text: str) -> tuple[float | None, float | None]:
        found = utils.process_results(doc, [text])
        return found["accuracy"], found["has_answer"]

    assert doc["answer"] == "1"
    assert scored("<answer>1</answer>") == (1.0, 1.0)
    assert scored("<answer>2</answer>") == (0.0, 1.0)
    assert scored("1") == (0.0, 0.0)
    assert scored("[LMMS_EVAL_REQUEST_FAILED after 5 retries] timed out") == (None, None)
    assert utils.mean_of_scored([1.0, 0.0]) == 0.5
    with pytest.raises(RuntimeError, match="1 of 2 replies are missing: correct the errors"):
        utils.mean_of_scored([1.0, None])
