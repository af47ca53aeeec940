import asyncio
from collections.abc import Callable

import pytest

from groundtrace.pipelines.running.endings import ConservationError, RunNote, RunPaused, ending_of, line_of
from groundtrace.rewards.case import Case, case_of
from groundtrace.rewards.locating import ObjectMasks
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.error_places import place_of
from groundtrace.schemas.errors import RecordNote, UserError, naming_record
from groundtrace.schemas.loop_step import step_environment
from groundtrace.schemas.records import Question, Trace, Verdict


def through_beam(error: Exception) -> Exception:
    """As a step of Beam raises what its work raised."""
    raised = RuntimeError("a step failed")
    raised.__cause__ = error
    return raised


@pytest.mark.parametrize(
    ("error", "code", "line", "what", "remedy"),
    [
        (UserError("no file a"), 2, "no file a", "This run failed", "Correct the problem that the line above names"),
        (
            through_beam(UserError("a is damaged [while running 'Ingest/Read']")),
            2,
            "a is damaged",
            "This run failed",
            "Correct the problem that the line above names",
        ),
        (
            ConservationError("3 in, 2 out"),
            1,
            "the run lost or added records: 3 in, 2 out: report this defect, or correct it in your own stage",
            "This run failed",
            "a defect",
        ),
        (RunPaused("far stays away"), 3, "far stays away", "This run was stopped", "when the server is back"),
        (
            through_beam(ValueError("1\n2")),
            1,
            "ValueError: 2 (--verbose shows where)",
            "This run failed",
            "add --verbose",
        ),
        (
            RuntimeError(
                "org.apache.E: two at once\norg.J.<init>(J.scala:58)\norg.apache.C.f(C.java:5)\njava.T.run(T.java:8)\n"
            ),
            1,
            "RuntimeError: org.apache.E: two at once (--verbose shows where)",
            "This run failed",
            "add --verbose",
        ),
        (
            RuntimeError("java.E: Traceback:\n  File x\nValueError: 3\n\n\tat org.apache.C.f(C.java:5)\n\t... 7 more"),
            1,
            "RuntimeError: ValueError: 3 (--verbose shows where)",
            "This run failed",
            "add --verbose",
        ),
        (
            through_beam(OSError(28, "No space left on device", "/run/a")),
            3,
            "a disk is full: OSError: [Errno 28] No space left on device: '/run/a'",
            "This run was stopped",
            "Make room",
        ),
        (
            RuntimeError(
                "java.E: Traceback:\nsqlite3.OperationalError: database or disk is full [while running 'A/B']"
            ),
            3,
            "a disk is full: RuntimeError: sqlite3.OperationalError: database or disk is full",
            "This run was stopped",
            "Make room",
        ),
        (
            KeyboardInterrupt(),
            130,
            "interrupted; run the same command again to resume",
            "This run was interrupted",
            "Run the same command again to go on",
        ),
    ],
)
def test_an_ending(error: BaseException, code: int, line: str, what: str, remedy: str) -> None:
    ending = ending_of(error)
    assert (ending.code, ending.line, ending.what) == (code, line, what)
    assert remedy in ending.remedy
    assert "nor paid for again" in ending.remedy
    assert ending.is_defect == ("--verbose" in line)


def test_a_step_of_a_loop_leaves_the_instruction_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in step_environment("curate").items():
        monkeypatch.setenv(name, value)
    assert ending_of(KeyboardInterrupt()).line == "interrupted"


def test_the_line_has_the_notes_of_the_run_and_no_others() -> None:
    error = UserError("no file a")
    error.add_note("from a library")
    error.add_note(RunNote("paid $0.10"))
    assert line_of(error) == "no file a (paid $0.10)"
    error = UserError("it ended:\nthe end of its log")
    error.add_note(RunNote("paid $0.10"))
    assert line_of(error) == "it ended:\nthe end of its log\n(paid $0.10)"


def test_a_chain_of_causes_that_leads_back_into_itself_ends() -> None:
    error = ValueError("a is broken")
    error.__cause__ = error
    assert ending_of(error).line == "ValueError: a is broken (--verbose shows where)"


@pytest.mark.parametrize("error", [UserError, RunPaused, ValueError])
def test_a_password_in_a_url_is_not_shown(error: type[Exception]) -> None:
    said = ending_of(error("no recipe https://user:hush@host/x.py, as in spark://u:hush@host:1 and a/@b")).line
    assert "hush" not in said
    assert "https://...@host/x.py, as in spark://...@host:1 and a/@b" in said


def raised(work: Callable[[], object]) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")


def test_a_defect_in_own_code_has_its_place_and_the_record() -> None:
    def work() -> None:
        with naming_record("row\n7"):
            int("x")

    ending = ending_of(raised(work))
    line = work.__code__.co_firstlineno + 2
    assert ending.line.endswith(f"(in {__file__}, line {line}, for the record row\\n7; --verbose shows more)")
    assert ending.remedy.startswith(f"Correct {__file__}, line {line}, then run the same command again.")


@pytest.mark.parametrize("error", [KeyError, ValueError])
def test_the_name_of_the_step_is_left_out_if_the_place_is_known(error: type[Exception]) -> None:
    def work() -> None:
        raise error("colour [while running 'Measure/Work/ParDo(RunWork)']")

    line = ending_of(raised(work)).line
    assert line.replace('"', "").startswith(f"{error.__name__}: colour (in {__file__}, line ")


def test_the_place_is_found_behind_the_error_that_beam_raises_instead() -> None:
    def work() -> None:
        try:
            int("x")
        except ValueError as error:
            new = ValueError(f"{error} [while running 'A']")
            raise new.with_traceback(None) from None

    assert f"in {__file__}, line" in ending_of(raised(work)).line


def test_a_defect_without_a_traceback_has_the_record_alone() -> None:
    error = ValueError("2")
    error.add_note(RecordNote("q1"))
    assert ending_of(error).line == "ValueError: 2 (for the record q1; --verbose shows more)"


def test_a_scorer_that_raises_names_the_start_of_the_response() -> None:
    async def fail(case: Case) -> Verdict:
        raise KeyError(len(case.text))

    text = "<think>\nIt is\x1b so." + "o" * 60 + "</think>"
    case = case_of(Trace(0, text, "1", (), ()), ObjectMasks(Question("q", "", "", (), "?", "1", "numeric"), None, None))
    error = raised(lambda: asyncio.run(Scorer("own", "always", fail).verdict(case)))
    said = rf"for the response '<think> It is\x1b so.{'o' * 41}…'"
    assert place_of(error) == f"in {__file__}, line {fail.__code__.co_firstlineno + 1}, {said}"


def test_the_place_is_that_of_the_error_in_the_message() -> None:
    def work() -> None:
        try:
            int("x")
        except ValueError:
            raise KeyError("key") from None

    line = work.__code__.co_firstlineno + 4
    assert f"'key' (in {__file__}, line {line};" in ending_of(raised(work)).line


def test_code_with_an_impossible_file_name_has_no_place() -> None:
    code = compile("int('x')", "n" * 5000, "exec")
    assert "--verbose" in ending_of(raised(lambda: exec(code))).line
