"""Serves a model until a line comes in: ``serving_parent.py MODEL LOG_FOLDER alone|forked``.

With ``forked`` a child that inherits all open files lives on for as long as this process, and a while longer.
"""

import os
import signal
import sys

from groundtrace.inference.endpoints.vllm_server import serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

# A shell that starts the tests in the background has them ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

model, log_folder, mode = sys.argv[1:]
endpoints = (("tiny", EndpointSettings("vllm", model, revision="r1")),)
models = ModelsSettings(endpoints, (("policy", "tiny"),), ":memory:", ".", ".")
with serving(models, log_folder) as served:
    if mode == "forked" and os.fork() == 0:
        os.close(1)
        signal.alarm(30)
        signal.pause()
    print(served.endpoint("policy").base_url, flush=True)
    sys.stdin.readline()
