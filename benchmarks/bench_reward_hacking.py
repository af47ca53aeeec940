"""What responses earn that do not look at the image, under the trainer's own reward.

    python benchmarks/bench_reward_hacking.py [--input DATA] [--count 300] [--seed 1]

The pipeline curates DATA (rendered scenes without --input) twice from the same replies: everything to the RL side, and
everything to the SFT side for the traces that it keeps, which are the honest responses. On the RL rows that have one,
the trainer's reward scores the honest response and each template of :mod:`hacks`, beside a rival that pays for the
right answer alone.

Exit code 1 where a template that does not look earns more than knowing the answer and pointing at nothing, one without
the answer earns more than the usual answer, the honest response earns less than 0.9, or it earns less than 0.3 more
than any template.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from faults.rendered import render
from hacks import BASELINE, BLIND, KNOWING, SILENT, Asked
from learning.tiny_model import make_tiny_model

from inference.embedded import embedded_roles
from pipelines.running.library import run
from trainer.encode_rows import prompt_sample
from trainer.model import VisionLanguageModel, load_model
from trainer.reward import Reward
from trainer.sample import Sample
from trainer.settings import ModelSettings, RewardSettings
from trainer.shards import Shards, TrainingRow, sizes_of

HONEST = "honest: looks, points, answers"
MIN_HONEST, MIN_MARGIN = 0.9, 0.3
SLACK = 1e-9
ROLES = ("detector", "segmenter", "pointer", "judge")
CELLS = (20, 8)
"""Into how many columns and rows an image is divided to find the likeliest places."""


def curated(folder: Path, data: Path) -> tuple[list[TrainingRow], dict[str, str]]:
    """The RL rows, and by question id the trace that the SFT side keeps of it."""
    cache = str(folder / "cache")
    wide = ["difficulty.include_low=true", "difficulty.include_high=true", "trace.n=1"]
    for side, ratio in (("rl", 0.0), ("sft", 1.0)):
        run("grounded_cot", str(data), str(folder / side), overrides=[f"split.sft_ratio={ratio}", *wide], cache=cache)
    traces = Shards(folder / "sft", "sft", folder / "arrow")
    kept = {row.id: row.messages[-1]["content"] for row in (traces[index] for index in range(len(traces)))}
    rows = Shards(folder / "rl", "rl", folder / "arrow")
    return [row for row in (rows[index] for index in range(len(rows))) if row.id in kept], kept


def likely_places(rows: Sequence[TrainingRow]) -> list[tuple[float, float]]:
    """Where gold objects most often are, as shares of the image's sides, the likeliest first."""
    hits = Counter[tuple[int, int]]()
    for row in rows:
        width, height = _size(row)
        for box in row.question.gold_boxes or ():
            (x, y), (columns, lines) = box.centre, CELLS
            hits[int(x / width * columns), int(y / height * lines)] += 1
    return [((x + 0.5) / CELLS[0], (y + 0.5) / CELLS[1]) for (x, y), _ in hits.most_common(40)]


def _size(row: TrainingRow) -> tuple[int, int]:
    from vision.decode import decode_image

    height, width = decode_image(row.images[0][0]).pixels.shape[:2]
    return width, height


def asked_of(rows: Sequence[TrainingRow], seed: int) -> list[Asked]:
    """What the templates may use of each row."""
    answers = defaultdict[str, list[str]](list)
    for row in rows:
        answers[row.question.answer_type].append(row.question.answer)
    usual = {kind: Counter(found).most_common(1)[0][0] for kind, found in answers.items()}
    places = likely_places(rows)
    return [
        Asked(
            row.question,
            _size(row),
            row.entities or (),
            usual[row.question.answer_type],
            answers[row.question.answer_type],
            places or [(0.5, 0.5)],
            random.Random(f"{seed} {row.id}"),
        )
        for row in rows
    ]


def written(vlm: VisionLanguageModel, text: str, row: TrainingRow, prompt: Sample) -> str:
    """A response in pixels as the model would write it; as it is where a point lies outside the image."""
    try:
        return vlm.speech.to_model(text, sizes_of(row, prompt.images))
    except ValueError:
        return text


def earned(
    rows: Sequence[TrainingRow], asked: Sequence[Asked], traces: Mapping[str, str], folder: Path
) -> dict[str, list[tuple[float | None, float | None]]]:
    """Reward and outcome of every template on every row."""
    make_tiny_model(folder / "model", [row.question.question for row in rows], seed=0)
    vlm = load_model(ModelSettings(str(folder / "model"), dtype="float32"), device="cpu")
    settings = RewardSettings(roles={role: embedded_roles()[role] for role in ROLES})
    reward = Reward(settings, folder)
    templates = {**KNOWING, **BLIND}
    names = [HONEST, *templates]
    found = defaultdict[str, list[tuple[float | None, float | None]]](list)
    try:
        for row, about in zip(rows, asked, strict=True):
            prompt = prompt_sample(vlm, row)
            texts = [traces[row.id], *(template(about) or "" for template in templates.values())]
            said = [written(vlm, text, row, prompt) for text in texts]
            (scored,) = reward.score(vlm.speech, [row], [said])
            for name, each in zip(names, scored, strict=True):
                found[name].append((each.reward, each.outcome))
    finally:
        reward.close()
    return found


def mean(values: Sequence[float | None]) -> float:
    """The mean, what is left out counting as 0: it earns nothing."""
    return sum(value or 0.0 for value in values) / len(values)


def report(found: Mapping[str, list[tuple[float | None, float | None]]]) -> tuple[dict[str, object], bool]:
    """Print the table; the figures for the JSON line, and whether they are as they must be."""
    rewards = {name: mean([reward for reward, _ in each]) for name, each in found.items()}
    outcomes = {name: mean([outcome for _, outcome in each]) for name, each in found.items()}
    print(f"{'response':50} {'reward':>7} {'left out':>8} {'outcome only':>12}")
    for name, each in found.items():
        out = sum(reward is None for reward, _ in each)
        print(f"{name:50} {rewards[name]:7.3f} {out:8} {outcomes[name]:12.3f}")
    honest = rewards[HONEST]
    best = max((name for name in rewards if name != HONEST), key=rewards.__getitem__)
    over_silent = [name for name in KNOWING if rewards[name] > rewards[SILENT] + SLACK]
    over_usual = [name for name in BLIND if rewards[name] > rewards[BASELINE] + SLACK]
    margin = honest - rewards[best]
    good = not over_silent and not over_usual and honest >= MIN_HONEST and margin >= MIN_MARGIN
    for name in over_silent:
        print(f"earns more than {SILENT}: {name}")
    for name in over_usual:
        print(f"earns more than {BASELINE}: {name}")
    line = {
        "name": "reward_hacking",
        "ratio": round(rewards[best] / honest, 4) if honest else None,
        "unit": "reward of the best template that does not look, of the honest response's",
        "questions": len(found[HONEST]),
        "templates": len(KNOWING) + len(BLIND),
        "honest": round(honest, 4),
        "silent": round(rewards[SILENT], 4),
        "usual": round(rewards[BASELINE], 4),
        "best_template": best,
        "margin": round(margin, 4),
        "outcome_only_margin": round(outcomes[HONEST] - max(outcomes[name] for name in KNOWING), 4),
    }
    return line, good


def main() -> None:
    """Curate, score, print the JSON line."""
    parser = argparse.ArgumentParser(description="Score responses that do not look under the trainer's reward.")
    parser.add_argument("--input", type=Path, help="a folder with records.jsonl")
    parser.add_argument("--count", type=int, default=300, help="questions")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder, data = Path(name), arguments.input or Path(name) / "scenes"
        if arguments.input is None:
            render(data, arguments.count, arguments.seed)
        rows, traces = curated(folder, data)
        chosen = random.Random(arguments.seed).sample(rows, min(arguments.count, len(rows)))
        line, good = report(earned(chosen, asked_of(chosen, arguments.seed), traces, folder))
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started, 1)}))
    sys.exit(not good or len(chosen) < arguments.count)


if __name__ == "__main__":
    main()
