"""Text that UTF-8 can hold, and how a number of things is written."""


def counted(number: int, thing: str, things: str = "") -> str:
    """``1 record``, ``2 records``; ``things`` is the plural where an s makes none."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def storable(text: str) -> str:
    """The text with lone surrogates spelt out (``\\ud83d``): JSON can smuggle them in, no row or file can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()
