#!/bin/bash
# Fetch what Flink 1.16 with Beam's job server is made of: 159 MB of jars from Maven.
. "$(dirname "$0")/../engines.sh"
need_command java openjdk-17-jre-headless
need_command mvn maven
mkdir -p "$PARTS/flink"
[ -e "$PARTS/flink/jars.done" ] || mvn -q -B -f "$ROOT/scripts/flink/pom.xml" dependency:copy-dependencies \
    "-DoutputDirectory=$PARTS/flink/jars"
touch "$PARTS/flink/jars.done"
