"""The commands of the marked sets give pytest the files that name the mark, so every test with it is in such a file."""

import re
import tomllib

from .test_floors import ROOT

PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
MARKS = [line.split(":")[0] for line in PYTEST["markers"]]
NAMED = re.compile(rf"mark\.({'|'.join(MARKS)})\b")


def test_only_files_of_tests_name_a_mark_and_one_fixture() -> None:
    """The Makefile knows that fixture by its name: ``bucket``."""
    found = {
        str(path.relative_to(ROOT)): NAMED.findall(path.read_text("utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not path.name.startswith("test_")
    }
    assert {path: names for path, names in found.items() if names} == {"tests/conftest.py": ["stores"]}
