"""Text that UTF-8 can hold."""


def storable(text: str) -> str:
    """The text with lone surrogates spelt out (``\\ud83d``): JSON can smuggle them in, no row or file can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()
