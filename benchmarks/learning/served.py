"""Compares trained models behind a real vLLM server with transformers, and uses them as the pipeline's policy.

After ``make learn`` and ``make setup-vllm``: ``python benchmarks/learning/served.py BEFORE AFTER --held HELD --output
OUT``, with the folders of two models and of the held-out records. The held-out questions go
through `beam run` with the model served by `vllm serve` as the policy, once as it was before GRPO and once after;
the pass rates of their attempts are the difficulty histogram before and after training. A further pass asks the trained
model once each at temperature 0 and compares every text with what transformers generates from the same weights in
float32.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import pyarrow.parquet as pq  # noqa: E402
import tomli_w  # noqa: E402
import torch  # noqa: E402

from groundtrace.config.settings import load_config  # noqa: E402
from groundtrace.rewards.rows.records import Records  # noqa: E402
from groundtrace.trainer.encode import prompt_sample  # noqa: E402
from groundtrace.trainer.model import VisionLanguageModel, load_model  # noqa: E402
from groundtrace.trainer.rollouts import TransformersSampler  # noqa: E402
from groundtrace.trainer.settings import TrainerSettings  # noqa: E402

K = 4
GREEDY_TEMPERATURE = 1e-4
"""At this temperature each draw is the most likely token; transformers cannot sample at temperature 0."""
SERVE_ARGUMENTS = (
    "--dtype", "float32", "--max-model-len", "2048", "--max-num-batched-tokens", "2048", "--max-num-seqs", "64",
    "--limit-mm-per-prompt", '{"image": 1, "video": 0}', "--enforce-eager", "--skip-mm-profiling", "--seed", "0",
)  # fmt: skip
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "TORCHDYNAMO_DISABLE": "1"}


def main() -> int:
    """Run the three passes and print the histograms; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("before", type=Path, help="the folder of the model before GRPO")
    parser.add_argument("after", type=Path, help="the folder of the model after GRPO")
    parser.add_argument("--held", type=Path, required=True, help="the folder of the held-out records")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--vllm", default=str(ROOT / ".venv-vllm" / "bin" / "vllm"))
    arguments = parser.parse_args()
    held, folder = arguments.held.resolve(), arguments.output.resolve()
    before, after = arguments.before.resolve(), arguments.after.resolve()
    histograms = {}
    for name, model in (("before", before), ("after", after)):
        rows = run(held, folder / f"{name}-served", model, arguments.vllm, K, 1.0)
        histograms[name] = histogram(rows)
        print(f"{name}: right of {K}: {histograms[name]}", flush=True)
    rows = run(held, folder / "greedy-served", after, arguments.vllm, 1, 0.0)
    same, compared = compare(held, after, rows)
    print(f"greedy texts equal to transformers': {same} of {compared}")
    (folder / "served.json").write_text(json.dumps({"histograms": histograms, "same": same, "compared": compared}))
    print(json.dumps({"name": "served", "ratio": same / compared, "unit": "of greedy texts equal to transformers'"}))
    return 0


def run(held: Path, output: Path, model: Path, vllm: str, k: int, temperature: float) -> dict[str, list[Any]]:
    """Return the attempts at every held-out question, by its id, from a pipeline run with the model as the policy."""
    endpoint = {"kind": "vllm", "model": str(model), "frame": "molmo100", "serve_args": list(SERVE_ARGUMENTS)}
    settings = {
        "allow_embedded": True,
        "endpoints": {"trained": endpoint},
        "roles": {"policy": "trained"},
        "attempt": {"k": k, "k_min": 1, "temperature": temperature, "max_tokens": 128, "as_trained": True},
        "difficulty": {"include_low": True, "include_high": True},
        "dedup": {"near": False},
        "trace": {"n": 1},
        "rubrics": {"sample": 20},
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    config = output.with_suffix(".toml")
    config.write_text(tomli_w.dumps(settings), "utf-8")
    words = ["run", "pipelines/grounded_cot.py", "--input", held, "--output", output, "--config", config]
    environment = os.environ | ENVIRONMENT | {"GROUNDTRACE_VLLM": vllm}
    subprocess.run([sys.executable, "-m", "groundtrace", *map(str, words)], cwd=ROOT, env=environment, check=True)
    tables = [pq.read_table(path, columns=["id", "attempts"]) for path in sorted(output.glob("[sr][fl]*/*.parquet"))]
    return {row["id"]: row["attempts"] for table in tables for row in table.to_pylist()}


def histogram(rows: dict[str, list[Any]]) -> dict[int, int]:
    """Return, for each number of right attempts, how many questions have this number."""
    counts = Counter(sum(bool(attempt["correct"]) for attempt in attempts) for attempts in rows.values())
    return {right: counts[right] for right in range(K + 1)}


def compare(held: Path, model: Path, rows: dict[str, list[Any]]) -> tuple[int, int]:
    """Return how many of the server's texts equal those that transformers generates, and how many were compared."""
    overrides = [f"model.path={model}", f"rollout.temperature={GREEDY_TEMPERATURE}"]
    settings = load_config(TrainerSettings, str(HERE / "sft.toml"), overrides)
    vlm = load_model(settings.model)
    texts = dict(generated(vlm, settings, held, set(rows)))
    return sum(texts[id] == attempts[0]["text"] for id, attempts in rows.items()), len(rows)


def generated(vlm: VisionLanguageModel, settings: TrainerSettings, data: Path, wanted: set[str]) -> Any:
    """Yield the id and the text of each wanted record."""
    records = Records(data)
    asked = [row for row in map(records.__getitem__, range(len(records))) if row.id in wanted]
    with torch.inference_mode():
        found = TransformersSampler(vlm, settings.rollout).sample([prompt_sample(vlm, row) for row in asked], 1, 0)
    for row, (rollout,) in zip(asked, found, strict=True):
        yield row.id, vlm.text_of(rollout.ids)


if __name__ == "__main__":
    sys.exit(main())
