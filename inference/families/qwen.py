"""Qwen2.5-VL, which writes pixels of the image as its processor resized it, and Qwen3-VL, which writes shares of 1000.

Both resize images as qwen-vl-utils does (:func:`schemas.coordinates.smart_resize`).
"""

from inference.families.base import Family
from schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, ResizeRule

QWEN3_IMAGE = ResizeRule(32, 4 * 32**2, 16384 * 32**2)

QWEN25_VL = Family("qwen2.5-vl", CoordinateFrame.QWEN25_RESIZED_PX, resize=QWEN25_IMAGE, trained_as=("qwen2_5_vl",))
QWEN3_VL = Family("qwen3-vl", CoordinateFrame.NORM1000, resize=QWEN3_IMAGE, trained_as=("qwen3_vl",))
