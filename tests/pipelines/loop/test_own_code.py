"""The user's code and weights in a loop: which steps a change repeats, and where each step searches its plug-ins."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from groundtrace.pipelines.loop.own_code import model_weights
from groundtrace.pipelines.loop.process import run_process
from groundtrace.pipelines.loop.run import make_loop, run_loop
from groundtrace.pipelines.loop.settings import load_loop
from groundtrace.pipelines.loop.steps import identities, make_steps
from groundtrace.pipelines.running.plan.loading import forget_user_code

from .loops import Commands, png, write_input

pytestmark = pytest.mark.usefixtures("own_modules")
SCORER = """
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict
from scale import FULL

async def score(case):
    return Verdict("beside", FULL, "")

BESIDE = Scorer("beside", "everything", score)
"""
REWARD = """
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.recipes.registry import RECIPES

Ours = RECIPES["argos"]
"""
CURATION = '[plugins]\nscorers.beside = "mine:BESIDE"\n[verify.scorers]\nbeside = {}\n'
AFTER_SFT = ["rl", "grpo", "eval-grpo"]
ALL = ["curate", "eval-base", "sft", "eval-sft", *AFTER_SFT]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with questions, a model, a recipe, and two configs with plug-ins of one name beside them."""
    images = {f"{number}.png": png(number) for number in range(6)}
    write_input(tmp_path / "data", [{"id": f"q{n}", "media": f"{n}.png"} for n in range(6)], images)
    for name in ("curation", "trainer", "model", "recipe/prompts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "curation/curate.toml").write_text(CURATION)
    (tmp_path / "curation/mine.py").write_text(SCORER)
    (tmp_path / "curation/scale.py").write_text("FULL = 1.0\n")
    (tmp_path / "trainer/t.toml").write_text('extends = "tiny"\n[reward]\nrecipe = "mine:Ours"\n')
    (tmp_path / "trainer/mine.py").write_text(REWARD)
    (tmp_path / "model/model.safetensors").write_bytes(b"weights")
    (tmp_path / "recipe/our_cot.py").write_text(
        "import our_part\nfrom groundtrace.pipelines.grounded_cot import RECIPE\n"
    )
    (tmp_path / "recipe/our_part.py").write_text("")
    (tmp_path / "loop.toml").write_text(
        '[curate]\nconfig = "curation/curate.toml"\n[trainer]\nconfig = "trainer/t.toml"\n'
        '[serve]\nkind = "transformers_chat"\n[held_out]\nshare = 0.3\n'
    )
    return tmp_path


def digests(desk: Path) -> dict[str, str]:
    """The digests of the steps, as a new process computes them."""
    forget_user_code()
    recipe, data = str(desk / "recipe/our_cot.py"), str(desk / "data")
    loop, _ = make_loop(recipe, data, str(desk / "model"), desk / "out", load_loop(str(desk / "loop.toml")))
    return identities(loop, make_steps(loop))


@pytest.mark.parametrize(
    ("file", "text", "again"),
    [
        ("curation/mine.py", SCORER + "\n# changed\n", [name for name in ALL if name != "eval-base"]),
        ("curation/scale.py", "FULL = 0.5\n", [name for name in ALL if name != "eval-base"]),
        ("curation/unused.py", "", []),
        ("recipe/our_part.py", "A = 1\n", [name for name in ALL if name != "eval-base"]),
        ("recipe/prompts/note.txt", "no prompt", []),
        ("trainer/mine.py", REWARD + "\n# changed\n", ["eval-base", "eval-sft", "grpo", "eval-grpo"]),
        ("model/model.safetensors", "others!", [name for name in ALL if name != "curate"]),
        ("model/README.md", "a card", []),
    ],
)
def test_what_a_changed_file_repeats(file: str, text: str, again: list[str], desk: Path) -> None:
    before = digests(desk)
    assert digests(desk) == before
    (desk / file).write_text(text)
    after = digests(desk)
    assert [name for name in ALL if before[name] != after[name]] == again


def test_a_changed_prompt_beside_the_recipe_repeats_the_runs(desk: Path) -> None:
    prompt = desk / "recipe/prompts/our_note.v1.yaml"
    shutil.copy(next(iter(sorted(Path("prompts").glob("judge_answer.v*.yaml")))), prompt)
    prompt.write_text(prompt.read_text("utf-8").replace("id: judge_answer", "id: our_note"), "utf-8")
    before = digests(desk)
    prompt.write_text(prompt.read_text("utf-8") + "\n", "utf-8")
    assert digests(desk)["curate"] != before["curate"]


@pytest.mark.slow
def test_each_step_searches_beside_its_own_config(desk: Path) -> None:
    """Both configs name a plug-in of the module ``mine``, and a file has the name of a module of Python."""
    (desk / "curation/statistics.py").write_text("MEAN = 3\n")
    settings = load_loop(str(desk / "loop.toml"))
    loop, _ = make_loop("grounded_cot", str(desk / "data"), str(desk / "model"), desk / "out", settings)
    rest = Commands()

    def command(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        if log.stem != "curate":
            return rest(words, log, environment)
        code = run_process(words, log, environment)
        rest(words, log, environment)
        return code

    run_loop(loop, command)
    assert rest.ran == ALL
    assert "mine:BESIDE" in (desk / "out/configs/curate.toml").read_text("utf-8")


def test_another_tokenizer_of_the_model_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_text("1", "utf-8")
    before = model_weights(str(tmp_path))
    (tmp_path / "README.md").write_text("2", "utf-8")
    assert model_weights(str(tmp_path)) == before
    (tmp_path / "tokenizer.json").write_text("2", "utf-8")
    assert model_weights(str(tmp_path)) != before
