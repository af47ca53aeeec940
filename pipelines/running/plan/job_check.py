"""Checks the Beam options of a job within seconds, above all of jobs on other machines.

Without these checks, Beam would retry for minutes with wrong options.
"""

import os
import re
import shutil
import socket
from pathlib import Path

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    TestOptions,
)

from groundtrace.config.extras import require_extra
from groundtrace.pipelines.running.plan.options import OptionError, runner_name

CONNECT_S, ANSWER_S = 1.0, 5.0
"""The seconds that a job server gets to accept a connection, and the seconds that it then gets to answer."""
_BUCKET = re.compile(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]")
_STORES = ("gs://", "s3://")


def check_job(options: PipelineOptions) -> None:
    """Check the options of a Beam job within seconds. The message of an error is one line.

    ``options`` are the options after ``--`` on the command line. Raises
    :class:`groundtrace.pipelines.running.plan.options.OptionError` for options that cannot work or a job server that
    does not answer, and :class:`groundtrace.config.extras.MissingExtra` if packages for Dataflow are missing.
    """
    runner = runner_name(options)
    _check_locations(options)
    if runner == "dataflowrunner":
        _check_dataflow(options)
    elif is_dry_run(options):
        raise OptionError("--dry_run works only with --runner=DataflowRunner: with other runners, use `beam validate`")
    if runner in ("portablerunner", "sparkrunner", "flinkrunner"):
        _check_job_server(options, runner)


def is_dry_run(options: PipelineOptions) -> bool:
    """Return whether the Beam options ask only to build and describe the job, and not to submit it (``--dry_run``)."""
    return str(options.view_as(TestOptions).dry_run).lower() not in ("false", "none", "0", "")


def _check_locations(options: PipelineOptions) -> None:
    google = options.view_as(GoogleCloudOptions)
    for option in ("temp_location", "staging_location"):
        location = getattr(google, option) or ""
        if not location.startswith(_STORES):
            continue
        bucket, slash, _ = location.split("://", 1)[1].partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise OptionError(
                f"--{option}={location}: {bucket!r} is not the name of a bucket. Use 3 or more lower-case letters, "
                "digits, '-', '_' or '.', with a letter or digit at the beginning and the end"
            )
        if not slash:
            raise OptionError(
                f"--{option}={location} is a bucket without a folder: name a folder, such as {location}/beam"
            )


def _check_dataflow(options: PipelineOptions) -> None:
    google = options.view_as(GoogleCloudOptions)
    require_extra("gcp", "--runner=DataflowRunner", "google.cloud.dataflow", "google.cloud.storage")
    if not google.project:
        raise OptionError("--runner=DataflowRunner needs --project=PROJECT, the id of your Google Cloud project")
    if not google.region and not os.environ.get("CLOUDSDK_COMPUTE_REGION"):
        raise OptionError("--runner=DataflowRunner needs --region=REGION, such as europe-west4")
    if not google.temp_location:
        raise OptionError(
            "--runner=DataflowRunner needs --temp_location=gs://BUCKET/FOLDER, a folder for Dataflow's temporary files"
        )
    for option in ("temp_location", "staging_location"):
        location = getattr(google, option)
        if location and not location.startswith("gs://"):
            raise OptionError(
                f"--{option}={location}: Dataflow's workers can read only gs:// URLs: name a folder as gs://BUCKET/FOLDER"
            )


def _check_job_server(options: PipelineOptions, runner: str) -> None:
    endpoint = options.view_as(PortableOptions).job_endpoint
    if endpoint:
        if endpoint != "embed":
            _check_endpoint(endpoint)
    elif runner == "portablerunner":
        raise OptionError("--runner=PortableRunner needs --job_endpoint=HOST:PORT, the address of a running job server")
    else:
        _check_java(options, runner)


def _check_endpoint(endpoint: str) -> None:
    """Raise OptionError if no job server (for Beam jobs) answers at the address ``endpoint``, such as
    ``localhost:8099``.
    """
    host, colon, port = endpoint.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise OptionError(f"--job_endpoint={endpoint} must be HOST:PORT, such as localhost:8099")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionError(
            f"no job server runs at {endpoint} ({reason}): start one as docs/engines.md describes"
        ) from error
    with grpc.insecure_channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_S)
        except grpc.FutureTimeoutError as error:
            raise OptionError(
                f"the server at {endpoint} is not a job server: start one as docs/engines.md describes"
            ) from error


def _check_java(options: PipelineOptions, runner: str) -> None:
    """Raise OptionError if Beam would start a job server itself, but cannot, because its jar or Java is missing.

    ``options`` are the options of the Beam job. ``runner`` is ``sparkrunner`` or ``flinkrunner``.
    """
    spark = options.view_as(SparkRunnerOptions)
    flink = options.view_as(FlinkRunnerOptions)
    is_spark = runner == "sparkrunner"
    option = "spark_job_server_jar" if is_spark else "flink_job_server_jar"
    jar = spark.spark_job_server_jar if is_spark else flink.flink_job_server_jar
    if jar and "://" not in jar and not Path(jar).is_file():
        raise OptionError(f"--{option}={jar}: this file does not exist; name the jar of a job server")
    java = options.view_as(JobServerOptions).job_server_java_launcher
    needs_java = not (spark.spark_submit_uber_jar if is_spark else flink.flink_submit_uber_jar)
    if needs_java and shutil.which(java) is None:
        kind = "Spark" if is_spark else "Flink"
        raise OptionError(
            f"--runner={kind}Runner starts a job server with {java}, which is not installed here: "
            "install it, or name a running job server with --job_endpoint=HOST:PORT"
        )
