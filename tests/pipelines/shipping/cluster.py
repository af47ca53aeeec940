"""A cluster on this machine: Beam's own job server, and its pool of workers that start as containers do (boot.py)."""

import contextlib
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms.environments import ExternalEnvironment

BOOT = Path(__file__).with_name("boot.py")
PACKAGES = sysconfig.get_paths()["purelib"]
_MODULE = "import sys, runpy; sys.path.append({packages!r}); runpy.run_module({module!r}, None, '__main__', True)"


@dataclass(frozen=True)
class Cluster:
    """The Beam options that name a cluster, the folder in which each of its workers has one of its own, its server."""

    options: list[str]
    folder: Path
    job_server: "subprocess.Popen[bytes]"

    @property
    def last_worker(self) -> Path:
        """The folder of the worker that started last."""
        return max(self.folder.iterdir(), key=lambda worker: worker.stat().st_mtime_ns)

    def run(self, graph: beam_runner_api_pb2.Pipeline, plugins: list[str], read: Callable[[str], bytes]) -> str:
        """Run a graph that was made for workers in containers; returns the state in which it ended.

        ``plugins`` are modules that workers import, and ``read`` gives what was staged under a URL.
        """
        files = Path(tempfile.mkdtemp(dir=self.folder.parent))
        options = PipelineOptions([*self.options, *(f"--beam_plugins={module}" for module in plugins)])
        for environment in graph.components.environments.values():
            named = options.view_as(PortableOptions)
            ours = ExternalEnvironment.from_options(named).to_runner_api(None)
            environment.urn, environment.payload = ours.urn, ours.payload
            for artifact in environment.dependencies:
                url = beam_runner_api_pb2.ArtifactUrlPayload.FromString(artifact.type_payload).url
                file = files / url.rsplit("/", 1)[-1]
                file.write_bytes(read(url))
                artifact.type_urn = common_urns.artifact_types.FILE.urn
                artifact.type_payload = beam_runner_api_pb2.ArtifactFilePayload(path=str(file)).SerializeToString()
        with grpc.insecure_channel(named.job_endpoint) as channel:
            service = beam_job_api_pb2_grpc.JobServiceStub(channel)
            _, _, states = JobServiceHandle(service, options).submit(graph)
            ends = (beam_job_api_pb2.JobState.DONE, beam_job_api_pb2.JobState.FAILED)
            return next(beam_job_api_pb2.JobState.Enum.Name(each.state) for each in states if each.state in ends)

    def staged(self) -> list[str]:
        """What that worker was sent."""
        return sorted(file.name for file in (self.last_worker / "staged").iterdir())


@contextlib.contextmanager
def cluster(folder: Path, **variables: str) -> Iterator[Cluster]:
    """Start a job server and a pool of workers; both find the installed packages and no module of this repository.

    ``variables`` are set for them beside those of this process.
    """
    boot, port_file, pool = folder / "boot", folder / "port", free_port()
    boot.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {BOOT} "$@" >> {folder}/boot.log 2>&1\n')
    boot.chmod(0o755)
    (folder / "workers").mkdir()
    services = {
        "worker.worker_pool_main": [f"--service_port={pool}", f"--container_executable={boot}"],
        "portability.local_job_service_main": [f"--port_file={port_file}", f"--staging_dir={folder}/staging"],
    }
    environment = os.environ | variables | {"WORKER_PACKAGES": PACKAGES, "WORKER_FOLDER": str(folder / "workers")}
    with contextlib.ExitStack() as stack:
        server: subprocess.Popen[bytes] | None = None
        for name, arguments in services.items():
            code = _MODULE.format(packages=PACKAGES, module=f"apache_beam.runners.{name}")
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [sys.executable, "-I", "-S", "-c", code, *arguments]
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
            stack.callback(server.wait)
            stack.callback(server.terminate)
        assert server is not None
        deadline = time.monotonic() + 60
        while not (port_file.exists() and _answers(pool)):
            assert time.monotonic() < deadline, "the cluster did not start"
            time.sleep(0.05)
        options = [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{port_file.read_text()}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{pool}",
        ]
        yield Cluster(options, folder / "workers", server)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
