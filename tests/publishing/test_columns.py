from publishing.columns import COLUMNS
from schemas.arrow import rl_schema, sft_schema


def test_every_column_is_explained() -> None:
    assert set(COLUMNS) == {
        *sft_schema(extra_scores=True, other_traces=True).names,
        *rl_schema(extra_scores=True).names,
    }
