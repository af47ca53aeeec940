"""Which rows are published: each row of a run is published, or left out for one reason."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.selection import select_rows
from groundtrace.publishing.hub.sources import strictest

LICENCES = {"open": "mit", "nc": "cc-by-nc-4.0", "closed": "unknown", "none": None}


def write(folder: Path, name: str, sources: list[str]) -> list[Path]:
    """Write a shard whose rows have these sources and the ids ``NAME-0``, ``NAME-1`` and so on."""
    rows = [{"id": f"{name}-{n}", "source": each, "license": LICENCES[each]} for n, each in enumerate(sources)]
    schema = pa.schema([(column, pa.string()) for column in ("id", "source", "license")])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")
    return [folder / f"{name}.parquet"]


def test_each_row_has_one_place(tmp_path: Path) -> None:
    shards = {
        "sft": write(tmp_path, "sft", ["open", "open", "nc", "closed"]),
        "rl": write(tmp_path, "rl", ["open", "closed", "none"]),
        "rejected": write(tmp_path, "rejected", ["open", "open", "closed"]),
    }
    flagged = frozenset({"sft-0", "sft-2", "sft-3", "rl-1", "rejected-1", "rejected-2", "another"})
    found = select_rows(shards, (), flagged)
    assert found.rows == {"sft": 1, "rl": 1, "rejected": 1}
    assert found.flagged == {"sft": 2, "rl": 0, "rejected": 1}, "the flagged rows of a closed source are its own"
    uses = {use.source: (dict(use.rows), use.is_published) for use in found.uses}
    closed = {"closed": ({"sft": 1, "rl": 1}, False), "none": ({"sft": 0, "rl": 1}, False)}
    assert uses == closed | {"open": ({"sft": 1, "rl": 1}, True)}, "no row of nc is left"
    assert [found.rows_of[file] for files in shards.values() for file in files] == [1, 1, 1]
    most = strictest(found.uses)
    assert most and most.licence == "mit"


def test_without_flags_only_the_sources_decide(tmp_path: Path) -> None:
    shards = {"sft": write(tmp_path, "sft", ["open", "nc", "closed"]), "rl": write(tmp_path, "rl", ["open"])}
    found = select_rows(shards, ["closed"])
    assert (found.rows, found.flagged) == ({"sft": 3, "rl": 1}, {"sft": 0, "rl": 0})


REFUSED = [
    (["closed"], {"sft-0"}, 'no row may be published: the licence of closed is "unknown", which does not state'),
    (["none"], {"sft-0"}, "no row may be published: the rows of none name no licence: set input.constants.license"),
    (["open", "closed"], {"sft-0"}, "no row is left to publish, because the records of 1 SFT row are flagged"),
    ([], set(), "the run has no rows to publish: choose a run that kept rows"),
]


@pytest.mark.parametrize(("sources", "flagged", "said"), REFUSED)
def test_no_row_is_left(sources: list[str], flagged: set[str], said: str, tmp_path: Path) -> None:
    shards = {"sft": write(tmp_path, "sft", sources), "rejected": write(tmp_path, "rejected", ["open"])}
    with pytest.raises(PublishError, match=said):
        select_rows(shards, (), frozenset(flagged))
