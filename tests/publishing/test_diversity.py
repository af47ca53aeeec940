"""Classes are counted in the shards, and what no row has is not shown."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.diversity import MAX_CLASSES, PROPERTIES, Balance, balances, template_sql
from groundtrace.publishing.reading import open_tables
from groundtrace.schemas.run_summary import Counts, RunSummary
from tests.added import EARLIER_RL, EARLIER_SFT

ASKED = {"source": "drawn", "question": "How many dots?", "answer": "3", "answer_type": "numeric"}
Rows = Sequence[Mapping[str, Any]]


def write(folder: Path, sft: Rows = (), rl: Rows = (), without: Sequence[str] = ()) -> Path:
    for name, rows, schema in (("sft", sft, EARLIER_SFT), ("rl", rl, EARLIER_RL)):
        (folder / name).mkdir(parents=True)
        table = pa.Table.from_pylist([{"id": f"{name}{n}", **row} for n, row in enumerate(rows)], schema=schema)
        pq.write_table(table.drop_columns(list(without)), folder / name / "train-00000-of-00001.parquet")
    return folder


def found(folder: Path, sets: Sequence[str] = ("sft", "rl")) -> dict[str, Balance]:
    facts = dict.fromkeys(("recipe", "input", "finished", "revision", "config_sha256"), "x")
    nothing: dict[str, Any] = {name: {} for name in ("stages", "roles", "prompts", "ledger")}
    summary = RunSummary(**facts, **nothing, counts=Counts(0, 0, 0, {}), wall_s=1.0, self_judged=False)
    with open_tables(folder, summary) as tables:
        return {balance.name: balance for balance in balances(folder, tables, sets)}


def classes(balance: Balance) -> list[tuple[str, int, int]]:
    return [(each.label, each.sft, each.rl) for each in balance.classes]


def trace(words: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": "why?"}, {"role": "assistant", "content": " ".join(["so"] * words)}]


def test_what_no_row_has_is_not_shown(tmp_path: Path) -> None:
    shown = found(write(tmp_path / "run", rl=[ASKED]), ["rl"])
    assert set(shown) == {"source", "answer type", "question, words", "gold answer, words", "question template"}
    full = {
        "domain": "stem",
        "complexity": "simple",
        "streams": ["grounded", "textual"],
        "stratum": "easy",
        "boxes_source": "gold",
        "pass_rate": 0.5,
        "images": [{"bytes": b"x", "path": "a.png"}],
    }
    everything = found(write(tmp_path / "full", [ASKED | full | {"messages": trace(3)}], [ASKED | full]))
    added = {"domain", "complexity", "streams", "stratum"}
    assert set(everything) == {each.name for each in PROPERTIES} | added | {"rows with the same image"}
    assert classes(everything["streams"]) == [("grounded and textual", 1, 1)]


def test_no_rows_have_no_properties(tmp_path: Path) -> None:
    assert found(write(tmp_path / "run")) == {}


def test_shards_of_earlier_code_lack_columns(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rl=[ASKED], without=("domain", "complexity_reason", "boxes_source"))
    assert "source" in found(run)
    assert "domain" not in found(run)


def test_rows_and_evenness(tmp_path: Path) -> None:
    kinds = {"sft": ["mcq", "mcq", "numeric", "bool"], "rl": ["numeric"] * 4}
    sft, rl = ([ASKED | {"answer_type": kind} for kind in kinds[side]] for side in ("sft", "rl"))
    balance = found(write(tmp_path / "run", sft, rl))["answer type"]
    assert classes(balance) == [("numeric", 1, 4), ("mcq", 2, 0), ("bool", 1, 0)]
    assert balance.evenness["sft"] == pytest.approx(1.5 * math.log(2) / math.log(3))
    assert balance.evenness["rl"] == 0.0
    alike = found(write(tmp_path / "alike", [ASKED | {"answer_type": kind} for kind in ("mcq", "bool", "text")]))
    assert alike["answer type"].evenness == {"sft": pytest.approx(1.0), "rl": None}
    assert alike["source"].evenness == {"sft": None, "rl": None}, "one class has nothing to spread over"


def test_rows_without_a_value_are_a_class_where_others_have_one(tmp_path: Path) -> None:
    rl = [ASKED | {"pass_rate": rate} for rate in (None, 0.0, 0.25, 0.5, 0.75, 1.0, None)]
    shown = found(write(tmp_path / "run", rl=rl))["pass rate"]
    labels = ["0", "below 0.5", "0.5 and above", "1", "not attempted"]
    assert classes(shown) == [(label, 0, n) for label, n in zip(labels, (1, 1, 2, 1, 2), strict=True)]


def test_a_set_without_a_value_has_no_part_in_a_property(tmp_path: Path) -> None:
    rl = [ASKED | {"domain": name} for name in ("stem", "general", None)]
    shown = found(write(tmp_path / "run", [ASKED, ASKED], rl))["domain"]
    assert sorted(classes(shown)) == [("general", 0, 1), ("none", 0, 1), ("stem", 0, 1)]
    assert shown.evenness == {"sft": None, "rl": pytest.approx(1.0)}


def test_the_name_of_a_column_is_never_sql(tmp_path: Path) -> None:
    name = 'id" || (SELECT 1) || "id'
    run = write(tmp_path / "run", [ASKED])
    [shard] = (run / "sft").iterdir()
    table = pq.read_table(shard).append_column(name, pa.array(["x"]))
    described = json.dumps([{"name": name, "meaning": "", "is_class": True}])
    pq.write_table(table.replace_schema_metadata({"groundtrace.added": described}), shard)
    assert classes(found(run)[name]) == [("x", 1, 0)]


@pytest.mark.parametrize(
    ("words", "label"), [(1, "1–5"), (5, "1–5"), (6, "6–10"), (11, "11–20"), (80, "41–80"), (81, "81 or more")]
)
def test_lengths_are_binned(tmp_path: Path, words: int, label: str) -> None:
    run = write(tmp_path / "run", rl=[ASKED | {"question": "  ".join(["why"] * words)}])
    assert classes(found(run)["question, words"]) == [(label, 0, 1)]


def test_traces_are_those_of_the_sft_rows(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [ASKED | {"messages": trace(n)} for n in (20, 21, 900)], [ASKED])
    assert classes(found(run)["trace, words"]) == [("1–20", 1, 0), ("21–50", 1, 0), ("801 or more", 1, 0)]


def test_the_classes_that_are_not_listed_are_summed(tmp_path: Path) -> None:
    rows = [ASKED | {"source": f"s{n:02}"} for n in range(MAX_CLASSES + 3)] + [ASKED | {"source": "s12"}]
    shown = found(write(tmp_path / "run", rl=rows))["source"]
    assert (len(shown.classes), shown.distinct) == (MAX_CLASSES, MAX_CLASSES + 3)
    assert classes(shown)[0] == ("s12", 0, 2)
    assert shown.others is not None
    assert (shown.others.label, shown.others.rl) == ("3 more", 3)


def test_rows_that_share_an_image(tmp_path: Path) -> None:
    shared, alone = {"bytes": b"x", "path": "a.png"}, {"bytes": b"x", "path": "b.png"}
    rl = [ASKED | {"images": images} for images in ([shared], [shared], [alone, shared], [{**alone, "path": "c.png"}])]
    run = write(tmp_path / "run", [ASKED | {"images": [shared]}], rl)
    assert classes(found(run)["rows with the same image"]) == [("1", 1, 1), ("3–5", 0, 3)], "each set by itself"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How many dots are in panel 3?", "How many dots are in panel 12?", True),
        ("Are there 1,250 or 3.5 of them?", "Are there 7 or 2/3 of them?", True),
        ("Are there two towers?", "Are there eleven  towers?", True),
        ("Did Ann Lee go to Rome?", "Did Bo go to New York?", True),
        ("how many dots?", "How many dots?", True),
        ("How many dots?", "How many boxes?", False),
        ("Is none red?", "Is one red?", False),
        ("Where's Bill O'Hara today?", "Where's Ann today?", True),
    ],
)
def test_templates(one: str, other: str, same: bool) -> None:
    with duckdb.connect(":memory:") as connection:
        made = connection.execute(f"SELECT {template_sql('q')} FROM (SELECT unnest([?, ?]) AS q)", [one, other])
        first, second = (template for (template,) in made.fetchall())
    assert (first == second) is same
