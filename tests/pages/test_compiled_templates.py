import io
import marshal
import pickle
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.bccache import bc_magic

from groundtrace.pages.compiled_templates import CompiledTemplates, compiled_templates


def filled(folder: Path, text: str = "{{ a }}!") -> str:
    """Fill a template in a new environment, as a new process does."""
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"page": text}), bytecode_cache=compiled_templates(folder, "a")
    )
    return environment.get_template("page").render(a="1")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "__pycache__").mkdir()
    return tmp_path


def stored(package: Path) -> list[Path]:
    return list((package / "__pycache__").iterdir())


def test_a_template_is_compiled_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert filled(package) == "1!"
    assert len(stored(package)) == 1
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *_: pytest.fail("compiled again"))
    assert filled(package) == "1!"


def test_a_changed_template_is_compiled_again(package: Path) -> None:
    filled(package)
    assert filled(package, "{{ a }}?") == "1?"


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:30], lambda data: data[:-9], lambda data: b"x" * 90]
)
def test_a_damaged_file_is_replaced(package: Path, damage) -> None:
    filled(package)
    [file] = stored(package)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert filled(package) == "1!"
    assert file.read_bytes() == whole


def test_nothing_is_stored_if_python_stores_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert filled(package) == "1!"
    assert stored(package) == []


def test_a_folder_that_cannot_be_written_is_no_error(package: Path) -> None:
    (package / "__pycache__").rmdir()
    (package / "__pycache__").write_text("")
    assert filled(package) == "1!"


def test_the_folder_is_made_and_its_files_can_be_read_by_all(package: Path) -> None:
    (package / "__pycache__").rmdir()
    assert filled(package) == "1!"
    assert [file.stat().st_mode & 0o777 for file in stored(package)] == [0o644]


@pytest.mark.parametrize("code", [1, compile("x = 1", "other", "exec")])
def test_other_content_with_a_right_checksum_is_replaced(package: Path, code: Any) -> None:
    filled(package)
    [file] = stored(package)
    whole = file.read_bytes()
    head = io.BytesIO(whole)
    head.seek(len(bc_magic))
    pickle.load(head)
    file.write_bytes(whole[: head.tell()] + marshal.dumps(code))
    assert filled(package) == "1!"
    assert file.read_bytes() == whole


def test_a_package_in_a_zip_file_has_no_store(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("__init__.py", "")
    assert compiled_templates(zipfile.Path(tmp_path / "a.zip"), "a") is None
    assert isinstance(compiled_templates(tmp_path, "a"), CompiledTemplates)
