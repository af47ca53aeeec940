"""The rows of a run as a view filters, sorts and counts them, held against DuckDB over the shards."""

import os
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import InspectError, open_tables, read_summary
from groundtrace.publishing.view.filters import Filters, read_filters
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.opened_run import RunChanged
from groundtrace.publishing.view.other_run import compare
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.reviews import Mark
from groundtrace.publishing.view.row_columns import MAX_SEARCHED_CHARS, MAX_SHOWN_CHARS
from groundtrace.publishing.view.rows import BINS, Bins, ViewedRows
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.vision.media import MediaStore

from .viewed import sft_row, write_run


def filtered(rows: ViewedRows, *items: tuple[str, str]) -> Filters:
    return read_filters(items, rows.dimensions)


def test_every_record_of_the_run_is_a_row_once(run: Path, rows: ViewedRows) -> None:
    summary = read_summary(run)
    with open_tables(run, summary) as tables:
        ids = {
            name: {each for (each,) in tables.execute(f"SELECT id FROM {name}").fetchall()}
            for name in ("sft", "rl", "rejected")
        }
    assert len(rows) == summary.counts.input == sum(map(len, ids.values()))
    total, page = rows.page(Filters(), 0, len(rows))
    assert total == len(rows) and [row["n"] for row in page] == list(range(total))
    assert {name: {row["id"] for row in page if row["set"] == name} for name in ids} == ids


def test_filters_and_orders_give_what_the_shards_hold(run: Path, rows: ViewedRows) -> None:
    with open_tables(run, read_summary(run)) as tables:
        query = "SELECT id FROM rejected WHERE pass_rate >= 0.5 AND answer_type = 'numeric' AND question ILIKE '%BLUE%'"
        expected = {each for (each,) in tables.execute(query).fetchall()}
    filters = filtered(
        rows, ("set", "rejected"), ("pass_rate", "0.5.."), ("answer_type", "numeric"), ("q", "BLUE"), ("sort", "-k")
    )
    found = {each["id"] for each in rows.page(filters, 0, 1000)[1] if "blue" in each["question"].lower()}
    assert found == expected and expected
    ordered = [row["pass_rate"] for row in rows.page(filtered(rows, ("sort", "-pass_rate")), 0, 1000)[1]]
    assert ordered == sorted(ordered, reverse=True)


def test_a_search_finds_the_names_of_media(run: Path, rows: ViewedRows) -> None:
    with open_tables(run, read_summary(run)) as tables:
        name, count = tables.execute(
            "SELECT m, count(*) FROM (SELECT unnest(media_names) AS m FROM rejected) GROUP BY m ORDER BY m LIMIT 1"
        ).fetchall()[0]
    assert rows.page(filtered(rows, ("set", "rejected"), ("q", name.upper())), 0, 1000)[0] == count > 0


def test_a_search_finds_the_line_of_the_input(run: Path, rows: ViewedRows) -> None:
    with open_tables(run, read_summary(run)) as tables:
        query = "SELECT id FROM rejected WHERE input_row LIKE 'records.jsonl, line 7%'"
        expected = [name for (name,) in tables.execute(query).fetchall()]
    found = rows.page(filtered(rows, ("q", "Records.jsonl, line 7")), 0, 1000)[1]
    assert sorted(row["id"] for row in found) == sorted(expected) and expected


def test_a_page_and_its_ids_and_neighbours_have_one_order(rows: ViewedRows) -> None:
    filters = filtered(rows, ("set", "sft"), ("sort", "-trace characters"))
    total, all_rows = rows.page(filters, 0, 1000)
    ids = rows.ids(filters)
    assert [row["id"] for row in all_rows] == ids and len(ids) == total
    assert [row["id"] for row in rows.page(filters, 5, 3)[1]] == ids[5:8]
    for position, row in enumerate(all_rows, 1):
        before = ids[position - 2] if position > 1 else None
        after = ids[position] if position < total else None
        assert rows.neighbours(filters, row["n"]) == (position, total, before, after)
    outside = rows.number_of(rows.ids(filtered(rows, ("set", "rl")))[0])
    assert outside is not None and rows.neighbours(filters, outside) == (None, total, None, None)


def test_counts_of_each_dimension_sum_to_the_filtered_rows(rows: ViewedRows) -> None:
    filters = filtered(rows, ("set", "rejected"))
    total, _ = rows.page(filters, 0, 0)
    counts = rows.counts(filters)
    for name, found in counts.items():
        if isinstance(found, Bins):
            assert len(found.rows) == BINS and sum(found.rows) + found.missing == total, name
        elif name != "set":
            assert sum(number for _, number in found) == total, name
    sets = counts["set"]
    assert isinstance(sets, list) and sum(number for _, number in sets) == len(rows)


def test_scores_without_a_value_are_missing_and_not_zero(rows: ViewedRows) -> None:
    final = rows.counts(filtered(rows, ("set", "rejected")))["score final"]
    assert (
        isinstance(final, Bins)
        and sum(final.rows) == 0
        and final.missing == rows.page(filtered(rows, ("set", "rejected")), 0, 0)[0]
    )


def test_the_best_trace_of_a_rejected_record_has_its_scores(run: Path, tmp_path: Path) -> None:
    def trace(score: float | None, spatial: float | None) -> dict[str, object]:
        verdict = {"name": "spatial", "value": spatial, "failed": False, "reason": ""}
        return {"text": f"<answer>{score}</answer>", "answer": "1", "score": score, "verdicts": [verdict]}

    rejected = {"stage": "verify", "reason": "low_grounding", "question": "Where?", "media": []}
    rows_of = {
        "several": [trace(0.2, 0.1), trace(0.7, 0.6), trace(None, 0.9)],
        "unscored": [trace(None, 0.4)],
        "none": [],
    }
    made = [{"id": name, "traces": traces, **rejected} for name, traces in rows_of.items()]
    folder = write_run(tmp_path / "run", run, {"rejected": made})
    found = ViewedRows(folder).page(Filters(), 0, 10)[1]
    scores = {row["id"]: (row["score final"], row["score spatial"], row["trace characters"]) for row in found}
    assert scores == {"several": (0.7, 0.6, 20.0), "unscored": (None, 0.4, 21.0), "none": (None, None, None)}


def test_hostile_names_and_texts_are_only_values(run: Path, tmp_path: Path) -> None:
    hostile = "'; DROP TABLE rows; --\" \x00 ? %"
    made = [sft_row(hostile, source=hostile), sft_row("plain", source="plain")]
    folder = write_run(tmp_path / "run", run, {"sft": made})
    rows = ViewedRows(folder)
    assert rows.ids(filtered(rows, ("source", hostile), ("q", "DROP table"))) == [hostile]
    assert rows.number_of(hostile) is not None and len(rows) == 2


def test_a_column_of_the_user_may_have_the_name_filename(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("one"), sft_row("two")]})
    [file] = (folder / "sft").iterdir()
    pq.write_table(pq.read_table(file).append_column("filename", pa.array(["a.csv", "b.csv"])), file)
    rows = ViewedRows(folder)
    assert rows.ids(filtered(rows, ("filename", "b.csv"))) == ["two"]
    found = rows.place_of(rows.number_of("two") or 0)
    assert found is not None and found.file == file


def test_marks_can_be_filtered_by(run: Path) -> None:
    rows = ViewedRows(run)
    first, second, *_ = rows.ids(Filters())
    rows.mark([Mark(first, flagged=True, tags=("odd",)), Mark(second, tags=("odd", "dark"), note="The Label hides it")])
    assert rows.ids(filtered(rows, ("flagged", "true"))) == [first]
    assert rows.ids(filtered(rows, ("tags", "odd, dark"))) == [second]
    assert rows.ids(filtered(rows, ("has a note", "true"))) == [second]
    assert rows.ids(filtered(rows, ("q", "label HIDES"))) == [second]
    assert rows.ids(filtered(rows, ("q", "odd"), ("flagged", "true"))) == [first]
    rows.mark([Mark(second, tags=("odd",))])
    assert rows.ids(filtered(rows, ("q", "label hides"))) == rows.ids(filtered(rows, ("has a note", "true"))) == []


def test_the_range_of_a_bar_has_the_rows_that_the_bar_counts(run: Path, tmp_path: Path) -> None:
    values = [*range(1_700_000_000, 1_700_000_101), 1_700_000_040, None, 1_700_000_003]
    kept = [sft_row(f"row-{n}", k=value, pass_rate=n / 100) for n, value in enumerate(values)]
    rows = ViewedRows(write_run(tmp_path / "run", run, {"sft": kept}))
    for name in ("k", "pass_rate"):
        bins = rows.counts(Filters())[name]
        assert isinstance(bins, Bins) and sum(bins.rows) + bins.missing == len(values)
        for count, span in zip(bins.rows, bins.spans, strict=True):
            assert count == (0 if span is None else len(rows.ids(filtered(rows, (name, f"{span[0]!r}..{span[1]!r}")))))
    rows.close()


def test_many_marks_are_set_at_once(run: Path, tmp_path: Path) -> None:
    ids = [f"row-{n}" for n in range(20_000)]
    folder = write_run(tmp_path / "run", run, {"rejected": [{"id": each} for each in ids]})
    rows = ViewedRows(folder)
    assert list(rows.seen([*ids, "none"])) == ids
    rows.mark([*(Mark(each, flagged=True) for each in ids), Mark("row-1", tags=("last",)), Mark("none", flagged=True)])
    assert rows.ids(filtered(rows, ("flagged", "true"))) == [ids[0], *ids[2:]]
    assert rows.ids(filtered(rows, ("q", "LAST"))) == ["row-1"]
    rows.close()


def test_the_points_of_the_shown_trace_are_counted(run: Path, rows: ViewedRows, tmp_path: Path) -> None:
    images, counts = RowImages(MediaStore("", str(run), cache_bytes=0)), Counter[float | None]()
    for row in rows.page(Filters(), 0, len(rows))[1]:
        place = rows.place_of(row["n"])
        assert place is not None
        traces = record_of(place, images)["traces"]
        drawn = sum(mark["kind"] == "point" for mark in traces[0]["marks"]) if traces else None
        assert row["trace points"] == drawn, row["id"]
        counts[drawn] += 1
    assert counts[None] and counts[0] and sum(count for points, count in counts.items() if points)
    point = '<point x="{n}" y="1" alt="cat">cat</point>'
    texts = (point.format(n=1), point.format(n=2) * 2, '<points x1="1" y1="2" x2="3" alt="cat">cats</points> x2="3"')
    traces = [{"text": text, "score": score} for text, score in zip(texts, (0.1, 0.9, None), strict=True)]
    rejected = [{"id": f"r{n}", "stage": "s", "reason": "r", "traces": traces[n:]} for n in range(4)]
    opened = ViewedRows(write_run(tmp_path / "run", run, {"rejected": rejected}))
    found = opened.page(Filters(), 0, 10)[1]
    assert [row["trace points"] for row in found] == [2, 2, 1, None]
    assert [row["trace characters"] for row in found] == [len(texts[1]), len(texts[1]), len(texts[2]), None]
    assert opened.ids(filtered(opened, ("trace points", "2"))) == ["r0", "r1"]
    opened.close()


def test_a_row_says_if_it_has_an_image(run: Path, tmp_path: Path) -> None:
    about = {"stage": "s", "reason": "r"}
    media = [None, [], [{"uri": "input:a.png", "sha256": "", "width": 4, "height": 3}]]
    rejected = [about | {"id": f"r{n}", "media": each} for n, each in enumerate(media)]
    opened = ViewedRows(write_run(tmp_path / "run", run, {"sft": [sft_row("a")], "rejected": rejected}))
    assert [row["has image"] for row in opened.page(Filters(), 0, 10)[1]] == [True, False, False, True]
    opened.close()


def test_a_run_without_rows_has_an_empty_view(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {})
    rows = ViewedRows(folder)
    assert len(rows) == 0 and rows.page(Filters(), 0, 10) == (0, [])
    assert rows.counts(Filters()).keys() == {each.name for each in rows.dimensions}


def test_a_run_that_is_replaced_while_its_rows_are_read_is_noticed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("a")]})
    write_run(tmp_path / "later", run, {"sft": [sft_row("b")]})

    def replaced(run: Path) -> RunSummary:
        found = read_summary(run)
        folder.rename(tmp_path / "earlier")
        (tmp_path / "later").rename(folder)
        return found

    monkeypatch.setattr("groundtrace.publishing.view.rows.read_summary", replaced)
    rows = ViewedRows(folder)
    with pytest.raises(RunChanged, match="was changed after `beam view` had read it"):
        rows.check_run()
    rows.close()


def test_a_pipe_in_place_of_the_summary_is_not_waited_for(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("a")]})
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    with pytest.raises(UnsafeFile, match="is not a regular file, but a pipe"):
        ViewedRows(folder)


def test_a_damaged_shard_is_one_line(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("a")]})
    file = folder / "sft/train-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(InspectError, match="repeat the run") as caught:
        ViewedRows(folder)
    assert "\n" not in str(caught.value)


KEPT_NAMES = (
    "Set",
    "Score Final",
    "flagged",
    "TAGS",
    "Has a Note",
    "words of the mark",
    "words",
    "N",
    "In The Other Run",
    "set (2)",
    "q",
    "Sort",
    "token",
    "-x",
    "mine",
)


def test_columns_of_the_user_never_replace_those_of_the_view(run: Path, tmp_path: Path) -> None:
    """DuckDB does not tell names apart that differ only in upper and lower case."""
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("one", scores={"final": 0.5})], "rejected": []})
    file = folder / "sft/train-00000-of-00001.parquet"
    table = pq.read_table(file)
    for name in KEPT_NAMES:
        described = {b"added": b"here", b"description": b"kept"}
        table = table.append_column(pa.field(name, pa.string(), metadata=described), pa.array([f"own {name}"]))
    pq.write_table(table, file)
    rows, other = (ViewedRows(folder) for _ in range(2))
    compare(rows, folder, other)
    rows.mark([Mark("one", flagged=True, tags=("odd",), note="look")])
    (row,) = rows.page(Filters(), 0, 5)[1]
    assert (row["set"], row["score final"], row["flagged"], row["tags"]) == ("sft", 0.5, True, "odd")
    assert row["has a note"] is True and rows.ids(filtered(rows, ("q", "look"))) == ["one"]
    assert (row["in the other run"], row["change of the final score"]) == ("sft", 0.0)
    own = {value: name for name, value in row.items() if isinstance(value, str) and value.startswith("own ")}
    assert own["own mine"] == "mine" and {f"own {name}" for name in KEPT_NAMES} == own.keys()
    assert rows.ids(filtered(rows, (own["own flagged"], "own flagged"), ("flagged", "true"))) == ["one"]
    for name in ("q", "Sort", "token", "-x"):
        column = own[f"own {name}"]
        assert column == f"column {name}" and rows.ids(filtered(rows, (column, f"own {name}"), ("sort", column)))
    rows.close()
    other.close()


def test_texts_of_great_length_are_cut_in_the_table_only(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundtrace.publishing.view.rows.read_summary", partial(read_summary, checked=False))
    long, late = "x" * MAX_SEARCHED_CHARS, "y" * MAX_SEARCHED_CHARS
    rejected = [
        {"id": "q", "stage": "s", "reason": "r", "question": f"{long} never", "detail": f"{long} never"},
        {"id": "t", "stage": "s", "reason": "r", "question": "Why?", "traces": [{"text": f"found {late} never"}] * 3},
    ]
    sets = {"sft": [sft_row("a", question=f"{long} never", trace=f"found {late} never")], "rejected": rejected}
    folder = write_run(tmp_path / "run", run, sets)
    rows = ViewedRows(folder)
    for row in rows.page(Filters(), 0, 10)[1]:
        assert all(len(row[name] or "") <= MAX_SHOWN_CHARS for name in ("question", "answer", "detail"))
    assert rows.ids(filtered(rows, ("q", "found"))) == ["a", "t"]
    assert rows.ids(filtered(rows, ("q", "never"))) == []
    rows.close()


def test_rows_that_need_too_much_memory_are_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundtrace.publishing.view.rows.MEMORY", "30MB")
    monkeypatch.setattr("groundtrace.publishing.view.rows.read_summary", partial(read_summary, checked=False))
    rejected = [{"id": f"{n}{'x' * 30_000}", "stage": "s", "reason": "r", "question": "Why?"} for n in range(1000)]
    folder = write_run(tmp_path / "run", run, {"rejected": rejected})
    with pytest.raises(InspectError, match=r"^the rows of .* need more memory than .*: query the rows with "):
        ViewedRows(folder)
