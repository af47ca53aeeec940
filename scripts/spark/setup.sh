#!/bin/bash
# Fetch what a Spark cluster with Beam's job server is made of: 101 MB of jars from Maven, and Spark from PyPI's pyspark.
. "$(dirname "$0")/../engines.sh"
need_command java openjdk-17-jre-headless
need_command mvn maven
fetch_jars spark
[ -e "$PARTS/spark/python.done" ] || "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
    --target "$PARTS/spark/python" 'pyspark==3.5.*'
touch "$PARTS/spark/python.done"
