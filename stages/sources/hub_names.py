"""Recognises names of data sets on the Hugging Face Hub.

The module imports no large library, so that a wrong name is reported without delay.
"""

import re

_FILE_ENDS = (".csv", ".json", ".jsonl", ".parquet", ".zip", ".txt", ".png", ".jpg", ".jpeg")
"""Endings of file names. A name with such an ending is not the id of a data set, even if no such file exists."""
_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
SCHEME = "hf://"


def may_be_hub_id(name: str) -> bool:
    """Return whether a name could be the id of a data set on the Hugging Face Hub, such as ``ORG/NAME``.

    The function sends no request to the Hub. It returns False for a name that ends like a file name, e.g. in ".csv".
    """
    return bool(_HUB_ID.fullmatch(name)) and not name.endswith(_FILE_ENDS)
