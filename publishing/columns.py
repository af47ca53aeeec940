"""The columns of the shards, for people: what each means, and which of them a run uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from publishing.figures import columns_of
from schemas.answers.registry import ANSWER_TYPES
from schemas.text import alternatives

COLUMNS: Mapping[str, str] = {
    "id": "the record's id in the input",
    "source": "where the record comes from, as the input says",
    "license": "its licence, as the input says",
    "recipe": "the pipeline that made the row",
    "images": "the original files, bytes always set",
    "overlays": "what was drawn of the images: marks that the teacher saw, or crops; not needed for training",
    "frames": "of each image of a clip: medium, frame number among those sampled, seconds; null without clips",
    "question": "the question, without the form of the answer",
    "answer": "the gold answer",
    "answer_type": "{answer_types}",
    "choices": "the choices of a multiple-choice question",
    "points": "the points of the kept trace, in pixels of the upright original",
    "boxes": "the boxes of the kept trace, in pixels of the upright original",
    "gold_boxes": "the boxes that responses are held against, in pixels of the upright original; kept from the models",
    "boxes_source": "where they come from: gold is the input's own, detector what a detector found where it has none",
    "scores": "the verdicts on the kept trace, 0 to 1; null is unscored",
    "extra_scores": "the verdicts of further scorers, likewise",
    "other_traces": "the traces that were not chosen, with answer, score and verdicts",
    "entities": "the visible things that an answer speaks of, as the teacher named them",
    "pointable": "those of them that the pointer found: a grounded answer has to point",
    "pass_rate": "share of the scored attempts that are right",
    "k": "how many attempts were scored",
    "attempts": "the policy's sampled answers; correct is null where one could not be graded",
    "crop_attempts": "likewise, with crops of what the policy boxed beside the images",
    "crop_pass_rate": "share of the scored ones among these that are right",
    "complexity": "whether the question is to be answered directly (simple) or to be thought about (complex)",
    "complexity_reason": "why, as the judge said",
    "domain": "the class by which the recipe mixes questions",
    "streams": "the streams in which the question is asked",
    "stream_prompts": "the user's turn of each of these streams",
    "rubrics": "the criteria mined for the run, with applicability, pass rate and stratum",
    "stratum": "easy or hard, where the recipe sorts questions",
    "turns": "the turns of a trajectory",
    "lineage": "prompts, models, code revision and the keys of the replies that made the row",
    "messages": "the conversation to train on: the user's turn and the kept trace",
    "prompt": "the user's turn, with one <image> for each image (verl)",
    "data_source": "the source again (verl)",
    "ability": "the answer type again (verl)",
    "reward_model": "the kind of reward and the gold answer (verl)",
    "extra_info": "id and split (verl)",
    "problem": "the user's turn as text (EasyR1)",
}


@dataclass(frozen=True)
class Column:
    """A column of the shards that some row uses, and in which sets it stands."""

    name: str
    kind: str
    sets: str
    meaning: str


def columns_in_use(staging: Path, used: Mapping[str, frozenset[str]]) -> list[Column]:
    """The columns that some row of a set uses, by the names ``used`` in each set; in the order of the shards."""
    schemas = {side: columns_of(staging, side) for side in used}
    columns = []
    for name in dict.fromkeys(name for schema in schemas.values() for name in schema.names):
        sets = [side for side, schema in schemas.items() if name in schema.names]
        if any(name in used[side] for side in sets):
            meaning = COLUMNS[name].format(answer_types=alternatives(tuple(ANSWER_TYPES)))
            kind = _kind(schemas[sets[0]].field(name).type)
            columns.append(Column(name, kind, " and ".join(sets), meaning))
    return columns


def _kind(kind: pa.DataType) -> str:
    """An Arrow type in a few words."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return str(kind)
