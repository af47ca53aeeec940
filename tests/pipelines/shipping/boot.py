"""The start of a worker as in Beam's container (its contract: fetch what was staged, install it, then run the harness).

It is run with ``-I -S``, so that no module of this repository can be found but from the wheels that were staged: the
installed packages are given by their folder, without the ``.pth`` files that lead to a checkout.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = os.environ["WORKER_PACKAGES"]
sys.path.append(PACKAGES)

import grpc  # noqa: E402
from apache_beam.portability import common_urns  # noqa: E402
from apache_beam.portability.api import (  # noqa: E402
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
)
from google.protobuf import json_format  # noqa: E402

parser = argparse.ArgumentParser()
for name in ("id", "logging_endpoint", "artifact_endpoint", "provision_endpoint", "control_endpoint"):
    parser.add_argument(f"--{name}")
told = parser.parse_args()
home = Path(tempfile.mkdtemp(prefix=f"{told.id}-", dir=os.environ["WORKER_FOLDER"]))
(home / "staged").mkdir()

provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(grpc.insecure_channel(told.provision_endpoint))
asked = beam_provision_api_pb2.GetProvisionInfoRequest()
info = provision.GetProvisionInfo(asked, metadata=[("worker_id", told.id)]).info

retrieval = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(grpc.insecure_channel(told.artifact_endpoint))
for artifact in info.dependencies:
    assert artifact.role_urn == common_urns.artifact_roles.STAGING_TO.urn
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    wanted = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
    content = b"".join(part.data for part in retrieval.GetArtifact(wanted, metadata=[("worker_id", told.id)]))
    (home / "staged" / role.staged_name).write_bytes(content)

listed = home / "staged" / "extra_packages.txt"
wheels = [str(home / "staged" / line) for line in listed.read_text().split()] if listed.exists() else []
if wheels:
    code = f"import sys; sys.path.append({PACKAGES!r}); from pip._internal.cli.main import main; sys.exit(main())"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(home / "installed"), *wheels]
    subprocess.run([sys.executable, "-I", "-S", "-c", code, *install], check=True, stdin=subprocess.DEVNULL)
sys.path.insert(1, str(home / "installed"))

os.environ |= {
    "WORKER_ID": told.id,
    "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
    "LOGGING_API_SERVICE_DESCRIPTOR": f'url: "{told.logging_endpoint}"',
    "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "{told.control_endpoint}"',
}
from apache_beam.runners.worker.sdk_worker_main import main  # noqa: E402

main([])
