"""What may change before a run goes on, and what may not."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.trainer.identity import CONTENT, FREE, FREE_OF_ENDPOINTS, difference, identity
from groundtrace.trainer.settings import TrainerSettings

from .runs import Command, lines_of, metrics_of, other_weights, settings_of


def test_more_steps(run: Command, sft_data: Path) -> None:
    """And other log settings and threads: the same as one run of that length."""
    assert run("sft", sft_data).code == 0
    more = run("sft", sft_data, "sft.steps=4", "log.keep=1", "threads=2", "model.gradient_checkpointing=true")
    assert more.code == 0, more.err
    whole = run("sft", sft_data, "sft.steps=4", output="whole")
    assert [line["step"] for line in metrics_of(more.output)] == [1, 2, 3, 4]
    found, expected = (
        [line["loss"] for line in metrics_of(more.output)],
        [line["loss"] for line in metrics_of(whole.output)],
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_more_steps_of_a_training_that_an_earlier_version_began(run: Command, sft_data: Path) -> None:
    """Its metrics count the steps from 0."""
    path = run("sft", sft_data).output / "metrics.jsonl"
    earlier = [line | {"step": line["step"] - 1} for line in lines_of(path)]
    path.write_text("".join(json.dumps(line) + "\n" for line in earlier), "utf-8")
    more = run("sft", sft_data, "sft.steps=4")
    assert [line["step"] for line in metrics_of(more.output)] == [1, 2, 3, 4]
    assert [line["loss"] for line in lines_of(path)][:2] == [line["loss"] for line in earlier]


def test_fewer_steps_than_are_done(run: Command, sft_data: Path) -> None:
    assert run("sft", sft_data).code == 0
    run("sft", sft_data, "sft.steps=1").check_refused(2, "step-000002 is of step 2, but this run ends at step 1")


REFUSED = [
    ("seed=1", "seed was 0 and is now 1"),
    ("sft.optimiser.lr=0.5", "sft.optimiser.lr was 1e-05 and is now 0.5"),
    ("batch.tokens=2048", "batch.tokens was 1024 and is now 2048"),
    ("sft.samples_per_step=3", "sft.samples_per_step was 2 and is now 3"),
    ("model.freeze_vision=true", "model.freeze_vision was False and is now True"),
]


def test_what_changes_the_result_is_refused(run: Command, sft_data: Path, rl_data: Path) -> None:
    assert run("sft", sft_data).code == 0
    for change, said in REFUSED:
        ran = run("sft", sft_data, change)
        ran.check_refused(
            2,
            f"step-000002 belongs to a training with other settings, data, weights or code: {said}",
            "another --output",
        )
    other = run("sft", rl_data, "seed=0")
    other.check_refused(2)


def test_rows_with_other_values_are_refused(
    run: Command, tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path]
) -> None:
    rows = [row(id=f"q{number}") for number in range(4)]
    assert run("sft", write_shards(tmp_path / "data", rows)).code == 0
    changed = write_shards(tmp_path / "data", [*rows[:3], rows[3] | {"answer": "4"}])
    run("sft", changed).check_refused(2, "the content of the rows was 'sha256 ", "another --output")


def test_the_content_is_not_compared_with_a_checkpoint_without_it() -> None:
    now = {"data": "4 rows", CONTENT: "sha256 aa"}
    assert difference({"data": "4 rows"}, now) is None
    assert difference({"data": "4 rows", CONTENT: "sha256 bb"}, now) == (
        "the content of the rows was 'sha256 bb' and is now 'sha256 aa'"
    )


def test_other_weights_at_the_same_path_are_refused(run: Command, rl_data: Path, tmp_path: Path) -> None:
    model = tmp_path / "base"
    shutil.copytree(run.model, model)
    sets = (f"model.path={model}", "grpo.max_draws=1")
    assert run("grpo", rl_data, *sets).code == 0
    other_weights(model)
    run("grpo", rl_data, *sets, "grpo.steps=3").check_refused(
        2, "step-000002 belongs to a training with other", "the digest of the weights in model.path was "
    )


def test_another_tokenizer_at_the_same_path_is_refused(run: Command, sft_data: Path, tmp_path: Path) -> None:
    model = tmp_path / "base"
    shutil.copytree(run.model, model)
    assert run("sft", sft_data, f"model.path={model}").code == 0
    file = model / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8"))), "utf-8")
    (model / "tokenizer_config.json").write_text((model / "tokenizer_config.json").read_text("utf-8") + "\n", "utf-8")
    run("sft", sft_data, f"model.path={model}", "sft.steps=3").check_refused(
        2, "the files in model.path have changed: tokenizer", "another --output"
    )


def test_a_checkpoint_without_digests_of_the_models_files_is_continued() -> None:
    """An earlier version wrote it."""
    assert difference(SAVED, SAVED | {"model_files": ["tokenizer.json ab"]}) is None
    assert difference(SAVED | {"model_files": ["tokenizer.json ab"]}, SAVED | {"model_files": ["x.json ab"]}) == (
        "the files in model.path have changed: tokenizer.json, x.json"
    )


def test_a_checkpoint_without_a_digest_of_the_weights_is_continued() -> None:
    """An earlier version wrote it."""
    assert difference(SAVED, SAVED | {"weights": "ab"}) is None
    assert difference(SAVED | {"weights": "ab"}, SAVED | {"weights": "cd"}) == (
        "the digest of the weights in model.path was 'ab' and is now 'cd'"
    )


JUDGE = {
    "endpoints": {"judge": {"kind": "openai", "model": "m", "base_url": "http://a/v1"}},
    "roles": {"judge": "judge"},
}


class Rows:
    """What an identity looks at of shards."""

    def __init__(self, count: int = 4, sha256: str = "aa" * 32) -> None:
        self.count, self.sha256 = count, sha256

    def __len__(self) -> int:
        return self.count


def made(command: str, settings: TrainerSettings, rows: Any = None) -> dict[str, Any]:
    return identity(command, settings, rows or Rows())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "base_url": "http://b/v1"}}}, None),
        ({"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "max_retries": 1, "api_key_env": "K"}}}, None),
        ({"wait_s": 1.0}, None),
        ({"endpoints": {**JUDGE["endpoints"], "spare": JUDGE["endpoints"]["judge"]}}, None),
        (
            {"endpoints": {"judge": {**JUDGE["endpoints"]["judge"], "model": "n"}}},
            "reward.endpoints.judge.model was 'm' and is now 'n'",
        ),
        ({"options": {"skip": ["format"]}}, "reward.options.skip was [] and is now ['format']"),
        ({"recipe": "ivgr"}, "reward.recipe was 'argos' and is now 'ivgr'"),
    ],
)
def test_a_judge_may_move_and_not_change(change: dict[str, Any], said: str | None) -> None:
    one = settings_of(Path("tiny"), reward=JUDGE)
    other = settings_of(Path("tiny"), reward=JUDGE | change)
    assert difference(made("grpo", one), made("grpo", other)) == said
    assert difference(made("sft", one), made("sft", other)) is None, "SFT has no reward"


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("argos", {}),
        ("argos", {"weights": {"spatial": 0.5}, "tau": 0.5}),
        ("sail_rl", {}),
        ("ivgr", {}),
        ("rucl", {"ramp_steps": 9}),
        ("codedance", {}),
    ],
)
def test_options_that_keep_their_defaults_may_be_named(recipe: str, options: dict[str, Any]) -> None:
    """The config of an output folder names all options, and an identity only those that the user named."""
    one = settings_of(Path("tiny"), reward={**JUDGE, "recipe": recipe, "options": options})
    complete = replace(one, reward=one.reward.complete())
    begun, continued = made("grpo", one), made("grpo", complete)
    assert begun != continued
    assert difference(begun, continued) is None and difference(continued, begun) is None


def test_other_data_are_named() -> None:
    settings = settings_of(Path("tiny"))
    said = difference(made("sft", settings), made("sft", settings, Rows(5)))
    assert said and said.startswith("the data was '4 rows, ids sha256 aaaaaaaaaaaa' and is now '5 rows, ")


VALIDATED = {"validation.share": 0.1, "validation.questions": 0}
SAVED = {"data": "21 rows", "held_out": "3 rows", "seed": 0, "sft.optimiser.lr": 1e-5, **VALIDATED}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"data": "18 rows", "held_out": "6 rows", "validation.share": 0.2},
            "validation.share was 0.1 and is now 0.2; the data was '21 rows' and is now '18 rows'; "
            "the set of held-out questions was '3 rows' and is now '6 rows'",
        ),
        ({"seed": 1, "sft.optimiser.lr": 0.5}, "seed was 0 and is now 1; sft.optimiser.lr was 1e-05 and is now 0.5"),
        ({"validation.share": 0.101}, None),
        ({f"key{number}": 1 for number in range(10)}, "key7 was left out and is now 1; 2 more differ"),
    ],
)
def test_all_changed_keys_are_named_and_settings_first(change: dict[str, Any], said: str | None) -> None:
    found = difference(SAVED, SAVED | change)
    assert found is None if said is None else found and found.endswith(said)


def test_a_checkpoint_without_settings_of_the_validation_is_continued() -> None:
    """An earlier version wrote it."""
    assert difference({key: value for key, value in SAVED.items() if key not in VALIDATED}, SAVED) is None


def test_a_models_folder_is_the_same_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    assert made("sft", settings_of(Path("tiny"))) == made("sft", settings_of(tmp_path / "tiny"))


def test_every_free_key_is_a_setting() -> None:
    """A renamed key would otherwise be refused, or a misspelt one never be free."""
    from groundtrace.inference.settings import EndpointSettings

    settings = settings_of(Path("tiny"))
    for key in FREE:
        at: Any = settings
        for part in key.split("."):
            assert hasattr(at, part), key
            at = getattr(at, part)
    assert set(EndpointSettings.__dataclass_fields__) >= FREE_OF_ENDPOINTS
