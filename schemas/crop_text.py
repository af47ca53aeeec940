"""The wording of a question that is asked again with crops of its images beside them (iVGR §3.4)."""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Returns a sentence on which of the images shown are whole, and which are crops."""
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Returns a user's turn with the marks of so many crops after those of its images, and a sentence on them.

    Raises ValueError if the turn does not begin with a mark for each image, as that of a clip does not.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(f"the turn does not begin with the marks of {counted(images, 'image')}")
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
