"""Molmo 1 and Molmo 2 of the Allen Institute: models that were trained to point.

Their replies have tags of their own, which :func:`schemas.responses.pointing.parse_pointer_reply` reads: Molmo 1 writes
shares of 100 with one decimal, Molmo 2 of 1000 (allenai/molmo data_formatter.py, allenai/molmo2 point_formatter.py).
"""

from inference.families.base import Family
from schemas.coordinates import CoordinateFrame

MOLMO = Family("molmo", CoordinateFrame.MOLMO100, decimals=1)
MOLMO2 = Family("molmo2", CoordinateFrame.MOLMO1000)
