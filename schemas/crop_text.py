"""The wording of a question that is asked again, with crops of its images added (iVGR §3.4)."""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Return a sentence that says which of a prompt's images are whole images, and which are crops."""
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Return a user turn with marks for the crops after the marks of its images, and a sentence about the crops.

    Raises ValueError if the turn does not begin with one mark for each image; the turn of a clip does not.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(f"the turn does not begin with the marks of {counted(images, 'image')}")
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
