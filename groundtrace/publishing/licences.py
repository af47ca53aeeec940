"""Defines which licences allow the publication of rows that are made from the questions and images of other authors.

A published data set holds adapted material: questions with new reasoning, and copies of images with drawings. So a
licence must allow redistribution and adaptation. The terms in this module are taken from the text of each licence. The
columns ``source`` and ``license`` of every row give the attribution. The module guards against mistakes, and is not
legal advice.
"""

import re
from enum import IntEnum


class Terms(IntEnum):
    """Lists the conditions of licences for a person who publishes adapted material (works made from other works). A
    higher value is stricter.
    """

    ATTRIBUTION = 0
    SHARE_ALIKE = 1
    NON_COMMERCIAL = 2
    NON_COMMERCIAL_SHARE_ALIKE = 3
    NO_DERIVATIVES = 4
    UNSTATED = 5

    @property
    def may_be_published(self) -> bool:
        """Return whether a licence with these terms allows the publication of adapted material."""
        return self < Terms.NO_DERIVATIVES

    @property
    def text(self) -> str:
        """Return the terms in words, for messages, such as "may be passed on under the same licence"."""
        return _TEXTS[self]


_TEXTS = {
    Terms.ATTRIBUTION: "may be passed on",
    Terms.SHARE_ALIKE: "may be passed on under the same licence",
    Terms.NON_COMMERCIAL: "may be passed on, not for commercial use",
    Terms.NON_COMMERCIAL_SHARE_ALIKE: "may be passed on under the same licence, not for commercial use",
    Terms.NO_DERIVATIVES: "forbids adapted material",
    Terms.UNSTATED: "does not state that the rows may be passed on",
}
_LICENCES = {
    Terms.ATTRIBUTION: (
        "apache-2.0 mit bsd-2-clause bsd-3-clause cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 mpl-2.0 odc-by pddl "
        "unlicense wtfpl isc artistic-2.0 epl-2.0 etalab-2.0 zlib c-uda cdla-permissive-1.0 cdla-permissive-2.0"
    ),
    Terms.SHARE_ALIKE: (
        "cc-by-sa-3.0 cc-by-sa-4.0 gpl-2.0 gpl-3.0 lgpl-2.1 lgpl-3.0 agpl-3.0 odbl gfdl cdla-sharing-1.0"
    ),
    Terms.NON_COMMERCIAL: "cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0",
    Terms.NON_COMMERCIAL_SHARE_ALIKE: "cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0",
    Terms.NO_DERIVATIVES: "cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0",
}
TERMS = {licence: terms for terms, licences in _LICENCES.items() for licence in licences.split()}
"""Maps the id of each licence on the Hugging Face Hub to the licence's terms.

The ids are those of :data:`groundtrace.publishing.front_matter.HUB_LICENCES`."""


_CC_ID = re.compile(r"cc[ -]by(?:-nc)?(?:-sa|-nd)?[ -]\d\.\d")
_CC_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?creativecommons\.org/(?:licenses/([a-z-]+)|publicdomain/(zero))/(\d\.\d)"
    r"(?:/(?:deed|legalcode)(?:\.[a-z]{2})?)?/?"
)
_CC_TERMS = {"attribution": "by", "noncommercial": "nc", "sharealike": "sa", "noderivatives": "nd", "noderivs": "nd"}
_CC_NAME = re.compile(rf"creative commons ((?:(?:{'|'.join(_CC_TERMS)}) )+)(\d\.\d)")
_OTHER_NAMES = {
    "mit license": "mit",
    "the mit license": "mit",
    "apache license 2.0": "apache-2.0",
    "apache license, version 2.0": "apache-2.0",
    "apache 2.0": "apache-2.0",
    "bsd 2-clause": "bsd-2-clause",
    "bsd 3-clause": "bsd-3-clause",
    "cc0 1.0": "cc0-1.0",
    "cc0 1.0 universal": "cc0-1.0",
    **{f"gpl-{number}{end}": f"gpl-{number}" for number in ("2.0", "3.0") for end in ("-only", "-or-later")},
    **{f"agpl-3.0{end}": "agpl-3.0" for end in ("-only", "-or-later")},
    **{f"lgpl-{number}{end}": f"lgpl-{number}" for number in ("2.1", "3.0") for end in ("-only", "-or-later")},
    "odbl-1.0": "odbl",
    "odc-by-1.0": "odc-by",
    "pddl-1.0": "pddl",
}
"""Maps a licence's full name or SPDX id, in lower case, to the Hub's id of the licence.

A name that is itself the Hub's id is not in the mapping.
"""


def hub_id(licence: str | None) -> str:
    """Return the Hub's id of a licence, such as ``cc-by-4.0`` for "Creative Commons Attribution 4.0".

    ``licence`` is the licence's name or URL; None means that no licence is named. An unknown name is returned in lower
    case, and None becomes "". Only full names are recognised, since a name with an additional word, or without its
    version number, may mean another licence.
    """
    name = " ".join((licence or "").lower().split())
    if found := _CC_ADDRESS.fullmatch(name):
        likely = f"cc0-{found[3]}" if found[2] else f"cc-{found[1]}-{found[3]}"
    elif _CC_ID.fullmatch(name.removesuffix(" international")):
        likely = name.removesuffix(" international").replace(" ", "-")
    elif found := _CC_NAME.fullmatch(name.replace("-", " ").removesuffix(" international")):
        terms = {_CC_TERMS[word] for word in found[1].split()}
        likely = "-".join(["cc", *(term for term in ("by", "nc", "sa", "nd") if term in terms), found[2]])
    else:
        likely = _OTHER_NAMES.get(name, name)
    return likely if likely in TERMS else name


def terms_of(licence: str | None) -> Terms:
    """Return what a licence demands. ``licence`` is the name or URL in a row; None if the row names no licence.

    The result is :attr:`Terms.UNSTATED` for None and for an unknown licence.
    """
    return TERMS.get(hub_id(licence), Terms.UNSTATED)
