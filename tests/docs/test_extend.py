"""docs/extend.md: its code and its commands, as they stand, in a folder outside the repository."""

import asyncio
import contextlib
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

import groundtrace
from groundtrace.embedded.endpoint import HANDLERS
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.session import Session
from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.plan.loading import load_recipe
from groundtrace.prompts import loader
from groundtrace.rewards.case import Case, case_of
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.registry import make_recipe
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas import registry
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Attempt, Draft, MediaRef, Question, Trace, Verdict
from groundtrace.trainer.environments.registry import make_environment
from tests.wired import default_stages

from .pages import blocks

pytestmark = pytest.mark.installs

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/extend.md").read_text("utf-8")
FILES = dict(re.findall(r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [
    line
    for text in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in text.splitlines()
    if line
]
PROMPTS = re.compile(r"^\| (\w+\.v\d+) \|", re.MULTILINE)
"""The prompts that a data card lists."""
SHARD = "train-00000-of-00001.parquet"
RECORDS = 24
"""How many records of the bundled sample the commands read as ``questions/``."""


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str


def _write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    sample = ROOT / "data/sample"
    lines = (sample / "records.jsonl").read_text("utf-8").splitlines()[:RECORDS]
    for line in lines:
        image = Path(json.loads(line)["media"][0])
        (folder / "questions" / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sample / image, folder / "questions" / image)
    (folder / "questions/records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    [drawing] = [text for text in blocks(ROOT / "docs/extend.md", "python") if '"line.png"' in text]
    with contextlib.chdir(folder):
        exec(drawing, {})


def _run(line: str) -> Ran:
    program, *words = shlex.split(line)
    if program in ("python", "trainer"):
        words = ["-m", "groundtrace.trainer", *words] if program == "trainer" else words
        path = os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        return Ran(done.returncode, done.stdout, done.stderr)
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's files and some questions; what the files add to our registries is taken out again."""
    folder = tmp_path_factory.mktemp("elsewhere")
    _write(folder)
    handlers, plugins, paths, here = dict(HANDLERS["colour"]), dict(registry._configured), list(sys.path), Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(here)
        for known, before in ((HANDLERS["colour"], handlers), (registry._configured, plugins)):
            known.clear()
            known.update(before)  # type: ignore[arg-type]
        sys.path[:] = paths
        loader._FOLDERS.clear()
        loader.load_prompt.cache_clear()
        for name in FILES:
            sys.modules.pop(Path(name).stem, None)


@pytest.fixture(scope="module")
def ran(folder: Path) -> dict[str, Ran]:
    """Every command of the page, run in its order in that folder."""
    assert not folder.is_relative_to(ROOT)
    return {line: _run(line) for line in COMMANDS}


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [row for file in sorted((run / name).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def told(run: Path) -> str:
    """All that the card and the report say, without what is the same for every run."""
    page = re.sub(r"<style>.*?</style>", "", (run / "report.html").read_text("utf-8"), flags=re.DOTALL)
    page = re.sub(r" (src|class)=\"[^\"]*\"", "", page)
    return ((run / "README.md").read_text("utf-8") + page).replace("Groundtrace", "").replace("groundtrace", "")


READ = dict(re.findall(r"^\| `([A-Z]\w+)` \| (`.*?) \|$", PAGE, re.MULTILINE))
"""The classes that a stage or a scorer reads, with the cell of their attributes."""


@pytest.mark.parametrize("kind", [Draft, Question, MediaRef, Attempt, Trace, Point, Box, Verdict, Case])
def test_what_a_stage_and_a_scorer_read_is_there(kind: type) -> None:
    words = set(re.findall(r"`([a-z]\w*)(?:[(.][^`]*)?`", READ[kind.__name__]))
    names = words - {"image", "video", "verify", "failed"}
    known = {*(field.name for field in fields(kind)), *dir(kind)}
    assert len(names) > 3
    assert names <= known, names - known


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_does_what_it_says(line: str, ran: dict[str, Ran]) -> None:
    assert (ran[line].code, "beam: " in ran[line].err) == (0, False), ran[line].err
    assert ran[line].out


def test_both_recipes_go_through_every_command() -> None:
    for recipe in ("pass_rates.py", "short_traces.py"):
        lines = [line for line in COMMANDS if recipe in line]
        assert {line.split()[1] for line in lines} == {"validate", "preview", "run"}
        assert any("--direct_num_workers=2 --direct_running_mode=multi_processing" in line for line in lines)
    assert sum(line.startswith("beam inspect") for line in COMMANDS) == 3


@pytest.mark.usefixtures("ran")
def test_a_bundled_recipe_takes_both_stages(folder: Path) -> None:
    run = folder / "runs/bright"
    read = {row["id"]: row for side in ("sft", "rl", "rejected") for row in rows(run, side)}
    assert len(read) == RECORDS
    assert all(row["question_words"] == len(row["question"].split()) for row in read.values())
    assert all(row["brightness"] > 30 for row in read.values())
    assert json.loads((run / "run.json").read_text("utf-8"))["recipe"] == "bright_cot"


@pytest.mark.usefixtures("ran")
def test_a_stage_that_reads_images_is_wired_as_the_page_says(folder: Path) -> None:
    text = (folder / "pass_rates.py").read_text("utf-8")
    [wired] = re.findall(r"`(\"Brightness\" >> .*?)`", PAGE)
    [field] = re.findall(r"`(brightness: BrightnessSettings .*?)`", PAGE)
    changes = (
        ("import apache_beam as beam\n", "import apache_beam as beam\nfrom bright_parts import *\n"),
        ("    attempt: AttemptSettings", f"    {field}\n    attempt: AttemptSettings"),
        ("    attempted = ingested", f'    bright = ingested["kept"] | {wired}\n    attempted = bright.kept'),
        ('bright.kept["kept"]', "bright.kept"),
    )
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "bright_rates.py").write_text(text, "utf-8")
    ended = _run("beam run bright_rates.py --input questions/ --output runs/bright_rates --set brightness.floor=182")
    assert ended.code == 0, ended.err
    kept, rejected = rows(folder / "runs/bright_rates", "rl"), rows(folder / "runs/bright_rates", "rejected")
    dark = [row for row in rejected if row["reason"] == "too_dark"]
    assert kept and dark
    assert max(row["brightness"] for row in dark) < 182 <= min(row["brightness"] for row in kept)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(("one", "two", "name"), [("rates", "rates2", "rl"), ("short", "short2", "sft")])
def test_two_workers_write_the_same(one: str, two: str, name: str, folder: Path) -> None:
    first, second = (sorted((folder / "runs" / run / name).iterdir()) for run in (one, two))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert rows(folder / "runs" / one, name)


@pytest.mark.usefixtures("ran")
def test_pass_rates_alone(folder: Path) -> None:
    run = folder / "runs/rates"
    assert {path.name for path in run.iterdir()} == {
        *("rl", "rejected", "cache", "ledger", "README.md", "report.html", "run.json", "config.toml"),
        *("input.json", ".lock"),
    }
    assert all(0 < row["pass_rate"] < 1 for row in rows(run, "rl"))
    summary = json.loads((run / "run.json").read_text("utf-8"))
    assert summary["sets"] == ["rl"]
    assert set(summary["roles"]) == {"policy", "judge"}
    assert groundtrace.open_run(run).rl.num_rows == len(rows(run, "rl")) > 0
    said = told(run)
    for absent in ("SFT", "`sft`", "sft/", "ubric", "trace", "erification", "overlay", "chain-of-thought", "pointer"):
        assert absent not in said, absent
    for present in ("too_easy", "pass rate", "RL rows", "Difficulty"):
        assert present in said
    assert PROMPTS.findall((run / "README.md").read_text("utf-8")) == ["attempt.v1"]


@pytest.mark.usefixtures("folder")
def test_pass_rates_need_a_policy_only(ran: dict[str, Ran]) -> None:
    others = ("teacher", "pointer", "judge", "detector", "segmenter")
    without = " ".join(f'--set roles.{role}=""' for role in others)
    validated = _run(f"beam validate pass_rates.py --input questions/ {without}")
    assert (validated.code, validated.err) == (0, "")
    assert "endpoint coarse (policy): embedded" in validated.out
    assert "teacher" not in ran["beam validate pass_rates.py --input questions/"].out
    refused = _run('beam validate pass_rates.py --input questions/ --set roles.policy=""')
    assert refused.code == 2
    assert (
        "roles.policy is not set, but the stage attempt sends requests to this role: set roles.policy to" in refused.err
    )


@pytest.mark.usefixtures("ran")
def test_short_traces_alone(folder: Path) -> None:
    run = folder / "runs/short"
    assert not (run / "rl").exists()
    kept, rejected = rows(run, "sft"), rows(run, "rejected")
    assert len(kept) + len(rejected) == RECORDS
    assert "too_long" in {row["reason"] for row in rejected}
    values = [score["value"] for row in kept for score in row["verdicts"] if score["name"] == "brevity"]
    assert len(values) == len(kept)
    assert 0 < min(values) < max(values) == 1
    named = {prompt["id"] for row in kept for prompt in row["lineage"]["prompts"]}
    assert "short_trace.v1" in named
    said = told(run)
    for absent in ("RL", "`rl`", "rl/", "ubric", "attempt", "ass rate", "too_easy", "Difficulty"):
        assert absent not in said.replace("URL", ""), absent
    assert PROMPTS.findall((run / "README.md").read_text("utf-8").replace("\\", "")) == sorted(named)
    for present in ("too_long", "every trace has more words than", "brevity", "Reasoning in a few words", "SFT rows"):
        assert present in said.replace("\\", ""), present


@pytest.mark.usefixtures("ran")
def test_a_column_of_ones_own_reaches_everything(folder: Path, ran: dict[str, Ran], tmp_path: Path) -> None:
    """One declaration and one line that sets it: shards, card, report, inspect, trainer, export, and its own scorer."""
    column = importlib.import_module("short_parts").WORDS
    run = folder / "runs/short"
    kept = {row["id"]: row for row in rows(run, "sft")}
    assert all(row[column.name] and min(row[column.name]) > 0 for row in kept.values())
    rejected = rows(run, "rejected")
    came_through = {row["id"] for row in rejected if row["stage"] == "verify"}
    assert {row["id"] for row in rejected if row[column.name]} == came_through
    others = [name for run in ("rates", "blind") for name in pq.read_schema(folder / f"runs/{run}/rl" / SHARD).names]
    assert column.name not in others
    card = (run / "README.md").read_text("utf-8")
    assert f"| `{column.name}` | list of int32 | sft | {column.meaning} |" in card
    assert column.name in (run / "report.html").read_text("utf-8")
    inspected = _run("beam inspect runs/short").out
    assert column.meaning in inspected
    assert column.name in next(ran[line].out for line in COMMANDS if line.startswith("beam inspect  runs/short "))
    shards = Shards(run, "sft", tmp_path / "rows")
    assert {shards[n].id: shards[n].context.added(column) for n in range(len(shards))} == {
        name: row[column.name] for name, row in kept.items()
    }
    lines = [json.loads(line) for line in (folder / "exported/sft.jsonl").read_text("utf-8").splitlines()]
    assert {line["id"]: line[column.name] for line in lines} == {name: row[column.name] for name, row in kept.items()}
    for row in kept.values():
        [brevity] = [each for each in row["verdicts"] if each["name"] == "brevity"]
        assert brevity["reason"].endswith(f"the shortest trace {min(row[column.name])}")


@pytest.mark.usefixtures("ran")
def test_a_floor_for_a_scorer_of_ones_own_decides(folder: Path) -> None:
    low = [row for row in rows(folder / "runs/shorter", "rejected") if row["reason"] == "low_score"]
    assert low
    assert all("brevity" in row["detail"] for row in low)


@pytest.mark.usefixtures("ran")
def test_an_argument_of_a_scorer_decides(folder: Path) -> None:
    """In the run before, traces of 18 words and more fell below the floor."""
    shorter, longer = ({row["id"] for row in rows(folder / f"runs/{run}", "sft")} for run in ("shorter", "longer"))
    assert shorter < longer
    values = [
        v["value"] for row in rows(folder / "runs/longer", "sft") for v in row["verdicts"] if v["name"] == "brevity"
    ]
    assert set(values) == {1.0}


@pytest.mark.usefixtures("folder")
def test_a_scorer_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    refused = _run("beam validate short_traces.py --input questions/ --set verify.floors.brevty=0.5")
    assert refused.code == 2
    assert "verify.floors.brevty: the scorer is unknown" in refused.err
    assert "brevity" in refused.err


@pytest.mark.usefixtures("ran")
def test_angles_from_a_psv_file_under_a_constant_policy(folder: Path) -> None:
    run = folder / "runs/blind"
    ends = {row["id"]: row["pass_rate"] for row in rows(run, "rl")}
    assert ends == {"q1": 1.0, "q3": 1.0}
    rejected = {row["id"]: (row["reason"], row["detail"]) for row in rows(run, "rejected")}
    assert rejected == {
        "q2": (
            "too_hard",
            "the pass rate is 0.00 over 4 attempts, equal to difficulty.low = 0.0, with difficulty.include_low = false"
            "; 4 of 4 attempts answered '47°'",
        ),
        "q4": ("invalid_record", "answer: 'upwards' is not an angle in degrees"),
    }
    assert "Answer with an angle in degrees." in next(row["problem"] for row in rows(run, "rl") if row["id"] == "q1")
    assert "boxes or angle" in (run / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("<think>two</think><answer>2</answer>", 1.0),
        ("so 2 <answer>2</answer>", 0.75),
        ("<think>three</think><answer>3</answer>", 0.25),
    ],
)
def test_a_reward(text: str, reward: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    recipe = make_recipe("right_in_form:RightInForm", {"share": 0.25})
    question = Question("q1", "drawn", "MIT", (), "How many?", "2", "numeric")
    masks = ObjectMasks(question, Session(None), ServedRoles(frozenset()))  # type: ignore[arg-type]
    case = case_of(read_trace(0, text), masks)
    [earned] = asyncio.run(recipe.score([case], Memory()))
    assert earned.reward == pytest.approx(reward)
    shares = recipe.blind_shares(question, (), (), recipe.settings)
    assert shares is not None and reward in (*shares, 0.75)


def test_an_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    environment = make_environment("adding:Adding", {"largest": 50}, "environment.options")
    steps = [asyncio.run(environment.step(text)) for text in ("so <add>2 40</add>", "<add>51 1</add>", "42")]
    assert [(step.text, step.is_done) for step in steps] == [
        ("<sum>42</sum>", False),
        ("error: too large", False),
        ("", True),
    ]


@pytest.mark.usefixtures("ran")
def test_a_pointer_of_a_family_of_ones_own_is_asked_and_read_in_its_way(folder: Path) -> None:
    run = folder / "runs/spotted"
    prompts = json.loads((run / "run.json").read_text("utf-8"))["prompts"]
    assert "spot.v1" in prompts
    assert "point.v1" not in prompts
    assert "All 2D positions of one entity, as bare pairs." in (run / "README.md").read_text("utf-8")
    kept = rows(run, "sft")
    assert kept
    assert all("spot.v1" in {prompt["id"] for prompt in row["lineage"]["prompts"]} for row in kept)
    assert "unparsable_reply" not in {row["reason"] for row in rows(run, "rejected")}
    image = MediaRef("input:line.png", "image", "s", "p", "d", 400, 100, 1, 1)
    family = FAMILIES.named("spotter:SPOTTER")
    assert family.points("(0.5, 0.5) (0, 1)", "dog", image, 0).found == (
        Point("dog", 200, 50, 0),
        Point("dog", 0, 100, 0),
    )
    assert family.points("()", "dog", image, 0).found == ()


def test_a_family_that_is_not_there_is_refused_in_one_line(ran: dict[str, Ran]) -> None:
    line = next(line for line in ran if line.startswith("beam validate spotted.py"))
    refused = _run(line.replace(":SPOTTER", ":SPOTER"))
    said = (
        "beam: endpoints.fixed.family cannot be used, because it names the family spotter:SPOTER, but spotter:SPOTER "
        "cannot be imported (module 'spotter' has"
    )
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith(said)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "    build=build,\n",
            "    build=build,\n    stages=(IngestRecords.stage,),\n",
            "beam: {file} cannot be imported: Recipe has the argument `stages`: remove it, since the stages are "
            "read from the DAG (line 31)\n",
        ),
        (
            "Ends(rl=in_band.kept)",
            "Ends(rl=in_band.kept, rejected=[in_band.rejected])",
            "beam: `build` returns Ends(rejected=…): remove `rejected`, since rejections are collected from the DAG\n",
        ),
        (
            "Ends(rl=in_band.kept)",
            "Ends(rl=attempted.kept)",
            "beam: the recipe 'pass_rates' loses the records that the stage 'difficulty' keeps: pass them to another "
            "stage, or return them from `build`\n",
        ),
    ],
)
def test_what_a_recipe_should_not_write_is_refused_in_one_line(
    before: str, after: str, said: str, folder: Path
) -> None:
    """The page promises that ``beam validate`` wires the DAG."""
    file = folder / "mistaken.py"
    assert before in FILES["pass_rates.py"]
    file.write_text(FILES["pass_rates.py"].replace(before, after), "utf-8")
    refused = _run("beam validate mistaken.py --input questions/")
    sys.modules.pop("mistaken", None)
    assert (refused.code, refused.out, refused.err) == (2, "", said.format(file=file))


def test_a_stage_is_added_in_two_places(folder: Path) -> None:
    """Its import and the line that wires it; the recipe's other stages stay in place."""
    text = FILES["pass_rates.py"]
    for before, after in (
        (
            "import IngestRecords\n",
            "import IngestRecords\nfrom groundtrace.stages.draw_questions import DrawQuestions\n",
        ),
        ('ingested["kept"] |', '(ingested["kept"] | DrawQuestions(run.draw.below)).kept |'),
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "drawing.py").write_text(text, "utf-8")
    names = [stage.name for stage in default_stages(load_recipe(str(folder / "drawing.py")))]
    sys.modules.pop("drawing")
    assert names == ["ingest", "draw", "attempt", "difficulty"]


def test_a_stage_without_a_model_adds_its_column(folder: Path) -> None:
    text = FILES["pass_rates.py"]
    [wired] = re.findall(r"`(ingested.* MeasureQuestions\(\))`", PAGE)
    for before, after in (
        ("import apache_beam as beam\n", "import apache_beam as beam\nfrom question_parts import MeasureQuestions\n"),
        ('attempted = ingested["kept"]', f"attempted = ({wired}).kept"),
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "measured.py").write_text(text, "utf-8")
    done = _run("beam run measured.py --input questions/ --output runs/measured")
    sys.modules.pop("measured", None)
    assert done.code == 0, done.err
    ended = [row for side in ("rl", "rejected") for row in rows(folder / "runs/measured", side)]
    assert len(ended) == RECORDS
    for row in ended:
        assert row["question_words"] == len(row["question"].split()), row["id"]


class _Messages(BaseHTTPRequestHandler):
    """An API of messages that needs a key and lists one model; it repeats the key in what it says."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        self._reply({"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append(body)
        content = [{"type": "text", "text": "<answer>3</answer> sk-messages-0123"}]
        self._reply({"content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 7, "output_tokens": 2}})

    def _reply(self, body: dict[str, Any]) -> None:
        is_known = self.headers.get("x-api-key") == "sk-messages-0123"
        sent = json.dumps(body if is_known else {"error": {"message": f"no key {self.headers.get('x-api-key')}"}})
        self.send_response(200 if is_known else 401)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent.encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def messages_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Messages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("folder")
def test_an_endpoint_over_http(messages_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples of a question, each by itself, with its image; the key is in no text, and a wrong one is refused."""
    given = ("kind=messages_api:KIND", "model=tiny", f"base_url={messages_server}", "api_key_env=MESSAGES_KEY")
    line = " ".join(["pass_rates.py --input questions/", *(f"--set endpoints.m.{each}" for each in given)])
    line += " --set roles.policy=m --set attempt.k=2 --set attempt.k_min=2 --limit 2 --set difficulty.include_low=true"
    monkeypatch.setenv("MESSAGES_KEY", "sk-another-4567")
    refused = _run(f"beam run {line} --output runs/refused")
    assert (refused.code, "HTTP 401: no key" in refused.err, "sk-another-4567" in refused.err) == (2, True, False)
    monkeypatch.setenv("MESSAGES_KEY", "sk-messages-0123")
    done = _run(f"beam run {line} --output runs/messages")
    assert (done.code, "beam: " in done.err) == (0, False), done.err
    assert len(_Messages.seen) == 4
    blocks = [block["type"] for block in _Messages.seen[0]["messages"][0]["content"]]
    assert sorted(blocks) == ["image", "text"]
    ended = [row for side in ("rl", "rejected") for row in rows(Path("runs/messages"), side)]
    texts = {each["text"] for row in ended for each in row["attempts"]}
    assert len(ended) == 2
    assert all(text.startswith("<answer>3</answer>") and "sk-messages-0123" not in text for text in texts)
    ledger = json.loads(Path("runs/messages/run.json").read_text("utf-8"))["ledger"]["policy"]
    assert (ledger["requests"], ledger["tokens_in"], ledger["tokens_out"]) == (4, 28, 8)
