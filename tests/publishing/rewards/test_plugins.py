"""The verifier in other trainers, each called as that trainer calls it: our own trainer's scores, or a refusal."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import groundtrace
from groundtrace.config.errors import ConfigError
from groundtrace.inference.preflight import NotServed
from groundtrace.publishing.rewards.plugin import Unscored
from groundtrace.publishing.rewards.reference import COLUMN, BadReference, RowReference
from groundtrace.publishing.rewards.row_reward import BadAnswer
from groundtrace.publishing.rewards.settings import VARIABLE
from groundtrace.publishing.rewards.swift import Verified
from groundtrace.rewards import easyr1, trl, verl
from groundtrace.rewards.rows.reward import JudgesDown, Scored

from .worlds import WORLDS, Written

HOME = Path(groundtrace.__file__).parent / "rewards"
FAMILIES = ("qwen3-vl", "qwen2.5-vl")
Write = Callable[..., Written]


def by_verl(found: Written) -> list[float]:
    references, texts = zip(*found.items, strict=True)
    given = {"data_sources": ["nlvr"] * len(texts), "extra_infos": [{"rollout_reward_scores": {}}] * len(texts)}
    scores: Any = verl.compute_score(
        **given, solution_strs=list(texts), ground_truths=list(references), config=str(found.config)
    )
    return [each["score"] for each in scores]


def by_verl_one_by_one(found: Written) -> list[float]:
    scores: list[Any] = [
        verl.compute_score(
            data_source="nlvr", solution_str=text, ground_truth=reference, extra_info={}, config=str(found.config)
        )
        for reference, text in found.items
    ]
    return [each["score"] for each in scores]


def by_easyr1(found: Written) -> list[float]:
    inputs = [{"response": text, "response_length": 9, "ground_truth": reference} for reference, text in found.items]
    scores: Any = easyr1.compute_score(inputs, config=str(found.config))
    return [each["overall"] for each in scores]


def by_trl(found: Written) -> list[float | None]:
    references, texts = zip(*found.items, strict=True)
    [reward] = trl.reward_funcs(str(found.config))
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    given = {"prompts": [[]] * len(texts), "completion_ids": [[1]] * len(texts), "trainer_state": None}
    return reward(completions=completions, **given, **{COLUMN: list(references)})


def by_swift(found: Written) -> list[float]:
    references, texts = zip(*found.items, strict=True)
    return Verified(args=None)(
        list(texts), trainer_state=None, messages=[[]] * len(texts), **{COLUMN: list(references)}
    )


LISTS: dict[str, Callable[[Written], Any]] = {"verl": by_verl, "easyr1": by_easyr1, "trl": by_trl, "swift": by_swift}


def check_same(found: list[Any], expected: list[Scored]) -> None:
    assert len(found) == len(expected)
    for value, scored in zip(found, expected, strict=True):
        assert scored.reward is not None
        assert abs(value - scored.reward) <= 1e-9


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("plugin", LISTS)
def test_the_same_scores_as_in_our_own_trainer(
    plugin: str, name: str, family: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps, for the second of which RuCL has learned from the first, and iVGR kept what it found."""
    found = write(name, family)
    monkeypatch.setenv(VARIABLE, str(found.config))
    expected = found.by_trainer(tmp_path / "own", steps=2)
    assert len({each.reward for each in expected[0]}) > 1, "rows that all earn the same show nothing"
    for step in expected:
        check_same(LISTS[plugin](found), step)
    assert (expected[0] != expected[1]) is (name == "rucl")


@pytest.mark.parametrize("name", ["argos", "sail_rl"])
def test_one_by_one(name: str, write: Write, tmp_path: Path) -> None:
    found = write(name, "qwen2.5-vl")
    check_same(by_verl_one_by_one(found), found.by_trainer(tmp_path / "own")[0])


@pytest.mark.parametrize(
    ("name", "said"), [("ivgr", "compares all responses"), ("rucl", "learns from whole training steps.*step_responses")]
)
def test_a_recipe_that_needs_more_than_one_response_is_refused(name: str, said: str, write: Write) -> None:
    found = write(name)
    with pytest.raises(ConfigError, match=said):
        by_verl_one_by_one(found)
    reference, text = found.items[0]
    with pytest.raises(ConfigError, match=said):
        easyr1.compute_score({"response": text, "ground_truth": reference}, config=str(found.config))


def test_responses_one_by_one_make_a_step_where_the_config_says_how_many(write: Write, tmp_path: Path) -> None:
    found = write("rucl")
    text = found.config.read_text("utf-8")
    found.config.write_text(text.replace("step_responses = 0", f"step_responses = {len(found.items)}"), "utf-8")
    for step in found.by_trainer(tmp_path / "own", steps=2):
        check_same(by_verl_one_by_one(found), step)


def test_one_stream_of_two_is_refused(write: Write) -> None:
    found = write("ivgr")
    textual = [(reference, text) for reference, text in found.items if '"textual"' in reference]
    [reward] = trl.reward_funcs(str(found.config))
    with pytest.raises(
        BadReference,
        match=r"the question '.*' has 2 prompts, but this call has no response to its prompt 'grounded'\. .*"
        "compares the responses to all prompts of a question",
    ):
        reward(completions=[text for _, text in textual], **{COLUMN: [reference for reference, _ in textual]})


def test_verl_gets_the_same_names_for_every_response(write: Write) -> None:
    """It takes the names of the first response for all, and their means: each is a number, and says what it is of."""
    found = write("argos")
    references, texts = zip(*found.items, strict=True)
    scores: Any = verl.compute_score(solution_strs=texts, ground_truths=references, config=str(found.config))
    names = ("outcome", "spatial", "format", "reasoning")
    assert {tuple(each) for each in scores} == {
        ("score", *(f"{name}{ending}" for name in names for ending in ("_or_0", "_scored")))
    }
    assert all(math.isfinite(value) for each in scores for value in each.values())
    wrong = next(each for each in scores if each["outcome_or_0"] == 0)
    assert wrong["spatial_scored"] == 0, "a wrong answer's points are not looked at"
    right = next(each for each in scores if each["spatial_or_0"] == 1)
    assert (right["outcome_scored"], right["spatial_scored"]) == (1, 1)
    with pytest.raises(TypeError, match="needs solution_str"):
        verl.compute_score("nlvr")


def test_easyr1_gets_lists_of_one_length(write: Write) -> None:
    found = write("sail_rl")
    inputs = [{"response": text, "ground_truth": reference} for reference, text in found.items]
    scores: Any = easyr1.compute_score(inputs, config=str(found.config))
    assert {tuple(each) for each in scores} == {
        ("overall", "outcome_or_0", "outcome_scored", "format_or_0", "format_scored")
    }
    assert {each["outcome_or_0"] for each in scores} == {0.0, 1.0}
    assert all(math.isfinite(value) for each in scores for value in each.values())
    alone = easyr1.compute_score(inputs[0], config=str(found.config))
    assert alone == scores[0]


def test_trl_logs_the_verdicts_means(write: Write) -> None:
    found = write("argos")
    references, texts = zip(*found.items, strict=True)
    logged: dict[str, float] = {}
    [reward] = trl.reward_funcs(str(found.config))
    reward(completions=texts, log_metric=logged.__setitem__, **{COLUMN: references})
    assert set(logged) == {f"{COLUMN}/{name}" for name in ("outcome", "spatial", "format")}
    assert 0 < logged[f"{COLUMN}/outcome"] < 1


FREE = "because the triangle leans over"


@pytest.fixture
def free(write: Write) -> Written:
    """A run whose gold answers are free text, with no judge to read them, and one row of which they are not."""
    found = write("argos")
    import pyarrow as pa
    import pyarrow.parquet as pq

    [file] = (found.run / "rl").glob("*.parquet")
    table = pq.read_table(file)
    rows = table.to_pylist()
    for row in rows[1:]:
        row |= {"answer": FREE, "answer_type": "text", "choices": None}
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    answers = {row["id"]: row["answer"] for row in rows}
    return replace(found, references=[replace(each, answer=answers[each.id]) for each in found.references])


def test_an_unscored_response_is_none_for_trl_and_an_error_elsewhere(
    free: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a right answer: without a judge the right answers alone would be scored."""
    monkeypatch.setenv(VARIABLE, str(free.config))
    [reward] = trl.reward_funcs(str(free.config))
    reference = free.references[1].text()
    assert reward(completions=[f"<answer>{FREE}</answer>"], **{COLUMN: [reference]}) == [None]
    for ask in (
        lambda: verl.compute_score(solution_str="x", ground_truth=reference, config=str(free.config)),
        lambda: easyr1.compute_score([{"response": "x", "ground_truth": reference}], config=str(free.config)),
        lambda: Verified()(["x"], **{COLUMN: [reference]}),
    ):
        with pytest.raises(Unscored, match=r"free text, and reward\.roles has no judge"):
            ask()


LOST = "the state of this trajectory is gone"


def test_a_response_whose_sandbox_failed_is_unscored(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    found = write("argos")
    references, texts = zip(*found.items, strict=True)
    lost = [LOST, *[""] * (len(texts) - 1)]
    [reward] = trl.reward_funcs(str(found.config))
    environments = [SimpleNamespace(lost=each) for each in lost]
    rewards = reward(completions=texts, environments=environments, **{COLUMN: references})
    assert rewards[0] is None
    assert rewards[1:] == reward(completions=texts, **{COLUMN: references})[1:]
    with pytest.raises(Unscored, match=f"sandbox: {LOST}"):
        verl.compute_score(
            solution_str=texts[0],
            ground_truth=references[0],
            extra_info={f"{COLUMN}_lost": LOST},
            config=str(found.config),
        )
    monkeypatch.setenv(VARIABLE, str(found.config))
    with pytest.raises(Unscored, match=f"sandbox: {LOST}"):
        Verified()(list(texts), rollout_infos=[{f"{COLUMN}_lost": each} for each in lost], **{COLUMN: list(references)})
    result = [{"role": "assistant", "content": ""}, {"role": "tool", "content": texts[0]}]
    nothing = reward(completions=[""], **{COLUMN: references[:1]})
    assert reward(completions=[result], **{COLUMN: references[:1]}) == nothing


def test_the_config_may_say_what_an_unscored_response_counts(free: Written) -> None:
    free.config.write_text("unscored = -0.25\n" + free.config.read_text("utf-8"), "utf-8")
    found: Any = verl.compute_score(
        solution_str="x", ground_truth=free.references[1].text(), extra_info=None, config=str(free.config)
    )
    assert found["score"] == -0.25
    assert (found["outcome_or_0"], found["outcome_scored"]) == (0.0, 0.0)


@pytest.mark.parametrize("plugin", LISTS)
def test_a_judge_that_is_away_is_an_error_and_never_a_number(
    plugin: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = write("sail_rl", "qwen3-vl", (500, "broken"))
    monkeypatch.setenv(VARIABLE, str(found.config))
    with pytest.raises(JudgesDown, match="did not answer for 0 s"):
        LISTS[plugin](found)


@pytest.mark.parametrize("plugin", ["trl", "swift", "verl", "easyr1"])
def test_a_judge_that_is_not_there_is_said_at_the_start(
    plugin: str, write: Write, closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By those that are set up before the first step, before the first response; nothing is waited for."""
    found = write("sail_rl")
    text = re.sub(r'base_url = ".+"', f'base_url = "{closed_port}"', found.config.read_text("utf-8"))
    found.config.write_text(text.replace("wait_s = 0.0", "wait_s = 600.0"), "utf-8")
    monkeypatch.setenv(VARIABLE, str(found.config))
    start = {"trl": lambda: trl.reward_funcs(str(found.config)), "swift": Verified}
    with pytest.raises(
        NotServed, match=r"endpoint judge .judge., model judge at .*: cannot be reached.*Start the server"
    ):
        start[plugin]() if plugin in start else LISTS[plugin](found)


def test_a_detector_that_cannot_be_served_is_said_at_the_start(write: Write) -> None:
    found = write("argos")
    text = found.config.read_text("utf-8").replace('detector = "edges"', 'detector = "colour"')
    found.config.write_text(text, "utf-8")
    with pytest.raises(NotServed, match=r"a prompt of the detector.*Name another endpoint in reward\.roles\.detector"):
        trl.reward_funcs(str(found.config))


BAD_REFERENCES = [
    (lambda good: "B", "answer 0: the row's reference is not JSON"),
    (lambda good: None, "answer 0: the reference is a NoneType, not a text"),
    (
        lambda good: RowReference("nope", "3", good.run, good.family).text(),
        "answer 0: cannot identify the row, because no row of rl has the id 'nope'",
    ),
    (lambda good: RowReference(good.id, "3", "/nowhere", good.family).text(), "answer 0: /nowhere has no shards"),
    (
        lambda good: replace(good, family="os:system").text(),
        "answer 0: the row names the unknown model family 'os:system'",
    ),
    (lambda good: replace(good, stream="up").text(), "names the prompt 'up', but the row has no prompt of this name"),
    (lambda good: replace(good, answer="no such").text(), "has the answer 'no such' in the exported reference, but"),
    (lambda good: replace(good, answer="").text(), "has the answer '' in the exported reference, but"),
]


@pytest.mark.parametrize(("make", "said"), BAD_REFERENCES, ids=[said for _, said in BAD_REFERENCES])
def test_a_reference_that_leads_nowhere(make: Any, said: str, write: Write) -> None:
    found = write("argos")
    with pytest.raises(BadAnswer) as refusal:
        verl.compute_score(solution_str="x", ground_truth=make(found.references[0]), config=str(found.config))
    assert said in str(refusal.value)


@pytest.mark.parametrize("call", [lambda: trl.verified(["x"]), lambda: Verified()(["x"])])
def test_rows_without_references(call: Any) -> None:
    with pytest.raises(BadAnswer, match=r"^the rows have no column 'groundtrace'"):
        call()


FILES = [("verl.py", "compute_score"), ("easyr1.py", "compute_score"), ("trl.py", "verified"),
         ("swift/__init__.py", "Verified")]  # fmt: skip


@pytest.mark.parametrize(("file", "name"), FILES)
def test_a_file_can_be_loaded_by_its_path(file: str, name: str) -> None:
    """As verl, EasyR1 and swift load a plugin."""
    spec = importlib.util.spec_from_file_location("custom_reward_fn", HOME / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(getattr(module, name))


def test_swifts_file_has_a_folder_of_its_own() -> None:
    """swift puts it first on the path, where ``trl.py`` would be taken for TRL."""
    assert [path.name for path in (HOME / "swift").glob("*.py")] == ["__init__.py"]


@pytest.mark.slow
def test_swift_finds_the_reward_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "swift" / "rewards"
    package.mkdir(parents=True)
    (tmp_path / "swift" / "__init__.py").touch()
    (package / "__init__.py").write_text("orms = {}\n", "utf-8")
    code = (
        "import groundtrace.rewards.swift as s, swift.rewards; print(swift.rewards.orms['groundtrace'] is s.Verified)"
    )
    path = os.pathsep.join([str(tmp_path), str(HOME.parents[1])])
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "True\n", ran.stderr


@pytest.mark.slow
def test_nothing_of_a_plugin_imports_torch() -> None:
    """The trainers bring their own, and a server needs none."""
    code = (
        "import sys, groundtrace.rewards.verl, groundtrace.rewards.easyr1, groundtrace.rewards.trl\n"
        "import groundtrace.rewards.swift, groundtrace.publishing.rewards.server\n"
        "import groundtrace.pipelines.commands.serve_reward\n"
        "print(sorted({'torch', 'transformers', 'trl', 'apache_beam'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=HOME.parents[1], capture_output=True, text=True, check=False)
    assert ran.stdout == "[]\n", ran.stderr


@pytest.mark.parametrize("text", [None, 3, b"<answer>1</answer>", {"content": "1"}])
@pytest.mark.parametrize("trainer", ["verl", "verl one", "easyr1", "trl", "trl turn", "swift"])
def test_a_response_that_is_no_text_is_an_error_and_never_a_number(
    trainer: str, text: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = write("argos")
    config, (reference, _) = str(found.config), found.items[0]
    monkeypatch.setenv(VARIABLE, config)
    [reward] = trl.reward_funcs(config)
    turn: Any = [{"role": "assistant", "content": text or 0.5}]
    call = {
        "verl": lambda: verl.compute_score(solution_strs=[text], ground_truths=[reference], config=config),
        "verl one": lambda: verl.compute_score(solution_str=text or 0, ground_truth=reference, config=config),
        "easyr1": lambda: easyr1.compute_score([{"response": text, "ground_truth": reference}], config=config),
        "trl": lambda: reward([text], groundtrace=[reference]),
        "trl turn": lambda: reward([turn], groundtrace=[reference]),
        "swift": lambda: Verified()([text], groundtrace=[reference]),
    }[trainer]
    with pytest.raises(BadAnswer, match=r"the response is a .*, but has to be a text"):
        call()


def test_responses_and_references_that_are_not_as_many(write: Write) -> None:
    found = write("argos")
    (reference, text), *_ = found.items
    with pytest.raises(BadAnswer, match=r"^2 responses have 1 references"):
        verl.compute_score(solution_strs=[text] * 2, ground_truths=[reference], config=str(found.config))


def test_several_threads_ask_one_by_one(write: Write, tmp_path: Path) -> None:
    """As verl's managers do; RuCL learns when all of the step were there."""
    found = write("rucl")
    found.config.write_text(
        found.config.read_text("utf-8").replace("step_responses = 0", f"step_responses = {len(found.items)}"), "utf-8"
    )

    def ask(item: tuple[str, str]) -> float:
        score: Any = verl.compute_score(solution_str=item[1], ground_truth=item[0], config=str(found.config))
        return score["score"]

    with ThreadPoolExecutor(8) as pool:
        for step in found.by_trainer(tmp_path / "own", steps=3):
            check_same(list(pool.map(ask, found.items)), step)


def test_data_that_was_moved(write: Write, tmp_path: Path) -> None:
    """A config says where the run is now; no other folder is read then."""
    found = write("argos")
    moved = found.run.rename(tmp_path / "moved")
    reference, text = found.items[0]
    other = RowReference("x", "", "/elsewhere", "qwen3-vl").text()
    runs = f'[runs]\n"{found.run}" = "{moved}"\n'
    written = found.config.read_text("utf-8")
    found.config.write_text(written.replace("[runs]\n", runs) if "[runs]" in written else written + runs, "utf-8")
    score: Any = verl.compute_score(solution_str=text, ground_truth=reference, config=str(found.config))
    assert score["score"] == 1.0
    with pytest.raises(BadAnswer, match="the run '/elsewhere' is unknown: the known runs are"):
        verl.compute_score(solution_str=text, ground_truth=other, config=str(found.config))


@pytest.mark.slow
def test_a_process_that_is_forked_after_the_first_score(write: Write) -> None:
    """Trainers fork workers when they like; one that waits for its parent's thread would wait for ever."""
    found = write("argos")
    (reference, text), *_ = found.items
    config = str(found.config)
    said = (
        "import multiprocessing, sys; from groundtrace.rewards import verl\n"
        "def score(_): return verl.compute_score(solution_str=sys.argv[2], ground_truth=sys.argv[1], "
        "config=sys.argv[3])['score']\n"
        "own = score(0); pool = multiprocessing.get_context('fork').Pool(1)\n"
        "print(own, *pool.map_async(score, range(2)).get(20))\n"
    )
    command = [sys.executable, "-c", said, reference, text, config]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=HOME.parents[1])
    assert done.stdout.split() == ["1.0"] * 3, done.stderr


@pytest.mark.faults
def test_several_processes_share_a_folder(write: Write, tmp_path: Path) -> None:
    """As verl's workers do: all begin at once, on a folder that is not there yet."""
    found = write("argos")
    [expected] = found.by_trainer(tmp_path / "own")
    (tmp_path / "items.json").write_text(json.dumps(found.items), "utf-8")
    code = (
        "import json, sys\n"
        "from groundtrace.rewards.verl import compute_score\n"
        "items = json.load(open(sys.argv[1]))\n"
        "given = {'ground_truths': [r for r, _ in items], 'solution_strs': [t for _, t in items]}\n"
        "print(json.dumps([each['score'] for each in compute_score(**given, config=sys.argv[2])]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "items.json"), str(found.config)]
    started = [
        subprocess.Popen(command, cwd=HOME.parents[1], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        said, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        check_same(json.loads(said), expected)
