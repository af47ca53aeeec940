"""What the script says of an answer of uv; it is run by hand, and its table stands in docs/exports.md."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]

CONFLICT = """error: No solution found when resolving dependencies
  cause: Because llamafactory>=0.9.5 depends on datasets>=2.16.0,<=4.0.0 and groundtrace==0.1.0 depends on
         datasets>=4.6,<6, we can conclude that groundtrace==0.1.0 and llamafactory>=0.9.5 are incompatible.
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("resolve_trainers", ROOT / "scripts/resolve_trainers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_fits(script: ModuleType) -> None:
    said = "aiohttp==3.14.0\ndatasets==4.8.4\nhuggingface-hub==1.33.0\n"
    assert script.line_of("ms-swift==4.6.0", (True, said)) == "| ms-swift==4.6.0 | yes | 4.8.4 | 1.33.0 |  |"


def test_what_does_not(script: ModuleType) -> None:
    line = script.line_of("llamafactory==0.9.5", (False, CONFLICT))
    assert line == "| llamafactory==0.9.5 | no: we need datasets>=4.6,<6 | | | |"


@pytest.mark.parametrize("said", ["error: cannot connect", "error: No solution found: nope==1 is not there"])
def test_an_error_is_no_conflict(said: str, script: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="cannot resolve nope==1"):
        script.line_of("nope==1", (False, said))


def test_the_docs_have_a_line_for_each_trainer(script: ModuleType) -> None:
    text = (ROOT / "docs/exports.md").read_text("utf-8")
    for trainer in script.TRAINERS:
        assert f"\n| {trainer} | " in text
