"""Provides the reward as a plug-in of ms-swift: pass this file as ``--external_plugins``.

The file has its own folder because swift puts the file's folder first in ``sys.path``. In the parent folder, swift
would import ``groundtrace/rewards/trl.py`` instead of TRL.
"""

from groundtrace.publishing.rewards.swift import Verified as Verified
from groundtrace.publishing.rewards.swift import register

register()
