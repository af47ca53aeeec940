"""Why a question was rejected: the closed list, with one sentence a user can act on for each."""

from enum import StrEnum


class Reason(StrEnum):
    """A rejection reason; the value is what stands in ``rejected/*.parquet`` and in ``run.json``."""

    INVALID_RECORD = "invalid_record"
    DUPLICATE_ID = "duplicate_id"
    CONTROL_CHARACTERS = "control_characters"
    QUESTION_TOO_LONG = "question_too_long"
    ANSWER_NOT_IN_CHOICES = "answer_not_in_choices"
    INVALID_BOXES = "invalid_boxes"
    MEDIA_MISSING = "media_missing"
    MEDIA_NOT_ALLOWED = "media_not_allowed"
    UNDECODABLE_MEDIA = "undecodable_media"
    UNSUPPORTED_MEDIA = "unsupported_media"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    CONTAMINATED = "contaminated"
    UNGRADABLE = "ungradable"
    TOO_EASY = "too_easy"
    TOO_HARD = "too_hard"
    CALL_FAILED = "call_failed"
    UNPARSABLE_REPLY = "unparsable_reply"
    NO_ENTITIES = "no_entities"
    WRONG_ANSWER = "wrong_answer"
    LOW_GROUNDING = "low_grounding"
    LOW_REASONING = "low_reasoning"
    UNVERIFIABLE = "unverifiable"
    NOT_DRAWN = "not_drawn"
    OVER_QUOTA = "over_quota"
    BUDGET = "budget"


MEANING: dict[Reason, str] = {
    Reason.INVALID_RECORD: "a field is missing, mistyped or not parsable",
    Reason.DUPLICATE_ID: "another record has the same id",
    Reason.CONTROL_CHARACTERS: "control characters in the text, such as a form feed left of a broken \\frac",
    Reason.QUESTION_TOO_LONG: "the question exceeds clean.max_question_chars",
    Reason.ANSWER_NOT_IN_CHOICES: "the gold answer is not one of the choices",
    Reason.INVALID_BOXES: "a gold box is empty, not finite or outside its image",
    Reason.MEDIA_MISSING: "a media file does not exist",
    Reason.MEDIA_NOT_ALLOWED: "a media path leaves the input folder, is a URL, or may not be read",
    Reason.UNDECODABLE_MEDIA: "a media file cannot be decoded whole",
    Reason.UNSUPPORTED_MEDIA: "this medium is of a kind that the pipeline does not process",
    Reason.DUPLICATE: "same media, question and answer as a kept record",
    Reason.NEAR_DUPLICATE: "same question and answer on a picture confirmed to be the same as a kept one's",
    Reason.CONTAMINATED: "overlaps a benchmark record",
    Reason.UNGRADABLE: "fewer attempts could be graded than difficulty.k_min",
    Reason.TOO_EASY: "pass rate above the band",
    Reason.TOO_HARD: "pass rate below the band",
    Reason.CALL_FAILED: "a model call failed for good",
    Reason.UNPARSABLE_REPLY: "a model's reply does not have the form that was asked for",
    Reason.NO_ENTITIES: "the teacher named nothing that could be pointed at",
    Reason.WRONG_ANSWER: "no trace reached the gold answer",
    Reason.LOW_GROUNDING: "the best right trace points off the objects that it names",
    Reason.LOW_REASONING: "the best right and grounded trace does not support its answer",
    Reason.UNVERIFIABLE: "no scorer could judge the answer of any trace",
    Reason.NOT_DRAWN: "not drawn for this run's target",
    Reason.OVER_QUOTA: "left over by a quota or ratio",
    Reason.BUDGET: "the budget ended first",
}
