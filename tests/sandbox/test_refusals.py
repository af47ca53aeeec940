"""Without a part that isolation needs nothing runs: each is taken away, and the refusal names it and what to do."""

from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.sandbox import Sandbox, SandboxRefused, SandboxSettings, requirements


def no_module(*_: Any) -> Any:
    raise ImportError("No module named 'pyseccomp'")


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All parts are there, whatever this machine has."""
    for name in ("_linux", "_bubblewrap", "_namespaces", "can_filter", "_process_limits", "_groups", "_landlock"):
        take(monkeypatch, name, "")
    return monkeypatch


def take(monkeypatch: pytest.MonkeyPatch, function: str, missing: str) -> None:
    changed = tuple(
        (name, does, (lambda: missing) if probe.__name__ == function else probe, remedy, needed)
        for name, does, probe, remedy, needed in requirements._PARTS
    )
    for before, after in zip(requirements._PARTS, changed, strict=True):
        after[2].__name__ = before[2].__name__
    monkeypatch.setattr(requirements, "_PARTS", changed)


REFUSALS = {
    "_linux": (
        "this is Darwin",
        "this machine cannot run a sandbox, because the part 'Linux' is missing or does not work: this is Darwin. "
        "Remedy: run on Linux",
    ),
    "_bubblewrap": (
        "the program bwrap is not on PATH",
        "bubblewrap' is missing or does not work: the program bwrap is not on PATH. Remedy: install the package",
    ),
    "_namespaces": (
        "bwrap: Creating new namespace failed",
        "namespaces' is missing or does not work: bwrap: Creating new namespace failed. Remedy: in a container",
    ),
    "can_filter": (
        "No module named 'pyseccomp'",
        "seccomp' is missing or does not work: No module named 'pyseccomp'. Remedy: pip install 'groundtrace[sandbox]'",
    ),
    "_process_limits": (
        "Linux 5.4 does not count processes",
        "process limit' is missing or does not work: Linux 5.4 does not count processes. Remedy: docs/sandbox.md",
    ),
}


@pytest.mark.parametrize("part", REFUSALS)
def test_a_missing_part_refuses_and_names_the_remedy(part: str, complete: pytest.MonkeyPatch, capsys: Any) -> None:
    missing, said = REFUSALS[part]
    take(complete, part, missing)
    with pytest.raises(SandboxRefused) as refused:
        Sandbox()
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert main(["sandbox", "check"]) == 2
    seen = capsys.readouterr()
    assert f"missing: {missing}" in seen.out and "beam: this machine cannot run a sandbox" in seen.err


def test_a_part_that_adds_a_layer_is_not_needed(complete: pytest.MonkeyPatch) -> None:
    take(complete, "_groups", "this user cannot create control groups")
    take(complete, "_landlock", "this kernel has none")
    assert [part.name for part in requirements.check() if part.missing] == ["control groups", "Landlock"]


def test_what_is_probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("groundtrace.sandbox.filter._seccomp", no_module)
    assert requirements.can_filter() == "No module named 'pyseccomp'"
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert requirements._linux() == "this is Darwin" and requirements._namespaces() == "this is Darwin"
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert requirements._bubblewrap() == requirements._namespaces() == "the program bwrap is not on PATH"
    fake = "#!/bin/sh\n[ $1 = --version ] && echo bubblewrap VERSION && exit\necho bwrap: no namespace >&2\nexit 1\n"
    (tmp_path / "bwrap").write_text(fake.replace("VERSION", "0.4.1"), "utf-8")
    (tmp_path / "bwrap").chmod(0o755)
    assert requirements._bubblewrap() == "bubblewrap 0.4.1 is older than 0.8"
    (tmp_path / "bwrap").write_text(fake.replace("VERSION", "0.11.0"), "utf-8")
    assert requirements._namespaces() == "bwrap: no namespace"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("platform.release", lambda: "5.4.0-1")
    monkeypatch.setattr("groundtrace.sandbox.groups.parents", dict)
    assert requirements._process_limits() == "Linux 5.4.0-1, older than 5.14, does not count a namespace's processes"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "_rights", lambda: 0)
    assert "may not become another user" in requirements._process_limits()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"memory_mb": 0}, "memory_mb must be a number of at least 1, got 0"),
        ({"memory_mb": 0.5}, "memory_mb must be an integer, got 0.5"),
        ({"sessions": -1}, "sessions must be a number of at least 1, got -1"),
        ({"warm": -1}, "warm must be a number of at least 0, got -1"),
        ({"call_timeout_s": float("nan")}, "call_timeout_s must be a finite number, got nan"),
        ({"call_timeout_s": 0.0}, "call_timeout_s must be a number above 0, got 0.0"),
        ({"trajectory_timeout_s": -0.5}, "trajectory_timeout_s must be a number above 0, got -0.5"),
    ],
)
def test_limits_have_to_limit(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        SandboxSettings(**wrong)


def test_the_least_limits() -> None:
    assert SandboxSettings(call_timeout_s=0.5, sessions=1, warm=0).call_timeout_s == 0.5
