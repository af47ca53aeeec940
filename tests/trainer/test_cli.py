"""The ``trainer`` command as a user meets it: exit codes, one line on what is wrong, and no key in what it leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from groundtrace.trainer import commands, grpo
from groundtrace.trainer.memory import GIB
from groundtrace.trainer.optimiser import NotFinite
from groundtrace.trainer.sampler import SamplerError

from .runs import SAMPLE, Command, Said, judging, metrics_of, records, rl_row

KEY = "sk-SECRETSECRET-0123456789abcdef"


def test_sft_then_grpo_then_eval(run: Command, sft_data: Path, rl_data: Path) -> None:
    """Each command takes the model that the one before it wrote; each ends with 0 and the path of what it made."""
    sft = run("sft", sft_data, output="sft")
    assert (sft.code, sft.out.strip()) == (0, str(sft.output / "model")), sft.err
    after = f"model.path={sft.output / 'model'}"
    reinforced = run("grpo", rl_data, after, "grpo.max_draws=1", output="grpo")
    assert (reinforced.code, reinforced.out.strip()) == (0, str(reinforced.output / "model")), reinforced.err
    blind = {line["blind_reward"] for line in metrics_of(reinforced.output)}
    assert blind and all(0 < each <= 1 for each in blind), "what never looking earns is beside each step's reward"
    assert "trainer: A policy that never looks earns up to" in reinforced.err
    assert "is not above" in reinforced.err
    after = f"model.path={reinforced.output / 'model'}"
    found = run("eval", SAMPLE, after, "eval.questions=2", output="eval")
    assert (found.code, found.out.strip()) == (0, str(found.output / "eval.json")), found.err
    assert [line["step"] for line in metrics_of(sft.output)] == [1, 2]
    for ran in (sft, reinforced, found):
        assert {"run.json", "config.toml", "metrics.jsonl"} <= {path.name for path in ran.output.iterdir()}
    resolved = (reinforced.output / "config.toml").read_text("utf-8")
    assert "max_draws = 1" in resolved and "clip_high = 0.28" in resolved


@pytest.mark.slow
def test_the_command_in_a_process_of_its_own(folders: Any, tmp_path: Path) -> None:
    """What a terminal shows: nothing but the steps, the result, and a warning, because there is only one question."""
    config = tmp_path / "config.toml"
    config.write_text(
        f'threads = 1\n[model]\npath = "{folders["qwen3"]}"\ndtype = "float32"\n[rollout]\nmax_new_tokens = 4\n'
        "[eval]\nsamples = 1\nk = [1]\nquestions = 1\n",
        "utf-8",
    )
    words = ["-m", "groundtrace.trainer.cli", "eval", "--config", str(config), "--data", str(SAMPLE), "--output"]
    done = subprocess.run(
        [sys.executable, *words, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "out" / "eval.json")), done.stderr
    warning, *lines = [line for line in done.stderr.splitlines() if line]
    assert warning.startswith("trainer: the evaluation has only 1 question: ")
    assert lines == ["step 1/1: accuracy 0"]


@pytest.mark.parametrize(
    "words",
    [[], ["train"], ["sft"], ["sft", "--config", "c.toml", "--data", "d"], ["sft", "--conf", "c.toml"]],
    ids=" ".join,
)
def test_a_wrong_command_line(words: list[str], run: Command, tmp_path: Path) -> None:
    ran = run.words(words, tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "usage: trainer" in ran.err and "Traceback" not in ran.err


def test_help(run: Command, tmp_path: Path) -> None:
    ran = run.words(["--help"], tmp_path)
    assert ran.code == 0
    assert all(name in ran.out for name in ("sft", "grpo", "eval", "examples:"))


def test_an_interrupt_while_torch_is_imported(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupts:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == commands.__name__:  # it imports torch
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, commands.__name__)
    monkeypatch.setattr(sys, "meta_path", [Interrupts, *sys.meta_path])
    ran = run.words(["sft", "--config", "tiny", "--data", "d", "--output", str(tmp_path / "out")], tmp_path)
    ran.check_refused(130, "trainer: stopped by SIGINT before the work began: run the same command again")


def test_a_missing_config(run: Command, sft_data: Path, tmp_path: Path) -> None:
    for name, said in ((str(tmp_path / "gone.toml"), "gone.toml"), ("tinny", "tiny: did you mean tiny?")):
        words = ["sft", "--config", name, "--data", str(sft_data), "--output", str(tmp_path / "out")]
        run.words(words, tmp_path / "out").check_refused(2, said)


VLM = ("reward.endpoints.vlm.kind=openai", "reward.endpoints.vlm.model=m", "reward.endpoints.vlm.base_url=http://h/v1")
CONFIGS = [
    (("grpo.group_sise=4",), "unknown key grpo.group_sise; did you mean grpo.group_size?"),
    (("sft.optimizer.lr=1",), "unknown key sft.optimizer; did you mean sft.optimiser?"),
    (("optimiser.lr=1",), "optimiser is now sft.optimiser and grpo.optimiser: rename the key"),
    (
        ("sft.optimiser.warmup_steps=2", "sft.optimiser.warmup_ratio=0.1"),
        "warmup_ratio must be 0 if warmup_steps is set",
    ),
    (("grpo.group_size=1",), "grpo.group_size must be at least 2, got 1"),
    (("grpo.steps='many'",), "grpo.steps must be an integer"),
    (("model.dtype=float16",), "model.dtype must be 'bfloat16' or 'float32', got 'float16'"),
    (("model.frame=norm",), "model.frame must be 'molmo100', "),
    (("model.frame=unit",), "cannot be written with one decimal"),
    (("batch.tokens=8",), "batch.max_tokens must be at most batch.tokens = 8, got 512"),
    (
        ("reward.roles.judge=gpt",),
        "reward.roles.judge must be one of coarse, colour, edges, got 'gpt': use one of these endpoints, or add an "
        "endpoint with this name beside them",
    ),
    (("endpoints.gpt.kind=openai",), "unknown key endpoints; did you mean reward.endpoints?"),
    (("lr=1",), "unknown key lr; did you mean sft.optimiser.lr or grpo.optimiser.lr?"),
    (
        (*VLM, "reward.roles.detector=vlm"),
        "reward.endpoints.vlm.family is not set, and the detector writes coordinates",
    ),
    (
        (*VLM, "reward.endpoints.vlm.family=qwen3-vl", "reward.roles.detector=vlm"),
        "reward.roles.segmenter is the embedded engine, which finds drawn shapes but nothing in photographs, although",
    ),
    (("reward.roles.jugde=edges",), "reward.roles.jugde must be one of policy, teacher, "),
    (("reward.recipe=agros",), "reward.recipe must be one of argos, "),
    (("rollout.kind=sglang",), "rollout.kind must be 'transformers' or 'vllm', got 'sglang'"),
    (("reward.endpoints.own.kind=claude", "reward.endpoints.own.model=m"), "reward.endpoints.own.kind"),
    (("eval.k=[1, 9]",), "eval.k must be at most eval.samples = 2, got 9"),
    (("log.keep=0",), "log.keep"),
    (("log.save_every=-1",), "log.save_every"),
    (("threads=-1",), "threads"),
]


@pytest.mark.parametrize(("sets", "said"), CONFIGS, ids=[said for _, said in CONFIGS])
def test_a_config_that_cannot_be_used(sets: tuple[str, ...], said: str, run: Command, rl_data: Path) -> None:
    ran = run("grpo", rl_data, *sets)
    ran.check_refused(2, said)
    assert not (ran.output / "run.json").exists()


@pytest.mark.parametrize(
    ("module", "sets", "what"),
    [
        ("peft", ("model.lora_rank=4",), "model.lora_rank"),
        ("tensorboard", ("log.tensorboard=true",), "log.tensorboard"),
        ("msgpack", ("rollout.kind=vllm",), "rollout.kind vllm"),
    ],
)
def test_a_package_that_is_missing(
    module: str, sets: tuple[str, ...], what: str, run: Command, rl_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = f"{what} needs the extra train: pip install 'groundtrace[train]' (the module {module} is not installed)"
    run("grpo", rl_data, *sets).check_refused(2, said)


def test_an_endpoint_whose_package_is_missing(run: Command, rl_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    own = ("reward.endpoints.own.kind=gemini", "reward.endpoints.own.model=m", "reward.roles.judge=own")
    said = "an endpoint of the kind gemini needs the extra gemini: pip install 'groundtrace[gemini]'"
    run("grpo", rl_data, *own).check_refused(2, said)


def test_a_config_that_is_no_toml(run: Command, sft_data: Path) -> None:
    run("sft", sft_data, toml="[[[").check_refused(2, "config.toml")


def test_a_step_that_does_not_fit(run: Command, rl_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal shows the sum and what to do; nothing is begun."""
    monkeypatch.setattr(grpo, "available_bytes", lambda: GIB // 1000)
    ran = run("grpo", rl_data, "grpo.kl_beta=0.1")
    parts = ("weights + ", "gradients", "optimiser moments", "reference model")
    ran.check_refused(2, *parts, "0.0 GiB are available. Each of these ", "smaller model")
    assert {path.name for path in ran.output.iterdir()} == {".lock", "cache"}


def test_an_interruption(run: Command, rl_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a step is made: 130, one line, and the same command ends the run."""
    real = grpo.grpo_step

    def interrupted(trainee: Any, step: int) -> Any:
        if step == 1:
            raise KeyboardInterrupt
        return real(trainee, step)

    with monkeypatch.context() as patch:
        patch.setattr(grpo, "grpo_step", interrupted)
        stopped = run("grpo", rl_data, "log.save_every=1", "grpo.max_draws=1")
    stopped.check_refused(130, "interrupted; the last complete step is in ", "step-000001, run the same command again")
    assert json.loads((stopped.output / "run.json").read_text("utf-8"))["ended"].startswith("KeyboardInterrupt")
    done = run("grpo", rl_data, "log.save_every=1", "grpo.max_draws=1")
    assert done.code == 0, done.err
    assert [line["step"] for line in metrics_of(done.output)] == [1, 2]


def test_a_defect_is_told_in_one_line(run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(commands, "train_sft", broken)
    line = broken.__code__.co_firstlineno + 1
    said = f"ZeroDivisionError: division by zero (in {__file__}, line {line}; --verbose shows more)"
    run("sft", sft_data).check_refused(1, said)


@pytest.mark.parametrize("is_first", [True, False])
def test_verbose_shows_where(
    is_first: bool, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    run("sft", sft_data, "model.path=/nowhere/at/all")  # writes the config
    monkeypatch.setattr(commands, "train_sft", broken)
    words = ["sft", "--config", str(tmp_path / "config.toml"), "--data", str(sft_data)]
    words += ["--output", str(tmp_path / "out")]
    with pytest.raises(ZeroDivisionError):
        run.words(["--verbose", *words] if is_first else [*words, "--verbose"], tmp_path / "out")


def test_a_checkpoint_of_another_config(run: Command, sft_data: Path) -> None:
    assert run("sft", sft_data).code == 0
    before = {path: path.read_bytes() for path in (run.home / "out").rglob("*") if path.is_file()}
    again = run("sft", sft_data, "sft.optimiser.lr=0.5")
    again.check_refused(
        2,
        "belongs to a training with other settings, data, weights or code: sft.optimiser.lr was 1e-05 and is now 0.5",
        "step-000002",
        "another --output",
    )
    after = {path: path.read_bytes() for path in (run.home / "out").rglob("*") if path.is_file()}
    assert {path for path in before if "rows" not in path.parts and before[path] != after[path]} == set()


def test_a_damaged_checkpoint(run: Command, sft_data: Path) -> None:
    done = run("sft", sft_data)
    path = done.output / "checkpoints" / "step-000002" / "trainer.pt"
    path.write_bytes(path.read_bytes()[:1000])
    run("sft", sft_data).check_refused(2, "step-000002", "cannot be read")


def test_an_output_that_is_a_file(run: Command, sft_data: Path) -> None:
    (run.home / "out").write_text("a file")
    run("sft", sft_data).check_refused(2, "out")


def leaks(folder: Path, text: str) -> list[str]:
    """Where a text stands in what a run left: in file names, in bytes, or in what Parquet packs."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        texts = [str(path.relative_to(folder)), path.read_bytes().decode("latin-1")]
        if path.suffix == ".parquet":
            texts.append(repr(pq.read_table(path).to_pylist()))
        found += [str(path) for each in texts if text in each]
    return found


@pytest.mark.parametrize("status", [200, 401])
def test_no_key_anywhere(
    status: int, run: Command, tmp_path: Path, write_shards: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge says the key back, in its verdicts or in its errors."""
    monkeypatch.setenv("JUDGE_KEY", KEY)
    texts = [f"<answer>it is number {number}, beside another one</answer>" for number in range(4)]
    monkeypatch.setattr(grpo, "make_sampler", lambda vlm, *_: Said(vlm, {"q0": [texts]}))
    (record,) = records("662-1-0-c0")
    data = write_shards(tmp_path / "run", [rl_row(record, id="q0", answer="the left one", answer_type="text")], "rl")
    echo = json.dumps({"reason": f"I was given {KEY}", "same": True})
    with judging((status, echo)) as judge:
        toml = (
            '[reward]\nwait_s = 0.1\n[reward.endpoints.judge]\nkind = "openai"\nmodel = "judge"\nmax_retries = 0\n'
            f'base_url = "{judge.base_url}"\napi_key_env = "JUDGE_KEY"\n[reward.roles]\njudge = "judge"\n'
        )
        sets = ("grpo.prompts_per_step=1", "grpo.dynamic_sampling=false", "log.rollouts_every=1", "log.save_every=1")
        ran = run("grpo", data, *sets, toml=toml)
    assert ran.code == (0 if status == 200 else 3), ran.err
    assert f"Bearer {KEY}" in judge.keys, "the key was used"
    assert (ran.output / "cache" / "replies.sqlite").exists()
    assert leaks(ran.output, "SECRETSECRET") == []
    assert "SECRETSECRET" not in ran.out + ran.err


def test_the_scan_finds_a_key(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(f"sent {KEY}")
    assert leaks(tmp_path, "SECRETSECRET") == [str(tmp_path / "log.txt")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SamplerError("the server is gone"), 3),
        (NotFinite("step 3: nan"), 1),
        (OSError("disk full"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_how_a_training_ends(
    error: BaseException, code: int, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(commands, "train_sft", ends)
    ran = run("sft", sft_data)
    assert (ran.code, ran.out) == (code, "")
    assert str(error) in ran.err and "Traceback" not in ran.err


def test_the_command_without_its_script() -> None:
    done = subprocess.run([sys.executable, "-m", "groundtrace.trainer", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: trainer ")
