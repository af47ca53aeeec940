"""The light install with one extra: each does what it is for, without the packages of the others.

The extra vllm has tests of its own (``make test-vllm``), for its packages take 6 GB.
"""

import json
import sqlite3
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.storage.places import RemotePath

from ..inference import gemini_server, tiny_vision_models
from ..pipelines import clip_server
from ..vllm import tiny_qwen3vl
from .environments import ROOT, SAMPLE, Installed
from .runs import EMBEDDED, KEEP_EASY, rows_of

pytestmark = pytest.mark.installs

FOR_DEVELOPERS = ("browser", "core", "dev")
ELSEWHERE = ("vllm",)
MANY = 2_000
"""More replies than a run asks for."""

WithExtra = Callable[[str], Installed]


def test_each_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tried = {name.removeprefix("test_extra_") for name in globals() if name.startswith("test_extra_")}
    assert tried == project["optional-dependencies"].keys() - {*FOR_DEVELOPERS, *ELSEWHERE}


def options(**settings: object) -> list[str]:
    """The words that set these on a command line; ``__`` in a name is a dot."""
    return [word for name, value in settings.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]


def few(folder: Path, count: int = 6) -> Path:
    """An input folder with the first records of the sample and their images."""
    lines = (SAMPLE / "records.jsonl").read_text("utf-8").splitlines(keepends=True)[:count]
    for name in (name for line in lines for name in json.loads(line)["media"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((SAMPLE / name).read_bytes())
    (folder / "records.jsonl").write_text("".join(lines), "utf-8")
    return folder


def test_extra_gemini(with_extra: WithExtra) -> None:
    """A server with Gemini's API plays the policy; it answers "3" to all that it is asked."""
    gemini = with_extra("gemini")
    with gemini_server.running() as server:
        server.raw({"name": "models/tiny"})  # what a run asks for first
        for _ in range(MANY):
            server.say(*["There are three. <answer>3</answer>"] * 8)
        far = options(
            endpoints__far__kind="gemini",
            endpoints__far__model="tiny",
            endpoints__far__base_url=server.base_url,
            endpoints__far__api_key_env="OUR_KEY",
            roles__policy="far",
            allow_embedded="true",
        )
        words = ["--input", SAMPLE, "--output", "run", *far, *KEEP_EASY]
        gemini.run("beam", "run", "grounded_cot", *words, OUR_KEY="k" * 20)
    assert rows_of(gemini.home / "run") > 0


def test_extra_sandbox(with_extra: WithExtra) -> None:
    """Code with each library that the extra brings, and the programs of `beam sandbox check`."""
    code = "import cv2, matplotlib.pyplot as plt, scipy.ndimage, sympy; plt.plot([1]); print(sympy.sqrt(16))"
    made = "Sandbox(SandboxSettings(call_timeout_s=60))"  # without compiled modules, and on a busy machine
    run = f"from groundtrace.sandbox import *; s = {made}.open(); o = s.run({code!r})"
    sandbox = with_extra("sandbox")
    assert sandbox.run("beam", "sandbox", "check").stdout.count("contained (") == 11
    assert sandbox.python(f"{run}; s.close(); print(o.text, len(o.images))").split() == ["4", "1"]
    sandbox.run("beam", "run", "executable_cot", "--input", SAMPLE, "--output", "run", "--limit", "40")
    assert rows_of(sandbox.home / "run") > 0


def test_extra_video(with_extra: WithExtra, tmp_path: Path) -> None:
    """A clip of a moving square, with models that look at the frames they are sent."""
    video = with_extra("video")
    row = {"id": "clip", "media": "clip.mp4", "question": "Does the red square move to the right?", "answer": "yes"}
    row |= {"answer_type": "bool", "source": "drawn", "license": "CC0-1.0"}
    (tmp_path / "data").mkdir()
    clip_server.write_clip(tmp_path / "data/clip.mp4")
    (tmp_path / "data/records.jsonl").write_text(json.dumps(row), "utf-8")
    roles = {f"roles__{role}": "far" for role in ("policy", "teacher", "pointer", "judge", "detector", "segmenter")}
    with clip_server.serving(clip_server.ClipWorld()) as url:
        far = options(
            endpoints__far__kind="openai",
            endpoints__far__model="seeing",
            endpoints__far__base_url=url,
            endpoints__far__family="plain",
            allow_self_judging="true",
            split__sft_ratio="1.0",
            trace__n="3",
            leak__ask="none",
            **roles,
        )
        video.run("beam", "run", "grounded_cot", "--input", tmp_path / "data", "--output", "run", *far)
    assert rows_of(video.home / "run") == 1


def test_extra_vision(with_extra: WithExtra, tmp_path: Path) -> None:
    """A detector with random weights finds nothing that is there, and is asked."""
    vision = with_extra("vision")
    tiny_vision_models.write_grounding_dino(tmp_path / "model")
    near = options(
        endpoints__near__kind="transformers",
        endpoints__near__model=tmp_path / "model",
        roles__detector="near",
        allow_embedded="true",
        split__sft_ratio="0.5",
    )
    words = ["--input", few(tmp_path / "data"), "--output", "run", *near, *KEEP_EASY]
    vision.run("beam", "run", "grounded_cot", *words)
    assert json.loads((vision.home / "run/run.json").read_text("utf-8"))["ledger"]["detector"]["requests"] > 0


def test_extra_train(with_extra: WithExtra, demo: Path, tmp_path: Path) -> None:
    """Two steps of SFT and one of GRPO on the demo's rows, with a tiny model."""
    train = with_extra("train")
    tiny_qwen3vl.write_model(tmp_path / "model")
    (train.home / "config.toml").write_text(
        f'threads = 1\n[model]\npath = "{tmp_path / "model"}"\ndtype = "float32"\n'
        "[batch]\nmax_tokens = 2048\ntokens = 4096\n[rollout]\nmax_new_tokens = 8\n"
        "[sft]\nsteps = 2\nsamples_per_step = 2\n"
        "[grpo]\nsteps = 1\nprompts_per_step = 2\ngroup_size = 2\nmax_draws = 1\n",
        "utf-8",
    )
    for command in ("sft", "grpo"):
        train.run("trainer", command, "--config", "config.toml", "--data", demo, "--output", command)
        assert (train.home / command / "model/model.safetensors").exists()


SENT = """
import sys
from pathlib import Path
from groundtrace.config.settings import build
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.watching.boards import open_boards
settings = build(TrainerSettings, {"model": {"path": "tiny"}, "log": {"tracker": sys.argv[1]}})
for start in (0, 3):  # the second training continues the first, which sent five steps
    [board] = open_boards(Path("out"), "sft", settings, start, {"": 4} if start else {})
    for step in range(start, start + 5):
        board.add({"loss": 1.0 / (step + 1)}, step)
    board.close()
"""


def test_extra_wandb(with_extra: WithExtra) -> None:
    """Without a network: the metrics wait on the disk for `wandb sync`, as one run."""
    wandb = with_extra("wandb")
    (wandb.home / "out").mkdir()
    wandb.run("python", "-c", SENT, "wandb", WANDB_MODE="offline")
    names = [path.name for path in (wandb.home / "out/wandb").glob("offline-run-*")]
    assert len({name.split("-")[3] for name in names}) == 1  # offline-run-TIME-ID, and -1 in the same second


def test_extra_trackio(with_extra: WithExtra) -> None:
    """Each step once, in trackio's database on this machine."""
    trackio = with_extra("trackio")
    (trackio.home / "out").mkdir()
    trackio.run("python", "-c", SENT, "trackio", TRACKIO_DIR=str(trackio.home / "store"), HF_HUB_OFFLINE="1")
    with sqlite3.connect(trackio.home / "store/groundtrace.db") as database:
        steps = [step for (step,) in database.execute("SELECT step FROM metrics ORDER BY step")]
    assert steps == list(range(8))


SCORED = """
import json, sys
import pyarrow.parquet as pq
from groundtrace.rewards.trl import reward_funcs
from trl import GRPOConfig, GRPOTrainer
[row, *_] = pq.read_table(sys.argv[1]).to_pylist()
texts = [f"<think>I look.</think><answer>{answer}</answer>" for answer in (row["answer"], "77")]
completions = [[{"role": "assistant", "content": text}] for text in texts]
[reward] = reward_funcs(sys.argv[2])
print(json.dumps(reward(completions=completions, groundtrace=[row["groundtrace"]] * 2)))
"""


def test_extra_trl(with_extra: WithExtra, core: Installed, demo: Path, tmp_path: Path) -> None:
    """TRL and our reward for it in one environment, over the rows of an export."""
    trl = with_extra("trl")
    core.run("beam", "export", demo, "--format", "trl", "--output", tmp_path / "rows", "--family", "qwen3-vl")
    (tmp_path / "reward.toml").write_text(EMBEDDED, "utf-8")
    said = trl.run("python", "-c", SCORED, tmp_path / "rows/rl.parquet", tmp_path / "reward.toml").stdout
    right, wrong = json.loads(said.splitlines()[-1])
    assert right > wrong


def put(data: Path, bucket: RemotePath) -> None:
    """Copy an input folder into the folder ``data`` of a bucket."""
    for file in (path for path in data.rglob("*") if path.is_file()):
        (bucket / "data" / file.relative_to(data).as_posix()).write_bytes(file.read_bytes())


def in_a_store(env: Installed, bucket: RemotePath, data: Path, **variables: str) -> None:
    """A run from a store into it, and a look at it there."""
    put(data, bucket)
    run = f"{bucket}/run"
    words = ["--input", f"{bucket}/data", "--output", run, *KEEP_EASY]
    env.run("beam", "run", "grounded_cot", *words, **variables)
    assert "records" in env.run("beam", "inspect", run, **variables).stdout


def test_extra_s3(with_extra: WithExtra, new_bucket: Callable[[str], RemotePath], s3_url: str, tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    in_a_store(with_extra("s3"), new_bucket("s3"), few(tmp_path / "data"), AWS_ENDPOINT_URL=s3_url, **keys)


def test_extra_gs(with_extra: WithExtra, new_bucket: Callable[[str], RemotePath], gs_url: str, tmp_path: Path) -> None:
    in_a_store(with_extra("gs"), new_bucket("gs"), few(tmp_path / "data"), STORAGE_EMULATOR_HOST=gs_url)


def test_extra_gcp(with_extra: WithExtra, new_bucket: Callable[[str], RemotePath], gs_url: str, tmp_path: Path) -> None:
    """A job for Dataflow is built, with input and output in Cloud Storage, and not sent."""
    gcp, bucket, data = with_extra("gcp"), new_bucket("gs"), few(tmp_path / "data")
    put(data, bucket)
    told = options(storage__gs_endpoint_url=gs_url)
    job = ["--runner=DataflowRunner", "--project=project-1", "--region=europe-west4", f"--temp_location={bucket}/tmp"]
    words = ["--input", f"{bucket}/data", "--output", f"{bucket}/run", *told, "--", *job, "--no_auth", "--dry_run=True"]
    done = gcp.run("beam", "run", "grounded_cot", *words, STORAGE_EMULATOR_HOST=gs_url)
    assert done.stdout.startswith("dry run, nothing was submitted: ")
