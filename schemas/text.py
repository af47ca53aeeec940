"""Text that UTF-8 can hold, text that a terminal only shows, and how a number of things is written."""


def counted(number: int, thing: str, things: str = "") -> str:
    """``1 record``, ``2 records``; ``things`` is the plural where an s makes none."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def storable(text: str) -> str:
    """The text with lone surrogates spelt out (``\\ud83d``): JSON can smuggle them in, no row or file can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    """The text with every character spelt out that a terminal would obey: text of models and files is only shown."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
