"""The reward by the recipe that a config names: what rows say of their questions, what is refused, what is learned."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.curriculum import CurriculumState
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.rows.checks import note_strata
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.rewards.rubrics import PLACE
from groundtrace.rewards.rubrics import RUBRICS as RUBRICS_COLUMN
from groundtrace.schemas.records import Rubric
from groundtrace.trainer import grpo
from groundtrace.trainer.checkpoint import checkpoints, read_checkpoint
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.model import VisionLanguageModel
from tests.added import EARLIER_RL

from .runs import Command, Said, judged_by, judging, metrics_of, records, rl_row, settings_of, write_records

RUBRICS = [
    {"id": name, "description": "d", "criteria": "c", "applicability": 1.0, "pass_rate": 0.5, "stratum": stratum}
    for name, stratum in (("e", "easy"), ("h", "hard"))
]
READ = tuple(Rubric(**rubric) for rubric in RUBRICS)  # type: ignore[arg-type]


@pytest.fixture
def shards(tmp_path: Path, row: Callable[..., dict[str, Any]], write_shards: Callable[..., Path]) -> Any:
    """The rows of a run's RL side, each with changes."""

    def written(*changes: Mapping[str, Any], name: str = "run") -> Shards:
        rows = [row(id=f"q{number}", **change) for number, change in enumerate(changes)]
        return Shards(write_shards(tmp_path / name, rows, "rl"), "rl", tmp_path / f"{name}-rows")

    return written


def test_what_a_row_says_of_its_question(shards: Any) -> None:
    found = shards({}, {"complexity": "simple"}, {"rubrics": RUBRICS}, {"rubrics": []})
    contexts = [found[index].context for index in range(4)]
    unknown = Context()
    with_rubrics = [unknown.with_added(RUBRICS_COLUMN, each) for each in (READ, ())]
    assert contexts == [unknown, unknown.with_added(COMPLEXITY, "simple"), *with_rubrics]
    assert [each.added(RUBRICS_COLUMN) for each in contexts] == [None, None, READ, ()]


def test_rows_of_earlier_code_hold_nulls_for_what_their_recipe_has_not(
    tmp_path: Path, row: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "run/rl").mkdir(parents=True)
    table = pa.Table.from_pylist([row(id="q", complexity="simple")], EARLIER_RL)
    pq.write_table(table, tmp_path / "run/rl/train-00000.parquet")
    found = Shards(tmp_path / "run", "rl", tmp_path / "rows")
    assert {name for name in EARLIER_RL.names if found.gives(name)} == {"complexity"}
    assert found[0].context == Context().with_added(COMPLEXITY, "simple")
    assert (found.count_prompts(), found.strata) == (1, [frozenset()])


def test_a_complexity_that_there_is_none_of_makes_a_bad_row(shards: Any) -> None:
    with pytest.raises(UnusableRow, match=r"row 0 of rl cannot be used: complexity must be simple or .*, got 'hard'"):
        shards({"complexity": "hard"})[0]


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ([{}, {}], set()),
        ([{"rubrics": []}], set()),
        ([{}, {"complexity": "complex"}], {"complexity"}),
        ([{"rubrics": RUBRICS, "complexity": "simple"}], {"complexity", "rubrics"}),
        ([{}, {"streams": ["grounded", "textual"]}], {"stream"}),
        ([{"streams": []}], set()),
    ],
)
def test_which_fields_any_row_has(shards: Any, changes: list[dict[str, Any]], given: set[str]) -> None:
    found = shards(*changes)
    assert {name for name in ("complexity", "rubrics", "stream", "trajectory", "id") if found.gives(name)} == given


def test_records_say_nothing_more(tmp_path: Path) -> None:
    found = Records(write_records(tmp_path / "data", records("662-1-0-c0")))
    assert not found.gives("complexity")
    assert found[0].context == Context()


JUDGE = '[reward.endpoints.judge]\nkind = "openai"\nmodel = "judge"\nbase_url = "http://127.0.0.1:9/v1"\n'
REFUSED = [
    ('recipe = "agros"', "", "got 'agros': did you mean argos?"),
    ("options = { weights = { spatail = 1 } }", "", "reward.options.weights.spatail: the scorer is unknown"),
    ("options = { alpha = 1 }", "", "unknown key reward.options.alpha"),
    ('recipe = "rucl"', "", "reward.options.ramp_steps is not set"),
    (
        'recipe = "sail_rl"',
        "",
        "reward.recipe = 'sail_rl' calls the model role judge, which has no endpoint: set reward.roles.judge to",
    ),
    (
        'recipe = "sail_rl"',
        "judge",
        "none of them has this: the complexity of each question, simple or complex. Use other data",
    ),
    (
        'recipe = "rucl"\noptions = { ramp_steps = 9 }',
        "judge",
        "none of them has this: the rubrics that responses are judged by. Use other data",
    ),
    ('recipe = "ivgr"', "judge", "none of them has this: the stream that each response was asked for in"),
    ('recipe = "codedance"', "", "(how the code of each turn ended), but the environment does not execute code"),
]


NOT_TO_EVALUATE = (*REFUSED[:4], REFUSED[-1])
"""An evaluation does without the columns of a reward; it refuses wrong settings, and code that nothing executes."""


@pytest.mark.parametrize(
    ("lines", "role", "said", "command"),
    [(*case, "grpo") for case in REFUSED] + [(*case, "eval") for case in NOT_TO_EVALUATE],
    ids=lambda value: value[:40],
)
def test_what_a_recipe_cannot_do_without_is_said_at_the_start(
    lines: str, role: str, said: str, command: str, folders: Any, tmp_path: Path, write_shards: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    data = write_shards(tmp_path / "run", [rl_row(record) for record in records("662-1-0-c0")], "rl")
    roles = '[reward.roles]\njudge = "judge"\n' if role else ""
    ran = Command(tmp_path, folders["qwen3"], capsys)(command, data, toml=f"[reward]\n{lines}\n{JUDGE}{roles}")
    ran.check_refused(2, said)
    assert not (ran.output / "metrics.jsonl").exists()


def judging_settings(base_url: str, recipe: str, **options: object) -> RewardSettings:
    return replace(judged_by(base_url), recipe=recipe, options=options)


@pytest.fixture
def question(tmp_path: Path, write_shards: Callable[..., Path]) -> Callable[..., Path]:
    """A run with one question of the sample data, answered by 1, with changes."""

    def written(**changes: Any) -> Path:
        (record,) = records("662-1-0-c0")
        return write_shards(tmp_path / "data", [rl_row(record, id="q0", **changes)], "rl")

    return written


def saying(vlm: VisionLanguageModel, *texts: str) -> Said:
    """A sampler whose answers differ from step to step in a blank only, so that none comes from the reply cache."""
    return Said(vlm, {"q0": [[text + " " * step for text in texts] for step in range(9)]})


DIRECT = "<judge>This is a simple question.</judge><think></think>\\boxed{{{}}}"
TEXTS = (DIRECT.format(1), DIRECT.format(2), "<answer>1</answer>", "<think>so</think><answer>2</answer>")


def test_grpo_with_the_reward_of_sail_rl(
    folders: Any, question: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right and direct is 1, wrong 0.1, right without a judge section 0, and so is what has another form: one decision
    is read.
    """
    monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: saying(vlm, *TEXTS))
    data = question(complexity="simple")
    with judging((200, '{"reason": "it says so", "decision": "direct"}')) as judge:
        settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1, "steps": 1, "dynamic_sampling": False})
        settings = replace(settings, reward=judging_settings(judge.base_url, "sail_rl"))
        train_grpo(settings, data, tmp_path / "out")
        assert len(judge.bodies) == 1
    (line,) = metrics_of(tmp_path / "out")
    assert line["reward"] == pytest.approx((1.0 + 0.1 + 0.0 + 0.0) / 4)
    assert (line["outcome"], line["judging"], line["thinking"], line["format"]) == (0.5, 0.5, 1.0, 0.5)
    assert "spatial" not in line


def rubric_judge(easy: int) -> tuple[int, str]:
    met = {"applicable": True, "rationale": "seen"}
    return 200, json.dumps(
        {"scores": [{"id": each, **met, "score": score} for each, score in (("e", easy), ("h", 1), (PLACE.id, 1))]}
    )


HALF_RIGHT = [f"<answer>{number}</answer>" for number in (1, 2, 1, 2)]


def test_grpo_keeps_where_the_curriculum_of_rucl_stands(
    folders: Any, question: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two good steps start it, and the third counts the hard rubric: λ = 1/4. A run cut in two goes on alike."""
    monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: saying(vlm, *HALF_RIGHT))
    data = question(rubrics=RUBRICS)
    options = {"ramp_steps": 4, "window": 2, "growth": "linear", "tau": 0.0}
    with judging(rubric_judge(easy=0)) as judge:
        settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1, "steps": 3, "dynamic_sampling": False})
        settings = replace(settings, reward=judging_settings(judge.base_url, "rucl", **options))
        settings = replace(settings, log=replace(settings.log, save_every=1, keep=9))
        train_grpo(settings, data, tmp_path / "whole")
        # 0.7 * outcome + 0.3 * ((1 - λ) * 0 + λ * 1), half of the answers being right
        rewards = [line["reward"] for line in metrics_of(tmp_path / "whole")]
        assert rewards == pytest.approx([0.35, 0.35, 0.35 + 0.3 * 0.25])

        cut = tmp_path / "whole" / "checkpoints"
        for later in checkpoints(cut)[2:]:
            for file in later.iterdir():
                file.unlink()
            later.rmdir()
        train_grpo(settings, data, tmp_path / "whole")
        assert [line["reward"] for line in metrics_of(tmp_path / "whole")] == pytest.approx(rewards)


EASY, HARD = RUBRICS[:1], RUBRICS[1:]


@pytest.mark.parametrize(
    ("rows", "recipe", "said"),
    [
        ([RUBRICS], "rucl", None),
        ([EASY, EASY], "rucl", "No hard rubric was kept"),
        ([EASY, RUBRICS, EASY], "rucl", "2 of 3 rows: No hard rubric was kept"),
        ([HARD], "rucl", "No easy rubric was kept"),
        ([[]], "rucl", None),
        ([EASY], "argos", None),
    ],
)
def test_an_empty_stratum_is_told_of_at_the_start(rows: Any, recipe: str, said: str | None, shards: Any) -> None:
    found = shards(*({"rubrics": rubrics} for rubrics in rows))
    note = note_strata(RewardSettings(recipe=recipe, options={"ramp_steps": 4} if recipe == "rucl" else {}), found)
    assert (note is None) if said is None else note is not None and note.startswith(said)


def test_what_was_learned_stands_in_the_checkpoint(
    folders: Any, question: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: saying(vlm, *HALF_RIGHT))
    with judging(rubric_judge(easy=1)) as judge:
        settings = settings_of(folders["qwen3"], grpo={"prompts_per_step": 1, "steps": 2, "dynamic_sampling": False})
        settings = replace(settings, reward=judging_settings(judge.base_url, "rucl", ramp_steps=4, window=9))
        train_grpo(settings, question(rubrics=RUBRICS), tmp_path / "out")
    progress = read_checkpoint(checkpoints(tmp_path / "out" / "checkpoints")[-1])["progress"]
    assert Memory.of_plain(progress["memory"]) == Memory(CurriculumState(2, (1.0, 1.0), None))
