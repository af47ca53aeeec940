"""One part of each kind from a folder outside the repository, through the command line and on two worker processes.

A package that is installed brings an answer type, an input format, an endpoint kind and an export format; the config
names a scorer and gives it an argument.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FILES = {
    "answer_in_words.py": """
from groundtrace.grading.answers.answer_type import AnswerType, Grade

def grade(predicted, gold, choices):
    return Grade(float((predicted or "").split() == gold.split()), "words", "compared word by word")

WORDS = AnswerType("words", "Answer in these words.", grade)
""",
    "semicolons.py": """
import csv
from pathlib import Path

from groundtrace.stages.sources.base import Format, Input, NothingHere, Source
from groundtrace.stages.sources.rows import row_records

class Semicolons(Format):
    name = "semicolons"

    def find(self, name, path, rows):
        if path.suffix != ".semi":
            raise NothingHere("no .semi file")
        return Input(name, (Source(self.name, str(path.resolve())),), str(path.resolve().parent), path.read_text())

    def records(self, source, rows, store):
        with Path(source.path).open(encoding="utf-8", newline="") as stream:
            yield from row_records(csv.DictReader(stream, delimiter=";"), source, rows, store)

SEMICOLONS = Semicolons()
""",
    "parrot.py": """
from groundtrace.inference.request import Completion, Reply

class Parrot:
    revision = "1"

    def __init__(self, settings, media, threads):
        self.settings = settings

    async def generate(self, request):
        return Reply(tuple(Completion(f"<answer>{self.settings.model}</answer>") for _ in request.indices))

    async def check(self):
        return f"repeats {self.settings.model!r}"

    async def close(self): ...
""",
    "shortness.py": """
from groundtrace.rewards.scorer import Scorer
from groundtrace.config.settings import settings
from groundtrace.schemas.records import Verdict

@settings
class Shortness:
    most: int = 5

async def score(case, shortness):
    return Verdict("shortness", float(len(case.text) <= shortness.most), f"at most {shortness.most}")

SHORT = Scorer("shortness", "every trace has a length", score, arguments=Shortness())
""",
    "id_lists.py": """
from groundtrace.publishing.exports.base import ExportFormat
from groundtrace.publishing.exports.writers import LinesWriter

def ids(folder, target):
    return LinesWriter(folder / "ids.jsonl", lambda row, images: {"id": row.id})

IDS = ExportFormat("ids", "the ids", {"rl": ids, "sft": ids})
""",
    "parts-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: parts\nVersion: 1.0\n",
    "parts-1.0.dist-info/entry_points.txt": """[groundtrace.plugins]
answer_types.words = answer_in_words:WORDS
formats.semicolons = semicolons:SEMICOLONS
endpoint_kinds.parrot = parrot:Parrot
exports.ids = id_lists:IDS
""",
    "own.toml": """
[plugins]
scorers.shortness = "shortness:SHORT"

[verify.scorers]
shortness = { most = 100000 }

[endpoints.bird]
kind = "parrot"
model = "in red"

[roles]
policy = "bird"
""",
    "questions.semi": """id;image;question;answer;answer_type;source;license
count;a.png;How many squares are there?;3;numeric;drawn;MIT
words;b.png;In which words?;in  red;words;drawn;MIT
none;c.png;In which words?;in red;phrase;drawn;MIT
""",
}
WORKERS = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")


@dataclass
class Elsewhere:
    """The folder, and the run there."""

    folder: Path
    run: Any


@pytest.fixture(scope="module")
def elsewhere(
    tmp_path_factory: pytest.TempPathFactory, write_scene: Callable[..., Path], run_beam: Callable[..., Any]
) -> Iterator[Elsewhere]:
    folder = tmp_path_factory.mktemp("elsewhere")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    for name, squares in {"a": ("red", "blue", "black"), "b": ("red",), "c": ("blue",)}.items():
        write_scene(folder / f"{name}.png", squares)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))  # as an environment in which the package is installed
        given = ("--config", "own.toml", "--set", "difficulty.include_low=true", "--set", "split.sft_ratio=1", *WORKERS)
        yield Elsewhere(folder, run_beam("questions.semi", folder / "run", *given, own_process=True, cwd=folder))


@pytest.mark.installs
def test_all_are_found_by_the_command_and_its_workers(elsewhere: Elsewhere) -> None:
    run = elsewhere.run
    assert (run.code, "beam: " in run.err) == (0, False), run.err
    run.check_balance(3)
    assert run.ends["none"] == "invalid_record"
    attempts = {row["id"]: row["attempts"] for side in ("sft", "rejected") for row in run.rows(side)}
    assert {(each["text"], each["correct"]) for each in attempts["words"]} == {("<answer>in red</answer>", True)}
    assert {each["correct"] for each in attempts["count"]} == {False}
    [row] = [row for row in run.rows("sft") if row["id"] == "count"]
    [verdict] = [each for each in row["verdicts"] if each["name"] == "shortness"]
    assert (verdict["value"], verdict["reason"]) == (1.0, "at most 100000")


@pytest.mark.installs
def test_an_export_of_an_installed_package(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    from groundtrace.pipelines.commands.cli import main
    from groundtrace.schemas import registry

    monkeypatch.syspath_prepend(str(elsewhere.folder))
    for found in (registry._entries, registry._installed):
        found.cache_clear()
    try:
        output = elsewhere.folder / "ids"
        code = main(
            ["export", str(elsewhere.run.folder), "--output", str(output), "--format", "ids", "--family", "plain"]
        )
    finally:
        for found in (registry._entries, registry._installed):
            found.cache_clear()
    assert code == 0
    ids = [json.loads(line)["id"] for line in (output / "ids.jsonl").read_text("utf-8").splitlines()]
    assert ids == [row["id"] for row in elsewhere.run.rows("sft")]
