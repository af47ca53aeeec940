"""``beam publish`` against a stand-in Hub, through the command line and the real client."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from groundtrace.publishing.card import public_name
from groundtrace.publishing.hub import client
from groundtrace.publishing.hub.card_check import problems_of
from groundtrace.publishing.publication import rows_text
from groundtrace.publishing.view.audit import WHOLE, open_audit
from groundtrace.publishing.view.audit_estimate import KEPT
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.reviews import Mark, Reviews, text_digest
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.schemas.arrow import sft_schema
from groundtrace.stages.sources.rows import kept_columns
from groundtrace.vision.media import MediaStore

from ...pipelines import short_recipe
from .stand_in import CLOSED_ORG, NO_COMMIT, TOKEN, StandIn

Beam = Callable[..., subprocess.CompletedProcess[str]]
REPO = "my-team/drawn_shapes"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run that a test may change: as one of earlier code, its ``run.json`` names no files."""
    shutil.copytree(finished, tmp_path / "run", ignore=shutil.ignore_patterns("cache"))
    summary = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    del summary["files"]
    (tmp_path / "run/run.json").write_text(json.dumps(summary), "utf-8")
    return tmp_path / "run"


@pytest.mark.slow
def test_shards_that_the_run_did_not_leave_are_not_published(finished: Path, tmp_path: Path, beam: Beam) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run, ignore=shutil.ignore_patterns("cache"))
    [shard] = shards_of(run, "sft")
    data = bytearray(shard.read_bytes())
    data[1000] ^= 1
    shard.write_bytes(data)
    said = beam("publish", run, "--repo", REPO)
    assert said.returncode == 2
    assert f"{run} has changed since its run ended: sft/{shard.name} differs from the file that run.json" in said.stderr


def shards_of(run: Path, name: str) -> list[Path]:
    return sorted((run / name).glob("*.parquet"))


def rewritten(run: Path, name: str, licences: Collection[str], sources: Collection[str]) -> None:
    """Give the rows of a set sources and licences in turn."""
    for file in shards_of(run, name):
        table = pq.read_table(file)
        for column, values in (("license", list(licences)), ("source", list(sources))):
            turns = [values[place % len(values)] for place in range(table.num_rows)]
            table = table.set_column(table.schema.get_field_index(column), table.schema.field(column), pa.array(turns))
        pq.write_table(table, file, compression="zstd", row_group_size=5)


def named_in_lineage(run: Path, name: str, model: str) -> None:
    """Give all models of a set's rows this name."""
    for file in shards_of(run, name):
        table = pq.read_table(file)
        place = table.schema.get_field_index("lineage")
        told = [
            {**lineage, "models": [{**each, "model": model} for each in lineage["models"]]}
            for lineage in table["lineage"].to_pylist()
        ]
        field = table.schema.field(place)
        pq.write_table(table.set_column(place, field, pa.array(told, field.type)), file)


def rows_of(run: Path, name: str) -> int:
    return sum(pq.read_metadata(file).num_rows for file in shards_of(run, name))


def test_a_run_is_published_once(hub: StandIn, beam: Beam, run: Path) -> None:
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 0, done.stderr
    [tag] = hub.repos[REPO].tags
    assert f"at the tag {tag}" in done.stdout
    assert hub.repos[REPO].private
    for name in ("sft", "rl"):
        [shard] = shards_of(run, name)
        assert hub.read(REPO, f"{name}/{shard.name}") == shard.read_bytes(), (
            "a shard that goes out whole is not rewritten"
        )
    card = hub.read(REPO, "README.md").decode()
    assert problems_of(card, hub.files(REPO)) == []
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-4.0"
    assert hub.sent("POST", "validate-yaml"), "the Hub itself has checked the card"

    again = beam("publish", run, "--repo", REPO)
    assert again.returncode == 0
    assert "already published, nothing was sent" in again.stdout
    assert len(hub.repos[REPO].commits) == 2


@pytest.mark.slow
def test_a_published_run_loads(hub: StandIn, python: Beam, run: Path, tmp_path: Path) -> None:
    done = python("-m", "groundtrace", "publish", run, "--repo", REPO)
    assert done.returncode == 0, done.stderr
    [tag] = hub.repos[REPO].tags
    code = (
        "from datasets import load_dataset; import sys\n"
        "from groundtrace.pipelines.commands.cli import main\n"
        "assert main(['run', sys.argv[5], '--input', sys.argv[3], '--output', sys.argv[4]]) == 0\n"
        "rows = load_dataset(sys.argv[1], 'sft', split='train', revision=sys.argv[2])\n"
        "print('loaded', len(rows), rows[0]['images'][0].size)\n"
        "print(next(iter(load_dataset(sys.argv[1], 'rl', split='train', streaming=True)))['id'])\n"
    )
    recipe = Path(short_recipe.__file__)
    loaded = python("-c", code, REPO, tag, f"hf://{REPO}/sft@{tag}", tmp_path / "again", recipe)
    assert loaded.returncode == 0, loaded.stderr
    assert f"loaded {rows_of(run, 'sft')} (" in loaded.stdout
    counts = json.loads((tmp_path / "again/run.json").read_text())["counts"]
    assert counts["input"] == rows_of(run, "sft")
    assert not any("ingest" in stage for stage in counts["rejected"]), "what is published is read back whole"


def test_a_dry_run_sends_nothing(hub: StandIn, beam: Beam, run: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.md"
    done = beam("publish", run, "--repo", REPO, "--dry-run", "--card", card, HF_TOKEN="")
    assert done.returncode == 0, done.stderr
    assert "nothing was sent" in done.stdout
    for word in ("README.md", "run.json", "sft/train-00000-of-00001.parquet", "kB", "tag run-"):
        assert word in done.stdout
    assert not hub.repos
    assert not hub.requests
    assert f"data card: {card}" in done.stdout and card.read_text("utf-8").startswith("---\n")
    assert f'`load_dataset("{REPO}", "sft", split="train")`' in card.read_text("utf-8")
    refused = beam("publish", run, "--repo", REPO, "--dry-run", "--card", tmp_path / "none/card.md")
    assert refused.returncode == 2 and "none/card.md cannot be written" in refused.stderr


def test_columns_that_were_kept_from_the_input_are_named(beam: Beam, run: Path) -> None:
    words, line = ("publish", run, "--repo", REPO, "--dry-run"), "also published, from your input (input.keep):"
    assert line not in beam(*words).stdout
    for file in [*shards_of(run, "sft"), *shards_of(run, "rl")]:
        table = pq.read_table(file)
        for name in ("level", "made_by"):
            table = table.append_column(name, pa.array(["x"] * table.num_rows))
        described = sft_schema(kept_columns(("level", "made_by"))).metadata
        pq.write_table(table.replace_schema_metadata(described), file)
    done = beam(*words)
    assert done.returncode == 0, done.stderr
    assert f"{line} level, made_by\n" in done.stdout


@pytest.mark.slow
def test_the_audit_is_on_the_card_if_it_is_asked_for(hub: StandIn, beam: Beam, run: Path) -> None:
    refused = beam("publish", run, "--repo", REPO, "--with", "audit")
    assert refused.returncode == 2 and "has no audit: judge traces with `beam view" in refused.stderr
    rows = ViewedRows(run)
    audit = open_audit(run, rows, RowImages(MediaStore(str(run), str(run))), 8, "ana-maria")
    for row in audit.rows:
        audit.judge(row.id, WHOLE, "right" if row.stratum == KEPT else "wrong")
    last = audit.rows[-1]
    audit.judge(last.id, WHOLE, "")
    done = beam("publish", run, "--repo", REPO, "--with", "audit", "--dry-run")
    assert f"warning: 1 of the {len(audit.rows)} traces of the audit were not judged" in done.stdout
    audit.judge(last.id, WHOLE, "right" if last.stratum == KEPT else "wrong")
    done = beam("publish", run, "--repo", REPO, "--with", "audit", "--dry-run")
    assert f"the data card has the audit, in which all of {len(audit.rows)} traces were judged" in done.stdout
    assert "warning" not in done.stdout
    rows.close()
    row = "| precision: the share of the kept rows that are right | 1.00 |"
    for words, is_there in (((), False), (("--with", "audit"), True)):  # the second time, only the card is new
        assert beam("publish", run, "--repo", REPO, *words).returncode == 0
        card = hub.read(REPO, "README.md").decode()
        assert (row in card, "ana-maria" in card) == (is_there, False)
    assert not [name for name in hub.files(REPO) if "reviews" in name or "audit" in name]
    Reviews(run).keep(Mark(ids_of(run, "sft")[0], flagged=True))
    assert beam("publish", run, "--repo", REPO, "--with", "audit").returncode == 0
    sentence = "a reviewer also flagged the records of 1 SFT row, which are part of this publication."
    assert sentence in hub.read(REPO, "README.md").decode(), "only the card is new again"


def test_nothing_private_goes_out(hub: StandIn, beam: Beam, run: Path) -> None:
    told = json.loads((run / "run.json").read_text())
    told["input"], told["roles"]["teacher"] = "/home/someone/secret-input", "/models/secret-teacher"
    told["recipe_file"] = "/home/someone/secret_recipe.py"
    (run / "run.json").write_text(json.dumps(told))
    for name in ("sft", "rl"):
        named_in_lineage(run, name, "/models/secret-teacher")
    rubrics = json.loads((run / "rubrics.json").read_text()) | {"problems": ["q1: no answer of /models/secret-judge"]}
    (run / "rubrics.json").write_text(json.dumps(rubrics))
    assert beam("publish", run, "--repo", REPO, "--with", "rejected", "--with", "rubrics").returncode == 0
    [shard] = [path for path in hub.files(REPO) if path.startswith("sft/")]
    lineage = pq.read_table(pa.BufferReader(hub.read(REPO, shard)))["lineage"].to_pylist()
    assert {model["model"] for told in lineage for model in told["models"]} == {"secret-teacher"}
    assert "rejected/train-00000-of-00001.parquet" in hub.files(REPO)
    for path in hub.files(REPO):
        sent = hub.read(REPO, path)
        if path.endswith(".parquet"):  # its columns are compressed
            sent += json.dumps(pq.read_table(pa.BufferReader(sent)).to_pylist(), default=str).encode()
        for secret in (b"/home/someone", b"/models/secret", str(run).encode(), TOKEN.encode()):
            assert secret not in sent, path
    published = json.loads(hub.read(REPO, "run.json"))
    assert published["input"] == "secret-input"
    assert not {"paid", "replaced", "details", "wall_s"} & set(published)
    assert not any(secret in json.dumps(published) for secret in ("cost_usd", "wall_s", "in_flight_s"))
    assert "config.toml" not in hub.files(REPO)
    assert public_name("/a/b") == "b"


@pytest.mark.slow
def test_extras_are_configs_of_their_own(beam: Beam, python: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO, "--with", "rejected", "--with", "rubrics").returncode == 0
    code = (
        "from datasets import load_dataset; import sys\n"
        "print(len(load_dataset(sys.argv[1], 'rejected', split='train')))\n"
        "print(load_dataset(sys.argv[1], 'rubrics', split='train')[0]['id'])\n"
    )
    loaded = python("-c", code, REPO)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split()[0] == str(rows_of(run, "rejected"))


def test_sources_whose_licence_does_not_allow_it_stay_here(hub: StandIn, beam: Beam, run: Path) -> None:
    for name in ("sft", "rl"):
        rewritten(run, name, ["cc-by-nc-4.0", "cc-by-nd-4.0", "unknown"], ["open", "closed|set\n", "silent"])
    rows = {name: rows_of(run, name) for name in ("sft", "rl")}
    open_rows = {name: -(-count // 3) for name, count in rows.items()}
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 0, done.stderr
    assert "left out: silent (unknown)" in done.stdout
    assert "--include-source 'silent'" in done.stdout
    for name, count in open_rows.items():
        path = next(file for file in hub.files(REPO) if file.startswith(name))
        table = pq.read_table(pa.BufferReader(hub.read(REPO, path)))
        assert set(table["source"].to_pylist()) == {"open"}
        assert table.num_rows == count
        assert table.schema.metadata[b"huggingface"]
    card = hub.read(REPO, "README.md").decode()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-nc-4.0"
    assert "The strictest of these licences is cc-by-nc-4.0" in card
    assert f"| left out of this publication | {sum(rows.values()) - sum(open_rows.values())} |" in card
    assert "| silent | unknown |" in card
    assert "such as rubrics, were made with these rows, too" in card
    assert f"| SFT rows | {open_rows['sft']} |" in card
    told = json.loads(hub.read(REPO, "run.json"))["published"]
    assert told["rows"] == open_rows
    assert {use["source"] for use in told["left_out"]} == {"closed|set\n", "silent"}

    other = "my-team/asked"
    asked = beam("publish", run, "--repo", other, "--include-source", "silent")
    assert asked.returncode == 0, asked.stderr
    assert "published at the maker's word" in hub.read(other, "README.md").decode()
    assert hub.repos[other].tags.keys() != hub.repos[REPO].tags.keys(), "other rows, another tag"


def ids_of(run: Path, name: str) -> list[str]:
    return [row for file in shards_of(run, name) for row in pq.read_table(file)["id"].to_pylist()]


def sent_ids(hub: StandIn, name: str) -> list[str]:
    files = [path for path in hub.files(REPO) if path.startswith(f"{name}/")]
    return [row for path in files for row in pq.read_table(pa.BufferReader(hub.read(REPO, path)))["id"].to_pylist()]


def test_rows_of_flagged_records_are_left_out_on_request(hub: StandIn, beam: Beam, run: Path, tmp_path: Path) -> None:
    """They are left out of all sets, and the command, the card and ``run.json`` state their numbers."""
    ids = {name: ids_of(run, name) for name in ("sft", "rl", "rejected")}
    flagged = {"sft": ids["sft"][:2], "rl": ids["rl"][-1:], "rejected": ids["rejected"][:1]}
    kept = {name: [each for each in ids[name] if each not in flagged[name]] for name in ids}
    marks = Reviews(run)
    for each in (*flagged["sft"], *flagged["rl"], *flagged["rejected"], "a record of another run"):
        marks.keep(Mark(each, flagged=True))
    words = ("publish", run, "--repo", REPO, "--with", "rejected")
    hint = "4 of these rows are flagged in `beam view`: --without-flagged leaves them out\n"
    assert hint in beam(*words, "--dry-run").stdout
    done = beam(*words)
    assert done.returncode == 0 and hint in done.stdout
    assert {name: sent_ids(hub, name) for name in ids} == ids, "flags leave out nothing unless it is asked for"
    assert "flagged" not in hub.read(REPO, "README.md").decode()

    stated = "left out, because their records are flagged in `beam view`: 2 SFT rows, 1 RL row, 1 rejected row\n"
    counts = f"rows: {len(kept['sft'])} sft, {len(kept['rl'])} rl, {len(kept['rejected'])} rejected; tag"
    dry = beam(*words, "--without-flagged", "--dry-run", "--card", tmp_path / "card.md")
    assert dry.returncode == 0, dry.stderr
    assert hint not in dry.stdout
    assert stated in dry.stdout and counts in dry.stdout
    done = beam(*words, "--without-flagged", "--replace")
    assert done.returncode == 0, done.stderr
    assert stated in done.stdout and counts in done.stdout
    assert {name: sent_ids(hub, name) for name in ids} == kept
    card = hub.read(REPO, "README.md").decode()
    assert card == (tmp_path / "card.md").read_text("utf-8")
    assert f"| SFT rows | {len(kept['sft'])} |" in card and f"| RL rows | {len(kept['rl'])} |" in card
    assert "| left out of this publication | 3 |" in card, "all rows that were read are accounted for"
    assert "because a reviewer flagged their records: 2 SFT rows, 1 RL row, 1 rejected row." in card
    assert "were made with these rows, too" in card
    assert "traces that later stages rejected, and rows that are left out of this publication:\n  - Only a" in card
    told = json.loads(hub.read(REPO, "run.json"))["published"]
    assert told["rows"] == {name: len(kept[name]) for name in ("sft", "rl")}
    assert told["left_out_flagged"] == {"sft": 2, "rl": 1, "rejected": 1} and told["left_out"] == []
    assert len(hub.repos[REPO].tags) == 2, "other rows, another tag"


def test_without_flags_the_same_is_published(hub: StandIn, beam: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO).returncode == 0
    again = beam("publish", run, "--repo", REPO, "--without-flagged")
    assert again.returncode == 0, again.stderr
    assert "because their records are flagged in `beam view`: 0 rows" in again.stdout
    assert "already published, nothing was sent" in again.stdout


def test_flags_of_another_version_of_a_row_are_told(beam: Beam, run: Path) -> None:
    [kept], [first, second, *_] = (
        pq.read_table(shards_of(run, "sft")[0])["messages"].to_pylist()[:1],
        ids_of(run, "sft"),
    )
    marks, words = Reviews(run), ("publish", run, "--repo", REPO, "--without-flagged", "--dry-run")
    marks.keep(Mark(first, text_digest(kept[-1]["content"]), True, set="sft"))
    marks.keep(Mark(ids_of(run, "rl")[0], "", True, set="rl"))
    marks.keep(Mark("gone", text_digest("gone"), True))
    assert "another version" not in beam(*words).stdout
    marks.keep(Mark(second, text_digest("the trace of an earlier run"), True))
    done = beam(*words)
    assert "flagged in `beam view`: 2 SFT rows, 1 RL row\n1 of these flags was set on another version of" in done.stdout
    assert "another version" not in beam("publish", run, "--repo", REPO, "--dry-run").stdout


def test_all_rows_are_flagged(hub: StandIn, beam: Beam, run: Path) -> None:
    marks = Reviews(run)
    for each in (*ids_of(run, "sft"), *ids_of(run, "rl")):
        marks.keep(Mark(each, flagged=True))
    done = beam("publish", run, "--repo", REPO, "--without-flagged")
    assert done.returncode == 2
    numbers = rows_text({name: rows_of(run, name) for name in ("sft", "rl")})
    assert f"no row is left to publish, because the records of {numbers} are flagged in `beam view`" in done.stderr
    assert not hub.requests


def test_licences_to_be_kept_are_named_beside_the_strictest(hub: StandIn, beam: Beam, run: Path) -> None:
    rewritten(run, "sft", ["CC BY-NC 4.0", "odbl", "cc-by-sa-4.0"], ["a", "b", "c"])
    assert beam("publish", run, "--repo", REPO).returncode == 0
    card = hub.read(REPO, "README.md").decode()
    assert "The strictest of these licences is CC BY-NC 4.0, which may be passed on, not for commercial use." in card
    assert "Rows under cc-by-sa-4.0 and odbl may be passed on under their own licence only." in card


def test_nothing_may_be_published(hub: StandIn, beam: Beam, run: Path) -> None:
    for name in ("sft", "rl"):
        rewritten(run, name, ["unknown"], ["mine"])
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 2
    assert 'no row may be published: the licence of mine is "unknown", which does not state' in done.stderr
    assert "set input.constants.license to the right licence and run again" in done.stderr
    assert "--include-source 'mine'" in done.stderr
    assert not hub.requests


def unbalanced(run: Path) -> None:
    told = json.loads((run / "run.json").read_text())
    told["counts"]["input"] += 1
    (run / "run.json").write_text(json.dumps(told))


def a_row_short(run: Path) -> None:
    [file] = shards_of(run, "sft")
    pq.write_table(pq.read_table(file)[1:], file)


def damaged(run: Path) -> None:
    [file] = shards_of(run, "rl")
    file.write_bytes(file.read_bytes()[:1000])


def without(side: str, column: str) -> Callable[[Path], None]:
    def harm(run: Path) -> None:
        for file in shards_of(run, side):
            pq.write_table(pq.read_table(file).drop_columns([column]), file)

    return harm


REFUSED = [
    (without("sft", "license"), "has no column license: repeat the run with this version"),
    (without("rl", "images"), "has no column images"),
    (without("rejected", "media"), "has no column media"),
    (lambda run: os.mkfifo(run / "sft/z.parquet"), "is not a regular file"),
    (unbalanced, "has lost records: 61 records were read, but 60 were written"),
    (a_row_short, "rows, but the number in run.json is"),
    (damaged, "is not a readable Parquet file"),
    (lambda run: (run / "run.json").unlink(), "has no run.json"),
    (lambda run: (run / "run.json").write_text("{}"), "is damaged"),
    (lambda run: shutil.rmtree(run), "there is no folder"),
    (lambda run: shutil.rmtree(run / "sft"), "holds 0 rows, but the number in run.json is"),
]


@pytest.mark.parametrize(("harm", "said"), REFUSED)
def test_a_run_that_is_not_whole(
    hub: StandIn, beam: Beam, run: Path, harm: Callable[[Path], object], said: str
) -> None:
    harm(run)
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not hub.requests


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(
            (name, "is not the name of a repository")
            for name in ("shapes", "a/b/c", "../x", "my-team/", "my-team/x y", "-x/y")
        ),
        *((name, "is not the name of a repository") for name in ("hf://my-team/x", "my-team/é", "a/b\nc")),
        *(
            (name, "is not a valid name of a repository")
            for name in ("my-team/x.git", "my-team/x..y", "my-team/x--y", "my-team/" + "x" * 97)
        ),
    ],
)
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_no_name_of_a_repository(beam: Beam, run: Path, name: str, said: str, words: tuple[str, ...]) -> None:
    done = beam("publish", run, f"--repo={name}", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def failing(pattern: str, status: int, method: str = "") -> Callable[[str, str], int | None]:
    return lambda used, path: status if pattern in path and (not method or used == method) else None


MISTAKES = [
    ({"HF_TOKEN": "hf_wrongTokenHere"}, None, REPO, 2, "the Hub refuses the token"),
    ({"HF_TOKEN": ""}, None, REPO, 2, "no token for the Hub is set: set HF_TOKEN"),
    ({}, None, f"{CLOSED_ORG}/x", 2, "the token has no write access"),
    ({"HF_ENDPOINT": "http://127.0.0.1:9"}, None, REPO, 1, "does not answer"),
    ({}, failing("/repos/create", 500), REPO, 1, "the Hub failed (HTTP 500)"),
    ({}, failing("/commit/", 412), REPO, 2, "changed during the upload"),
    ({}, failing("/tag/", 400), REPO, 2, f"the Hub refuses the publication of {REPO} (HTTP 400)"),
    ({"HF_TOKEN": "hf_accentéd"}, None, REPO, 2, "the token for the Hub holds a forbidden character"),
    ({"HF_TOKEN": "hf_two words"}, None, REPO, 2, "the token for the Hub holds a forbidden character"),
    ({"HF_ENDPOINT": "hub.example"}, None, REPO, 2, "HF_ENDPOINT 'hub.example' is not the URL of a Hub"),
    ({"HF_ENDPOINT": "ftp://hub.example"}, None, REPO, 2, "is not the URL of a Hub"),
    ({"HF_ENDPOINT": "http://hub.example:99999"}, None, REPO, 2, "is not the URL of a Hub"),
    ({"HF_ENDPOINT": "http://me:hf_wrongTokenHere@[::1"}, None, REPO, 2, "is not the URL of a Hub"),
    (
        {"HF_ENDPOINT": "http://me:hf_wrongTokenHere@127.0.0.1:9"},
        None,
        REPO,
        2,
        "a user name or a password: remove them from the URL, and set HF_TOKEN",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "fail", "repo", "code", "said"), MISTAKES)
def test_the_hub_says_no(
    hub: StandIn,
    beam: Beam,
    run: Path,
    variables: dict[str, str],
    fail: Callable[[str, str], int | None] | None,
    repo: str,
    code: int,
    said: str,
) -> None:
    if fail:
        hub.fail = fail
    done = beam("publish", run, "--repo", repo, **variables)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    for token in (TOKEN, "hf_wrongTokenHere"):
        assert token not in done.stdout + done.stderr


def test_a_token_file_that_is_no_text(beam: Beam, run: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"hf_secret\xff")
    done = beam("publish", run, "--repo", REPO, HF_TOKEN="", HF_HOME=str(tmp_path / "token"))
    assert done.returncode == 2
    assert "cannot be read: it is not text" in done.stderr
    assert "hf_secret" not in done.stderr


LIES = [
    ("whoami", b"<html>log in</html>", "does not answer as the Hub does (JSONDecodeError"),
    ("/repos/create", b"{}", "does not answer as the Hub does (KeyError"),
    ("/refs", b"[]", "does not answer as the Hub does (TypeError"),
    ("/preupload/", b"{}", "does not answer as the Hub does (ValueError"),
    ("/commit/", b"<html>log in</html>", "does not answer as the Hub does (JSONDecodeError"),
    ("/paths-info/", b"[]", "the file README.md is missing or different"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "lie", "said"), LIES)
def test_what_answers_is_not_the_hub(hub: StandIn, beam: Beam, run: Path, pattern: str, lie: bytes, said: str) -> None:
    hub.lie = lambda method, path: lie if pattern in path else None
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 1, done.stdout
    assert said in done.stderr
    assert "published http" not in done.stdout
    hub.lie = lambda method, path: None
    assert beam("publish", run, "--repo", REPO).returncode == 0


def test_a_tag_that_was_lost(hub: StandIn, beam: Beam, run: Path) -> None:
    hub.lie = lambda method, path: b"{}" if "/tag/" in path else None
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 1
    assert "the Hub accepted all files, but" in done.stderr
    hub.lie = lambda method, path: None
    assert beam("publish", run, "--repo", REPO).returncode == 0
    assert len(hub.repos[REPO].tags) == 1


def test_a_commit_that_was_lost(hub: StandIn, beam: Beam, run: Path) -> None:
    url = f"{hub.url}/datasets/{REPO}/commit/{NO_COMMIT}"
    made = json.dumps({"success": True, "commitOid": NO_COMMIT, "commitUrl": url}).encode()
    hub.lie = lambda method, path: made if "/commit/" in path else None
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 1
    assert "the Hub accepted all files, but" in done.stderr


def test_the_hub_refuses_the_card(hub: StandIn, beam: Beam, run: Path) -> None:
    hub.fail = failing("validate-yaml", 400)
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 2
    assert "the Hub refuses the data card" in done.stderr
    assert not hub.repos, "the card is checked before anything is made"


def test_a_broken_publication_is_continued(hub: StandIn, beam: Beam, run: Path) -> None:
    hub.fail = failing("/commit/", 503, "POST")
    broken = beam("publish", run, "--repo", REPO)
    assert broken.returncode == 1
    assert "run the same command again, which continues where this one stopped" in broken.stderr
    assert hub.repos[REPO].sha == NO_COMMIT
    put = hub.sent("PUT", "/lfs/")
    hub.fail = lambda method, path: None
    assert beam("publish", run, "--repo", REPO).returncode == 0
    assert hub.sent("PUT", "/lfs/") == put, "what the Hub has is not sent again"
    assert len(hub.repos[REPO].tags) == 1


@pytest.mark.faults
def test_a_killed_publication_is_continued(hub: StandIn, beam: Beam, run: Path, environment: dict[str, str]) -> None:
    seen = []

    def killing(method: str, path: str) -> int | None:
        if method == "POST" and "/lfs/verify" in path and not seen:
            seen.append(path)
            os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.2)
        return None

    hub.fail = killing
    words = [sys.executable, "-m", "groundtrace", "publish", str(run), "--repo", REPO]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.wait(60) == -signal.SIGKILL
    assert hub.repos[REPO].sha == NO_COMMIT
    before = hub.sent("PUT", "/lfs/")
    assert before
    assert beam("publish", run, "--repo", REPO).returncode == 0
    assert len(hub.repos[REPO].tags) == 1
    again = hub.sent("PUT", "/lfs/")[len(before) :]
    assert not set(again) & set(before), "what had arrived is not sent again"


@pytest.mark.parametrize("staging", ["missing", "file"])
def test_copies_cannot_be_written(hub: StandIn, beam: Beam, run: Path, tmp_path: Path, staging: str) -> None:
    (tmp_path / "file").touch()
    done = beam("publish", run, "--repo", REPO, "--staging", tmp_path / staging)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "name another folder for temporary copies with --staging" in done.stderr
    assert not hub.requests


@pytest.mark.faults
def test_a_stopped_publication_leaves_no_copies(
    hub: StandIn, run: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    def stopping(method: str, path: str) -> int | None:
        if "/refs" in path:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        return None

    hub.fail = stopping
    (tmp_path / "staging").mkdir()
    words = [sys.executable, "-m", "groundtrace", "publish", str(run), "--repo", REPO]
    words += ["--staging", str(tmp_path / "staging")]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert "interrupted; run the same command again" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert not list((tmp_path / "staging").iterdir())


def test_a_hub_that_says_nothing(hub: StandIn, beam: Beam, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_SILENCE_S", 0.2)
    hub.fail = lambda method, path: time.sleep(1) if "/refs" in path else None
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 1
    assert "does not answer" in done.stderr


def test_the_tag_alone_was_missing(hub: StandIn, beam: Beam, run: Path) -> None:
    hub.fail = failing("/tag/", 500)
    assert beam("publish", run, "--repo", REPO).returncode == 1
    hub.fail = lambda method, path: None
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 0, done.stderr
    assert len(hub.repos[REPO].tags) == 1
    assert len(hub.repos[REPO].commits) == 2


def test_another_set_is_replaced_only_if_asked(hub: StandIn, beam: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO, "--with", "rejected").returncode == 0
    [first] = hub.repos[REPO].tags
    rewritten(run, "sft", ["mit", "unknown"], ["a", "b"])
    refused = beam("publish", run, "--repo", REPO)
    assert refused.returncode == 2
    assert "holds another data set: pass --replace" in refused.stderr
    assert beam("publish", run, "--repo", REPO, "--replace").returncode == 0
    assert len(hub.repos[REPO].tags) == 2
    assert not [path for path in hub.files(REPO) if path.startswith("rejected/")]
    assert [path for path in hub.files(REPO, first) if path.startswith("rejected/")], "the tag keeps the old set"


@pytest.mark.parametrize("words", [(), ("--replace",)])
@pytest.mark.parametrize("other", ["data/train.parquet", "run.json"])
def test_what_is_not_ours_stays(
    hub: StandIn, beam: Beam, python: Beam, run: Path, words: tuple[str, ...], other: str
) -> None:
    code = (
        "from huggingface_hub import HfApi; import sys; api = HfApi(); name = sys.argv[1]\n"
        "api.create_repo(name, repo_type='dataset', private=True)\n"
        "for path in ('README.md', sys.argv[2]):\n"
        "    api.upload_file(path_or_fileobj=b'mine', path_in_repo=path, repo_id=name, repo_type='dataset')\n"
    )
    assert python("-c", code, REPO, other).returncode == 0
    done = beam("publish", run, "--repo", REPO, *words)
    assert done.returncode == 2
    assert "is not a data set of Groundtrace: choose another repository" in done.stderr
    assert hub.files(REPO) == sorted(["README.md", other])
    assert hub.read(REPO, "README.md") == hub.read(REPO, other) == b"mine"


def test_a_public_repository_is_not_filled_unasked(hub: StandIn, beam: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO, "--public").returncode == 0
    assert not hub.repos[REPO].private
    rewritten(run, "sft", ["mit", "unknown"], ["a", "b"])
    done = beam("publish", run, "--repo", REPO, "--replace")
    assert done.returncode == 2
    assert "already exists and is public: pass --public" in done.stderr


def test_a_private_repository_is_not_made_public(hub: StandIn, beam: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO).returncode == 0
    done = beam("publish", run, "--repo", REPO, "--public")
    assert done.returncode == 2
    assert "already exists and is private: leave out --public" in done.stderr


def test_an_old_set_is_put_back(hub: StandIn, beam: Beam, run: Path) -> None:
    assert beam("publish", run, "--repo", REPO).returncode == 0
    first, [name] = hub.files(REPO), [path for path in hub.files(REPO) if path.startswith("sft/")]
    old = hub.read(REPO, name)
    kept = {file: file.read_bytes() for file in shards_of(run, "sft")}
    rewritten(run, "sft", ["mit", "unknown"], ["a", "b"])
    assert beam("publish", run, "--repo", REPO, "--replace").returncode == 0
    for file, data in kept.items():
        file.write_bytes(data)
    assert beam("publish", run, "--repo", REPO).returncode == 2, "another set stands there"
    assert beam("publish", run, "--repo", REPO, "--replace").returncode == 0
    assert hub.files(REPO) == first
    assert hub.read(REPO, name) == old
    assert len(hub.repos[REPO].tags) == 2


def test_a_source_that_no_row_has(beam: Beam, run: Path) -> None:
    done = beam("publish", run, "--repo", REPO, "--include-source", "nobody")
    assert done.returncode == 2
    assert "--include-source names 'nobody', but no row has this source: name a source of the run" in done.stderr


def test_a_shard_that_is_a_link_goes_out_as_its_bytes(hub: StandIn, beam: Beam, run: Path, tmp_path: Path) -> None:
    [file] = shards_of(run, "rl")
    (run / "more").mkdir()
    shutil.move(file, run / "more/rows.parquet")
    file.symlink_to("../more/rows.parquet")
    (tmp_path / "named").symlink_to("run")
    assert beam("publish", tmp_path / "named", "--repo", REPO).returncode == 0
    assert hub.read(REPO, "rl/train-00000-of-00001.parquet") == (run / "more/rows.parquet").read_bytes()


@pytest.mark.parametrize("name", ["sft", "rl", "rl/train-00000-of-00001.parquet", "batch_plan.json", "crops.json"])
def test_nothing_is_published_through_a_link_out_of_the_run(
    hub: StandIn, beam: Beam, run: Path, tmp_path: Path, name: str
) -> None:
    """A stranger may have sent the run, in which a name is a link to private data of the user."""
    (tmp_path / "private").mkdir()
    if (run / name).exists():
        shutil.move(run / name, tmp_path / "private/data")
    else:
        (tmp_path / "private/data").write_text('{"password": "secret", "parts": []}', "utf-8")
    (run / name).symlink_to("../private/data" if "/" not in name else "../../private/data")
    done = beam("publish", run, "--repo", REPO)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"beam: {run / name} is a link to a place outside {run}, so nothing is read through ")
    assert REPO not in hub.repos
