from pathlib import Path

import pytest
import yaml

import groundtrace
from groundtrace.schemas.yaml_text import read_yaml

ROOT = Path(groundtrace.__file__).parent
FILES = sorted(ROOT.rglob("*.yaml"), key=str) + sorted((ROOT / "prompts").glob("*.yaml"), key=str)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_our_files_have_the_same_value_as_with_the_parser_in_python(file: Path) -> None:
    assert read_yaml(file.read_bytes()) == yaml.safe_load(file.read_bytes())


def test_objects_of_python_are_refused() -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml("!!python/object/apply:os.system ['true']")
