"""Packages of extras: there, or missed in one line that says what installs them; what needs them ends with 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.config.extras import MissingExtra, require_extra
from groundtrace.schemas.errors import UserError

PIPELINE = Path(__file__).parents[2] / "pipelines" / "grounded_cot.py"
SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def test_what_is_installed_is_looked_for_and_not_imported() -> None:
    looked = "from groundtrace.config.extras import require_extra; require_extra('x', 'this', 'torch', 'google.genai')"
    program = f"import sys; {looked}; assert not {{'torch', 'google.genai'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("module", ["nowhere", "nowhere.deep", "json.nowhere"])
def test_what_is_not_installed_is_named(module: str) -> None:
    said = f"this needs the extra gemini: pip install 'groundtrace[gemini]' (the module {module} is not installed)"
    with pytest.raises(MissingExtra) as caught:
        require_extra("gemini", "this", "json", module)
    assert (str(caught.value), caught.value.name) == (said, module)
    assert isinstance(caught.value, UserError)


HIDDEN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from {cli} import main
sys.exit(main({words!r}))
"""
OWN = ["--set", "endpoints.own.kind={kind}", "--set", "endpoints.own.model=m", "--set", "roles.judge=own"]
RUN = ["run", str(PIPELINE), "--input", str(SAMPLE), "--output", "out"]
TRAIN = ["--config", "c.toml", "--data", str(SAMPLE), "--output", "out"]
NEEDS = "needs the extra {0}: pip install 'groundtrace[{0}]' (the module {1} is not installed)"
COMMANDS = [
    (
        "groundtrace.pipelines.commands.cli",
        RUN,
        "gemini",
        "gemini",
        "google.genai",
        "beam: an endpoint of the kind gemini",
    ),
    (
        "groundtrace.pipelines.commands.cli",
        RUN,
        "transformers",
        "vision",
        "torch",
        "beam: an endpoint of the kind transformers",
    ),
    ("groundtrace.trainer.cli", ["sft", *TRAIN], "", "train", "torch", "trainer: trainer sft"),
    ("groundtrace.trainer.cli", ["grpo", *TRAIN], "", "train", "transformers", "trainer: trainer grpo"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("cli", "words", "kind", "extra", "module", "what"), COMMANDS)
def test_a_command_that_needs_what_is_missing(
    cli: str, words: list[str], kind: str, extra: str, module: str, what: str, tmp_path: Path
) -> None:
    words = [*words, *(word.format(kind=kind) for word in OWN if kind)]
    program = HIDDEN.format(hidden=(module,), cli=cli, words=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith("WARNING")]
    assert (done.returncode, done.stdout, lines) == (2, "", [f"{what} {NEEDS.format(extra, module)}"])
    assert not (tmp_path / "out").exists()
