"""The questions of the tests of runs."""

from tests.pipelines.running.conftest import write_questions

__all__ = ["write_questions"]
