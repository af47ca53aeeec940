"""Words a question that is asked again, with crops of its images added (iVGR §3.4)."""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Return a sentence that says which images of a prompt are whole images, and which images are crops."""
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Return a user turn with ``<image>`` marks and a sentence for the crops, both after the marks of its images.

    Without crops, the turn is returned unchanged. Raises ValueError if the turn does not begin with one mark for each
    image, or has further marks; this is the case for the turn of a clip.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(
            f"the user turn does not begin with the marks of {counted(images, 'image')}, or has more marks"
        )
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
