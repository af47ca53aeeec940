"""What counts as being stopped, and the signals that stop."""

import os
import signal
import sys
import time
import weakref
from collections.abc import Callable

import pytest

from groundtrace.pipelines.running.endings import is_interrupt
from groundtrace.pipelines.running.execute import interrupts
from groundtrace.pipelines.running.execute.interrupts import STOP_SIGNALS, stopped_like_an_interrupt


def raised_for(first: BaseException, *, cause: bool) -> BaseException:
    """An error raised while ``first`` was handled, or from it."""
    try:
        try:
            raise first
        except BaseException as error:
            if cause:
                raise ImportError("cannot load") from error
            raise RuntimeError("KeyboardInterrupt [while running 'Map']")  # noqa: B904 — as Beam does
    except Exception as error:
        return error


def test_what_an_interrupt_led_to_is_one() -> None:
    assert is_interrupt(KeyboardInterrupt())
    assert is_interrupt(raised_for(KeyboardInterrupt(), cause=False))
    assert is_interrupt(raised_for(raised_for(KeyboardInterrupt(), cause=True), cause=False))


def test_a_chain_that_leads_back_into_itself() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert not is_interrupt(first)


def test_other_errors_are_none() -> None:
    assert not is_interrupt(RuntimeError("KeyboardInterrupt"))
    assert not is_interrupt(raised_for(ValueError("bad"), cause=True))


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_stops_like_an_interrupt(number: int) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), stopped_like_an_interrupt():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_with_another_meaning_keeps_it(number: int) -> None:
    """As nohup gives one to SIGHUP."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stopped_like_an_interrupt():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_sent_twice_stops_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `timeout` and a terminal that closes send it; one that comes later ends what the first began."""
    stop = interrupts.Interrupting()
    now_s = [100.0]
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: now_s[0])
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGHUP, None)
    now_s[0] += interrupts.SAME_STOP_S / 2
    stop(signal.SIGTERM, None)
    now_s[0] += interrupts.SAME_STOP_S
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGTERM, None)


class Owner:
    """An object whose end is told to a callback."""


class Doomed:
    """An object with a destructor."""

    def __init__(self, at_end: Callable[[], object]) -> None:
        self.at_end = at_end

    def __del__(self) -> None:
        self.at_end()


def in_a_destructor(act: Callable[[], object]) -> None:
    Doomed(act)


def in_a_weak_references_callback(act: Callable[[], object]) -> None:
    owner = Owner()
    watched = weakref.ref(owner, lambda _: act())
    del owner
    assert watched() is None


@pytest.mark.parametrize("where", [in_a_destructor, in_a_weak_references_callback])
@pytest.mark.parametrize(
    ("number", "of_ctrl_c"),
    [
        *((number, signal.default_int_handler) for number in (signal.SIGINT, *STOP_SIGNALS)),
        *((number, signal.SIG_IGN) for number in STOP_SIGNALS),
    ],
)
def test_a_signal_stops_where_python_ignores_exceptions(
    where: Callable[[Callable[[], object]], None], number: int, of_ctrl_c: signal.Handlers
) -> None:
    """Also where Ctrl-C is ignored, as in a background process of a shell."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, *STOP_SIGNALS)}
    hook = sys.unraisablehook
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, of_ctrl_c)
    passed = []
    try:
        with pytest.raises(KeyboardInterrupt), stopped_like_an_interrupt():
            where(lambda: os.kill(os.getpid(), number))
            passed.append("Python ignored the first")
            began_s = time.monotonic()
            time.sleep(60)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert passed
    assert time.monotonic() - began_s < 30, "the signal did not end the wait"
    assert sys.unraisablehook is hook


def test_another_error_in_a_destructor_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with stopped_like_an_interrupt():
        in_a_destructor(lambda: 1 / 0)
    assert [ignored.exc_type for ignored in told] == [ZeroDivisionError]
