"""The columns of a run, for people: the core ones and those that its stages add."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.columns import columns_added, columns_in_use, kept_columns
from groundtrace.schemas.arrow import CORE, rl_schema, sft_schema
from groundtrace.schemas.columns import Column
from groundtrace.stages.sources import rows
from tests.added import EARLIER_RL

LIGHT = Column("light", pa.float64(), "how light the image is")
PARTS = Column("parts", pa.list_(pa.struct([("name", pa.string())])), "what it is made of")


def write(run: Path, side: str, schema: pa.Schema) -> None:
    (run / side).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([{"id": "q"}], schema), run / side / "train-00000-of-00001.parquet")


def test_core_columns_and_added_ones_with_their_meanings(tmp_path: Path) -> None:
    write(tmp_path, "sft", sft_schema((LIGHT,)))
    write(tmp_path, "rl", rl_schema((LIGHT, PARTS)))
    used = {"sft": frozenset({"id", "answer_type", "verdicts"}), "rl": frozenset({"id", "light", "parts"})}
    found = {each.name: each for each in columns_in_use(tmp_path, used)}
    assert list(found) == ["id", "answer_type", "verdicts", "light", "parts"]
    assert (found["id"].sets, found["verdicts"].sets, found["light"].sets) == ("sft and rl", "sft", "sft and rl")
    assert found["light"].meaning == LIGHT.meaning
    assert found["parts"].kind == "list of struct (name)"
    assert found["answer_type"].meaning.startswith("mcq, ")
    assert found["id"].meaning == CORE["id"].meaning
    assert [each.name for each in columns_added(tmp_path, ("sft", "rl"))] == ["light", "parts"]


def test_the_shards_show_which_columns_were_kept_from_the_input(tmp_path: Path) -> None:
    """The run has no config.toml."""
    write(tmp_path, "sft", sft_schema((LIGHT, *rows.kept_columns(("who", "level")))))
    write(tmp_path, "rl", rl_schema((PARTS, *rows.kept_columns(("who", "level", "seen")))))
    write(tmp_path, "rejected", rl_schema((LIGHT,)))
    assert kept_columns(tmp_path, ["sft", "rl"]) == ["who", "level", "seen"]
    assert kept_columns(tmp_path, ["sft"]) == ["who", "level"]
    assert kept_columns(tmp_path, ["rejected"]) == []


def test_a_run_of_earlier_code_has_a_meaning_for_each_column(tmp_path: Path) -> None:
    write(tmp_path, "rl", EARLIER_RL)
    used = columns_in_use(tmp_path, {"rl": frozenset(EARLIER_RL.names)})
    assert [each.name for each in used] == EARLIER_RL.names
    assert all(each.meaning for each in used)
