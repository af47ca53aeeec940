"""The plug-in of ms-swift: pass this file as ``--external_plugins``.

The file has its own folder because swift puts that folder first in ``sys.path``: otherwise ``trl.py`` beside it would
be imported instead of TRL.
"""

from groundtrace.publishing.rewards.swift import Verified as Verified
from groundtrace.publishing.rewards.swift import register

register()
