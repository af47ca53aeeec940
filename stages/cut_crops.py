"""Cuts crops (parts) out of each image (iVGR §3.4, second step): one for each box that the policy model predicted in
the image, and one around all boxes in the image.

The inputs are drafts (questions with their data). They may have a grounded trace, i.e. the policy's reasoning with
boxes. The outputs are drafts with one image file for each crop, in the order of the images. A draft without boxes gets
no crops. Each crop is written once to the run folder, in a file that is named by its hash. Between stages only the
reference to this file is passed on. :mod:`groundtrace.vision.crops` describes how small boxes, boxes outside the image,
and too many boxes are treated.
"""

from dataclasses import dataclass, replace
from functools import partial

from groundtrace.schemas.records import Draft, Overlay
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.vision.crops import Crop, CropSettings, crops_of, cut
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaRoots, MediaStore
from groundtrace.vision.overlay import encode_png


def crop(draft: Draft, store: MediaStore, settings: CropSettings) -> Draft:
    """Cut the parts inside the policy model's boxes out of the images, and return the draft (a question with its data)
    with references to these crops.

    The boxes are those of the draft's first trace, i.e. the policy's reasoning with boxes. ``store`` is the media
    store, to which the crops are written as PNG files. ``settings`` determines which crops are cut, and their margins.
    A draft without boxes gets no crops.
    """
    media = draft.question.media
    sizes = [None if medium.frames else (medium.width, medium.height) for medium in media]
    boxes = draft.traces[0].boxes if draft.traces else ()
    crops = crops_of(boxes, sizes, settings)
    return replace(draft, overlays=tuple(_filed(each, media[each.media_index].uri, store) for each in crops))


def _filed(each: Crop, uri: str, store: MediaStore) -> Overlay:
    data = encode_png(cut(store.pixels(uri), each))
    return Overlay(each.media_index, store.write_drawn(data, "png"), sha256_bytes(data), len(data))


STAGE = Stage("crop", "what the policy boxed is cut out of the images", settings=CropSettings)


@dataclass
class CutCrops(DraftStage):
    """Stage (pipeline step) that cuts crops around the policy model's boxes out of the images of every draft (a
    question with its data).

    ``roots`` holds the data folder and the run folder. By default, there is one crop for each box, and one around all
    boxes of an image.
    """

    settings: CropSettings
    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function cuts crops around the
        policy model's boxes and writes them to the run folder (:func:`crop`).
        """
        return partial(crop, store=self.roots.store(), settings=self.settings)
