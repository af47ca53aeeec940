"""Telling Ctrl-C from an error."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether the error is a KeyboardInterrupt or was raised because of one.

    Beam raises a RuntimeError in place of one that a stage gets, and modules an ImportError of one while they load.
    """
    seen: set[int] = set()  # a chain may lead back into itself
    while error is not None and id(error) not in seen and not isinstance(error, KeyboardInterrupt):
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)
