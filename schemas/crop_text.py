"""Writes the text with which a question is asked again, this time with additional crops of its images (iVGR §3.4)."""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Return a sentence for a prompt that states which of its images are whole, and which are crops."""
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Return the text of a user turn, extended for crops of its images.

    ``images`` is the number of images of the turn, and ``crops`` the number of crops.

    After the ``<image>`` marks of the images, the result has a mark for each crop and a sentence on the crops. Without
    crops, the text is returned unchanged. Raises ValueError if the text does not begin with one mark for each image, or
    has further marks. For example, this happens for a question about a clip.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(
            f"the user turn must begin with the <image> marks of {counted(images, 'image')} and have no other marks"
        )
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
