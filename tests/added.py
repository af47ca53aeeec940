"""Schemas for rows of any bundled recipe, and those of run folders that earlier code wrote."""

import pyarrow as pa

from groundtrace.rewards.complexity import COMPLEXITY, COMPLEXITY_REASON
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.rewards.streams import STREAM_PROMPTS, STREAMS
from groundtrace.schemas.arrow import RL_SCHEMA, SFT_SCHEMA, TURN, hub_schema, rl_schema, sft_schema
from groundtrace.stages.answer_with_crops import CROP_ATTEMPTS, CROP_PASS_RATE
from groundtrace.stages.assign_domain import DOMAIN

ADDED = (*(CROP_ATTEMPTS, CROP_PASS_RATE, COMPLEXITY, COMPLEXITY_REASON, DOMAIN, STREAMS, STREAM_PROMPTS, RUBRICS),)
"""The columns that the bundled stages add."""
WHOLE_SFT, WHOLE_RL = sft_schema(ADDED), rl_schema(ADDED)
_MADE_SINCE = ("media_names", "verdicts")
_EARLIER = [
    ("extra_scores", pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))),
    *((column.name, column.type) for column in ADDED),
    ("stratum", pa.string()),
    ("turns", pa.list_(TURN)),
]


def _earlier(schema: pa.Schema) -> pa.Schema:
    core = [(field.name, field.type) for field in schema if field.name not in _MADE_SINCE]
    return hub_schema([*core, *_EARLIER])


EARLIER_SFT, EARLIER_RL = _earlier(SFT_SCHEMA), _earlier(RL_SCHEMA)
"""One superset of columns for every recipe, without a word of which stage added what."""
