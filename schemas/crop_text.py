"""Writes the prompt text for a question that is asked a second time, with crops (cut-out parts) of its images after the
whole images (§3.4 of the paper iVGR).
"""

from groundtrace.schemas.text import counted

MARK = "<image>"


def crop_hint(images: int, crops: int) -> str:
    """Return a sentence for a prompt. The sentence states which images of the prompt are whole, and which are crops
    (cut-out parts of the whole images). The whole images are first. ``images`` is the number of whole images, and
    ``crops`` is the number of crops.
    """
    parts = counted(crops, "part")
    if images == 1:
        return f"The first image is whole; behind it: {parts} of it, cut out."
    return f"The first {images} images are whole; behind them: {parts} of them, cut out."


def with_crops(user_text: str, images: int, crops: int) -> str:
    """Add placeholders for crops (cut-out parts) of the images to the text of a user turn, and return the new text.

    ``user_text`` is the text. It begins with one ``<image>`` for each image; ``images`` is the number of images. In the
    new text, these placeholders are followed by one ``<image>`` for each crop, and by a sentence that explains the
    crops. ``crops`` is the number of crops. If it is 0, the text is returned unchanged.

    Raises ValueError if ``user_text`` does not begin with one ``<image>`` for each image, or if other placeholders
    follow. For example, the text of a question about a clip begins with a line about the clip instead of a placeholder.
    """
    if not crops:
        return user_text
    marks = MARK * images
    if not user_text.startswith(marks) or MARK in user_text[len(marks) :]:
        raise ValueError(
            f"the user turn must begin with one <image> mark for each image ({counted(images, 'image')}), and have no "
            "other <image> marks"
        )
    return f"{marks}{MARK * crops}{crop_hint(images, crops)}\n{user_text[len(marks) :]}"
