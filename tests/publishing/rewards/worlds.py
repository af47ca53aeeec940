"""Runs of four papers' recipes with responses to their rows, as a model of either family writes them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.config.settings import to_toml
from groundtrace.grading.responses.speech import Speech
from groundtrace.publishing.rewards.reference import RowReference
from groundtrace.publishing.rewards.settings import RemoteRewardSettings, SpeechSettings
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.rows.reward import Reward, Scored
from groundtrace.rewards.rows.row import TrainingRow, per_stream
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.rewards.rubrics import PLACE
from groundtrace.rewards.rubrics import RUBRICS as COLUMN
from groundtrace.vision.decode import decode_image
from tests.added import WHOLE_RL

from ...trainer.paper_rows import IDS, JUDGED, RUBRICS, boxed, drafts, ivgr_drafts, rows_of, sail_rl_drafts, worded
from ...trainer.runs import SAMPLE, judged_by, rl_row

NOTHING = json.dumps({"reason": "never asked"})


@dataclass(frozen=True)
class World:
    """A recipe with its rows, the responses in pixels by id and stream, and what its judge says."""

    recipe: str
    rows: Sequence[Mapping[str, Any]]
    texts: Mapping[tuple[str, str], Sequence[str]]
    judge: str = NOTHING
    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, base_url: str) -> RewardSettings:
        """The reward; argos has the embedded detector and segmenter."""
        if self.recipe == "argos":
            return RewardSettings(wait_s=0.0)
        return replace(judged_by(base_url, wait_s=0.0), recipe=self.recipe, options=self.options)

    def write(self, run: Path) -> Path:
        """The rows as the RL shards of a run."""
        (run / "rl").mkdir(parents=True)
        table = pa.Table.from_pylist([dict(row) for row in self.rows], WHOLE_RL)
        pq.write_table(table, run / "rl" / "train-00000-of-00001.parquet")
        return run

    def asked(self, run: Path, cache: Path) -> list[TrainingRow]:
        """The prompts of all rows, as our own trainer has them."""
        shards = Shards(run, "rl", cache)
        return [each for index in range(len(shards)) for each in per_stream(shards[index])]


@dataclass(frozen=True)
class Written:
    """A world on the disk, with its responses as a model wrote them."""

    world: World
    run: Path
    config: Path
    prompts: Sequence[TrainingRow]
    said: Sequence[Sequence[str]]
    references: Sequence[RowReference]
    settings: RewardSettings
    speech: Speech

    @property
    def items(self) -> list[tuple[str, str]]:
        """Each response with the text of its row's reference, in the order of the prompts."""
        pairs = zip(self.references, self.said, strict=True)
        return [(reference.text(), text) for reference, texts in pairs for text in texts]

    def by_trainer(self, folder: Path, steps: int = 1) -> list[list[Scored]]:
        """The scores that our own trainer gives to the responses of each step, in the order of the items."""
        reward, found = Reward(self.settings, folder), []
        try:
            for _ in range(steps):
                scored = reward.score(self.speech, self.prompts, self.said)
                reward.learn(zip(self.prompts, scored, strict=True))
                found.append([each for group in scored for each in group])
        finally:
            reward.close()
        return found


def written(world: World, family: str, speech: Speech, bounds: SpeechSettings, base_url: str, home: Path) -> Written:
    """The world on the disk. ``speech`` is that of the trainer's model, ``bounds`` what the config says of it."""
    run = world.write(home / "run")
    settings = world.settings(base_url)
    config = home / "reward.toml"
    config.write_text(to_toml(RemoteRewardSettings(settings, bounds, folder=str(home / "kept"))), "utf-8")
    prompts = world.asked(run, home / "rows")
    said, references = [], []
    for row in prompts:
        stream = row.context.stream or ""
        decoded = [decode_image(data) for data, _ in row.images]
        sizes = [(image.width, image.height) for image in decoded]
        said.append([speech.to_model(text, sizes) for text in world.texts[row.id, stream]])
        references.append(RowReference(row.id, row.question.answer, str(run), family, stream))
    return Written(world, run, config, prompts, said, references, settings, speech)


def sample_lines(count: int) -> list[dict[str, Any]]:
    """The first records of the sample data that have boxes."""
    lines = map(json.loads, (SAMPLE / "records.jsonl").read_text("utf-8").splitlines())
    return [line for line in lines if line["boxes"]][:count]


def _boxes_of(line: Mapping[str, Any]) -> list[tuple[str, tuple[float, float, float, float]]]:
    return [(box["label"], tuple(box["bbox"])) for box in line["boxes"]]


def argos(count: int = 8) -> World:
    """Questions of the sample data with responses that point right, off, nowhere and at nothing."""
    texts = {}
    for line in sample_lines(count):
        at = {label: ((x1 + x2) / 2, (y1 + y2) / 2) for label, (x1, y1, x2, y2) in _boxes_of(line)}
        tags = [f'<points x1="{x:g}" y1="{y:g}" alt="{label}">{label}</points>' for label, (x, y) in at.items()]
        off = [f'<points x1="1" y1="1" alt="{label}">{label}</points>' for label in at]
        said = "<think>I see {}.</think> <answer>{}</answer>"
        texts[line["id"], ""] = [
            said.format(", ".join(tags), line["answer"]),
            said.format(", ".join(off), line["answer"]),
            said.format(", ".join([*tags[:1], *off[1:]]), line["answer"]),
            said.format("nothing", line["answer"]),
            said.format(", ".join(tags), "no idea"),
            "",
        ]
    return World("argos", [rl_row(line) for line in sample_lines(count)], texts)


def sail_rl() -> World:
    """Right and wrong answers, thought about or not."""
    texts = {}
    for draft in sail_rl_drafts():
        answer = draft.question.answer
        right = JUDGED.format("It is said.", "" if draft.added(COMPLEXITY) == "simple" else "I count each.", answer)
        texts[draft.id, ""] = [right, right.replace(answer, "17"), right.replace("</judge>", ""), "17"]
    judge = json.dumps({"reason": "so it says", "decision": "direct"})
    return World("sail_rl", rows_of(sail_rl_drafts(), "rl", "judge_think_answer"), texts, judge)


def ivgr() -> World:
    """Answers in both streams."""
    texts = {
        (draft.id, stream): [say(draft), say(draft, "17")]
        for draft in ivgr_drafts()
        for stream, say in (("grounded", boxed), ("textual", worded))
    }
    judge = json.dumps({"reason": "the same", "verdict": "identical"})
    return World("ivgr", rows_of(ivgr_drafts(), "rl", "dual_stream"), texts, judge)


def rucl() -> World:
    """Answers that meet the easy rubric: the hard one counts from the second step."""
    found = [draft.with_added(COLUMN, RUBRICS) for draft in drafts(*IDS)]
    met = {"applicable": True, "rationale": "seen"}
    judge = json.dumps(
        {"scores": [{"id": each, **met, "score": score} for each, score in (("e", 1), ("h", 0), (PLACE.id, 1))]}
    )
    texts = {(draft.id, ""): [worded(draft), worded(draft, "17")] for draft in found}
    options = {"ramp_steps": 2, "window": 1, "growth": "linear", "tau": 0.9}
    return World("rucl", rows_of(found, "rl", "rubric_curriculum"), texts, judge, options)


WORLDS: dict[str, Callable[[], World]] = {"argos": argos, "sail_rl": sail_rl, "ivgr": ivgr, "rucl": rucl}
