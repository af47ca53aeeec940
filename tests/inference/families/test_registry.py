import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from groundtrace.inference.families.base import Family
from groundtrace.inference.families.registry import DEFAULT, FAMILIES, trainable_families
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.coordinates import CoordinateFrame

FRAMES = {
    "claude": CoordinateFrame.CLAUDE_RESIZED_PX,
    "claude-1568": CoordinateFrame.CLAUDE_RESIZED_PX,
    "gemini": CoordinateFrame.GEMINI,
    "glm-v": CoordinateFrame.NORM1000,
    "internvl": CoordinateFrame.NORM1000,
    "molmo": CoordinateFrame.MOLMO100,
    "molmo2": CoordinateFrame.MOLMO1000,
    "moondream": CoordinateFrame.UNIT,
    "plain": CoordinateFrame.PX,
    "qwen2.5-vl": CoordinateFrame.QWEN25_RESIZED_PX,
    "qwen3-vl": CoordinateFrame.NORM1000,
}


@pytest.mark.parametrize(("name", "frame"), FRAMES.items())
def test_the_frame_of_each_family(name: str, frame: CoordinateFrame) -> None:
    assert FAMILIES[name].frame == frame


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_complete(name: str) -> None:
    family = FAMILIES.named(name)
    assert family.name == name
    assert family.decimals in (0, 1)
    assert not family.point_prompt or load_prompt(family.point_prompt).variables == ("entity",)
    assert not family.box_prompt or set(load_prompt(family.box_prompt).variables) <= {"label", "box_order"}
    assert family.asked_to_point, "it can do nothing"


def test_what_families_cannot_do() -> None:
    families = [FAMILIES.named(name) for name in FAMILIES]
    assert {family.name for family in families if not family.box_prompt} == {"molmo", "molmo2"}
    assert {family.name for family in families if not family.point_prompt} == {"internvl"}


def test_a_model_of_no_known_family_is_told_our_own_form() -> None:
    assert FAMILIES.named(DEFAULT) == Family(
        "plain", CoordinateFrame.PX, decimals=1, reads_prose=True, any_corners=True
    )


def test_the_families_that_are_trained_by_their_checkpoints_name() -> None:
    assert {kind: family.name for kind, family in trainable_families().items()} == {
        "qwen2_5_vl": "qwen2.5-vl",
        "qwen3_vl": "qwen3-vl",
    }


@pytest.mark.parametrize("name", ["qwen", "", "own:", ":OWN"])
def test_an_unknown_family_is_refused_with_the_known_ones(name: str) -> None:
    said = f"must be one of {', '.join(FAMILIES)}, or one of your own as module:NAME"
    for refuse in (FAMILIES.check, FAMILIES.named):
        with pytest.raises(ValueError, match=said):
            refuse(name)


def test_a_value_elsewhere_is_a_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
    from groundtrace.inference.families.base import Family
    from groundtrace.schemas.coordinates import CoordinateFrame
    OWN = Family("own", CoordinateFrame.UNIT)
    """
    (tmp_path / "own_family.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert FAMILIES.named("own_family:OWN").frame is CoordinateFrame.UNIT


def test_a_value_that_is_not_there_is_one_line() -> None:
    with pytest.raises(
        ValueError,
        match=r"names the family no_such_module:OWN, but no_such_module:OWN cannot be imported .*: (put|correct)",
    ):
        FAMILIES.named("no_such_module:OWN")


def test_a_value_that_is_no_family_is_one_line() -> None:
    name = "groundtrace.inference.families.registry:DEFAULT"
    with pytest.raises(ValueError, match=r"a value of groundtrace.inference.families.base.Family, but is a str"):
        FAMILIES.named(name)


def test_settings_that_name_a_family_import_none() -> None:
    code = """
    import sys
    from groundtrace.inference.settings import EndpointSettings
    EndpointSettings("openai", "m", family="qwen3-vl")
    families = {f"groundtrace.inference.families.{name}" for name in ("base", "qwen3_vl")}
    loaded = {"apache_beam", *families} & set(sys.modules)
    sys.exit(", ".join(loaded) or 0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)
