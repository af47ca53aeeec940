"""The papers' configs for verl: the papers' values, verl's own checks, its data loader, and its reward managers."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundtrace.grading.responses.turns import call_of
from groundtrace.pipelines.commands.serve_reward import started
from groundtrace.pipelines.commands.serving import http_loop
from groundtrace.publishing.rewards.row_reward import RowReward
from groundtrace.publishing.rewards.server import Bounds
from groundtrace.publishing.rewards.settings import SpeechSettings, load_reward_settings
from groundtrace.rewards.executed_turns import ExecutedTurns
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.shards import Shards
from tests.publishing.exports.made_runs import ROOT, coded_run, exported, make_run
from tests.publishing.rewards.worlds import WORLDS, Written, written
from tests.trainer.paper_values import DEVIATIONS, STATED
from tests.trainer.runs import judging
from tests.trainer.test_paper_values import resolved

pytestmark = pytest.mark.loaders

VERL = ROOT / "examples" / "verl"
PAPERS = ("argos", "codedance", "ivgr", "rucl", "sail_rl")
FAMILY = "qwen3-vl"


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The config of a paper as verl's command composes it in the root of the checkout."""
    from hydra import compose, initialize_config_dir

    monkeypatch.setenv("PWD", str(ROOT))

    def config(paper: str, *overrides: str) -> Any:
        with initialize_config_dir(str(VERL / paper), version_base=None):
            return compose("config", [*overrides])

    return config


def in_our_terms(config: Any) -> dict[str, Any]:
    """The values of a config of verl by the keys of a trainer's config."""
    data, policy, algorithm = config.data, config.actor_rollout_ref, config.algorithm
    actor, optim, rollout = policy.actor, policy.actor.optim, policy.rollout
    filtered, steps = algorithm.filter_groups, config.trainer.total_training_steps
    overlong = config.reward.get("reward_kwargs", {}).get("overlong_buffer_cfg")
    found = {
        "model.path": policy.model.path,
        "model.dtype": rollout.dtype,
        "model.gradient_checkpointing": policy.model.enable_gradient_checkpointing,
        "model.freeze_vision": actor.freeze_vision_tower,
        "model.lora_rank": policy.model.lora_rank,
        "batch.max_tokens": data.max_prompt_length + data.max_response_length,
        "batch.tokens": actor.ppo_max_token_len_per_gpu,
        "grpo.prompts_per_step": data.train_batch_size,
        "grpo.updates_per_rollout": data.train_batch_size / actor.ppo_mini_batch_size * actor.ppo_epochs,
        "grpo.group_size": rollout.n,
        "grpo.clip_low": actor.clip_ratio_low,
        "grpo.clip_high": actor.clip_ratio_high,
        "grpo.kl_beta": actor.kl_loss_coef if actor.use_kl_loss else 0.0,
        "grpo.advantage_scale": "std" if algorithm.norm_adv_by_std_in_grpo else "none",
        "grpo.dynamic_sampling": filtered.enable,
        "grpo.overlong": "keep" if overlong is None else "soft",
        "grpo.importance_cap": algorithm.rollout_correction.rollout_is_threshold,
        "grpo.steps": steps,
        "grpo.epochs": config.trainer.total_epochs if steps is None else None,
        "grpo.optimiser.lr": optim.lr,
        "grpo.optimiser.schedule": optim.lr_scheduler_type,
        "grpo.optimiser.warmup_ratio": optim.lr_warmup_steps_ratio,
        "grpo.optimiser.final_share": optim.min_lr_ratio,
        "grpo.optimiser.weight_decay": optim.weight_decay,
        "grpo.optimiser.beta1": optim.betas[0],
        "grpo.optimiser.beta2": optim.betas[1],
        "grpo.optimiser.max_grad_norm": optim.clip_grad,
        "rollout.kind": rollout.name,
        "rollout.temperature": rollout.temperature,
        "rollout.max_new_tokens": data.max_response_length,
    }
    if filtered.enable:
        found["grpo.max_draws"] = filtered.max_num_gen_batches
    if overlong is not None:
        assert config.reward.reward_kwargs.max_resp_len == data.max_response_length
        assert (overlong.enable, overlong.penalty_factor, config.reward.reward_manager.name) == (True, 1.0, "dapo")
        found["grpo.overlong_buffer"] = overlong.len
    if rollout.multi_turn.enable:
        found["environment.max_turns"] = rollout.multi_turn.max_assistant_turns
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_the_values_are_those_of_the_paper(paper: str, composed: Any) -> None:
    """Each value of our own config, and each that the paper states, with the deviations of our config."""
    ours, found = resolved(paper), in_our_terms(composed(paper))
    assert found == {key: ours[key] for key in found}
    stated = {key: value for key, (value, _) in STATED[paper].items() if key not in DEVIATIONS[paper]}
    assert {key: found[key] for key in found.keys() & stated.keys()} == {
        key: stated[key] for key in found.keys() & stated.keys()
    }
    parts = ("model.", "batch.", "grpo.", "rollout.", "environment.max_turns")
    missing = {key for key in stated if key.startswith(parts)} - found.keys() - {"model.freeze_projector"}
    assert not missing, "values of the paper that the config for verl does not have"


def as_actor(ref: Any, actor: Any) -> Any:
    """The section of the reference model with the names of an actor's, as verl's worker renames them."""
    from omegaconf import open_dict

    with open_dict(ref):
        ref.ppo_mini_batch_size = actor.ppo_mini_batch_size
        ref.ppo_micro_batch_size = ref.pop("log_prob_micro_batch_size")
        ref.ppo_micro_batch_size_per_gpu = ref.pop("log_prob_micro_batch_size_per_gpu")
        ref.use_dynamic_bsz = ref.pop("log_prob_use_dynamic_bsz")
        ref.ppo_max_token_len_per_gpu = ref.pop("log_prob_max_token_len_per_gpu")
    return ref


@pytest.mark.parametrize("paper", PAPERS)
def test_verl_accepts_the_config(paper: str, composed: Any, model_folder: Path) -> None:
    """The sections become verl's dataclasses, whose checks run, and the check before a training passes."""
    from verl.trainer.config import AlgoConfig, CheckpointConfig
    from verl.trainer.ppo.core_algos import AdvantageEstimator
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config
    from verl.workers.config import FSDPActorConfig, HFModelConfig, RolloutConfig

    config = composed(paper, f"actor_rollout_ref.model.path={model_folder}")
    policy = config.actor_rollout_ref
    validate_config(config, need_reference_policy(config), need_critic(config))
    assert need_reference_policy(config) == (resolved(paper)["grpo.kl_beta"] > 0)
    assert not need_critic(config)
    made = {
        FSDPActorConfig: omega_conf_to_dataclass(policy.actor),
        RolloutConfig: omega_conf_to_dataclass(policy.rollout),
        HFModelConfig: omega_conf_to_dataclass(policy.model),
        AlgoConfig: omega_conf_to_dataclass(config.algorithm),
        CheckpointConfig: omega_conf_to_dataclass(policy.actor.checkpoint),
    }
    for kind, section in made.items():
        assert isinstance(section, kind)
    assert isinstance(omega_conf_to_dataclass(as_actor(policy.ref, policy.actor)), FSDPActorConfig)
    assert made[AlgoConfig].adv_estimator == AdvantageEstimator.GRPO.value
    assert made[FSDPActorConfig].rollout_n == made[RolloutConfig].n


@pytest.mark.parametrize("paper", PAPERS)
def test_the_script_starts_the_config(paper: str) -> None:
    text = (VERL / paper / "train.sh").read_text("utf-8")
    assert f'--config-path "$PWD/examples/verl/{paper}" --config-name config "$@"' in text
    readme = (VERL / paper / "README.md").read_text("utf-8")
    assert f"sh examples/verl/{paper}/train.sh" in readme
    assert f"--output exports/{paper}" in readme


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Written, Path]]:
    """A run of a paper's recipe with scripted responses and a judge, and the run's export to verl."""
    made = WORLDS[request.param]()
    with judging((200, made.judge)) as judge:
        speech = SpeechSettings().speech_of(FAMILY)
        found = written(made, FAMILY, speech, SpeechSettings(), judge.base_url, tmp_path / request.param)
        shutil.copy(make_run(tmp_path / "summary", rl=made.rows) / "run.json", found.run)
        exported(found.run, "verl", tmp_path / "out")
        yield found, tmp_path / "out"


@pytest.fixture
def server() -> Iterator[Callable[..., str]]:
    """Serve the reward of a world, with other values in its config; gives the URL."""
    with ExitStack() as stack:
        on_loop = stack.enter_context(http_loop())

        def served(found: Written, **changes: int) -> str:
            config = found.config.with_name("served.toml")
            lines = [f"{name} = {value}" for name, value in changes.items()]
            config.write_text("\n".join([f'extends = "{found.config}"', *lines]), "utf-8")
            reward = RowReward(load_reward_settings(str(config)), {"run": found.run}, fails_fast=True)
            rows, _ = reward.open_run("run")
            runner, address = on_loop(started(reward, rows, Bounds(), "", "127.0.0.1", 0))
            stack.callback(reward.close)
            stack.callback(lambda: on_loop(runner.cleanup()))
            return f"http://127.0.0.1:{address.rpartition(':')[2]}"

        yield served


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray in this machine; its workers run as fast as the tests."""
    import ray

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (the name that Ray reads)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def items_of(rows: Any, processor: Any, texts: Callable[[Any], Sequence[str]]) -> list[Any]:
    """The responses to the rows of verl's loader, each as verl passes it to a reward manager."""
    import torch
    from verl import DataProto
    from verl.utils.dataset.rl_dataset import collate_fn

    found = []
    for number in range(len(rows)):
        for text in texts(rows[number]):
            data = DataProto.from_single_dict(collate_fn([rows[number]]))
            ids = processor.tokenizer(text, add_special_tokens=False).input_ids
            data.batch["prompts"] = torch.ones(1, 4, dtype=torch.long)
            data.batch["responses"] = torch.tensor([[*ids, 0, 0]])
            data.batch["attention_mask"] = torch.tensor([[1] * (4 + len(ids)) + [0, 0]])
            found.append(data)
    return found


def rewards_of(config: Any, processor: Any, items: Sequence[Any]) -> list[dict[str, Any]]:
    """The results of the config's reward manager, which gets all responses at once."""
    from verl.trainer.ppo.reward import load_reward_manager

    async def all_of() -> list[dict[str, Any]]:
        manager = load_reward_manager(config, processor.tokenizer)
        manager.loop = asyncio.get_running_loop()
        return await asyncio.gather(*(manager.run_single(item) for item in items))

    return asyncio.run(all_of())


def loaded(config: Any, processor: Any) -> Any:
    """verl's data set, as its trainer makes it, but in this process: a fork of one with torch's threads may hang."""
    from verl.trainer.ppo.utils import create_rl_dataset

    config.data.filter_overlong_prompts_workers = None
    return create_rl_dataset([config.data.train_files], config.data, processor.tokenizer, processor)


def check_rewards(found: Written, folder: Path, config: Any, processor: Any, tmp_path: Path) -> None:
    """Every response earns in verl what it earns in our own trainer."""
    rows = loaded(config, processor)
    names = {(row.id, row.context.stream or ""): number for number, row in enumerate(found.prompts)}
    order: list[int] = []

    def texts(row: Any) -> Sequence[str]:
        info = row["extra_info"]
        order.append(names[info["index"], info["stream"] or ""])
        return found.said[order[-1]]

    items = items_of(rows, processor, texts)
    assert len(rows) == len(found.prompts)
    scores = rewards_of(config, processor, items)
    flat = iter(found.by_trainer(tmp_path / "own")[0])
    expected = [[next(flat).reward for _ in said] for said in found.said]
    assert [each["reward_score"] for each in scores] == pytest.approx([r for n in order for r in expected[n]], abs=1e-9)
    assert all(each["reward_extra_info"]["outcome_scored"] == 1.0 for each in scores)


def settings_of_run(folder: Path, url: str, model: Path) -> list[str]:
    return [
        f"data.train_files={folder / 'rl.parquet'}",
        f"+data.cache_dir={folder / 'cache'}",
        f"reward.custom_reward_function.path={folder / 'groundtrace_client.py'}",
        f"+reward.custom_reward_function.reward_kwargs.url={url}",
        f"actor_rollout_ref.model.path={model}",
    ]


@pytest.mark.parametrize("world", ["argos", "sail_rl", "rucl"], indirect=True)
def test_rewards_of_single_responses(
    world: tuple[Written, Path], server: Any, composed: Any, processor: Any, model_folder: Path, tmp_path: Path
) -> None:
    found, folder = world
    recipe = found.world.recipe
    changes = {"step_responses": len(found.items)} if recipe == "rucl" else {}
    config = composed(recipe, *settings_of_run(folder, server(found, **changes), model_folder))
    check_rewards(found, folder, config, processor, tmp_path)


@pytest.mark.parametrize("world", ["ivgr"], indirect=True)
def test_rewards_of_whole_questions(
    world: tuple[Written, Path],
    server: Any,
    composed: Any,
    processor: Any,
    model_folder: Path,
    cluster: None,
    tmp_path: Path,
) -> None:
    """The manager of the examples collects them, in an actor of Ray."""
    found, folder = world
    overrides = settings_of_run(folder, server(found), model_folder)
    config = composed("ivgr", *overrides, f"actor_rollout_ref.rollout.n={len(found.said[0])}")
    check_rewards(found, folder, config, processor, tmp_path)


LOOK = "import numpy as np\nprint(np.asarray(input_image).reshape(-1, 3).std(0).round(3).tolist())"
RESULT = "\nuser\n<tool_response>\n[1, 2, 3]\n</tool_response>\nassistant\n"


def test_rewards_of_code(composed: Any, tool_processor: Any, model_folder: Path, cluster: None, tmp_path: Path) -> None:
    """Each response earns what it earns in our own trainer; a result that the policy wrote itself is bad form."""
    run = coded_run(tmp_path / "run")
    exported(run, "verl", tmp_path / "out", turns="tools")
    home = tmp_path / "kept"
    config = tmp_path / "reward.toml"
    config.write_text(f'extends = "codedance"\nfolder = "{home}"\n[reward.roles]\njudge = "colour"\n', "utf-8")
    call = f"<think>I look.</think>\n<tool_call>\n{call_of(LOOK)}\n</tool_call>"
    right, wrong = "<answer>1</answer>", "<answer>2</answer>"
    said = [[call, right], [right], [call, wrong], [RESULT.join([call, right])]]  # the last one wrote the result itself
    overrides = settings_of_run(tmp_path / "out", "http://127.0.0.1:1", model_folder)
    overrides = [each for each in overrides if "custom_reward_function" not in each]
    overrides += [f"reward.custom_reward_function.reward_kwargs.config={config}", "actor_rollout_ref.rollout.n=4"]
    composed_config = composed("codedance", *overrides)
    rows = loaded(composed_config, tool_processor)
    items = items_of(rows, tool_processor, lambda _: [RESULT.join(turns) for turns in said])
    for item, turns in zip(items, said, strict=True):
        noted = {"groundtrace_calls": ["ok"] * (len(turns) - 1), "groundtrace_lost": ""}
        item.non_tensor_batch["tool_extra_fields"] = np.array([noted], dtype=object)
    found = [each["reward_score"] for each in rewards_of(composed_config, tool_processor, items)]
    assert found == pytest.approx(by_our_trainer(str(config), run, said, tmp_path), abs=1e-9)
    assert found[3] < min(found[:2])


def by_our_trainer(config: str, run: Path, said: Sequence[Sequence[str]], home: Path) -> list[float | None]:
    """The rewards of the turns to the only question, after their code was executed."""
    settings = load_reward_settings(config)
    row = Shards(run, "rl", home / "rows")[0]

    async def executed(turns: Sequence[str]) -> Any:
        found = ExecutedTurns(settings.code, row)
        for turn in turns:
            await found.step(turn)
        return await found.result()

    trajectories = [asyncio.run(executed(turns)) for turns in said]
    with contextlib.closing(Reward(settings.reward, home / "own")) as reward:
        speech = settings.speech.speech_of(FAMILY)
        [scored] = reward.score(speech, [row], [[turns[-1] for turns in said]], [trajectories])
    return [each.reward for each in scored]


def test_a_group_without_all_its_responses(composed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from verl.utils.import_utils import load_extern_object

    groups = load_extern_object(str(VERL / "group_manager.py"), "Groups")
    config = composed("ivgr", "reward.custom_reward_function.path=pkg://tests.publishing.exports.loaders.scored")
    made = groups(config, wait_s=0.2)
    response = {"data_source": "d", "solution_str": "s", "ground_truth": '{"run": "r", "id": "q"}', "extra_info": {}}
    with pytest.raises(TimeoutError, match=r"only 1 of 5 responses to the question q arrived within 0\.2 s"):
        asyncio.run(made.score(response))


@pytest.mark.parametrize(("prompts", "texts"), [(1, ["a", "bb", "ccc", "d", "e"]), (2, ["a"] * 9 + ["bb"])])
def test_a_group_is_scored_in_one_call(composed: Any, prompts: int, texts: list[str]) -> None:
    """All responses to a question wait for each other; an error of the reward reaches each of them."""
    from verl.utils.import_utils import load_extern_object

    groups = load_extern_object(str(VERL / "group_manager.py"), "Groups")
    config = composed("ivgr", "reward.custom_reward_function.path=pkg://tests.publishing.exports.loaders.scored")

    async def scores(said: Sequence[str]) -> list[Any]:
        made = groups(config)
        fixed = {"data_source": "d", "ground_truth": '{"run": "r", "id": "q"}'}
        info = {"question_prompts": prompts}
        given = [{**fixed, "solution_str": text, "extra_info": info} for text in said]
        return await asyncio.gather(*map(made.score, given), return_exceptions=True)

    assert [each["score"] for each in asyncio.run(scores(texts))] == [float(len(text)) for text in texts]
    failed = asyncio.run(scores(["bad", *texts[1:]]))
    assert [str(each) for each in failed] == ["a bad response"] * len(texts)
