import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import load_dataset

from groundtrace.publishing.card import write_card
from groundtrace.publishing.diversity import balances
from groundtrace.publishing.reading import open_tables
from groundtrace.schemas.arrow import REJECTED_SCHEMA
from groundtrace.schemas.run_summary import RunSummary
from tests.added import EARLIER_SFT, WHOLE_RL, WHOLE_SFT

LINEAGE = {"prompts": [{"id": "trace.v1", "sha256": "ab"}], "models": [], "revision": "r", "cache_keys": []}
CONFIG = """[roles]
teacher = "big"
policy = "small"
[endpoints.big]
kind = "openai"
model = "/models/private/big-model"
revision = "rev-9"
base_url = "http://secret.internal:8000"
[endpoints.small]
kind = "classical"
model = "colour"
"""


def _write(folder: Path, summary: RunSummary) -> None:
    with open_tables(folder, summary) as tables:
        write_card(folder, summary, tables, balances(folder, tables, summary.sets))


def row_of(number: int, source: str, licence: str | None) -> dict[str, Any]:
    scores = {"outcome": 1.0, "spatial": 0.5, "reasoning": None, "final": 0.75}
    return {
        "id": f"q{number}",
        "source": source,
        "license": licence,
        "k": 4,
        "pass_rate": 0.5,
        "scores": scores,
    } | {
        "lineage": LINEAGE,
        "images": [{"bytes": None, "path": None}][:0],
    }


def write_staging(
    folder: Path, sft: list[dict[str, Any]], rl: list[dict[str, Any]], config: str = CONFIG, **changes: Any
) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Write a run, make its card: the summary, the card's text and its front matter."""
    for name, rows, schema in (
        ("sft", sft, WHOLE_SFT),
        ("rl", rl, WHOLE_RL),
        ("rejected", [], REJECTED_SCHEMA),
    ):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name / "train-00000-of-00001.parquet")
    (folder / "config.toml").write_text(config, "utf-8")
    rejected = {"difficulty": {"too_easy": 55, "too_hard": 16}}
    summary = {
        "recipe": "grounded_cot",
        "input": "/home/someone/data/shapes",
        "counts": {"input": len(sft) + len(rl) + 71, "sft": len(sft), "rl": len(rl), "rejected": rejected},
        "stages": {"ingest": {"in": 120, "kept": 119}, "difficulty": {"in": 119, "kept": 48}},
        "ledger": {"teacher": {"stages": {"trace": {"calls": 67, "requests": 66, "cached": 1, "cost_usd": 0.5}}}},
        "roles": {"teacher": "/models/private/big-model", "policy": "colour"},
        "self_judged": True,
        "config_sha256": "c0ffee",
        "revision": "abc123",
        "prompts": {"trace.v1": "ab" * 32, "gone.v7": "cd" * 32},
        "finished": "2026-01-02T03:04:05+00:00",
        "wall_s": 1.5,
    } | changes
    _write(folder, RunSummary.from_fields(summary))
    text = (folder / "README.md").read_text("utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    return summary, text, front


def table(text: str, first: str) -> list[list[str]]:
    """The cells of the rows of the table whose header begins with ``first``."""
    lines = text.split(f"\n| {first} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_figures_of_the_run(tmp_path: Path) -> None:
    sft = [row_of(n, "drawn", "CC0-1.0") for n in range(3)]
    _, text, front = write_staging(tmp_path, sft, [row_of(9, "found", "MIT")])
    assert front["license"] == ["cc0-1.0", "mit"]
    assert front["configs"] == [
        {"config_name": "sft", "data_files": "sft/*.parquet"},
        {"config_name": "rl", "data_files": "rl/*.parquet"},
    ]
    assert front["size_categories"] == ["n<1K"]
    assert front["pretty_name"] == "grounded_cot on shapes"
    assert table(text, "source") == [["drawn", "CC0-1.0", "3", "0"], ["found", "MIT", "0", "1"]]
    assert [row[-3:] for row in table(text, "stage")] == [["120", "119", "0"], ["119", "48", "71"]]
    assert table(text, "pass rate") == [["0.50", "3", "1"]]
    reasons = text.split("Why records were rejected:")[1]
    assert [row[-1] for row in table(reasons, "stage")] == ["55", "16"]
    prompts = {row[0]: row[2] for row in table(text, "prompt")}
    assert prompts == {"trace.v1": "4"}, "the other one made no row"
    assert "0 have no outcome score" in text
    assert "3 have no reasoning score" in text


def test_the_settings_that_decide_what_is_kept(tmp_path: Path) -> None:
    changed = {"verify.min_score": {"value": "0.6 | *", "default": "0.7"}}
    stages = {"ingest": {"in": 4, "kept": 4}, "verify": {"in": 4, "kept": 4, "floors": {"spatial": 1.0, "final": 0.6}}}
    _, text, _ = write_staging(tmp_path / "changed", [row_of(1, "drawn", "MIT")], [], changed=changed, stages=stages)
    assert table(text, "setting") == [["`verify.min_score`", "0.6 \\| \\*", "0.7"]]
    assert "reached these minimum values: spatial 1, final 0.6." in text
    _, text, _ = write_staging(tmp_path / "usual", [row_of(1, "drawn", "MIT")], [], changed={})
    assert "All settings of the stages have the recipe's defaults." in text and "minimum values" not in text
    _, text, _ = write_staging(tmp_path / "older", [row_of(1, "drawn", "MIT")], [])
    assert "### Settings" not in text, "an earlier version did not record them"


def test_models_and_what_bounds_their_word(tmp_path: Path) -> None:
    _, text, _ = write_staging(tmp_path, [row_of(1, "drawn", "MIT")], [])
    assert table(text, "role") == [["teacher", "big-model", "openai", "rev-9", "67"]]
    assert "**Self-judged:**" in text
    assert "embedded engine" not in text, "it had a role and was never asked"
    asked = {"policy": {"stages": {"attempt": {"calls": 9}}}}
    _, text, _ = write_staging(tmp_path / "asked", [row_of(1, "drawn", "MIT")], [], ledger=asked)
    assert table(text, "role") == [["policy", "colour", "embedded engine", "none", "9"]]
    assert "The embedded engine played policy." in text
    for private in ("secret.internal", "/models/private", "/home/someone"):
        assert private not in text
    _, other, _ = write_staging(tmp_path / "other", [], [], self_judged=False)
    assert "Self-judged" not in other


def test_endpoints_of_one_model_are_told_apart(tmp_path: Path) -> None:
    endpoints = """
    [endpoints."/home/someone/unsure"]
    kind = "classical"
    model = "colour"
    strength = 2.0
    api_key_env = "SECRET_KEY"
    base_url = "http://secret.internal:8000"
    """
    used = CONFIG.replace('teacher = "big"', 'teacher = "/home/someone/unsure"\njudge = "small"\npointer = "big"')
    roles = {"teacher": "colour", "policy": "colour", "judge": "colour", "pointer": "big-model"}
    ledger = {role: {"stages": {"a": {"calls": 1}}} for role in roles}
    rows = [row_of(1, "drawn", "MIT")]
    _, text, _ = write_staging(tmp_path / "run", rows, [], used + endpoints, roles=roles, ledger=ledger)
    assert {row[0]: row[2] for row in table(text, "role")} == {
        "teacher": "unsure: embedded engine, strength 2.0",
        "policy": "small: embedded engine",
        "judge": "small: embedded engine",
        "pointer": "openai",
    }
    for private in ("secret.internal", "SECRET_KEY", "/home/someone"):
        assert private not in text


def test_warnings_are_about_the_whole_run(tmp_path: Path) -> None:
    warnings = ["Only phrases were used in 15 traces.", "A second sentence."]
    _, text, _ = write_staging(tmp_path / "run", [row_of(1, "drawn", "MIT")], [], warnings=warnings)
    intro = (
        "- The next sentences are about the whole run. Their numbers may also count traces that later stages rejected:"
    )
    assert f"{intro}\n  - Only phrases were used in 15 traces.\n  - A second sentence.\n- " in text
    _, text, _ = write_staging(tmp_path / "other", [row_of(1, "drawn", "MIT")], [])
    assert "about the whole run" not in text


def test_an_empty_run(tmp_path: Path) -> None:
    _, text, front = write_staging(tmp_path, [], [])
    assert "license" not in front
    assert table(text, "source") == [["none", "none", "0", "0"]]
    assert "No row rests on a reply." in text
    assert "None" not in text


def test_text_of_the_input_stays_text(tmp_path: Path) -> None:
    hostile = "a|b\n---\n# x <script>alert(1)</script> [l](javascript:1) `c`"
    rows = [row_of(1, hostile, "MIT")]
    _, text, front = write_staging(tmp_path, rows, [], input="x: {y}\n---\nlicense: mit", recipe="r\n---\nlicense: gpl")
    assert front["license"] == "mit"
    assert "<script>" not in text
    assert "\n# x" not in text
    assert "\\[l\\](" in text
    assert len([line for line in text.splitlines() if line == "---"]) == 2


def test_the_ways_to_load_work(tmp_path: Path) -> None:
    rows = [row_of(1, "drawn", "MIT")]
    _, text, _ = write_staging(tmp_path, rows, rows)
    loaded = load_dataset(
        "parquet", data_files=str(tmp_path / "sft/*.parquet"), split="train", cache_dir=str(tmp_path / "c")
    )
    assert loaded["id"][:] == ["q1"]
    sql = text.split("```sql\n")[1].split("```")[0].replace("'sft/", f"'{tmp_path}/sft/")
    assert duckdb.execute(sql).fetchall() == [("q1", None, None, 0.5, 0.75)]


@pytest.mark.parametrize(("filled", "empty"), [("sft", "rl"), ("rl", "sft")])
def test_a_set_without_rows_is_not_to_be_loaded(filled: str, empty: str, tmp_path: Path) -> None:
    sides: dict[str, Any] = {filled: [row_of(1, "drawn", "MIT")], empty: []}
    _, text, front = write_staging(tmp_path, sides["sft"], sides["rl"])
    assert front["configs"] == [{"config_name": filled, "data_files": f"{filled}/*.parquet"}]
    assert f"the `{empty}` set is empty" in text
    code = text.split("```python\n")[1].split("```")[0]
    assert f"{empty} =" not in code
    loaded: dict[str, Any] = {}
    exec(code.replace('files="', f'files="{tmp_path}/').replace("split=", f'cache_dir="{tmp_path}/c", split='), loaded)
    assert loaded[filled]["id"][:] == ["q1"]
    by_config = load_dataset(str(tmp_path), filled, split="train", cache_dir=str(tmp_path / "c"))
    assert by_config["id"][:] == ["q1"]
    sql = text.split("```sql\n")[1].split("```")[0].replace(f"'{filled}/", f"'{tmp_path}/{filled}/")
    assert duckdb.execute(sql).fetchall()[0][0] == "q1"


def test_two_empty_sets_have_nothing_to_load(tmp_path: Path) -> None:
    _, text, front = write_staging(tmp_path, [], [])
    assert "configs" not in front
    assert "load_dataset" not in text
    assert "Both sets are empty" in text


def test_stages_of_a_target_are_only_shown_with_one(tmp_path: Path) -> None:
    plain, late = {"in": 9, "kept": 9, "does": "something"}, {"for_target": True}
    target = {"sft": 9, "reached": True, "waves": []}
    stages = {"ingest": plain, "draw": plain | late, "difficulty": plain, "cut": plain | late}
    _, without, _ = write_staging(tmp_path / "a", [], [], stages=stages)
    _, with_one, _ = write_staging(tmp_path / "b", [], [], stages=stages, target=target)
    assert [row[0] for row in table(without, "stage")] == ["ingest", "difficulty"]
    shown = {row[0]: row[1] for row in table(with_one, "stage")}
    assert list(shown) == ["ingest", "draw", "difficulty", "cut"]
    assert "–" not in shown.values()


def test_prompts_used_for_the_run_show_their_calls(tmp_path: Path) -> None:
    def calls(**stages: tuple[int, int]) -> dict[str, Any]:
        by_stage = {name: {"calls": made, "repairs": again} for name, (made, again) in stages.items()}
        return {"stages": by_stage}

    ledger = {"teacher": calls(rubric_candidates=(1, 0), trace=(4, 0)), "judge": calls(rubric_judge=(9, 2))}
    asked = {"rubric_candidates": "rubric_candidates.v1", "rubric_judge": "rubric_judge.v2"}
    stages = {name: {"in": 1, "kept": 1, "is_sample": True, "prompts": [prompt]} for name, prompt in asked.items()}
    prompts = {"rubric_candidates.v1": "ab", "rubric_judge.v1": "cd", "rubric_judge.v2": "ef", "trace.v1": "01"}
    _, text, _ = write_staging(tmp_path, [], [row_of(1, "drawn", "MIT")], ledger=ledger, prompts=prompts, stages=stages)
    assert {row[0].replace("\\", ""): row[2] for row in table(text, "prompt")} == {
        "rubric_candidates.v1": "0 (1 call for the run)",
        "rubric_judge.v2": "0 (7 calls for the run)",
        "trace.v1": "1",
    }
    assert "rubric\\_candidates and rubric\\_judge are made once for the run" in text


def test_a_recipe_without_a_set_speaks_of_none(tmp_path: Path) -> None:
    row = row_of(1, "drawn", "MIT") | {"scores": None}
    _, text, front = write_staging(tmp_path / "rl", [], [row], sets=["rl"], self_judged=False, roles={"policy": "x"})
    assert "trace" not in text.split("## Limits")[1]
    assert "SFT" not in text
    assert "`sft`" not in text
    assert front["tags"] == ["groundtrace", "synthetic", "grounded-cot"]
    assert [row[0] for row in table(text, "column")] == [f"`{name}`" for name in ("id", "source", "license")] + [
        "`pass_rate`",
        "`k`",
        "`lineage`",
    ]
    _, text, front = write_staging(tmp_path / "sft", [row | {"k": None, "pass_rate": None}], [], sets=["sft"])
    assert "RL" not in text.replace("URL", "")
    assert front["tags"] == ["groundtrace", "chain-of-thought", "synthetic", "grounded-cot"]
    sql = text.split("```sql\n")[1].split("```")[0].replace("'sft/", f"'{tmp_path}/sft/sft/")
    assert duckdb.execute(sql).fetchall() == [("q1", None, None, None)]


def test_no_pass_rates_no_word_of_them(tmp_path: Path) -> None:
    counts = {"input": 1, "sft": 1, "rl": 0, "rejected": {}}
    row = row_of(1, "drawn", "MIT") | {"k": None, "pass_rate": None}
    _, text, _ = write_staging(tmp_path, [row], [], sets=["sft"], counts=counts)
    assert "ass rate" not in text.replace("pass rates measure this engine", "")


def test_further_scores_are_counted_and_explained(tmp_path: Path) -> None:
    rows = [
        row_of(n, "drawn", "MIT") | {"extra_scores": [{"name": "brevity", "value": value}]}
        for n, value in enumerate((1.0, None))
    ]
    write_staging(tmp_path, rows, [])
    table_of = pa.Table.from_pylist(rows, schema=EARLIER_SFT)
    pq.write_table(table_of, tmp_path / "sft/train-00000-of-00001.parquet")
    summary, _, _ = write_staging(tmp_path / "plain", rows, [])
    _write(tmp_path, RunSummary.from_fields(summary))
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "2 have no reasoning score, 1 have no brevity score" in text
    assert "`extra_scores`" in text


def test_the_summary_is_only_read(tmp_path: Path) -> None:
    summary, text, _ = write_staging(tmp_path, [row_of(1, "drawn", "MIT")], [])
    before = json.dumps(summary)
    _write(tmp_path, RunSummary.from_fields(summary))
    assert (json.dumps(summary), (tmp_path / "README.md").read_text("utf-8")) == (before, text)


def test_the_rubrics_of_the_run_and_the_spread_of_its_rows(tmp_path: Path) -> None:
    figures = {"applicability": 1.0, "applicability_interval": [0.98, 1.0], "pass_rate": 0.75}
    kept = {"id": "seen", "kept": True, "stratum": "hard", "reason": None, "uncertain": True} | figures
    apart = {"id": "right", "kept": False, "stratum": None, "reason": "asks_for_right_answer", "uncertain": False}
    rows = [kept | {"uncertain_about": ["filter"]}, apart | dict.fromkeys(figures)]
    (tmp_path / "rubrics.json").write_text(
        json.dumps({"judged": 9, "confidence": 0.95, "rubrics": rows, "problems": []}), "utf-8"
    )
    _, text, _ = write_staging(tmp_path, [], [row_of(1, "drawn", "MIT"), row_of(2, "drawn", "MIT")], sets=["rl"])
    assert table(text, "rubric") == [
        ["seen", "1.000 (0.980 to 1.000)", "0.750", "hard", "yes; uncertain: filter"],
        ["right", "–", "–", "–", "no: asks\\_for\\_right\\_answer"],
    ]
    assert ["source", "1", "–"] in table(text, "property")
    assert "No rubric was kept" not in text
    assert "The judge's verdicts come from the model that was the teacher too." in text


def test_a_run_whose_rubrics_all_fall_says_so(tmp_path: Path) -> None:
    (tmp_path / "rubrics.json").write_text(json.dumps({"judged": 0, "rubrics": [], "problems": []}), "utf-8")
    _, text, _ = write_staging(tmp_path, [], [row_of(1, "drawn", "MIT")])
    assert "No rubrics were measured" in text
    assert "**No rubric was kept:**" in text
    (tmp_path / "rubrics.json").unlink()
    _, text, _ = write_staging(tmp_path / "none", [], [row_of(1, "drawn", "MIT")])
    assert "## Rubrics" not in text, "the recipe has none"
