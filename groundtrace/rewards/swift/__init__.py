"""Provides the reward as a plug-in for the trainer ms-swift: pass the path of this file as ``--external_plugins``.

The file has its own folder because ms-swift adds the folder of a plug-in to the front of ``sys.path``. In the parent
folder, ms-swift would import ``groundtrace/rewards/trl.py`` instead of the library TRL.
"""

from groundtrace.publishing.rewards.swift import Verified as Verified
from groundtrace.publishing.rewards.swift import register

register()
