"""Asks a model for the points or boxes of an object in an image, with the prompts of the model's family. A family
consists of models that write coordinates in the same way.
"""

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
    """Ask a model for the points of an object. Returns the points in pixels of the original image. The result has no
    points if the reply states that the object is absent.

    ``role`` is the job of the model, such as "pointer". ``caller`` makes the call, with the sampling parameters
    ``sampling``. ``entity`` is the name of the object. ``image`` is the image (or video frame) that the model sees.
    ``medium`` is the original image, or the original video of the frame. ``media_index`` is the position of ``medium``
    among the media of the question.

    Raises CallError if the call fails. Raises BadReply if the reply cannot be parsed. BadReply is also raised if a
    prompt cannot name the object, for example because its name has no letters and digits.
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
    """Ask a model for the boxes of all objects with the label ``label``. Returns the boxes in pixels of the original
    image. The result has no boxes if the reply states that the object is absent.

    ``role`` is the job of the model, such as "detector". ``caller`` makes the call, with the sampling parameters
    ``sampling``. ``image`` is the image (or video frame) that the model sees. ``medium`` is the original image, or the
    original video of the frame. ``media_index`` is the position of ``medium`` among the media of the question. Raises
    CallError if the call fails, and BadReply if the reply cannot be parsed or a prompt cannot contain the label.
    """
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
    """Ask a model for the boxes of the objects that ``question`` is about. Returns the boxes in pixels of the original
    image. ``label`` names these objects. A box contains the entire object, even if the question is about a part of it.

    ``role`` is the job of the model, such as "detector". ``caller`` makes the call, with the sampling parameters
    ``sampling``. ``image`` is the image (or video frame) that the model sees. ``medium`` is the original image, or the
    original video of the frame. ``media_index`` is the position of ``medium`` among the media of the question. Raises
    CallError if the call fails, and BadReply if the reply cannot be parsed or a prompt cannot contain the label.
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
