"""Google's Gemini: shares of 1000, y before x."""

from inference.families.base import Family
from schemas.coordinates import CoordinateFrame

GEMINI = Family("gemini", CoordinateFrame.GEMINI)
