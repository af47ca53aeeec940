"""``--external_plugins`` of ms-swift: this file. It has a folder of its own, which swift puts before all others on the
path: beside it, ``trl.py`` would be taken for TRL.
"""

from groundtrace.publishing.rewards.swift import Verified as Verified
from groundtrace.publishing.rewards.swift import register

register()
