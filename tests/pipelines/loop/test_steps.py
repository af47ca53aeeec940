"""The steps of a loop: their commands word by word, their configs, and when a step has to be done again."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.config_file import merged
from groundtrace.config.settings import given_values, settings_from
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.loop.steps import Loop, identities, make_steps
from groundtrace.schemas.errors import UserError

from .loops import loop_of

OUT = Path("/loops/a")
TINY = """\
curate: beam run grounded_cot --input OUT/questions/train --output OUT/curate --config OUT/configs/curate.toml --replace
model: trainer tiny OUT/model --data OUT/curate
eval-base: trainer eval --config tiny --data OUT/questions/held --output OUT/eval-base --set model.path=OUT/model
sft: trainer sft --config tiny --data OUT/curate --output OUT/sft --set model.path=OUT/model
eval-sft: trainer eval --config tiny --data OUT/questions/held --output OUT/eval-sft --set model.path=OUT/sft/model
rl: beam run grounded_cot --input OUT/questions/train --output OUT/rl --config OUT/configs/rl.toml --replace
grpo: trainer grpo --config tiny --data OUT/rl --output OUT/grpo --set model.path=OUT/sft/model
eval-grpo: trainer eval --config tiny --data OUT/questions/held --output OUT/eval-grpo --set model.path=OUT/grpo/model
"""
REAL = """\
curate: beam run grounded_cot --input OUT/questions/train --output OUT/curate --config OUT/configs/curate.toml --replace
eval-base: trainer eval --config argos-lora --data OUT/questions/held --output OUT/eval-base \
--set model.path=Qwen/Qwen3-VL-2B-Instruct --set eval.samples=1
sft: trainer sft --config argos-lora --data OUT/curate --output OUT/sft --set model.path=Qwen/Qwen3-VL-2B-Instruct \
--set sft.steps=30 --set 'log.project=my loop' --gpus 2
eval-sft: trainer eval --config argos-lora --data OUT/questions/held --output OUT/eval-sft \
--set model.path=OUT/sft/model --set eval.samples=1
rl: beam run grounded_cot --input OUT/questions/train --output OUT/rl --config OUT/configs/rl.toml --replace
grpo: trainer grpo --config argos-lora --data OUT/rl --output OUT/grpo --set model.path=OUT/sft/model --gpus 2
eval-grpo: trainer eval --config argos-lora --data OUT/questions/held --output OUT/eval-grpo \
--set model.path=OUT/grpo/model --set eval.samples=1
"""


def commands(loop: Loop) -> str:
    return "".join(f"{step.name}: {shlex.join(step.command)}\n" for step in make_steps(loop)).replace(str(OUT), "OUT")


def real(**changes: Any) -> Loop:
    values: dict[str, Any] = {
        "trainer": {"config": "argos-lora", "gpus": 2},
        "sft": {"set": {"sft": {"steps": 30}, "log": {"project": "my loop"}}},
        "eval": {"set": {"eval": {"samples": 1}}},
    }
    return loop_of(OUT, "Qwen/Qwen3-VL-2B-Instruct", **merged(values, changes))


def test_the_commands_of_the_tiny_model() -> None:
    assert commands(loop_of(OUT)) == TINY


def test_the_commands_of_a_real_model() -> None:
    assert commands(real()) == REAL


def test_a_real_model_needs_a_trainers_config() -> None:
    with pytest.raises(UserError, match=r"config is not set: set trainer\.config to a trainer"):
        make_steps(loop_of(OUT, "Qwen/Qwen3-VL-2B-Instruct"))


CURATION = {
    "attempt": {"k": 1, "k_min": 1, "max_tokens": 64},
    "difficulty": {"include_low": True},
    "split": {"sft_ratio": 0.7, "seed": 3},
    "roles": {"judge": "strong"},
    "endpoints": {"strong": {"kind": "openai", "model": "m", "base_url": "http://h/v1"}},
}


def config_of(loop: Loop, name: str = "rl", revision: str = "abc") -> Any:
    return next(step.config for step in make_steps(loop, revision) if step.name == name)


def test_the_config_of_the_second_run() -> None:
    loop = loop_of(OUT, "m", CURATION, trainer={"config": "c"}, serve={"endpoint": {"max_concurrency": 8}})
    found = config_of(loop)
    assert found == {
        "attempt": {"as_trained": True, "max_tokens": 64},
        "split": {"sft_ratio": 0.0, "seed": 3},
        "allow_embedded": True,
        "roles": {"judge": "strong", "policy": "trained"},
        "endpoints": {
            **CURATION["endpoints"],
            "trained": {"kind": "vllm", "model": f"{OUT}/sft/model", "revision": "abc", "max_concurrency": 8},
        },
    }
    settings = settings_from(Settings, found)
    assert (settings.attempt.k, settings.difficulty.include_low) == (4, False), "the recipe's own defaults"
    assert config_of(loop, "curate") == CURATION


def test_a_tiny_model_has_short_attempts_and_a_server_in_the_process() -> None:
    """These are the defaults for a CPU. Each key of the loop's config or of the curation's config replaces one."""
    endpoint = {"kind": "transformers_chat", "model": f"{OUT}/sft/model", "revision": "abc", "max_concurrency": 128}
    found = config_of(loop_of(OUT))
    assert found["attempt"] == {"as_trained": True, "k": 4, "k_min": 2, "max_tokens": 128}
    assert found["endpoints"] == {"trained": endpoint}
    assert "attempt" not in config_of(loop_of(OUT), "curate"), "the first run does not ask the tiny model"
    changed = loop_of(OUT, serve={"endpoint": {"max_concurrency": 8}}, rl={"set": {"attempt": {"k_min": 1}}})
    assert config_of(changed)["attempt"]["k_min"] == 1 and config_of(changed)["attempt"]["max_tokens"] == 128
    assert config_of(changed)["endpoints"]["trained"] == endpoint | {"max_concurrency": 8}
    assert config_of(loop_of(OUT, curation=CURATION))["attempt"]["max_tokens"] == 64
    without = replace(loop_of(OUT), sections=frozenset({"trace"}))
    assert "attempt" not in config_of(without), "the recipe has no such section"


def test_a_tiny_model_can_be_served_by_vllm() -> None:
    assert loop_of(OUT, serve={"kind": "vllm"}).served_by == "vllm"


def test_the_second_run_can_be_changed() -> None:
    loop = loop_of(
        OUT,
        "m",
        trainer={"config": "c"},
        rl={"set": {"attempt": {"k": 8}, "difficulty": {"high": 0.75}, "split": {"sft_ratio": 0.1}}},
    )
    found = config_of(loop)
    assert found["attempt"] == {"as_trained": True, "k": 8}
    assert (found["difficulty"], found["split"]) == ({"high": 0.75}, {"sft_ratio": 0.1})


ALL = ["curate", "eval-base", "sft", "eval-sft", "rl", "grpo", "eval-grpo"]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({}, []),
        ({"sft": {"set": {"sft": {"steps": 31}}}}, ["sft", "eval-sft", "rl", "grpo", "eval-grpo"]),
        ({"grpo": {"set": {"grpo": {"steps": 31}}}}, ["grpo", "eval-grpo"]),
        ({"rl": {"set": {"attempt": {"k": 8}}}}, ["rl", "grpo", "eval-grpo"]),
        ({"eval": {"set": {"eval": {"samples": 4}}}}, ["eval-base", "eval-sft", "eval-grpo"]),
        ({"serve": {"kind": "transformers_chat"}}, ["rl", "grpo", "eval-grpo"]),
        ({"trainer": {"gpus": 4}}, ["sft", "eval-sft", "rl", "grpo", "eval-grpo"]),
    ],
)
def test_what_a_change_repeats(changes: dict[str, Any], again: list[str]) -> None:
    before, after = (identities(loop, make_steps(loop)) for loop in (real(), real(**changes)))
    differing = [name for name in ALL if before[name] != after[name]]
    assert differing == again


def test_the_place_of_the_folder_does_not_matter() -> None:
    loops = [loop_of(Path(out)) for out in ("/a/b", "/c/d e")]
    loops.append(replace(loops[0], recipe="pipelines/grounded_cot.py"))
    one, *others = (identities(loop, make_steps(loop)) for loop in loops)
    assert others == [one, one]


def test_a_loop_of_an_earlier_version_is_not_repeated() -> None:
    """Its commands had no --replace."""
    loop = real()
    steps = make_steps(loop)
    before = [replace(step, command=tuple(word for word in step.command if word != "--replace")) for step in steps]
    assert any("--replace" in step.command for step in steps)
    assert identities(loop, before) == identities(loop, steps)


@pytest.mark.parametrize(("file", "first"), [("recipe_sha256", "curate"), ("trainer_sha256", "eval-base")])
def test_a_changed_file_repeats_its_steps(file: str, first: str) -> None:
    loops = real(), replace(real(), **{file: "other"})
    before, after = (identities(loop, make_steps(loop)) for loop in loops)
    assert next(name for name in ALL if before[name] != after[name]) == first


@pytest.mark.parametrize(
    "value", ["my loop", "true", "1", "1e-5", "", " a", "a\nb = 1", '"', "a=b", "#", 1, 2.5e-5, True, [1, "b"]]
)
def test_a_value_is_read_as_it_was(value: Any) -> None:
    loop = loop_of(OUT, sft={"set": {"a": {"b": value}}})
    command = next(step.command for step in make_steps(loop) if step.name == "sft")
    assert given_values(None, command[-1:]) == {"a": {"b": value}}
