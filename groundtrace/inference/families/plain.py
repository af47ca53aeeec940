"""Describes models that were not trained to write coordinates in a known form. The prompt describes this project's own
form, in pixels of the image as it was sent.
"""

from groundtrace.inference.families.base import Family
from groundtrace.schemas.coordinates import CoordinateFrame

PLAIN = Family("plain", CoordinateFrame.PX, decimals=1, reads_prose=True, any_corners=True)
