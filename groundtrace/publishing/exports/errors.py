"""Defines the errors of an export: one for the whole run, and one for a single row."""

from groundtrace.schemas.errors import UserError

REASONS = {
    "flagged": "a reviewer has flagged the record in `beam view`",
    "missing_text": "a text that the row needs is null",
    "image_count": "the row has more images than its prompt has places for them",
    "control_token": "a text spells out a special token, such as <image>, or holds a control character",
    "unreadable_image": "an image cannot be read, according to its header and checksums",
    "unresizable_image": "an image is too long and thin for the family's processor",
    "outside_image": "a tag is outside its image, or names an image that does not exist",
    "unreadable_tag": "a tag states a position that cannot be read",
    "no_code_asked": "the prompt does not ask for code, which --turns tools would replace by a tool",
    "several_turns": "the trace has several turns, and pairs compare single responses",
    "no_other_trace": "the question has no trace but the kept one",
    "no_worse_trace": "no other trace is known to be worse than the kept one",
}
"""The reasons to leave out a row, with their meanings. A user's own format may have other reasons."""


class ExportError(UserError):
    """Raised if a run cannot be exported with the arguments of ``beam export`` that the user gave.

    The message is one line and states the remedy.
    """


class LeftOut(Exception):
    """Raised if a row cannot be written in an export format, so that the export leaves it out.

    ``reason`` is a key of :data:`REASONS`. ``detail`` describes what is wrong in this row; it may be "".
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail
