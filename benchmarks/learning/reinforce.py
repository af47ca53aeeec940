"""Measures whether GRPO gains with the reward of Argos: over its start, a control, and a policy that never looks.

    python benchmarks/learning/reinforce.py                 # seed 0: all arms; hours on 2 cores
    python benchmarks/learning/reinforce.py --seeds 0 1 2   # three seeds
    python benchmarks/learning/reinforce.py --steps 50      # a third of the steps, which need no RL rows of their own
    python benchmarks/learning/reinforce.py --short         # the same, two arms and fewer questions (in `make learn`)
    python benchmarks/learning/reinforce.py --tune          # the settings that were tried before
    python benchmarks/learning/reinforce_report.py          # the tables of the results that are kept

The start is a model of 1.7 million weights after supervised fine-tuning on a run's SFT rows. From it, all arms are
trained for the same number of steps, with new questions in each step:

    GRPO                 the reward of Argos: a right answer earns more if it points at the objects
    advantages shuffled  the same rewards, but assigned to the responses of a step at random
    answer only          the reward is the answer alone (the form is checked in all arms)
    points only          the reward is the pointing alone, whether the answer is right or wrong
    SFT                  more supervised fine-tuning instead, on the same rows as the start (--arms SFT)
    GRPO after SFT       GRPO from the model of the arm SFT (--arms "GRPO after SFT")

Every model answers the held-out questions once sampled at temperature 1 and once greedily. A result that exists is not
computed again: models are kept under a hash of their settings, rows and start. The counts by scene go to ``results/``,
from which ``reinforce_report.py`` makes the tables and the figure.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.learning import prepared  # noqa: E402
from benchmarks.learning.held import Counts, counts, estimate, read_held, sums_of  # noqa: E402
from benchmarks.learning.kept import Kept, curves_of, keep, read_kept  # noqa: E402
from benchmarks.learning.never_looks import NeverLooks  # noqa: E402
from benchmarks.learning.reinforce_report import (  # noqa: E402
    AFTER,
    ANSWER,
    GRPO,
    NEVER,
    POINTS,
    SFT,
    SHUFFLED,
    START,
    TUNING,
    headline,
    print_report,
    print_tuning,
)
from benchmarks.learning.training import EXAMS, Learnt, Trainings, in_parallel, texts_of  # noqa: E402
from benchmarks.learning.tuning import TRIED, Tried  # noqa: E402

TRAIN_SCENES, RL_SCENES, HELD_SCENES = 2200, 2800, 1050
SFT_STEPS = 400
ABOVE_BLIND = 0.10
"""GRPO starts only from a model that has this many more right answers than a policy that never looks."""
STEPS, SHORT_STEPS, SHORT_QUESTIONS = 150, 50, 750
"""For at most ``SHORT_STEPS`` steps, the RL rows of the run that also gives the SFT rows are enough."""
ARMS: dict[str, tuple[str, ...]] = {
    GRPO: (),
    SHUFFLED: ("grpo.shuffle_advantages=true",),
    ANSWER: ("reward.options.weights.spatial=0.0",),
    POINTS: ('reward.recipe="benchmarks.learning.points_only:PointsOnly"',),
}
"""The settings of each arm of GRPO that differ from ``grpo.toml``."""


def main() -> int:
    """Run the unfinished parts of the experiment, and print its tables; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument(
        "--results", type=Path, help="the folder of the kept results; left out: results/ beside this file"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=[*ARMS, SFT, AFTER])
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of GRPO")
    parser.add_argument("--jobs", type=int, default=2, help="parallel trainings, each on one thread")
    parser.add_argument("--short", action="store_true", help="two arms of 50 steps, on 750 held-out questions")
    parser.add_argument("--tune", action="store_true", help="only run the settings that were tried, and list them")
    chosen = parser.parse_args()
    if chosen.short:
        chosen.steps, chosen.arms = SHORT_STEPS, [GRPO, SHUFFLED]
    name = f"steps-{chosen.steps}"
    results = chosen.results or (chosen.output / "short" if chosen.short else HERE / "results" / name)
    started = time.perf_counter()
    questions = SHORT_QUESTIONS if chosen.short else 0
    experiment = Experiment(chosen.output.resolve(), results, chosen.steps, questions)
    if chosen.tune:
        experiment.tune(chosen.jobs)
        print_tuning()
    else:
        experiment.keep_never_looks()
        in_parallel([partial(experiment.start, seed) for seed in chosen.seeds], chosen.jobs)
        experiment.refuse_blind_starts(chosen.seeds)
        experiment.rl()  # made before the arms, which run in parallel
        in_parallel([partial(experiment.arm, arm, seed) for seed in chosen.seeds for arm in chosen.arms], chosen.jobs)
        print_report(results)
    line = {"name": "reinforce", **headline(results), "wall_s": round(time.perf_counter() - started)}
    print(json.dumps(line))
    return 0


class Experiment:
    """Trains and examines the start and the arms of each seed, and keeps their results."""

    def __init__(self, output: Path, results: Path, steps: int, questions: int) -> None:
        """Make the data that all parts need, if it is missing.

        ``steps`` are those of GRPO, and ``questions`` is the number of held-out questions (0: all).
        """
        self._output, self._trainings, self._results = output, Trainings(output), results
        self._steps, self._questions = steps, questions
        self._train = prepared.scenes(output, "train", TRAIN_SCENES, prepared.TRAIN_SEED)
        self._sft = prepared.curated(output, self._train)
        self._held = prepared.scenes(output, "held", HELD_SCENES, prepared.HELD_SEED)
        self._texts = texts_of(self._sft)

    def rl(self) -> Path:
        """Return the run whose RL rows the arms are trained on: enough rows that no question is asked twice.

        The run is made if it is missing.
        """
        return self._sft if self._steps <= SHORT_STEPS else prepared.curated(self._output, self._more, sft_share=0)

    @property
    def _more(self) -> Path:
        return prepared.scenes(self._output, "rl", RL_SCENES, prepared.RL_SEED)

    def keep_never_looks(self) -> None:
        """Keep the result of the policy that never looks; it has read the questions on all training scenes."""
        policy = NeverLooks([record for folder in (self._train, self._more) for record in read_held(folder).values()])
        found = policy.counts(read_held(self._held), self._questions)
        keep(self._results, Kept(NEVER, 0, "", (), 0, dict.fromkeys(EXAMS, found), {}))

    def start(self, seed: int) -> None:
        """Train and examine the model from which the arms of a seed start."""
        self._done(START, self._start(seed))

    def _start(self, seed: int) -> Learnt:
        untrained = self._trainings.make_untrained(seed, self._texts)
        return self._trainings.learnt("sft", seed, self._sft, untrained, f"sft.steps={SFT_STEPS}")

    def refuse_blind_starts(self, seeds: Sequence[int]) -> None:
        """Raise SystemExit if a start has too few right answers: a gain from there need not come from looking."""
        kept = {(each.name, each.seed): each for each in read_kept(self._results)}
        least = _accuracy(kept[NEVER, 0]) + ABOVE_BLIND
        for seed in seeds:
            if (found := _accuracy(kept[START, seed])) <= least:
                text = (
                    f"seed {seed}: {found:.3f} of the start's answers are right, but more than {least:.3f} are needed"
                )
                raise SystemExit(text)

    def arm(self, name: str, seed: int) -> None:
        """Train and examine an arm."""
        self._done(name, self._arm(name, seed))

    def _arm(self, name: str, seed: int) -> Learnt:
        start = self._start(seed)
        if name in (SFT, AFTER):
            start = self._trainings.learnt("sft", seed, self._sft, start, f"sft.steps={SFT_STEPS}")
        if name == SFT:
            return start
        return self._trainings.learnt("grpo", seed, self.rl(), start, f"grpo.steps={self._steps}", *ARMS.get(name, ()))

    def tune(self, jobs: int) -> None:
        """Train with each of the settings that were tried, with seed 0, and keep the metrics of their steps.

        The RL rows are those of the run that also gives the SFT rows. No question is asked twice, so the metrics of a
        step are those of a policy on new questions, and all trials have the same questions in the same order.
        """
        self._trainings.train(self._start(0))
        in_parallel([partial(self._try, tried) for tried in TRIED], jobs)

    def _try(self, tried: Tried) -> None:
        settings = (f"grpo.steps={SHORT_STEPS}", *tried.settings)
        model = self._trainings.learnt("grpo", 0, self._sft, self._start(0), *settings)
        self._trainings.train(model)
        keep(TUNING, self._kept(tried.name, model, {}))
        print(f"done: {tried.name}", flush=True)

    def _kept(self, name: str, model: Learnt, exams: Mapping[str, Counts]) -> Kept:
        metrics = self._trainings.folder(model) / "trained" / "metrics.jsonl"
        curves = curves_of(metrics) if model.does == "grpo" else {}
        seconds = json.loads(self._trainings.clock(model).read_text("utf-8"))
        return Kept(name, model.seed, model.key, model.settings, seconds, exams, curves)

    def _done(self, name: str, model: Learnt) -> None:
        """Train and examine a model, and keep its result under a name."""
        self._trainings.train(model)
        records, setting = read_held(self._held), f"eval.questions={self._questions}"
        exams = {how: counts(self._trainings.examine(model, self._held, how, setting), records) for how in EXAMS}
        keep(self._results, self._kept(name, model, exams))
        print(f"done: {name}, seed {model.seed}: {self._trainings.weights(model)}", flush=True)


def _accuracy(kept: Kept) -> float:
    return estimate([sums_of(kept.exams["sampled"])])["accuracy"][0]


if __name__ == "__main__":
    sys.exit(main())
