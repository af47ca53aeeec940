"""What a new user gets wrong in the first hour: each mistake has one line that says what, where and what to do."""

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.plan.local_run import LocalRun

from .far_server import LISTED, Handler, asking, said, serving

RECORD = {"id": "q", "source": "s", "license": "MIT", "media": "a.png", "question": "How many squares?", "answer": "3"}
KEY = "sk-proj-abcdefghijkl0123456789"
FILES = {
    "good/records.jsonl": json.dumps(RECORD),
    "other/records.jsonl": json.dumps({"id": "q", "query": "How many?", "gold": "3", "image": "a.png"}),
    "list/records.jsonl": json.dumps([RECORD], indent=1),
    "table/questions.csv": "image;question;answer\na.png;How many squares are there?;3\n",
    "shifted.csv": "image,question,answer\na.png,Red, blue or black?,red\n",
    "photos.zip": "PK",
    "yaml.toml": "roles:\n  policy: qwen\n",
    "quotes.toml": "[endpoints.qwen]\nkind = openai\n",
    "section.toml": '[endpoint.qwen]\nkind = "openai"\n',
    "key.toml": f'[endpoints.qwen]\nkind = "openai"\nmodel = "m"\napi_key = "{KEY}"\n',
    "key_as_name.toml": f'[endpoints.qwen]\nkind = "openai"\nmodel = "m"\napi_key_env = "{KEY}"\n',
    "first/typo.py": "def build(:\n",
    "second/raises.py": "import math\n\nmath.sqrt(-1)\n",
    "third/leaves.py": "import sys\n\nsys.exit(0)\n",
    "notes/todo.txt": "mine",
}


@pytest.fixture
def home(tmp_path: Path, write_scene: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the user works in: inputs, configs and recipes, right and wrong."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for folder in ("good", "other", "list", "table", "photos"):
        write_scene(tmp_path / folder / "a.png")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    return tmp_path


def beam(line: str, *words: str) -> str:
    """The one line that a command ends with, which printed nothing else and changed nothing; its exit code is 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*line.split(), *words])
        except SystemExit as ended:
            code = ended.code
    assert (code, out.getvalue()) == (2, ""), err.getvalue()
    lines = [line for line in err.getvalue().splitlines() if " done, " not in line and not line.startswith("runner: ")]
    assert len(lines) == 1 and lines[0].startswith("beam: "), err.getvalue()
    return lines[0]


TAKES = "set --input to a .csv, .tsv, .jsonl, .json or .parquet file of questions, or to a folder with records.jsonl"
RUN = "run grounded_cot --output run "
FAR = " --set endpoints.far.kind=openai --set endpoints.far.model=m "
MISTAKES = {
    # (the command, what its one line must hold: what is wrong, where, and what to do)
    "no --input": ("run grounded_cot --output run", ["--input", "(DATA is a .csv", "`beam run --help`"]),
    "no --output": (
        "preview grounded_cot --input good",
        ["are required: --output", "`beam preview --help`"],
    ),
    "no command": ("grounded_cot --input good", ["'grounded_cot'", "`beam run grounded_cot --input DATA"]),
    "a misspelt command": ("valdate grounded_cot --input good", ["'valdate'", "did you mean validate?"]),
    "an input without --input": (
        "run grounded_cot --output run --input good good",
        ["good", "give the input with --input"],
    ),
    "a folder that is not there": (RUN + "--input ./photo", ["./photo", TAKES]),
    "a file that is not there": (RUN + "--input questions.csv", ["questions.csv", TAKES]),
    "a name that is not there": (
        RUN + "--input fotos",
        ["fotos is neither a file, nor a folder, nor a reachable data set", "correct --input"],
    ),
    "one image": (RUN + "--input photos/a.png", ["photos/a.png", "a .png file cannot be an input", TAKES]),
    "a zip": (RUN + "--input photos.zip", ["photos.zip", "a .zip file cannot be an input", TAKES]),
    "an empty folder": (
        RUN + "--input empty",
        ["empty is not an input: there is no .csv", "and the folder is empty", TAKES],
    ),
    "images alone": (RUN + "--input photos", ["photos holds images and no questions", "into one .csv file"]),
    "images alone, looked at": ("validate grounded_cot --input photos", ["photos holds images and no questions"]),
    "images alone, to begin with": ("init photos", ["holds images and no questions", "image, question and answer"]),
    "other column names": (
        RUN + "--input other",
        ["no column for question, answer, media, source, license (its columns are gold, id,", "`beam init "],
    ),
    "a table without a config": (RUN + "--input table", ["no column for source, license", "`beam init "]),
    "a column that is not there": (
        RUN + "--input other --set input.columns.question=querry",
        ["input.columns.question", "'querry'", "did you mean query?"],
    ),
    "the column map the wrong way round": (
        RUN + "--input other --set input.columns.query=question",
        ["input.columns.query must be one of", "question, answer"],
    ),
    "an array named .jsonl": (RUN + "--input list", ["records.jsonl is a JSON array", "rename it to .json"]),
    "commas without quotes": (
        RUN + "--input shifted.csv",
        ["shifted.csv, line 2: the row has 4 cells", '"double quotes"'],
    ),
    "no config there": (RUN + "--input good --config my.toml", ["cannot read the config my.toml", "`beam init"]),
    "YAML": (RUN + "--input good --config yaml.toml", ["yaml.toml is not TOML", "line 1", "begin with [name]"]),
    "no quotes": (RUN + "--input good --config quotes.toml", ["quotes.toml is not TOML", "line 2", 'in "quotes"']),
    "an unknown section": (RUN + "--input good --config section.toml", ["endpoint;", "did you mean endpoints?"]),
    "a misspelt key": (RUN + "--input good --set trace.max_token=9", ["did you mean trace.max_tokens?"]),
    "a word for a number": (RUN + "--input good --set trace.n=four", ["trace.n must be an integer, got 'four'"]),
    "--set with a blank": (RUN + "--input good --set trace.n 4", ["4: write a setting as key=value, as in --set"]),
    "--set without a value": (
        RUN + "--input good --set trace.n",
        ["--set 'trace.n'", "must have the form key=value, such as"],
    ),
    "--set and an option": (RUN + "--input good --set --trace.n=4", ["--set", "key=value, such as --set trace.n=4"]),
    "an endpoint that is not defined": (
        RUN + "--input good --set roles.teacher=gpt",
        ["roles.teacher", "'gpt'", "add an endpoint with this name beside them"],
    ),
    "a misspelt role": (RUN + "--input good --set roles.techer=colour", ["roles.techer", "did you mean teacher?"]),
    "a server's name as kind": (
        RUN + "--input good --set endpoints.far.model=m --set endpoints.far.kind=ollama",
        ["endpoints.far.kind", "'ollama'", "openai is any server with OpenAI's chat API"],
    ),
    "no model": (
        RUN + "--input good --set endpoints.far.kind=openai",
        ["endpoints.far.model is not set: the model's name at the endpoint"],
    ),
    "no base_url": (
        RUN + "--input good --set roles.judge=far" + FAR,
        ["endpoints.far.base_url is not set", "http://127.0.0.1:8000/v1"],
    ),
    "a URL without http": (
        RUN + "--input good --set endpoints.far.base_url=localhost:8000/v1" + FAR,
        ["endpoints.far.base_url must be a URL such as http://"],
    ),
    "a URL with the method": (
        RUN + "--input good --set endpoints.far.base_url=http://127.0.0.1:9/v1/chat/completions" + FAR,
        ["endpoints.far.base_url must be a URL without /chat/completions at its end"],
    ),
    "a key in the config": (
        RUN + "--input good --config key.toml",
        ["unknown key endpoints.qwen.api_key", "did you mean endpoints.qwen.api_key_env?"],
    ),
    "a key as the name of a variable": (
        RUN + "--input good --config key_as_name.toml",
        ["endpoints.qwen.api_key_env must be the name of an environment variable"],
    ),
    "no family": (
        RUN + "--input good --set roles.pointer=far --set endpoints.far.base_url=http://127.0.0.1:9/v1" + FAR,
        [
            "endpoints.far.family is not set, and the pointer writes coordinates",
            "qwen3-vl",
            "or set endpoints.far.frame",
        ],
    ),
    "a misspelt family": (
        RUN + "--input good --set endpoints.far.family=qwen3vl" + FAR,
        ["endpoints.far.family must be one of", "qwen3-vl", "got 'qwen3vl'"],
    ),
    "a model beside the embedded engine": (
        RUN + "--input good --set roles.policy=far --set endpoints.far.base_url=http://127.0.0.1:9/v1" + FAR,
        [
            "roles.pointer is the embedded engine",
            "name another endpoint in roles.pointer, or, if all images are drawings, set allow_embedded = true",
        ],
    ),
    "a misspelt recipe": (
        "run grounded_cto --input good --output run",
        ["there is no pipeline 'grounded_cto'", "grounded_cot, "],
    ),
    "a recipe with a typo": ("run first/typo.py --input good --output run", ["typo.py cannot be imported: ", "line 1"]),
    "a recipe that ends the command": (
        "run third/leaves.py --input good --output run",
        ["leaves.py cannot be imported: SystemExit", "(line 3)"],
    ),
    "a recipe in a file of text": (
        "run notes/todo.txt --input good --output run",
        ["the name of a pipeline's file must end in .py"],
    ),
    "a recipe that raises": (
        "run second/raises.py --input good --output run",
        ["raises.py", "ValueError: ", "(line 3)"],
    ),
    "an output that is a file": (
        "run grounded_cot --input good --output key.toml/run",
        ["key.toml/run", "choose another folder"],
    ),
    "an output that is the input": (
        "run grounded_cot --input good --output good",
        ["good is not empty and not a run folder: choose another --output"],
    ),
    "an option of Beam": (RUN + "--input good --direct_num_workers=2", ["options of Beam come last, behind ` -- `"]),
    "a misspelt option": (
        "view notes --prot 80",
        ["did you mean --port?; see `beam view --help`"],
    ),
    "an option of no command": ("view notes --zzz", ["unrecognized arguments: --zzz; see `beam view --help`"]),
    "options of Beam for a view": (
        "view notes -- --runner=Direct",
        ["`beam view` has no options of Beam: "],
    ),
    "a misspelt option of Beam": (RUN + "--input good -- --direct_num_worker=2", ["did you mean --direct_num_workers"]),
    "a number in words": (RUN + "--input good --limit ten", ["--limit", "'ten'", "`beam run --help`"]),
    "a look at no run": ("inspect notes", ["notes has no run.json: it is not a run folder: give the --output folder"]),
    "a look at nothing": ("inspect nowhere", ["there is no folder nowhere: give the --output folder"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_one_line(name: str, home: Path) -> None:
    line, parts = MISTAKES[name]
    before = sorted(home.rglob("*"))
    answer = beam(line)
    assert [part for part in parts if part not in answer] == [], answer
    assert KEY not in answer
    assert sorted(home.rglob("*")) == before


class Page(Handler):
    """A web page at every address."""

    def _send(self, status: int, fields: Any) -> None:
        data = b"<!DOCTYPE html><html><body>Welcome</body></html>"
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


MISSING = said(404, "Not Found")
NOBODY = "http://127.0.0.1:9/v1"
ENDPOINTS: dict[str, tuple[Any, dict[str, str], list[str]]] = {
    # (what the server says when asked for its models and for anything else, settings, what the one line must hold)
    "a server that was not started": (
        LISTED,
        {"base_url": NOBODY},
        [
            f"endpoint far (policy), model m at {NOBODY}: cannot be reached",
            "Start the server, or correct endpoints.far.base",
        ],
    ),
    "a model that is not served": (LISTED, {"model": "Qwen"}, ["serves ['m'], not 'Qwen'", "correct endpoints.far.m"]),
    "a URL without /v1": (
        MISSING,
        {"base_url": "{root}"},
        ["404", "endpoints.far.base_url (most servers answer under"],
    ),
    "a web page": (Page, {}, ["not JSON: '<!DOCTYPE html>", "correct endpoints.far.base_url"]),
    "a key that is refused": (
        said(401, "Incorrect key"),
        {},
        ["HTTP 401: Incorrect key", "endpoints.far.api_key_env or endpoints.far.api_key_file"],
    ),
    "a key that is not set": (
        LISTED,
        {"api_key_env": "NO_SUCH_KEY"},
        ["the environment variable NO_SUCH_KEY is not set: set it to the API key"],
    ),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_mistake_about_an_endpoint_has_one_line(name: str) -> None:
    listed, fields, parts = ENDPOINTS[name]
    kind, listed = (listed, LISTED) if isinstance(listed, type) else (Handler, listed)
    with serving(lambda *_: listed, listed, kind=kind) as server:
        fields = {key: value.format(root=server.url.removesuffix("/v1")) for key, value in fields.items()}
        answer = beam(RUN + "--input good", *asking(server.url, **fields))
    assert [part for part in parts if part not in answer] == [], answer


def test_two_runs_into_one_folder(home: Path) -> None:
    with LocalRun(home / "run").locked():
        assert "another process is writing " in (answer := beam(RUN + "--input good"))
    assert "run: wait until it has ended, or choose another folder" in answer


def test_the_output_of_another_input(home: Path) -> None:
    LocalRun(home / "run").prepare("the first", "0" * 64, resume=True)
    answer = beam(RUN + "--input good")
    assert "run was made from other data, namely the first" in answer
    assert "or add --resume=never to replace the outputs in this folder (replies in the cache are kept)" in answer


RECORDS = {
    "media that are not there": ({"media": "b.png"}, "no such file: 'input:b.png' (input: is the folder of the"),
    "absolute paths": (
        {"media": "/home/me/a.png"},
        "'input:/home/me/a.png' is not a path inside the data folder: give",
    ),
    "images on the web": (
        {"media": "https://x.org/a.png"},
        "download the file, and give the path relative to the records' folder",
    ),
    "a number as question": ({"question": 7}, "question: expected a text, got 7"),
    "a letter as answer": (
        {"answer": "B", "choices": ["2", "3"]},
        'give the choice\'s text, or set input.answer_is = "letter" if',
    ),
    "choices in one text": ({"choices": "2, 3"}, "a list of at least two choices, got '2, 3'"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_mistake_in_the_records_is_said_once_by_validate(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, message = RECORDS[name]
    lines = [json.dumps(RECORD | changes | {"id": f"q{number}"}) for number in range(3)]
    (home / "good/records.jsonl").write_text("\n".join(lines), "utf-8")
    assert main(["validate", "grounded_cot", "--input", "good"]) == 2
    out = capsys.readouterr().out
    [problem] = [line for line in out.splitlines() if "3 records (records.jsonl, lines 1, 2, 3)" in line]
    assert message in problem


def test_what_to_do_about_records_that_are_all_rejected(home: Path, run_beam: Callable[..., Any]) -> None:
    shutil.rmtree(home / "photos")
    (home / "good/a.png").unlink()
    ran = run_beam("good", home / "run")
    ran.check_refused(2, "good were rejected, 1 of 1 as media_missing (such as: ")
    assert "No earlier output was replaced. List the problems of the records with `beam validate`, and" in ran.err
    assert {path.name for path in (home / "run").iterdir()}.isdisjoint(("sft", "rl", "rejected", "run.json"))
    assert "media_missing" in (home / "run/failed.html").read_text("utf-8").split('id="rejections"')[1]
