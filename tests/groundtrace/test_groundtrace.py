"""The library face: its names, a run through it, and the verification of one response."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import groundtrace as gt
from groundtrace.pipelines import grounded_cot
from groundtrace.pipelines.running import library
from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.rewards.scorers import outcome
from groundtrace.schemas.columns import Column
from groundtrace.schemas.errors import naming_record
from groundtrace.schemas.records import Verdict

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "sample"


def test_every_name_is_there() -> None:
    for name in gt.__all__:
        assert getattr(gt, name).__name__ == name
    assert set(gt.__all__) <= set(dir(gt))
    with pytest.raises(AttributeError, match="no attribute 'pickle': use one of "):
        _ = gt.pickle


def test_a_run_and_a_look_into_it(tmp_path: Path) -> None:
    opened = gt.run(
        "grounded_cot", str(SAMPLE), str(tmp_path / "run"), limit=12, overrides=["difficulty.include_high=true"]
    )
    counts = opened.summary.counts
    assert counts.input == 12 == opened.sft.num_rows + opened.rl.num_rows + opened.rejected.num_rows
    assert opened.sft.num_rows == counts.sft > 0
    again = gt.open_run(tmp_path / "run")
    assert again.summary == opened.summary
    rows = again.dataset("sft")
    assert rows.num_rows == counts.sft
    assert rows[0]["images"][0].size == (400, 100)


def test_a_preview_has_the_sums_of_a_forecast(tmp_path: Path) -> None:
    opened = gt.preview("grounded_cot", str(SAMPLE), str(tmp_path / "run"), records=2)
    assert opened.summary.forecast is not None
    assert opened.summary.forecast["records"] == 2
    lines = str(opened).splitlines()
    assert lines[0].startswith("2 records: ") and f"report: {tmp_path}/run/report.html" in lines
    assert opened.forecast.splitlines()[0].startswith("forecast for ") and str(opened).endswith(opened.forecast)


def test_a_mapping_is_a_config_and_overrides(tmp_path: Path) -> None:
    config = {"attempt": {"k": 2}, "trace": {"n": 1}}
    named: dict[str, Any] = {"pipeline": "grounded_cot", "input": str(SAMPLE), "limit": 1, "resume": False}
    mine = {"overrides": {"attempt.k": 3, "max_failed": 1.0}, "output": str(tmp_path / "a")}
    gt.run(**named, **mine, config=config)
    assert config == {"attempt": {"k": 2}, "trace": {"n": 1}}
    (tmp_path / "own.toml").write_text("attempt.k = 2\ntrace.n = 1\n")
    texts = {"overrides": ["attempt.k=3", "max_failed=1.0"], "output": str(tmp_path / "b")}
    gt.run(**named, **texts, config=tmp_path / "own.toml")
    recorded = [(tmp_path / name / "config.toml").read_text() for name in "ab"]
    assert recorded[0] == recorded[1] and "k = 3" in recorded[0]
    for given, fault in (
        ({"config": {"attempt": {"kk": 2}}}, r"unknown key attempt\.kk"),
        (
            {"overrides": {"attempt.k.x": 2}, "config": config},
            r"overrides\['attempt\.k\.x'\] cannot be used, because k",
        ),
        ({"overrides": {"trace.n": tmp_path}}, "is of the type PosixPath, which no setting accepts: use a text"),
    ):
        with pytest.raises(gt.UserError, match=fault):
            gt.run(**named, **given, output=str(tmp_path / "c"))


def test_mistakes_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(gt.UserError, match="there is no pipeline 'nowhere'"):
        gt.run("nowhere", str(SAMPLE), str(tmp_path / "run"))
    with pytest.raises(gt.UserError, match="there is no folder"):
        gt.open_run(tmp_path / "none")
    with pytest.raises(gt.UserError, match=r"cannot read .*none\.png"):
        gt.verify("How many?", "<answer>1</answer>", [tmp_path / "none.png"], "1")
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(gt.UserError, match=r"bad\.png cannot be used"):
        gt.verify("How many?", "<answer>1</answer>", [tmp_path / "bad.png"], "1")
    with pytest.raises(gt.UserError, match=r"unknown answer_type 'angel': use one of .*numeric"):
        gt.verify("How many?", "<answer>1</answer>", [tmp_path / "bad.png"], "1", answer_type="angel")
    with pytest.raises(gt.UserError, match=r"no argument 'conf'; use one of pipeline, .*: did you mean config\?"):
        gt.run("grounded_cot", str(SAMPLE), str(tmp_path / "run"), conf="x")
    with pytest.raises(gt.UserError, match=r"^run\(\) cannot use config = 3: its type must be str \| .*Mapping"):
        gt.run("grounded_cot", str(SAMPLE), str(tmp_path / "run"), config=3)
    with pytest.raises(gt.UserError, match=r"cannot use the recipe 'grounded_cot' itself, because .*: save it as"):
        gt.run(grounded_cot.RECIPE, str(SAMPLE), str(tmp_path / "run"))  # type: ignore[arg-type]


def test_an_exception_of_own_code_has_its_place_and_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        with naming_record("row-23"):
            raise KeyError("nothing [while running 'Colours/Work/ParDo(RunWork)']")

    monkeypatch.setattr(library, "execute", fail)
    with pytest.raises(KeyError) as raised:
        gt.run("grounded_cot", str(SAMPLE), str(tmp_path / "run"))
    assert raised.value.args == ("nothing",)
    note = str(raised.value.__notes__[-1])
    assert note.startswith(f"in {__file__}, line ") and note.endswith(", for the record row-23")


@pytest.mark.parametrize(
    ("x", "answer", "spatial", "score"),
    [(18, "3", 1.0, 1.0), (150, "3", 5 / 9, None), (18, "4", None, 0.0)],
    ids=["right", "one point off its object", "wrong answer"],
)
def test_one_response(x: int, answer: str, spatial: float | None, score: float | None, squares: Path) -> None:
    tags = "".join(f'<points x1="{at}" y1="40" alt="square">square</points> ' for at in (x, 42, 66))
    response = f"<think>The squares are {tags}.</think><answer>{answer}</answer>"
    found = gt.verify(
        "How many squares are there?", response, [squares], "3", answer_type="numeric", entities=["square"]
    )
    values = {verdict.name: verdict.value for verdict in found.verdicts}
    assert values["outcome"] == float(answer == "3")
    assert values.get("spatial") == (None if spatial is None else pytest.approx(spatial))
    assert score is None or found.score == score


@pytest.mark.parametrize(
    ("x", "answer", "config", "decision"),
    [
        (18, "3", None, "kept"),
        (150, "3", None, "rejected: low_grounding: best score"),
        (18, "4", None, "rejected: wrong_answer: no trace of 1 is right"),
        (150, "3", {"verify": {"floors": {"spatial": 0.5, "counting": 0}}}, "kept"),
        (
            18,
            "3",
            {"verify": {"scorers": {"terse:TERSE": {"most": 3}}, "floors": {"terse": 0.5}}},
            "rejected: low_score: ",
        ),
        (18, "3", {"verify": {"scorers": {"terse:TERSE": {"most": 99}}, "floors": {"terse": 0.5}}}, "kept"),
    ],
    ids=[
        "right",
        "one point off its object",
        "wrong answer",
        "a lower floor",
        "a scorer of the config",
        "its argument",
    ],
)
def test_the_decision_is_that_of_a_run(
    x: int, answer: str, config: Any, decision: str, squares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terse.py").write_text(TERSE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "terse", raising=False)
    tags = "".join(f'<points x1="{at}" y1="40" alt="square">square</points> ' for at in (x, 42, 66))
    response = f"<think>The squares are {tags}.</think><answer>{answer}</answer>"
    found = gt.verify("How many squares are there?", response, [squares], "3", entities=["square"], config=config)
    assert str(found).startswith(decision)
    assert found.is_kept == (decision == "kept") == (found.reason == "")
    lines = str(found).splitlines()
    not_run = ["not"] if answer == "4" else []
    assert [line.split()[0] for line in lines[1:]] == ["score", *(each.name for each in found.verdicts), *not_run]
    if config and "terse" in config["verify"]["floors"]:
        assert any(line.startswith("  terse ") and "(floor 0.5)" in line for line in lines)


TERSE = """
from groundtrace.config.settings import settings
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict

@settings
class Most:
    most: int = 10

async def score(case, most):
    words = len(case.text.split())
    return Verdict("terse", float(words <= most.most), f"{words} words")

TERSE = Scorer("terse", "always", score, arguments=Most())
"""
"""A module with a scorer of a user."""


NO_DETECTOR = {"roles": {"detector": "", "pointer": "", "segmenter": ""}}


@pytest.mark.parametrize("as_file", [False, True])
def test_a_config_names_the_models(as_file: bool, squares: Path, tmp_path: Path) -> None:
    """Without a detector, the point cannot be checked."""
    config: Any = NO_DETECTOR | {"difficulty": {"high": 0.8}}
    if as_file:
        config = tmp_path / "models.toml"
        config.write_text('[roles]\ndetector = ""\npointer = ""\nsegmenter = ""\n[difficulty]\nhigh = 0.8\n', "utf-8")
    point = '<points x1="18" y1="40" alt="square">square</points>'
    response = f"<think>One square is {point}. There are 3.</think><answer>3</answer>"
    asked = ("How many squares are there?", response, [squares], "3")
    found = gt.verify(*asked, answer_type="numeric", entities=["square"], config=config)
    spatial = {verdict.name: verdict for verdict in found.verdicts}["spatial"]
    assert (spatial.value, spatial.failed, found.score) == (None, True, None)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"roles": {"judge": "mine"}}, "roles.judge"),
        ({"roles": {"juge": "colour"}}, "juge"),
        ({"endpoints": {"mine": {"kind": "openai", "model": 3}}}, "endpoints.mine.model"),
        ({"endpoint": {}}, "none of the sections endpoints, roles, plugins, verify"),
        ("nowhere.toml", "nowhere.toml"),
        (
            {"endpoints": {"mine": {"kind": "classical", "model": "shapes"}}, "roles": {"detector": "mine"}},
            "has the unknown model 'shapes': set its key 'model' to one of colour, edges",
        ),
    ],
)
def test_a_wrong_config_is_one_line(config: Any, said: str, squares: Path) -> None:
    with pytest.raises(gt.UserError, match=re.escape(said)) as error:
        gt.verify(
            "How many squares are there?", "<think>Three.</think><answer>3</answer>", [squares], "3", config=config
        )
    assert "\n" not in str(error.value)
    with pytest.raises(gt.UserError, match="pass only config, or leave config out"):
        gt.verify("How many?", "<answer>3</answer>", [squares], "3", config=NO_DETECTOR, roles={})


@pytest.mark.parametrize(
    ("response", "has_run"),
    [
        ("<think>One.</think><answer>1</answer>", ("outcome",)),
        ("<answer>3</answer> as I said", ("outcome", "format")),
        ("<think>I count three squares.</think><answer>3</answer>", None),
    ],
    ids=["wrong answer", "wrong form", "right"],
)
def test_the_scorers_that_did_not_run_are_named(response: str, has_run: tuple[str, ...] | None, squares: Path) -> None:
    found = gt.verify("How many squares are there?", response, [squares], "3")
    run = tuple(verdict.name for verdict in found.verdicts)
    names = {scorer.name for scorer in TRACE_SCORERS}
    assert run == (has_run or run) and {*run, *found.not_run} == names and len(run) + len(found.not_run) == len(names)
    told = f"  not run, because the answer or the form is wrong: {', '.join(found.not_run)}"
    assert (told in str(found).splitlines()) == (has_run is not None)


LENGTH = Column[int]("question_words", pa.int32(), "how many words the question has")


@pytest.mark.parametrize(("columns", "value"), [({LENGTH: 4}, 0.25), (None, None)])
def test_a_scorer_reads_a_column(columns: Any, value: float | None, squares: Path) -> None:
    async def score(case: Case) -> Verdict:
        words = case.context.added(LENGTH)
        return Verdict("short", None if words is None else 1 / words, "")

    scorers = (outcome.SCORER, Scorer("short", "everything", score))
    found = gt.verify("How many squares?", "<answer>3</answer>", [squares], "3", scorers=scorers, columns=columns)
    assert [(each.name, each.value) for each in found.verdicts] == [("outcome", 1.0), ("short", value)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"media": "x.png"}, "media = 'x.png': its type must be Sequence"),
        ({"media": [b"x"]}, "media = [b'x']: its type"),
        ({"media": ["a\0b"]}, "cannot read 'a\\x00b' (embedded null byte): correct this path"),
        ({"media": ["/dev/zero"]}, "/dev/zero is not a file"),
        ({"answer": 2}, "answer = 2: its type must be str"),
        ({"answer": " "}, "the argument answer of verify() is empty: pass the gold answer"),
        ({"response": None}, "response = None: its type must be str"),
        ({"choices": [1]}, "choices = [1]: its type"),
        ({"entities": "a cup"}, "entities = 'a cup': its type"),
        ({"scorers": ["spatial"]}, "scorers = ['spatial']: its type"),
        ({"roles": "x"}, "roles = 'x': its type"),
        ({"cache": __file__}, "it is not a folder"),
        ({"config": 5}, "config = 5: its type"),
        ({"columns": {"question_words": 1}}, "columns = {'question_words': 1}: its type"),
        ({"columns": {LENGTH: "three"}}, "the column question_words (int32) cannot hold this value: expected a whole"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_verify_with_a_wrong_argument(given: dict[str, Any], message: str) -> None:
    asked = {"question": "How many?", "response": "<answer>1</answer>", "media": [], "answer": "1"}
    with pytest.raises(gt.UserError, match=re.escape(message)):
        gt.verify(**(asked | given))


def test_the_type_of_an_answer_is_evident(squares: Path) -> None:
    found = gt.verify(
        "How many circles are there?", "<think>There are no circles.</think><answer>0</answer>", [squares], "0"
    )
    outcome = next(verdict for verdict in found.verdicts if verdict.name == "outcome")
    assert (outcome.value, outcome.reason) == (1.0, "numeric: same number")


def test_looking_into_a_run_needs_no_beam() -> None:
    code = (
        "import groundtrace as gt, sys; gt.open_run; print({'apache_beam', 'torch', 'datasets'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize(("name", "is_warned"), [("grounded_cot", True), ("own_cot", False)])
def test_a_copy_with_the_name_of_a_bundled_recipe_is_warned_of(name: str, is_warned: bool, tmp_path: Path) -> None:
    copy = Path(grounded_cot.__file__).read_text().replace('name="grounded_cot"', f'name="{name}"')
    (tmp_path / "copied_cot.py").write_text(copy)
    opened = gt.run(
        tmp_path / "copied_cot.py", str(SAMPLE), str(tmp_path / "run"), limit=1, overrides={"max_failed": 1.0}
    )
    said = "warning: The recipe of these rows is the file copied_cot.py, but each row names it grounded_cot, as if"
    assert any(line.startswith(said) for line in str(opened).splitlines()) == is_warned
