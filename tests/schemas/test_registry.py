"""Parts by name: ours, those of installed packages, and those that a config names."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundtrace.grading.answers.answer_type import AnswerType
from groundtrace.schemas import registry
from groundtrace.schemas.registry import (
    Registry,
    RegistryError,
    check_parts,
    configured_plugins,
    forget_parts,
    load,
    plugin_files,
    use_plugins,
)
from groundtrace.schemas.user_modules import StaleModule

OURS = {
    "text": "groundtrace.grading.answers.free_text:FREE_TEXT",
    "numeric": "groundtrace.grading.answers.number:NUMBER",
}
TYPES: Registry[AnswerType] = Registry(
    "answer_types", "answer type", "groundtrace.grading.answers.answer_type:AnswerType", OURS
)
CODE = """
from groundtrace.grading.answers.answer_type import AnswerType, Grade
ANGLE = AnswerType("angle", "In degrees.", lambda *given: Grade(None, "angle", "never"))
SECOND = AnswerType("angle", "In radians.", ANGLE.grade)
WORD = "angle"
"""
Install = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with the module ``parts``; what is installed or named there is forgotten afterwards."""
    (tmp_path / "parts.py").write_text(CODE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_configured", {})
    _forget()
    yield tmp_path
    _forget()
    sys.modules.pop("parts", None)


@pytest.fixture
def install(folder: Path) -> Install:
    """Installs a package with entry points, as pip leaves it: a folder of metadata."""

    def done(package: str, entries: str) -> None:
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        (metadata / "entry_points.txt").write_text(f"[groundtrace.plugins]\n{entries}\n", "utf-8")
        _forget()

    return done


def _forget() -> None:
    for found in (registry._entries, registry._installed):
        found.cache_clear()


def test_the_part_of_a_name_and_at_a_path() -> None:
    assert TYPES["numeric"].name == "numeric"
    assert TYPES.named("numeric") is TYPES["numeric"]
    assert TYPES.named("parts:ANGLE").form == "In degrees."
    assert ([*TYPES], len(TYPES), "angle" in TYPES) == (["text", "numeric"], 2, False)


def test_the_part_of_an_installed_package(install: Install) -> None:
    install("protractor", "answer_types.angle = parts:ANGLE\nscorers.angle = parts:NOT_ASKED_FOR")
    assert TYPES["angle"].form == "In degrees."
    assert ([*TYPES], TYPES.plugins) == (["text", "numeric", "angle"], ("angle",))
    assert [kind.name for kind in TYPES.values()] == ["text", "numeric", "angle"]


def test_the_part_that_a_config_names_and_that_it_names_next() -> None:
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}})
    assert TYPES["angle"].form == "In degrees."
    use_plugins({"answer_types": {"angle": "parts:SECOND"}})
    assert TYPES["angle"].form == "In radians."
    assert configured_plugins() == {"answer_types": {"angle": "parts:SECOND"}}


def test_the_files_of_the_parts_that_a_config_uses(folder: Path, install: Install) -> None:
    install("protractor", "answer_types.angle = parts:ANGLE")
    load("parts:ANGLE")
    parts = {(folder / "parts.py", folder)}
    for config in (
        {"endpoints": {"a": {"kind": "parts:ANGLE"}}},
        {"verify": {"scorers": {"parts:ANGLE": {}}}},
        {"plugins": {"scorers": {"mine": "parts:WORD"}}},
        {"input": {"answer_type": "angle"}},
    ):
        assert plugin_files(config) == parts
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}}, is_of_config=True)  # an earlier config of this process
    assert plugin_files({"input": {"answer_type": "text"}}) == set() and plugin_files() == parts
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}})  # by a recipe
    assert plugin_files({}) == parts
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}}, is_of_config=True)
    assert plugin_files({}) == parts, "a part of a recipe stays one if a config names it, too"
    assert plugin_files({"kind": "json:loads"}) == parts, "Python's own modules are no parts"


def test_a_part_in_place_that_has_changed_is_refused(folder: Path) -> None:
    load("parts:ANGLE")
    check_parts({"verify": {"scorers": {"parts:ANGLE": {}}}})
    (folder / "parts.py").write_text(f"{CODE}# changed", "utf-8")
    with pytest.raises(StaleModule, match=r"parts\.py has changed"):
        check_parts({"verify": {"scorers": {"parts:ANGLE": {}}}})


def test_a_part_of_a_forgotten_module_is_registered_anew(folder: Path) -> None:
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}})
    (folder / "parts.py").write_text(CODE.replace("In degrees.", "In turns."), "utf-8")
    assert "parts" in forget_parts()
    assert "angle" not in TYPES and configured_plugins() == {"answer_types": {}}
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}})
    assert TYPES["angle"].form == "In turns."


def test_the_same_part_twice_is_one(install: Install) -> None:
    install("protractor", "answer_types.angle = parts:ANGLE")
    use_plugins({"answer_types": {"angle": "parts:ANGLE"}})
    assert [*TYPES] == ["text", "numeric", "angle"]
    assert TYPES["angle"].form == "In degrees."


@pytest.mark.parametrize(
    ("packages", "given", "name", "both"),
    [
        (
            {"one": "answer_types.angle = parts:ANGLE", "two": "answer_types.angle = parts:SECOND"},
            {},
            "angle",
            {"parts:ANGLE (from the package one)", "parts:SECOND (from the package two)"},
        ),
        (
            {"one": "answer_types.angle = parts:ANGLE"},
            {"answer_types": {"angle": "parts:SECOND"}},
            "angle",
            {"parts:ANGLE (from the package one)", "parts:SECOND (from plugins.answer_types)"},
        ),
        (
            {"one": "answer_types.text = parts:ANGLE"},
            {},
            "text",
            {f"{OURS['text']} (from groundtrace)", "parts:ANGLE (from the package one)"},
        ),
    ],
)
def test_two_parts_of_one_name_are_refused_where_it_is_used(
    packages: dict[str, str], given: dict[str, dict[str, str]], name: str, both: set[str], install: Install
) -> None:
    for package, entries in packages.items():
        install(package, entries)
    with pytest.raises(RegistryError, match=f"names '{name}', but more than one answer type has this name") as caught:
        use_plugins(given)
        TYPES[name]
    assert all(one in str(caught.value) for one in both)
    assert TYPES["numeric"].name == "numeric"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("numerik", "must be one of text, numeric, or one of your own as module:NAME, got 'numerik': did you mean num"),
        ("", "must be one of text, numeric, or one of your own as module:NAME, got ''"),
        ("a b:C", "must be one of text, numeric, or one of your own as module:NAME, got 'a b:C'"),
        ("gone:X", "names the answer type gone:X, but gone:X cannot be imported (No module named 'gone'): put this"),
        (
            "gone:__class__",
            "names the answer type gone:__class__, but gone:__class__ cannot be imported (No module named 'gone')",
        ),
        (
            "parts:X",
            "names the answer type parts:X, but parts:X cannot be imported (module 'parts' has no attribute 'X')",
        ),
        (
            "types:X",
            "(module 'types' has no attribute 'X'): rename your module, because Python has its own module types",
        ),
        ("torn:X", "names the answer type torn:X, but torn:X cannot be imported (SyntaxError: "),
        (
            "rude:X",
            "names the answer type rude:X, but rude:X cannot be imported (ZeroDivisionError: division by zero, line 2)",
        ),
        ("ends:X", "names the answer type ends:X, but ends:X cannot be imported (SystemExit: 0, line 1)"),
        (
            "parts:WORD",
            "names the answer type parts:WORD, which must be a value of "
            "groundtrace.grading.answers.answer_type.AnswerType, but is a str",
        ),
        ("parts:AnswerType", "but is the class AnswerType"),
    ],
)
def test_what_cannot_be_used_is_one_line(name: str, said: str, folder: Path) -> None:
    for module, code in {"torn": "def", "rude": "\n1 / 0", "ends": "raise SystemExit(0)"}.items():
        (folder / f"{module}.py").write_text(code, "utf-8")
    with pytest.raises(RegistryError, match=re.escape(said)) as caught:
        TYPES.named(name)
    assert "\n" not in str(caught.value)


def test_a_look_up_by_name_imports_no_path() -> None:
    with pytest.raises(RegistryError, match="must be one of text, numeric, got 'parts:ANGLE'"):
        TYPES["parts:ANGLE"]
    assert "parts" not in sys.modules


def test_a_part_under_another_name_than_its_own(install: Install) -> None:
    install("protractor", "answer_types.corner = parts:ANGLE")
    with pytest.raises(
        RegistryError,
        match="the answer type parts:ANGLE has the name 'angle', so it cannot be used as 'corner': use the name",
    ):
        TYPES["corner"]


def test_a_part_that_its_package_cannot_bring_names_the_package(install: Install) -> None:
    install("protractor", "answer_types.angle = gone:ANGLE")
    said = (
        "answer_types.angle names the answer type gone:ANGLE, but gone:ANGLE cannot be imported .*"
        r"\(from the package protractor\)"
    )
    with pytest.raises(RegistryError, match=f"^{said}$"):
        TYPES.values()


def test_an_entry_point_of_no_kind_hurts_nobody_and_is_named_where_a_name_is_missing(install: Install) -> None:
    install("protractor", "answer_type.angle = parts:ANGLE")
    assert TYPES["numeric"].name == "numeric"
    with pytest.raises(RegistryError, match=r"parts:ANGLE \(from the package protractor\) as answer_type\.angle"):
        TYPES["angle"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "plugins must be a section, got 3"),
        ({"answer_type": {}}, "plugins.answer_type is not a kind of plug-in: use one of answer_types, "),
        ({"answer_type": {}}, ": did you mean answer_types?"),
        (
            {"answer_types": "parts:ANGLE"},
            "plugins.answer_types must be a section with entries NAME = \"module:NAME\", got 'parts:ANGLE'",
        ),
        ({"answer_types": {"angle": 3}}, "plugins.answer_types.angle must be module:NAME, got 3"),
        ({"answer_types": {"angle": "parts.ANGLE"}}, "plugins.answer_types.angle must be module:NAME, got 'parts.A"),
        ({"answer_types": {"angle": "gone:X"}}, "plugins.answer_types.angle cannot be used, because gone:X cannot be "),
        ({"answer_types": {"angle": "parts:ANGEL"}}, "correct the module or this path: did you mean ANGLE?"),
        ({"answer_types": {"angle": "parts:WORD"}}, "plugins.answer_types.angle names the answer type"),
        ({"answer_types": {"corner": "parts:ANGLE"}}, "plugins.answer_types.corner cannot be used: the answer type"),
        (
            {"answer_types": {"text": "parts:ANGLE"}},
            "plugins.answer_types.text names 'text', but more than one answer type has this name: ",
        ),
    ],
)
def test_plugins_that_are_none_are_refused_and_none_of_them_is_kept(given: object, said: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(said)):
        use_plugins(given)
    assert configured_plugins() == {}


def test_only_what_is_looked_up_is_imported(folder: Path) -> None:
    code = """
    import os, sys
    from groundtrace.inference.families.registry import FAMILIES
    from groundtrace.publishing.exports.registry import FORMATS as EXPORTS
    from groundtrace.rewards.recipes.registry import RECIPES
    from groundtrace.grading.answers.registry import ANSWER_TYPES
    from groundtrace.stages.sources.shapes.registry import SHAPES
    registries = (FAMILIES, EXPORTS, RECIPES, ANSWER_TYPES, SHAPES)
    named = [path.partition(":")[0] for each in registries for path in each.ours.values()]
    loaded = lambda: sorted({*named} & {*sys.modules})
    assert all("x" not in each and len(each) for each in registries)
    assert not loaded(), loaded()
    FAMILIES["molmo"]
    assert loaded() == ["groundtrace.inference.families.molmo"], loaded()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_a_module_is_looked_for_where_the_command_is_typed(folder: Path) -> None:
    code = """
    from groundtrace.schemas.registry import load
    print(load("parts:WORD"))
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=folder, check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout == "angle\n"
