from pipelines.running.interrupts import is_interrupt


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
