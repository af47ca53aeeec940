"""Requests the points or boxes of an object in an image, with the prompts of the model's family."""

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.caller import Caller
from groundtrace.inference.grounding import ParsedPointing
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import ask_for, untruncated
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import MediaRef


async def points_of(
    caller: Caller, role: str, entity: str, image: MediaPart, medium: MediaRef, media_index: int, sampling: Sampling
) -> ParsedPointing[Point]:
    """Return the points of an entity in an image (or a video frame) of the medium, in pixels of the original image.
    ``media_index`` is the position of ``medium`` among the media of the question.

    Raises CallError if the call fails. Raises BadReply if the reply cannot be parsed. BadReply is also raised if a
    prompt cannot name the entity, for example a text without letters and digits.
    """
    family = caller.family(role)
    prompt = family.ask_points(image, entity)
    form = family.point_form if family.point_prompt else family.box_form
    read = untruncated(lambda reply: family.points(reply.text, entity, medium, media_index))
    found, _ = await ask_for(caller, role, prompt, sampling, read, form.replace("LABEL", entity))
    return found


async def boxes_of(
    caller: Caller, role: str, label: str, image: MediaPart, medium: MediaRef, media_index: int, sampling: Sampling
) -> ParsedPointing[Box]:
    """Return the boxes of a label, in pixels of the original image. The arguments and the errors are those of
    :func:`points_of`."""
    prompt = caller.family(role).ask_boxes(image, label)
    return await _boxes(caller, role, prompt, label, medium, media_index, sampling)


async def objects_of(
    caller: Caller,
    role: str,
    label: str,
    question: str,
    image: MediaPart,
    medium: MediaRef,
    media_index: int,
    sampling: Sampling,
) -> ParsedPointing[Box]:
    """Return the boxes of the objects that a question is about, in pixels of the original image. ``label`` names these
    objects. A box contains the entire object.

    The other arguments and the errors are those of :func:`points_of`.
    """
    prompt = caller.family(role).ask_object(image, label, question)
    return await _boxes(caller, role, prompt, label, medium, media_index, sampling)


async def _boxes(
    caller: Caller,
    role: str,
    prompt: RenderedPrompt,
    label: str,
    medium: MediaRef,
    media_index: int,
    sampling: Sampling,
) -> ParsedPointing[Box]:
    family = caller.family(role)
    read = untruncated(lambda reply: family.boxes(reply.text, label, medium, media_index))
    found, _ = await ask_for(caller, role, prompt, sampling, read, family.box_form.replace("LABEL", label))
    return found
