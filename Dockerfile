# An image for workers of Beam jobs (Dataflow, Spark, Flink) with Groundtrace and all that it requires in it: they start in
# seconds, where a plain image has to install them first. Its Python has to be the one that submits jobs. From the root:
#
#   docker build --build-arg PYTHON=3.11 --build-arg EXTRAS=gcp,gemini -t REPOSITORY/groundtrace:1 . && docker push REPOSITORY/groundtrace:1
#
# and then `beam run … -- … --sdk_container_image=REPOSITORY/groundtrace:1` (docs/workers.md).
ARG PYTHON=3.11
FROM apache/beam_python${PYTHON}_sdk:2.77.0

# For the extra sandbox, in which model-written code runs: docs/sandbox.md tells what else a container needs for it.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap libseccomp2 && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=gcp
WORKDIR /opt/groundtrace
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY schemas schemas
COPY prompts prompts
COPY stages stages
COPY data_cards data_cards
COPY pipelines pipelines
COPY groundtrace groundtrace
RUN pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" && pip check

# Beam's start of a worker (the entry point of the image) makes an environment for each; this one has all of it already.
ENV RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1
WORKDIR /
