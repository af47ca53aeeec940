"""What an engine says of its job reaches the user once: in the line that the command ends with."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.runners.portability.portable_runner import PipelineResult

from groundtrace.pipelines.commands.cli import set_up_logging

TOLD = "bundle 7 failed:Traceback (most recent call last):\n  File ...\nValueError: no such thing"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    filters = list(root.filters)
    yield
    root.filters[:] = filters


def test_what_others_log_while_they_are_imported_is_not_shown(tmp_path: Path) -> None:
    """Beam's Google parts do where some of what they want is not installed, and would set up how everybody logs."""
    early = tmp_path / "sitecustomize.py"
    early.write_text("""
import builtins, logging
imported = builtins.__import__
def with_a_warning(name, *more):
    if name == "apache_beam":
        logging.warning("apitools not found")
    return imported(name, *more)
builtins.__import__ = with_a_warning
""")
    code = "import logging, groundtrace.pipelines.commands.cli as cli; cli.set_up_logging(True); logging.info('told')"
    for name, shown in (("import groundtrace.pipelines.commands.cli", ""), (code, "root: told\n")):
        ran = subprocess.run(
            [sys.executable, "-c", name],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr == shown


@pytest.mark.parametrize(("verbose", "logged"), [(False, []), (True, [TOLD]), (False, [])])
def test_a_jobs_errors_are_logged_with_verbose_alone(caplog, verbose, logged):
    error = api.JobMessage(importance=api.JobMessage.JOB_MESSAGE_ERROR, message_text=TOLD)
    messages = [api.JobMessagesResponse(message_response=error)]
    states = [api.JobStateEvent(state=api.JobState.FAILED)]
    set_up_logging(verbose)
    with pytest.raises(RuntimeError, match="no such thing"):
        PipelineResult(None, "job", iter(messages), iter(states)).wait_until_finish()
    assert [record.getMessage() for record in caplog.records if record.name == "root"] == logged


LOGS = """
import logging
from groundtrace.pipelines.commands.cli import set_up_logging
set_up_logging(False)
for name in ("", "groundtrace.inference.coordination.peers", "urllib3"):
    logging.getLogger(name).warning("a warning")
    logging.getLogger(name).error("an error")
"""


def test_our_own_warnings_are_logged_and_others_errors() -> None:
    ran = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, check=True)
    ours = "groundtrace.inference.coordination.peers"
    assert ran.stderr.splitlines() == ["root: an error", f"{ours}: a warning", f"{ours}: an error", "urllib3: an error"]
