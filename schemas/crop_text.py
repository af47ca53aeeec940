"""Writes the text of a question that a model gets again, together with crops of its images (iVGR §3.4)."""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Return a sentence that tells the model which images of a prompt are whole, and which are crops."""
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Return the text of a user turn, extended for crops of its images.

    After the ``<image>`` marks of the images, the result has a mark for each crop and a sentence on the crops. Without
    crops, the text is returned unchanged. Raises ValueError if the text does not begin with one mark for each image, or
    has further marks. This is the case for a question about a clip.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(
            f"the user turn must begin with the <image> marks of {counted(images, 'image')} and have no other marks"
        )
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
